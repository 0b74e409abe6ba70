"""The loss scale of float16: its rule, its steps, and runs that resume with it."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from albert_tf.analysis import step_lowering
from albert_tf.checkpoints.load import load_weights
from albert_tf.config import OptimizerConfig, TrainConfig
from albert_tf.files import read_json
from albert_tf.model.heads import PretrainingModel
from albert_tf.tasks.pretraining import PRETRAINING
from albert_tf.training import loops, session
from albert_tf.training import run as training_run
from albert_tf.training.loss_scale import LossScale, create_loss_scale
from albert_tf.training.run_folder import RunFolder
from helpers.tiny import tiny_config
from helpers.training_jobs import make_job, one_device, two_devices, weights


class Limited(LossScale):
    """Starts at 2**11, doubles after two steps, and overflows from 2**11 on."""

    limit = 2.0**11

    def __init__(self):
        super().__init__(initial=2.0**11, growth_steps=2)

    def unscale(self, gradients):
        overflows = self.state["loss_scale"] >= self.limit
        return [tf.where(overflows, np.inf, g) for g in super().unscale(gradients)]


def content(loss_scale):
    return {name: float(value.numpy()) for name, value in loss_scale.state.items()}


def test_only_float16_has_a_scale():
    assert create_loss_scale("float32") is create_loss_scale("bfloat16") is None
    assert content(create_loss_scale("float16")) == {
        "loss_scale": 2**15,
        "good_steps": 0,
    }


@pytest.mark.parametrize("overflowing", [0.0, 0.2, 0.7])
def test_the_scale_adapts_as_that_of_keras(overflowing):
    variable = tf.Variable(1.0)
    theirs = tf_keras.mixed_precision.LossScaleOptimizer(
        tf_keras.optimizers.SGD(), initial_scale=8, dynamic_growth_steps=3
    )
    theirs.build([variable])
    apply = tf.function(lambda g: theirs.apply_gradients([(g, variable)]))
    ours = LossScale(initial=8, growth_steps=3)
    update = tf.function(ours.update)
    rng, floor_reached = np.random.default_rng(5), False
    for finite in rng.random(200) >= overflowing:
        apply(tf.constant(1.0 if finite else np.nan))
        can_fall = bool(ours.can_fall())
        update(tf.constant(finite))
        assert ours.value() == float(theirs.loss_scale)
        assert content(ours)["good_steps"] == int(theirs.dynamic_counter)
        assert can_fall or ours.value() in (1, 2)
        floor_reached |= not can_fall
    assert floor_reached == (overflowing > 0.5)


def test_a_scale_stays_a_number():
    scale = LossScale(initial=2.0**126, growth_steps=1)
    for _ in range(3):
        scale.update(tf.constant(True))
    assert scale.value() == 2.0**127


def make_step(monkeypatch, loss_scale, **changes):
    """A step with a loss scale, or None, and a function that takes it once."""
    monkeypatch.setattr(step_lowering, "create_loss_scale", lambda _: loss_scale)
    config = tiny_config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    optimizer = OptimizerConfig(learning_rate=0.01, num_warmup_steps=0)
    train = TrainConfig("unused", **changes)
    step = step_lowering.build_step(PRETRAINING, config, optimizer, train)
    function = tf.function(step, autograph=False)

    def take(features):
        report = function(features, tf.constant([1, 2]))
        return {name: float(mean) for name, (mean, _) in report.items()}

    return step, take


def values(step):
    return [variable.numpy() for variable in step.model.trainable_variables]


def test_scaled_gradients_are_those_without_a_scale(features, monkeypatch):
    """A power of two changes no digit of float32."""
    plain, take_plain = make_step(monkeypatch, None)
    scaled, take_scaled = make_step(monkeypatch, LossScale(2.0**17))
    assert take_plain(features) == take_scaled(features)
    for one, other in zip(values(plain), values(scaled), strict=True):
        assert np.array_equal(one, other)


@pytest.fixture(scope="module")
def float32_report(features):
    with pytest.MonkeyPatch.context() as patch:
        return make_step(patch, None)[1](features)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"gradient_accumulation_steps": 2, "rematerialize": "block"},
    ],
    ids=str,
)
def test_a_step_in_float16_is_near_float32(
    changes, features, float32_report, monkeypatch
):
    step, take = make_step(
        monkeypatch, LossScale(2.0**10), precision="float16", **changes
    )
    assert step.model.encoder.compute_dtype == "float16"
    found = take(features)
    assert found != float32_report
    assert found == pytest.approx(float32_report, rel=1e-3)


def test_an_overflow_changes_the_scale_alone_and_good_steps_double_it(
    features, monkeypatch
):
    scale = LossScale(2.0**60, growth_steps=3)
    step, take = make_step(monkeypatch, scale, precision="float16")
    before = values(step)
    for halvings in (1, 2):
        report = take(features)
        assert report["skipped"] == 1 and report["gradient_norm"] == 0
        assert content(scale) == {"loss_scale": 2.0 ** (60 - halvings), "good_steps": 0}
    assert all(map(np.array_equal, values(step), before))
    scale.state["loss_scale"].assign(2.0**7)
    for good_steps, exponent in ((1, 7), (2, 7), (0, 8), (1, 8)):
        assert take(features)["skipped"] == 0
        assert content(scale) == {"loss_scale": 2.0**exponent, "good_steps": good_steps}
    assert not any(map(np.array_equal, values(step), before))
    assert {variable.dtype for variable in step.model.variables} == {tf.float32}


def start(job, folder, strategy=None):
    with (strategy or one_device()).scope():
        return session.Session(job, RunFolder(folder, folder))


def float16_job(rows, folder, **changes):
    config = tiny_config(hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.1)
    known = {"precision": "float16", "model_config": config, "iterations_per_loop": 20}
    return make_job(rows, folder, **known | changes)


def test_a_resumed_run_has_the_scale_of_an_uninterrupted_one(
    rows, tmp_path, monkeypatch
):
    monkeypatch.setattr(loops, "create_loss_scale", lambda _: Limited())
    job = float16_job(rows, tmp_path)
    whole = start(job, tmp_path)
    report = whole.train(5)
    # The steps 0 and 3 overflow; the steps 1 and 2 double the scale.
    assert report["skipped_steps"] == 2 and report["loss_scale"] == 2**10
    assert 2 < report["masked_lm_loss"] < 5
    whole.save()
    stored = weights(tmp_path)
    scale = {n: v for n, v in stored.items() if n.split("/")[0] in Limited().state}
    assert sorted(map(float, scale.values())) == [1, 2**10]
    assert {v.dtype for n, v in stored.items() if "weights/" in n} == {np.dtype("f4")}
    # The state of training is no weight of the model.
    report = load_weights(PretrainingModel(tiny_config()), whole.latest_checkpoint())
    assert (report.missing, report.unused) == ((), ()), report
    resumed = start(job, tmp_path)
    for each in (whole, resumed):
        report = each.train(8)
        assert report["skipped_steps"] == 1 and report["loss_scale"] == 2**10
    for one, other in zip(whole.model.variables, resumed.model.variables, strict=True):
        assert np.array_equal(one, other), one.name


def test_results_and_summaries_have_the_scale(rows, tmp_path):
    job = float16_job(rows, tmp_path, steps=1, model_config=tiny_config())
    results = training_run.run(job, one_device())
    assert results["train"]["loss_scale"] == 2**15
    assert read_json(tmp_path / "results.json")["train"] == results["train"]
    [events] = (tmp_path / "train").iterdir()
    assert b"loss_scale" in events.read_bytes()


def test_replicas_agree_on_the_scale(rows, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(
        loops, "create_loss_scale", lambda _: made.append(Limited()) or made[-1]
    )
    changes = {"model_config": tiny_config()}
    one, two = (
        start(float16_job(rows, tmp_path / name, **changes), tmp_path / name, strategy)
        for name, strategy in (("one", one_device()), ("two", two_devices()))
    )
    expected, found = one.train(5), two.train(5)
    for name in ("skipped_steps", "loss_scale"):
        assert found[name] == expected[name]
    names = [*PRETRAINING.losses, "gradient_norm"]
    for name in names:
        assert found[name] == pytest.approx(expected[name], rel=5e-3)
    for name, number in {"loss_scale": 2**10, "good_steps": 1}.items():
        copies = made[1].state[name].values
        assert [float(copy.numpy()) for copy in copies] == [number, number]


def test_overflow_ends_a_run_only_at_the_lowest_scale(rows, tmp_path, monkeypatch):
    class Overflowing(Limited):
        limit = 0.0

    def create(_):
        scale = Overflowing()
        scale.state["loss_scale"].assign(4)
        return scale

    monkeypatch.setattr(loops, "create_loss_scale", create)
    run = start(float16_job(rows, tmp_path, model_config=tiny_config()), tmp_path)
    # Two steps lower the scale to 1, and nine have it.
    report = run.train(11)
    assert report["skipped_steps"] == 11 and report["loss_scale"] == 1
    message = r"10 gradients .*lowest loss scale, 1, at step 12 .*--precision=float32"
    with pytest.raises(ValueError, match=message):
        run.train(12)


def test_checkpoints_without_a_scale_resume_with_the_first(rows, tmp_path, monkeypatch):
    plain = make_job(rows, tmp_path)
    start(plain, tmp_path).save()
    assert not any(
        name.startswith(("loss_scale", "good")) for name in weights(tmp_path)
    )
    made = []
    create = functools.partial(LossScale, 2.0**9)
    monkeypatch.setattr(
        loops, "create_loss_scale", lambda _: made.append(create()) or made[-1]
    )
    resumed = start(float16_job(rows, tmp_path, model_config=tiny_config()), tmp_path)
    assert resumed.step == 0 and resumed.latest_checkpoint() is not None
    assert content(made[0]) == {"loss_scale": 2**9, "good_steps": 0}
