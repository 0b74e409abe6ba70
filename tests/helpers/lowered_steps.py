"""A lowered training step of a tiny model."""

from albert_tf.analysis.step_lowering import batch_specs, build_step, lower_step
from albert_tf.config import OptimizerConfig, TrainConfig
from albert_tf.records.features import pretraining_features
from albert_tf.tasks.pretraining import PRETRAINING
from helpers.tiny import tiny_config

LENGTH, PREDICTIONS, ROWS = 24, 3, 6


def lower(micro_batches=1, **train):
    config = TrainConfig("unused", gradient_accumulation_steps=micro_batches, **train)
    step = build_step(
        PRETRAINING, tiny_config(), OptimizerConfig(num_warmup_steps=2), config
    )
    features = pretraining_features(LENGTH, PREDICTIONS)
    specs = batch_specs(features, ROWS)
    return lower_step(step, specs), step
