"""Steps of schedules that add up, warnings, and a decay that is moved."""

import dataclasses
import itertools
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import OptimizerConfig
from albert_tf.training import loops, optimization, schedules
from albert_tf.training import run as training_run
from helpers.tiny import tiny_config
from helpers.training_jobs import (
    assert_equal_weights,
    make_job,
    one_device,
    train_until,
    weights,
)


def config(schedule, **settings):
    settings = {"num_train_steps": 20, "num_warmup_steps": 7, **settings}
    return OptimizerConfig(lr_schedule=schedule, **settings)


def test_steps_that_just_add_up_are_allowed():
    for fitting in (
        config("wsd", num_decay_steps=13),
        config("wsd", num_decay_steps=11, start_warmup_step=2),
        # Without warm-up its start has no meaning.
        config("wsd", num_decay_steps=20, start_warmup_step=2, num_warmup_steps=0),
        config("cosine", num_warmup_steps=19),
        config("constant", num_warmup_steps=30),
        config("polynomial", num_warmup_steps=30),
    ):
        schedules.check_steps(fitting)
        optimization.learning_rate(fitting)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            config("wsd", num_decay_steps=14),
            "lr_schedule=wsd: warm-up, 7 steps, and num_decay_steps, 14, are 21 steps, "
            "above num_train_steps, 20: change one of them.",
        ),
        (
            config("wsd", num_decay_steps=12, start_warmup_step=2),
            "lr_schedule=wsd: start_warmup_step and warm-up, 9 steps, and "
            "num_decay_steps, 12, are 21 steps, above num_train_steps, 20: change one "
            "of them.",
        ),
        (
            config("cosine", num_warmup_steps=20),
            "lr_schedule=cosine: warm-up, 20 steps, must be below num_train_steps, 20: "
            "change one of them.",
        ),
    ],
    ids=["wsd", "later warm-up", "cosine"],
)
def test_steps_that_do_not_add_up_are_refused(wrong, message):
    for check in (schedules.check_steps, optimization.learning_rate):
        with pytest.raises(ValueError) as caught:
            check(wrong)
        assert str(caught.value) == message


def test_settings_that_are_probably_mistakes_give_warnings():
    assert schedules.warnings(OptimizerConfig(), 4096) == []
    [warning] = schedules.warnings(OptimizerConfig(), 256)
    assert "learning_rate 0.00176 belongs to a batch of 4096, not of 256" in warning
    assert warning.endswith("by the root of the batch, 0.00044.")
    late = config("constant", num_warmup_steps=20, learning_rate=0.01)
    [warning] = schedules.warnings(late, 256)
    assert "num_warmup_steps 20 is not below num_train_steps 20" in warning


@pytest.mark.parametrize(
    "damage", [{"num_train_steps": "9"}, {"num_decay_steps": None}]
)
def test_damaged_settings_set_nothing_free(damage):
    asked = {"lr_schedule": "constant", "num_train_steps": 9, "num_decay_steps": 0}
    asked |= {"end_learning_rate": 0.0}
    more = {**asked, "num_train_steps": 8}
    assert "num_train_steps" in schedules.free_settings(more, asked, 6, "out")
    assert schedules.free_settings(asked, asked, 6, "out") == ()
    assert schedules.free_settings({**more, **damage}, asked, 6, "out") == ()


def test_a_decay_from_an_earlier_checkpoint_ends_as_one_planned_from_the_start(
    tmp_path, rows
):
    planned, stable, added = (
        tmp_path / name for name in ("planned", "stable", "added")
    )
    model = tiny_config(num_hidden_layers=1)
    decay = {"lr_schedule": "wsd", "steps": 9, "num_decay_steps": 3}
    constant = {"lr_schedule": "constant", "steps": 12}
    decay, constant = ({**one, "model_config": model} for one in (decay, constant))
    training_run.run(make_job(rows, planned, **decay), one_device())
    training_run.run(make_job(rows, stable, **constant), one_device())
    shutil.copytree(stable, added)
    with pytest.raises(ValueError, match="at step 12: with num_decay_steps=3, num_tr"):
        training_run.run(make_job(rows, added, **decay), one_device())
    for path in added.glob("model.ckpt-12.*"):
        path.unlink()
    results = training_run.run(make_job(rows, added, **decay), one_device())
    assert (results["global_step"], results["status"]) == (9, "finished")
    assert results["settings"]["optimizer"]["lr_schedule"] == "wsd"
    assert_equal_weights(weights(added), weights(planned))
    with pytest.raises(ValueError, match="whose decay began at step 6 with lr_sched"):
        training_run.run(make_job(rows, added, **constant), one_device())


# -- by time

HOUR = 3600


@pytest.mark.parametrize("schedule", ["polynomial", "cosine", "wsd"])
def test_a_share_of_the_time_counts_as_that_share_of_the_steps(schedule):
    decay = {"num_decay_steps": 9} if schedule == "wsd" else {}
    by_steps = config(schedule, num_train_steps=40, **decay)
    by_time = dataclasses.replace(by_steps, lr_schedule_by="time")
    optimizer = optimization.create_optimizer(by_time)
    expected = optimization.learning_rate(by_steps)
    for share, step, counted in (
        *((0.0, 7, 7), (0.0, 33, 33), (0.25, 8, 10), (0.25, 31, 31)),
        *((0.85, 8, 34), (1.0, 8, 40)),
    ):
        optimizer.time_share.assign(share)
        found = float(optimizer.schedule(step))
        assert found == pytest.approx(float(expected(counted)), rel=1e-5, abs=1e-9)
    # Warm-up counts steps.
    optimizer.time_share.assign(0.0)
    assert float(optimizer.schedule(3)) == float(expected(3))
    optimizer.time_share.assign(1.0)
    assert float(optimizer.schedule(3)) == float(expected(3))


def test_steps_take_the_rate_of_the_time():
    settings = {"optimizer": "adamw", "num_warmup_steps": 0, "num_train_steps": 1000}
    moves = []
    for changes, share in (
        ({"learning_rate": 0.08, "lr_schedule_by": "time"}, 0.75),
        ({"learning_rate": 0.02}, None),
    ):
        optimizer = optimization.create_optimizer(
            OptimizerConfig(**settings, **changes)
        )
        variable = tf.Variable([1.0, -2.0])
        optimizer.build([variable])
        if share:
            optimizer.time_share.assign(share)
        optimizer.apply_or_skip([tf.constant([0.3, 0.1])], [variable])
        moves.append(variable.numpy())
    np.testing.assert_allclose(*moves, rtol=1e-6)


def test_a_decay_by_time_needs_a_time(rows, tmp_path):
    with pytest.raises(ValueError, match="lr_schedule_by=time needs the time that"):
        make_job(rows, tmp_path, lr_schedule_by="time")
    assert schedules.share_of_time(HOUR / 2, 2.0) == 0.25
    assert schedules.share_of_time(3 * HOUR, 2.0) == 1.0


def test_settings_of_a_decay_by_time_are_not_free():
    asked = {"lr_schedule": "wsd", "num_train_steps": 9, "num_decay_steps": 2}
    more = {**asked, "num_train_steps": 8}
    assert schedules.free_settings(more, asked, 1, "out")
    by_time = {"lr_schedule_by": "time"}
    assert not schedules.free_settings(more | by_time, asked | by_time, 1, "out")


def test_a_run_decays_to_the_end_of_its_time_and_ends_there(
    rows, tmp_path, monkeypatch
):
    """Its clock advances by ten seconds with each look at it."""
    clock = SimpleNamespace(monotonic=itertools.count(0, 10).__next__)
    monkeypatch.setattr(loops, "time", clock)
    curve = []

    def job(**changes):
        settings = {
            "steps": 10_000,
            "num_warmup_steps": 0,
            "lr_schedule_by": "time",
            "max_train_hours": 60 / HOUR,
            "iterations_per_loop": 2,
            "eval_rows": rows,
            "eval_steps": 4,
            "model_config": tiny_config(num_hidden_layers=1),
        }
        return make_job(rows, tmp_path, **(settings | changes))

    train_until(job(), 4, curve=curve)
    results = training_run.run(
        job(), one_device(), lambda step, report: curve.append(report)
    )
    assert (results["status"], results["global_step"]) == ("finished", 12)
    rates = [report["learning_rate"] for report in curve]
    shares = [1 - loop / 6 for loop in range(6)]
    np.testing.assert_allclose(rates, 0.02 * np.array(shares), rtol=2e-3)
    left = [report["minutes_left"] * 60 for report in curve]
    np.testing.assert_allclose(left, [50, 40, 30, 20, 10, 0], atol=1e-3)
    # The end of the time is evaluated as the last step is.
    assert (tmp_path / "model.ckpt-12.index").is_file()
    again = training_run.run(job(), one_device())
    assert (again["status"], again["global_step"]) == ("finished", 12)
    assert again["train"] == results["train"]
    with pytest.raises(ValueError, match=r"max_train_hours=.* is asked for"):
        training_run.run(job(max_train_hours=1.0), one_device())
    with pytest.raises(ValueError, match="lr_schedule_by=time, but lr_schedule_by=st"):
        training_run.run(job(lr_schedule_by="steps"), one_device())
