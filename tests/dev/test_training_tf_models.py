"""The step of tf-models is that of the same model, with the same settings."""

import tensorflow as tf

from albert_tf.analysis.costs import parameter_counts
from albert_tf.config import OptimizerConfig, TrainConfig
from dev import training_tf_models
from dev.benchmark_train import Case
from helpers.tiny import tiny_config

CONFIG = tiny_config(num_hidden_layers=1)
TRAIN_CONFIG = TrainConfig("unused", train_batch_size=4, precision="bfloat16")
CASE = Case("tiny.json", TRAIN_CONFIG, "lamb", 11, 3, 1, CONFIG)


def test_tf_models_takes_steps():
    step = training_tf_models.make_tf_models_step(CASE)
    seconds, busy = step()
    assert 0 < step()[0] < seconds and busy > 0


def test_tf_models_optimizers_have_our_settings():
    for name in ("lamb", "adamw"):
        optimizer, clip_norm = training_tf_models._tf_models_optimizer(name)
        expected = OptimizerConfig(optimizer=name)
        found = optimizer.get_config()
        for key in ("learning_rate", "beta_1", "beta_2", "epsilon"):
            assert found[key] == getattr(expected, key), (name, key)
        assert found["weight_decay_rate"] == expected.weight_decay
        assert clip_norm == expected.clip_norm


def test_tf_models_has_as_many_parameters():
    model = training_tf_models._tf_models_pretrainer(CONFIG, tf.nn.gelu)
    count = sum(v.shape.num_elements() for v in model.trainable_variables)
    assert count == sum(parameter_counts(CONFIG).values())
