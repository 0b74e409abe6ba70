"""Steps of schedules that add up, warnings, and a decay that is moved."""

import shutil

import pytest

from albert_tf.config import OptimizerConfig
from albert_tf.training import optimization, schedules
from albert_tf.training import run as training_run
from helpers.tiny import tiny_config
from helpers.training_jobs import (
    assert_equal_weights,
    make_job,
    one_device,
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
