"""Random models and their files, for tests of reading and converting them."""

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints import convert as checkpoints_convert
from albert_tf.checkpoints import tensorflow_files
from albert_tf.checkpoints.checkpoint_format import CheckpointFormat
from albert_tf.checkpoints.load import released_name
from albert_tf.model.heads import PretrainingModel
from helpers import tiny

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij"]


def convert(source, target, target_format, **changes):
    """Converts to the format of a name, as `--layout` does."""
    conversion = checkpoints_convert.Conversion(
        str(source), str(target), CheckpointFormat(target_format), **changes
    )
    return checkpoints_convert.convert(conversion)


def weights_of(model):
    return {released_name(v): v.numpy() for v in model.variables}


def assert_same_weights(weights, expected):
    assert set(weights) == set(expected)
    for name in weights:
        assert np.array_equal(weights[name], expected[name]), name


def write_model(folder, weights, config, name="model.ckpt-best"):
    """A released TensorFlow 1 folder."""
    folder.mkdir(parents=True, exist_ok=True)
    step = {"global_step": np.int64(7)}
    tensorflow_files.write_named(folder / name, {**weights, **step})
    config.to_json(folder / "albert_config.json")
    return folder


def random_model(rng=None, **changes):
    """A pretraining model's configuration and weights, none of them 0 or 1."""
    config = tiny.tiny_config(**changes)
    rng = rng or np.random.default_rng(5)
    with tf.Graph().as_default():
        shapes = {
            released_name(v): v.shape.as_list()
            for v in PretrainingModel(config, seed=0).variables
        }
    weights = {n: rng.normal(0, 0.4, s).astype(np.float32) for n, s in shapes.items()}
    return config, weights


def files_in(folder):
    return sorted(path.name for path in folder.iterdir())


def encoder_weights(weights):
    return {n: v for n, v in weights.items() if n.startswith("bert/")}


# Weights of some tasks' heads in a model of `tiny_config`.
HEAD_SHAPES = {
    "classifier": {"output_weights": (3, 12), "output_bias": (3,)},
    "span": {"cls/squad/output_weights": (2, 12), "cls/squad/output_bias": (2,)},
    "span and answerable": {
        "start_logits/dense/kernel": (12, 1),
        "start_logits/dense/bias": (1,),
        "end_logits/dense_0/kernel": (24, 12),
        "end_logits/dense_0/bias": (12,),
        "end_logits/LayerNorm/gamma": (12,),
        "end_logits/LayerNorm/beta": (12,),
        "end_logits/dense_1/kernel": (12, 1),
        "end_logits/dense_1/bias": (1,),
        "answer_class/dense_0/kernel": (24, 12),
        "answer_class/dense_0/bias": (12,),
        "answer_class/dense_1/kernel": (12, 1),
    },
}


def model_with_head(folder, head):
    """A released folder of an encoder and one head; the head's weights."""
    config, weights = random_model()
    rng = np.random.default_rng(7)
    values = {n: rng.random(s, np.float32) for n, s in HEAD_SHAPES[head].items()}
    return write_model(folder, encoder_weights(weights) | values, config), values
