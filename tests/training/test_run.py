"""The loop: learning, resuming, strategies, evaluation over the whole set."""

import json
import os
import signal
from contextlib import nullcontext

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.load import released_name, weights_checkpoint
from albert_tf.model.heads import PretrainingModel
from albert_tf.records.reader import read_rows
from albert_tf.records.sidecar import read_record_set
from albert_tf.tasks import losses
from albert_tf.tasks.pretraining import PRETRAINING
from albert_tf.training import run as training_run
from helpers.tiny import tiny_config, write_rows
from helpers.training_jobs import (
    make_job,
    one_device,
    train_until,
    two_devices,
    weights,
)


def test_eight_rows_are_learnt_by_heart(tmp_path):
    path = write_rows(tmp_path / "eight.tfrecord", 8, seed=4)
    eight = read_record_set([path], {})
    config = tiny_config(
        num_hidden_layers=2, hidden_size=48, intermediate_size=96, embedding_size=32
    )
    job = make_job(
        eight,
        tmp_path / "out",
        steps=300,
        model_config=config.replace(initializer_range=0.1),
        learning_rate=0.03,
        num_warmup_steps=10,
        train_batch_size=8,
        iterations_per_loop=100,
        save_checkpoints_steps=300,
        eval_rows=eight,
    )
    results = training_run.run(job, one_device())
    assert results["masked_lm_loss"] < 0.1
    assert results["masked_lm_accuracy"] == 1.0
    assert results["sentence_order_accuracy"] == 1.0


def test_a_resumed_run_ends_as_an_uninterrupted_one(tmp_path, rows):
    config = tiny_config(hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.1)
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    training_run.run(make_job(rows, whole, model_config=config), one_device())
    job = make_job(rows, halves, model_config=config)
    train_until(job, 6)
    assert training_run.run(job, one_device())["global_step"] == 12
    expected, found = weights(whole), weights(halves)
    assert expected.keys() == found.keys() and len(found) > 60
    for name, value in expected.items():
        # How long it took, and how often it was saved.
        is_history = name.startswith(("train_seconds", "save_counter"))
        assert is_history or np.array_equal(value, found[name]), name


def test_checkpoints_fall_on_multiples_of_their_interval(tmp_path, rows):
    training_run.run(make_job(rows, tmp_path, steps=14), one_device())
    steps = sorted(int(p.stem.split("-")[1]) for p in tmp_path.glob("*.index"))
    assert steps == [0, 6, 12, 14]


def loss_curve(rows, output_dir, strategy, **changes):
    """The mean losses of every step."""
    curve = []
    job = make_job(rows, output_dir, iterations_per_loop=1, **changes)
    train_until(job, 12, strategy, curve)
    names = [*PRETRAINING.losses, "gradient_norm"]
    return np.array([[report[name] for name in names] for report in curve])


@pytest.fixture(scope="module")
def one_curve(rows, tmp_path_factory):
    return loss_curve(rows, tmp_path_factory.mktemp("one") / "out", one_device())


# Each row has one to three masked pieces, so that means of means would differ.
@pytest.mark.parametrize(
    "changes",
    [
        {"replicas": 2},
        {"gradient_accumulation_steps": 4},
        {"replicas": 2, "gradient_accumulation_steps": 2},
        {"rematerialize": "attention"},
        {"rematerialize": "block"},
        {"jit_compile": True},
        {"jit_compile": True, "rematerialize": "block"},
        {"jit_compile": True, "gradient_accumulation_steps": 2},
    ],
    ids=str,
)
def test_every_way_to_compute_a_step_gives_the_same_losses(
    changes, one_curve, rows, tmp_path
):
    changes = dict(changes)
    strategy = two_devices() if changes.pop("replicas", 1) == 2 else one_device()
    curve = loss_curve(rows, tmp_path / "out", strategy, **changes)
    assert curve.shape == (12, 3)
    np.testing.assert_allclose(curve, one_curve, rtol=1e-5)


def test_bfloat16_keeps_weights_in_float32_and_follows_the_losses(
    one_curve, rows, tmp_path
):
    curve = loss_curve(rows, tmp_path / "out", one_device(), precision="bfloat16")
    assert not np.array_equal(curve, one_curve)
    np.testing.assert_allclose(curve[:, :2], one_curve[:, :2], rtol=0.02)
    dtypes = {v.dtype for n, v in weights(tmp_path / "out").items() if "weights/" in n}
    assert dtypes == {np.dtype("float32")}


@pytest.mark.parametrize("batch_size", [4, 6, 34])
@pytest.mark.parametrize("replicas", [1, 2])
def test_evaluation_counts_every_row_once(tmp_path, rows, batch_size, replicas):
    model = PretrainingModel(tiny_config(), seed=3)
    prefix = tf.train.Checkpoint(
        weights={released_name(v): v for v in model.variables}
    ).write(str(tmp_path / "model"))
    devices = [f"CPU:{index}" for index in range(replicas)]
    job = make_job(
        None,
        tmp_path / "out",
        eval_rows=rows,
        eval_batch_size=batch_size,
        init_checkpoint=prefix,
    )
    found = training_run.run(job, tf.distribute.MirroredStrategy(devices))
    stored = [row for path in rows.paths for row in read_rows(path)]
    features = {n: np.stack([row[n] for row in stored]) for n in rows.features}
    integers = {n: v for n, v in features.items() if v.dtype == np.int64}
    batch = PRETRAINING.read_batch(
        features | {n: np.int32(v) for n, v in integers.items()}
    )
    outputs = model(batch)
    assert found["eval_rows"] == 17
    for name, number in {**PRETRAINING.losses, **PRETRAINING.metrics}.items():
        weight = number.weights(batch)
        value = tf.reduce_sum(number.values(outputs, batch) * weight)
        expected = losses.weighted_mean(value, tf.reduce_sum(weight))
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, err_msg=name)


def save_model(prefix, seed):
    """Writes the weights of a model; returns their path."""
    model = PretrainingModel(tiny_config(), seed=seed)
    values = {released_name(variable): variable for variable in model.variables}
    return tf.train.Checkpoint(weights=values).write(str(prefix))


def test_an_evaluation_leaves_the_model_of_its_folder_as_it_is(tmp_path, rows):
    prefix = save_model(tmp_path / "model", seed=5)
    tiny_config().to_json(tmp_path / "albert_config.json")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    job = make_job(
        None,
        tmp_path,
        eval_rows=rows,
        init_checkpoint=prefix,
        model_config=tiny_config(num_attention_heads=2),
        files={"task.json": b"{}"},
    )
    training_run.run(job, one_device())
    files = {path.name: path for path in tmp_path.iterdir() if path.is_file()}
    assert files.keys() - before.keys() == {"results.json"}
    assert {name: files[name].read_bytes() for name in before} == before


def test_an_evaluation_replaces_results_of_its_own_run_alone(tmp_path, rows):
    folder, results = tmp_path / "run", tmp_path / "run" / "results.json"
    job = make_job(rows, folder, steps=6, eval_rows=rows, eval_steps=3)
    trained = training_run.run(job, one_device())
    assert trained["checkpoint"] == str(folder / "model.ckpt-6")
    before = results.read_bytes()
    foreign = save_model(folder / "converted" / "model", seed=5)
    jobs = [
        make_job(None, folder, eval_rows=rows, init_checkpoint=start)
        for start in (foreign, str(folder / "model.ckpt-0"), str(folder), "")
    ]
    with pytest.raises(ValueError, match="holds a run, whose results") as caught:
        training_run.run(jobs[0], one_device())
    assert foreign in str(caught.value) and results.read_bytes() == before
    step = trained["best"]["global_step"]
    starts = ["model.ckpt-0", f"best/model.ckpt-{step}", "model.ckpt-6"]
    for own, start in zip(jobs[1:], starts, strict=True):
        training_run.run(own, one_device())
        found = json.loads(results.read_text())
        assert found["checkpoint"] == str(folder / start)
        assert found["global_step"] == int(start.split("-")[1])
        for name in ("train", "status", "settings", "best"):
            assert found[name] == trained[name], name
    # The folder of an evaluation is free for others.
    other = tmp_path / "other"
    for start in (foreign, str(folder)):
        job = make_job(None, other, eval_rows=rows, init_checkpoint=start)
        training_run.run(job, one_device())
    found = json.loads((other / "results.json").read_text())
    assert found["checkpoint"] == str(folder / f"best/model.ckpt-{step}")
    assert found["status"] == "evaluated" and "train" not in found


def test_results_hold_metrics_step_and_settings(tmp_path, rows):
    job = make_job(rows, tmp_path, steps=2, eval_rows=rows)
    training_run.run(job, one_device())
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["global_step"] == 2
    metrics = {"masked_lm_accuracy", "masked_lm_loss"}
    metrics |= {"sentence_order_accuracy", "sentence_order_loss"}
    assert metrics < results.keys()
    assert results["settings"]["train"]["random_seed"] == 12345
    assert results["settings"]["model"] == job.model_config.to_dict()
    assert (tmp_path / "albert_config.json").is_file()
    assert any((tmp_path / "train").iterdir()) and any((tmp_path / "eval").iterdir())


def test_a_warm_start_takes_weights_and_starts_at_step_0(tmp_path, rows):
    training_run.run(make_job(rows, tmp_path / "first", steps=3), one_device())
    first = str(tmp_path / "first")
    job = make_job(
        rows, tmp_path / "second", steps=1, init_checkpoint=first, learning_rate=1e-9
    )
    assert training_run.run(job, one_device())["global_step"] == 1
    second = weights(tmp_path / "second")
    for name, value in weights(first).items():
        if name.startswith("weights/"):
            np.testing.assert_allclose(second[name], value, atol=1e-7)


def test_evaluation_without_weights_is_refused(tmp_path, rows):
    job = make_job(None, tmp_path, eval_rows=rows)
    with pytest.raises(ValueError, match="holds no checkpoint"):
        training_run.run(job, one_device())


def test_ten_gradients_in_a_row_that_are_not_finite_stop_the_run(tmp_path, rows):
    job = make_job(rows, tmp_path, steps=30, learning_rate=1e38, num_warmup_steps=0)
    with pytest.raises(ValueError, match=r"10 gradients .*/model\.ckpt-6"):
        training_run.run(job, one_device())


def test_one_bad_step_changes_nothing_but_the_count(rows, tmp_path, monkeypatch):
    """The second step's gradient is made infinite."""
    from albert_tf.training import optimization

    job = make_job(rows, tmp_path / "out", iterations_per_loop=1)
    plain = optimization.AdamW.apply_or_skip
    taken = []

    def apply(optimizer, gradients, variables):
        bad = tf.equal(optimizer.iterations, 1)
        gradients = [tf.where(bad, np.inf, g) for g in gradients]
        return plain(optimizer, gradients, variables)

    create = optimization.create_optimizer
    monkeypatch.setattr(optimization.AdamW, "apply_or_skip", apply)
    monkeypatch.setattr(
        optimization,
        "create_optimizer",
        lambda config: taken.append(create(config)) or taken[0],
    )
    curve, states = [], []

    class Curve(list):
        def append(self, report):
            state = [
                taken[0].moments["first_moment"][0],
                taken[0].moments["second_moment"][3],
            ]
            states.append([value.numpy().copy() for value in state])
            super().append(report)

    curve = Curve()
    train_until(job, 3, curve=curve)
    assert [report["skipped_steps"] for report in curve] == [0, 1, 0]
    for before, after in zip(states[0], states[1], strict=True):
        assert np.array_equal(before, after)
    assert not np.array_equal(states[1][0], states[2][0])
    assert np.isfinite([report["masked_lm_loss"] for report in curve]).all()


def test_a_folder_of_another_run_is_refused_naming_both_values(tmp_path, rows):
    training_run.run(make_job(rows, tmp_path, steps=2), one_device())
    for changes, message in {
        "learning_rate=0.02, but learning_rate=0.03": {"learning_rate": 0.03},
        "train_batch_size=4, but train_batch_size=8": {"train_batch_size": 8},
        "num_train_steps=2, but num_train_steps=5": {"steps": 5},
        "hidden_act=gelu, but hidden_act=relu": {
            "model_config": tiny_config(hidden_act="relu")
        },
    }.items():
        with pytest.raises(ValueError, match=changes):
            training_run.run(
                make_job(rows, tmp_path, **{"steps": 2} | message), one_device()
            )
    # What does not decide the weights may change.
    job = make_job(rows, tmp_path, steps=2, iterations_per_loop=1, eval_rows=rows)
    assert training_run.run(job, one_device())["eval_rows"] == 17


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_a_new_run_goes_on(number, tmp_path, rows):
    whole = tmp_path / "whole"
    training_run.run(make_job(rows, whole), one_device())

    def send_signal(step, report):
        if step == 4:
            os.kill(os.getpid(), number)

    # Scripts exit with 130 then.
    interrupts = number == signal.SIGINT
    expected = pytest.raises(KeyboardInterrupt) if interrupts else nullcontext()
    with expected:
        training_run.run(make_job(rows, tmp_path / "cut"), one_device(), send_signal)
    stopped = json.loads((tmp_path / "cut" / "results.json").read_text())
    assert (stopped["status"], stopped["global_step"]) == ("pre-empted", 4)
    finished = training_run.run(make_job(rows, tmp_path / "cut"), one_device())
    assert (finished["status"], finished["global_step"]) == ("finished", 12)
    expected, found = weights(whole), weights(tmp_path / "cut")
    assert all(np.array_equal(v, found[n]) for n, v in expected.items() if n[0] == "w")


def test_training_stops_when_its_hours_are_over(tmp_path, rows):
    job = make_job(rows, tmp_path, max_train_hours=1e-6)
    results = training_run.run(job, one_device())
    assert (results["status"], results["global_step"]) == ("out of time", 4)
    assert (tmp_path / "model.ckpt-4.index").is_file()
    # The same command again makes no step more.
    again = training_run.run(job, one_device())
    assert (again["status"], again["global_step"]) == ("out of time", 4)


def test_the_best_checkpoint_is_kept_and_is_what_its_run_stands_for(
    tmp_path, rows, capsys
):
    job = make_job(rows, tmp_path, eval_rows=rows, eval_steps=3)
    training_run.run(job, one_device())
    best = json.loads((tmp_path / "best" / "best.json").read_text())
    again = make_job(
        None, tmp_path / "again", eval_rows=rows, init_checkpoint=str(tmp_path)
    )
    found = training_run.run(again, one_device())
    for name in ("masked_lm_accuracy", "global_step"):
        assert found[name] == best[name]
    step = best["global_step"]
    prefix = tmp_path / "best" / f"model.ckpt-{step}"
    assert f"Initial weights from {prefix} of step {step}: " in capsys.readouterr().out
    assert len(list((tmp_path / "best").glob("*.index"))) == 1


def test_a_short_evaluation_is_a_sample_by_seed_and_says_so(tmp_path, rows):
    model = PretrainingModel(tiny_config(), seed=3)
    prefix = weights_checkpoint(model).write(str(tmp_path / "model"))

    def evaluate(seed):
        job = make_job(
            None,
            tmp_path / f"out-{seed}",
            eval_rows=rows,
            init_checkpoint=prefix,
            max_eval_steps=1,
            random_seed=seed,
        )
        return training_run.run(job, one_device())

    one, other = evaluate(1), evaluate(2)
    assert (one["eval_rows"], one["eval_rows_of"]) == (4, 17)
    assert evaluate(1)["masked_lm_loss"] == one["masked_lm_loss"]
    assert other["masked_lm_loss"] != one["masked_lm_loss"]
    assert one["eval_data"]["files"] == list(rows.paths)
    assert one["eval_data"]["sha256"] == rows.sha256
