"""Small pretraining runs."""

import dataclasses
import math
import os
import signal

import numpy as np
import tensorflow as tf

from albert_tf import storage
from albert_tf.checkpoints import tensorflow_files
from albert_tf.config import OptimizerConfig, TrainConfig
from albert_tf.tasks.pretraining import PRETRAINING
from albert_tf.training import identity
from albert_tf.training.job import Job
from albert_tf.training.run import run
from helpers.tiny import tiny_config


def make_job(rows, output_dir, steps=12, **changes):
    """A small pretraining job; `changes` replace fields of job or configurations."""
    optimizer = {
        "learning_rate": 0.02,
        "num_train_steps": steps,
        "num_warmup_steps": 3,
        "end_learning_rate": 0.0,
        "lr_schedule": "polynomial",
        "num_decay_steps": 0,
        "lr_schedule_by": "steps",
        "ema_decay": 0.0,
        "layer_decay": 1.0,
        "head_learning_rate": None,
        "freeze": "",
    }
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
        "keep_checkpoint_max": 5,
        "max_train_hours": 0.0,
        "use_ema": None,
        "max_eval_steps": 0,
        "random_seed": 12345,
    }
    optimizer |= {k: changes.pop(k) for k in [*changes] if k in optimizer}
    train |= {k: changes.pop(k) for k in [*changes] if k in train}
    job = {"task": PRETRAINING, "model_config": tiny_config(), "train_rows": rows}
    return Job(
        optimizer_config=OptimizerConfig(**optimizer),
        train_config=TrainConfig(str(output_dir), **train),
        **(job | changes),
    )


def one_device():
    return tf.distribute.OneDeviceStrategy("CPU:0")


def two_devices():
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def weights(output_dir):
    prefix = tensorflow_files.find_checkpoint(output_dir)
    with storage.local_checkpoint(prefix) as local:
        reader = tf.train.load_checkpoint(local)
        names = reader.get_variable_to_shape_map()
        return {name: reader.get_tensor(name) for name in names if name[0] != "_"}


def assert_equal_weights(found, expected):
    """Compares what `weights` returns, bit by bit, but for the run's history."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        # How long it took, and how often it was saved.
        is_history = name.startswith(("train_seconds", "save_counter"))
        assert is_history or np.array_equal(value, found[name]), name


def stored_run(job, folder, step=6):
    """Leaves settings, and a checkpoint as far as its name and list tell."""
    identity.write_files(job, folder)
    (folder / "checkpoint").write_text(
        f'model_checkpoint_path: "model.ckpt-{step}"\n'
        f'all_model_checkpoint_paths: "model.ckpt-{step}"\n'
    )
    (folder / f"model.ckpt-{step}.index").touch()


def train_until(job, step, strategy=None, curve=None):
    """Trains until SIGTERM comes at a step; `curve` gets the report of each loop."""

    def on_loop_end(reached, report):
        if curve is not None:
            curve.append(report)
        if reached == step:
            os.kill(os.getpid(), signal.SIGTERM)

    # Loops end at the step.
    loop = math.gcd(job.train_config.iterations_per_loop, step)
    config = dataclasses.replace(job.train_config, iterations_per_loop=loop)
    job = dataclasses.replace(job, train_config=config)
    assert run(job, strategy or one_device(), on_loop_end)["global_step"] == step
