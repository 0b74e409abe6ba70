"""Small pretraining runs."""

from pathlib import Path

import tensorflow as tf

from albert_tf.checkpoints import tensorflow_files
from albert_tf.config import OptimizerConfig, TrainConfig
from albert_tf.tasks.pretraining import PRETRAINING
from albert_tf.training import run as training_run
from helpers.tiny import tiny_config


def make_job(rows, output_dir, steps=12, **changes):
    """A small pretraining job; `changes` replace fields of job or configurations."""
    optimizer = {"learning_rate": 0.02, "num_train_steps": steps, "num_warmup_steps": 3}
    train = {
        "train_batch_size": 4,
        "eval_batch_size": 4,
        "iterations_per_loop": 4,
        "save_checkpoints_steps": 6,
        "gradient_accumulation_steps": 1,
        "rematerialize": "none",
        "jit_compile": False,
        "precision": "float32",
        "eval_steps": 0,
        "max_train_hours": 0.0,
        "random_seed": 12345,
    }
    optimizer |= {k: changes.pop(k) for k in [*changes] if k in optimizer}
    train |= {k: changes.pop(k) for k in [*changes] if k in train}
    job = {"model_config": tiny_config(), "train_rows": rows} | changes
    return training_run.Job(
        task=PRETRAINING,
        optimizer_config=OptimizerConfig(**optimizer),
        train_config=TrainConfig(str(output_dir), **train),
        **job,
    )


def one_device():
    return tf.distribute.OneDeviceStrategy("CPU:0")


def weights(output_dir):
    reader = tf.train.load_checkpoint(tensorflow_files.find_checkpoint(output_dir))
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names if name[0] != "_"}


def train_until(job, step, strategy=None, curve=None):
    """Trains as a run that is cut off at a step; `curve` gets each loop's report."""
    strategy = strategy or one_device()
    session = training_run._Session(job, strategy, Path(job.train_config.output_dir))
    session._folder.mkdir()
    session.write_settings()
    with strategy.scope():
        session.build()
    if curve is not None:
        session._controller.train_actions = (lambda r: curve.append(dict(r)),)
    session._controller.train(step)
