"""Settings of fine-tuning by name, and their defaults."""

import math

import pytest

from albert_tf.config import OptimizerConfig
from albert_tf.training import schedules
from albert_tf.training.fine_tuning_config import FineTuningConfig, split_settings


def test_settings_go_to_the_class_that_has_them():
    settings = {"num_runs": 3, "learning_rate": 0.25, "train_batch_size": 5}
    options, optimizer_config, train_config = split_settings("out", settings)
    assert options == FineTuningConfig(num_runs=3)
    assert optimizer_config == OptimizerConfig("adamw", 0.25, 1000, 0)
    assert (train_config.output_dir, train_config.train_batch_size) == ("out", 5)
    # Each checkpoint is evaluated, unless the interval is given.
    assert train_config.eval_steps == train_config.save_checkpoints_steps == 1000
    assert split_settings("out", {"eval_steps": 7})[2].eval_steps == 7


def test_an_unknown_setting_names_the_nearest():
    with pytest.raises(ValueError, match=r"'lerning_rate'\. Did you mean learning_rat"):
        split_settings("out", {"lerning_rate": 1})
    with pytest.raises(ValueError, match=r"no setting 'xyzzy'\. Settings are"):
        split_settings("out", {"xyzzy": 1})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_runs", 0),
        ("num_train_epochs", -1.0),
        ("num_train_epochs", math.nan),
        ("warmup_proportion", 1.5),
        ("classifier_dropout", 1.0),
        ("classifier_dropout", math.nan),
    ],
)
def test_values_out_of_range_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be .* Received {value}"):
        FineTuningConfig(**{name: value})


def test_epochs_become_steps_and_a_share_of_them_warms_up():
    start = OptimizerConfig("adamw", num_train_steps=11, num_warmup_steps=2)
    assert FineTuningConfig().schedule(start, 100, 8) == start
    options = FineTuningConfig(num_train_epochs=3, warmup_proportion=0.25)
    scheduled = options.schedule(start, rows=70, batch_size=10)
    assert (scheduled.num_train_steps, scheduled.num_warmup_steps) == (21, 5)
    assert options.schedule(start, rows=1, batch_size=100).num_train_steps == 1


def test_a_decay_may_be_longer_than_the_steps_that_epochs_replace():
    settings = {"lr_schedule": "wsd", "num_decay_steps": 1300, "num_train_epochs": 2}
    options, start, _ = split_settings("out", settings)
    assert start.num_train_steps < 1300
    scheduled = options.schedule(start, rows=7000, batch_size=5)
    assert (scheduled.num_train_steps, scheduled.num_decay_steps) == (2800, 1300)
    schedules.check_steps(scheduled)
    with pytest.raises(ValueError, match="are 1380 steps, above num_train_steps, 800"):
        schedules.check_steps(options.schedule(start, rows=2000, batch_size=5))
