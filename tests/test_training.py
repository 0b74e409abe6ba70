"""The loop: learning, resuming, strategies, evaluation over the whole set."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import checkpoints, losses, records, training
from albert_tf.config import OptimizerConfig, TrainConfig
from albert_tf.models import PretrainingModel
from albert_tf.tasks import PRETRAINING
from tiny import tiny_config, write_rows


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """A set of two files, 11 and 6 rows."""
    folder = tmp_path_factory.mktemp("rows")
    paths = [write_rows(folder / f"{n}.tfrecord", n, seed=n) for n in (11, 6)]
    return records.read_set(paths, {})


def make_job(rows, output_dir, steps=12, **changes):
    """A small pretraining job; `changes` replace fields of job or configurations."""
    optimizer = {"learning_rate": 0.02, "num_train_steps": steps, "num_warmup_steps": 3}
    train = {
        "train_batch_size": 4,
        "eval_batch_size": 4,
        "iterations_per_loop": 4,
        "save_checkpoints_steps": 6,
    }
    optimizer |= {k: changes.pop(k) for k in [*changes] if k in optimizer}
    train |= {k: changes.pop(k) for k in [*changes] if k in train}
    job = {"model_config": tiny_config(), "train_rows": rows} | changes
    return training.Job(
        task=PRETRAINING,
        optimizer_config=OptimizerConfig(**optimizer),
        train_config=TrainConfig(str(output_dir), **train),
        **job,
    )


def one_device():
    return tf.distribute.OneDeviceStrategy("CPU:0")


def weights(output_dir):
    reader = tf.train.load_checkpoint(checkpoints.find_checkpoint(output_dir))
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names if name[0] != "_"}


def test_eight_rows_are_learnt_by_heart(tmp_path):
    path = write_rows(tmp_path / "eight.tfrecord", 8, seed=4)
    eight = records.read_set([path], {})
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
    results = training.run(job, one_device())
    assert results["masked_lm_loss"] < 0.1
    assert results["masked_lm_accuracy"] == 1.0
    assert results["sentence_order_accuracy"] == 1.0


def test_a_resumed_run_ends_as_an_uninterrupted_one(tmp_path, rows):
    config = tiny_config(hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.1)
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    training.run(make_job(rows, whole, model_config=config), one_device())
    job = make_job(rows, halves, model_config=config)
    with one_device().scope():
        controller, _ = training._controller(job, tf.distribute.get_strategy())
        controller.train(6)
    assert training.run(job, one_device())["global_step"] == 12
    expected, found = weights(whole), weights(halves)
    assert expected.keys() == found.keys() and len(found) > 60
    for name, value in expected.items():
        assert np.array_equal(value, found[name]), name


def test_checkpoints_fall_on_multiples_of_their_interval(tmp_path, rows):
    training.run(make_job(rows, tmp_path, steps=14), one_device())
    steps = sorted(int(p.stem.split("-")[1]) for p in tmp_path.glob("*.index"))
    assert steps == [0, 6, 12, 14]


def loss_curve(rows, output_dir, strategy):
    """The mean losses of every step."""
    job = make_job(rows, output_dir, iterations_per_loop=1)
    curve = []
    with strategy.scope():
        controller, _ = training._controller(job, strategy)
        controller.train_actions = (lambda report: curve.append(dict(report)),)
        controller.train(12)
    names = [*PRETRAINING.losses, "gradient_norm"]
    return np.array([[report[name] for name in names] for report in curve])


def test_two_replicas_train_as_one(tmp_path, rows):
    two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    one_curve = loss_curve(rows, tmp_path / "one", one_device())
    two_curve = loss_curve(rows, tmp_path / "two", two)
    assert one_curve.shape == (12, 3)
    np.testing.assert_allclose(two_curve, one_curve, rtol=1e-5)


@pytest.mark.parametrize("batch_size", [4, 6, 34])
@pytest.mark.parametrize("replicas", [1, 2])
def test_evaluation_counts_every_row_once(tmp_path, rows, batch_size, replicas):
    model = PretrainingModel(tiny_config(), seed=3)
    prefix = tf.train.Checkpoint(
        weights={checkpoints.released_name(v): v for v in model.variables}
    ).write(str(tmp_path / "model"))
    devices = [f"CPU:{index}" for index in range(replicas)]
    job = make_job(
        None,
        tmp_path / "out",
        eval_rows=rows,
        eval_batch_size=batch_size,
        init_checkpoint=prefix,
    )
    found = training.run(job, tf.distribute.MirroredStrategy(devices))
    stored = [row for path in rows.paths for row in records.read_rows(path)]
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


def test_results_hold_metrics_step_and_settings(tmp_path, rows):
    job = make_job(rows, tmp_path, steps=2, eval_rows=rows)
    training.run(job, one_device())
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
    training.run(make_job(rows, tmp_path / "first", steps=3), one_device())
    first = str(tmp_path / "first")
    job = make_job(
        rows, tmp_path / "second", steps=1, init_checkpoint=first, learning_rate=1e-9
    )
    assert training.run(job, one_device())["global_step"] == 1
    second = weights(tmp_path / "second")
    for name, value in weights(first).items():
        if name.startswith("weights/"):
            np.testing.assert_allclose(second[name], value, atol=1e-7)


def test_evaluation_without_weights_is_refused(tmp_path, rows):
    job = make_job(None, tmp_path, eval_rows=rows)
    with pytest.raises(ValueError, match="holds no checkpoint"):
        training.run(job, one_device())


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path, rows):
    job = make_job(rows, tmp_path, learning_rate=1e38, num_warmup_steps=0)
    with pytest.raises(ValueError, match="not finite at step"):
        training.run(job, one_device())


def test_a_batch_that_replicas_cannot_share_is_refused(tmp_path, rows):
    job = make_job(rows, tmp_path, train_batch_size=3)
    with pytest.raises(ValueError, match="3 rows cannot be shared by 2"):
        training.run(job, tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))
