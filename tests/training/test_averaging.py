"""Averages of weights: their numbers, and which weights are meant where."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import convert, formats
from albert_tf.checkpoints.checkpoint_format import CheckpointFormat
from albert_tf.checkpoints.model_dir import ModelDir
from albert_tf.config import OptimizerConfig
from albert_tf.serving import export
from albert_tf.training import optimization
from albert_tf.training import run as training_run
from albert_tf.training.averaging import averages_in_place
from albert_tf.training.run_folder import RunFolder
from albert_tf.training.session import Session
from helpers.tiny import tiny_config
from helpers.training_jobs import (
    assert_equal_weights,
    make_job,
    one_device,
    train_until,
    two_devices,
    weights,
)

DECAY = 0.6
KEY = "{}/bert.Sembeddings.Sword_embeddings/.ATTRIBUTES/VARIABLE_VALUE"
NAME = "bert/embeddings/word_embeddings"


@pytest.mark.parametrize("size", [7, 1 << 16], ids=["passes", "one pass"])
@pytest.mark.parametrize("name", ["lamb", "adamw"])
def test_averages_equal_those_of_tensorflow(name, size):
    """The second size is above the limit from which XLA computes the update."""
    settings = {"optimizer": name, "num_warmup_steps": 0, "learning_rate": 0.2}
    rng = np.random.default_rng(9)
    start = rng.normal(size=size).astype(np.float32)
    gradients = rng.normal(size=(9, size)).astype(np.float32)
    gradients[4, 3] = np.inf
    variable, plain = (tf.Variable(start, name="a/kernel") for _ in range(2))
    optimizer = optimization.create_optimizer(
        OptimizerConfig(**settings, ema_decay=DECAY)
    )
    optimizer.build([variable])
    without = optimization.create_optimizer(OptimizerConfig(**settings))
    without.build([plain])
    oracle = tf.Variable(start)
    for step, gradient in enumerate(gradients):
        before = optimizer.averages[0].numpy()
        optimizer.apply_or_skip([tf.constant(gradient)], [variable])
        without.apply_or_skip([tf.constant(gradient)], [plain])
        np.testing.assert_allclose(variable, plain, rtol=1e-5, atol=1e-6)
        if step == 4:
            np.testing.assert_array_equal(optimizer.averages[0], before)
            continue
        decay = min(DECAY, (2 + step) / (11 + step))
        oracle.assign(decay * oracle + (1 - decay) * plain)
        np.testing.assert_allclose(optimizer.averages[0], oracle, rtol=1e-5, atol=1e-5)
    reference = tf.train.ExponentialMovingAverage(DECAY, num_updates=3)
    shadow = tf.Variable([1.0])
    reference.apply([shadow])
    shadow.assign([3.0])
    reference.apply([shadow])
    expected = 1 + 2 * (1 - min(DECAY, 4 / 13))
    assert float(reference.average(shadow)[0]) == pytest.approx(expected)


def test_averages_are_in_place_for_a_while():
    variables = [tf.Variable([1.0, 2.0]), tf.Variable([[3.0]])]
    optimizer = optimization.create_optimizer(OptimizerConfig(ema_decay=DECAY))
    optimizer.build(variables)
    for average in optimizer.averages:
        average.assign_add(tf.ones_like(average))
    with pytest.raises(KeyError), averages_in_place(optimizer):
        assert variables[0].numpy().tolist() == [2.0, 3.0]
        assert optimizer.averages[1].numpy().tolist() == [[3.0]]
        raise KeyError
    assert variables[0].numpy().tolist() == [1.0, 2.0]
    assert optimizer.averages[1].numpy().tolist() == [[4.0]]


def ema_job(rows, output_dir, **changes):
    settings = {"ema_decay": DECAY, "steps": 6, "iterations_per_loop": 2}
    settings |= {"save_checkpoints_steps": 2, "eval_rows": rows, "eval_steps": 2}
    settings |= {"model_config": tiny_config(num_hidden_layers=1)}
    return make_job(rows, output_dir, **(settings | changes))


@pytest.fixture(scope="module")
def averaged(rows, tmp_path_factory):
    """A run with averages, and its results."""
    folder = tmp_path_factory.mktemp("averaged")
    return folder, training_run.run(ema_job(rows, folder), one_device())


@pytest.fixture(scope="module")
def plain(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    return folder, training_run.run(ema_job(rows, folder, ema_decay=0.0), one_device())


def evaluate(rows, output_dir, checkpoint="", **changes):
    job = make_job(
        None,
        output_dir,
        eval_rows=rows,
        init_checkpoint=str(checkpoint),
        model_config=tiny_config(num_hidden_layers=1),
        **changes,
    )
    return training_run.run(job, one_device())


def test_averages_change_no_weight_and_are_what_is_evaluated(
    averaged, plain, rows, tmp_path
):
    (folder, results), (plain_folder, plain_results) = averaged, plain
    found, expected = weights(folder), weights(plain_folder)
    assert found[KEY.format("weights")].shape == found[KEY.format("averages")].shape
    for name, value in expected.items():
        if name.startswith("weights/"):
            np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)
    assert results["averaged_weights"] is True
    assert "averaged_weights" not in plain_results
    loss, plain_loss = (r["masked_lm_loss"] for r in (results, plain_results))
    assert abs(loss - plain_loss) > 1e-4
    # Evaluated on their own, the two give the two losses.
    checkpoint = folder / "model.ckpt-6"
    again = evaluate(rows, tmp_path / "a", checkpoint)
    assert again["averaged_weights"] is True and again["global_step"] == 6
    assert again["masked_lm_loss"] == pytest.approx(loss, rel=1e-6)
    raw = evaluate(rows, tmp_path / "b", checkpoint, use_ema=False)
    assert raw["averaged_weights"] is False
    assert raw["masked_lm_loss"] == pytest.approx(plain_loss, rel=1e-5)
    own = evaluate(rows, folder)
    assert own["masked_lm_loss"] == pytest.approx(loss, rel=1e-6)
    assert own["status"] == "finished"  # the training's report is kept


def test_readers_take_averages_unless_they_are_asked_not_to(averaged, tmp_path):
    folder, _ = averaged
    last = str(folder / "model.ckpt-6")
    state = weights(folder)
    for use_ema, key in ((None, "averages"), (True, "averages"), (False, "weights")):
        stored = formats.read_weights(last, use_ema=use_ema)
        assert stored.averaged == (key == "averages") and stored.global_step == 6
        np.testing.assert_array_equal(stored.weights[NAME], state[KEY.format(key)])
        target = tmp_path / f"{use_ema}"
        report = convert.convert(
            convert.Conversion(
                last, str(target), CheckpointFormat.TENSORFLOW1, use_ema=use_ema
            )
        )
        assert report["averaged_weights"] == stored.averaged
        converted = formats.read_weights(target).weights
        np.testing.assert_array_equal(converted[NAME], stored.weights[NAME])
        model = export.from_model_dir(ModelDir.read(last), text=False, use_ema=use_ema)
        version, _ = export.export_model(model, str(tmp_path / f"{use_ema}_served"))
        card = json.loads((version / "assets.extra" / export.MODEL_CARD).read_text())
        assert card["averaged_weights"] == stored.averaged
        served = formats.read_weights(version).weights
        np.testing.assert_array_equal(served[NAME], stored.weights[NAME])


def test_the_best_weights_are_averages_and_say_so(averaged):
    folder, _ = averaged
    best = json.loads((folder / "best" / "best.json").read_text())
    stored = formats.read_weights(folder)
    assert stored.averaged and stored.global_step == best["global_step"]
    made = formats.read_weights(folder / f"model.ckpt-{best['global_step']}")
    for name, value in made.weights.items():
        np.testing.assert_array_equal(stored.weights[name], value)
    with pytest.raises(ValueError, match="holds averaged weights alone: leave --nouse"):
        formats.read_weights(folder, use_ema=False)


def test_the_last_weights_are_the_best_ones_if_they_are_asked_for(rows, tmp_path):
    job = ema_job(rows, tmp_path, use_ema=False, steps=2)
    results = training_run.run(job, one_device())
    assert results["averaged_weights"] is False
    stored = formats.read_weights(tmp_path)
    assert not stored.averaged
    raw = formats.read_weights(
        tmp_path / f"model.ckpt-{stored.global_step}", use_ema=False
    )
    np.testing.assert_array_equal(stored.weights[NAME], raw.weights[NAME])
    with pytest.raises(ValueError, match="holds no averaged weights: leave --use_ema"):
        formats.read_weights(tmp_path, use_ema=True)
    with pytest.raises(ValueError, match=r"with use_ema=False, but use_ema=True is"):
        training_run.run(ema_job(rows, tmp_path, steps=2), one_device())


def test_a_run_with_averages_is_resumed_exactly(averaged, rows, tmp_path):
    folder, results = averaged
    train_until(ema_job(rows, tmp_path), 4)
    again = training_run.run(ema_job(rows, tmp_path), one_device())
    assert_equal_weights(weights(tmp_path), weights(folder))
    assert again["masked_lm_loss"] == results["masked_lm_loss"]
    with pytest.raises(ValueError, match=r"with ema_decay=0\.6, but ema_decay=0\.0 is"):
        training_run.run(ema_job(rows, tmp_path, ema_decay=0.0), one_device())


def test_a_run_without_averages_gets_none(plain, rows):
    folder, _ = plain
    with pytest.raises(ValueError, match=r"with ema_decay=0\.0, but ema_decay=0\.6 is"):
        training_run.run(ema_job(rows, folder), one_device())
    with pytest.raises(ValueError, match="holds no averaged weights"):
        evaluate(rows, folder, use_ema=True)


def test_averages_start_as_the_weights_that_training_starts_from(
    averaged, rows, tmp_path
):
    folder, _ = averaged
    checkpoint = str(folder / "model.ckpt-6")
    state = weights(folder)
    for use_ema, key in ((None, "averages"), (False, "weights")):
        job = ema_job(rows, tmp_path, init_checkpoint=checkpoint, use_ema=use_ema)
        with one_device().scope():
            session = Session(job, RunFolder(tmp_path, tmp_path))
        values = [session.model.encoder.embeddings.word_embeddings.numpy()]
        with session.evaluated_weights():
            values.append(session.model.encoder.embeddings.word_embeddings.numpy())
        for value in values:
            np.testing.assert_array_equal(value, state[KEY.format(key)])


def test_two_replicas_average_as_one(rows, tmp_path):
    found = []
    for name, strategy in (("one", one_device()), ("two", two_devices())):
        short = {"steps": 2, "eval_rows": None, "eval_steps": 0}
        job = ema_job(rows, tmp_path / name, **short)
        training_run.run(job, strategy)
        found.append(weights(tmp_path / name))
    key = KEY.format("averages")
    np.testing.assert_allclose(*(each[key] for each in found), rtol=1e-4, atol=1e-5)
    assert not np.array_equal(found[1][key], found[1][KEY.format("weights")])
