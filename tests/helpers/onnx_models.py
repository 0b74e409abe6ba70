"""Models of random weights as ONNX graphs, and their answers in onnxruntime."""

import functools

import numpy as np
import onnxruntime
import pytest
import tensorflow as tf

from albert_tf.serving.base import IDS
from albert_tf.serving.create import create_served_model
from albert_tf.serving.encoder import EncoderModel
from albert_tf.serving.onnx_heads import answer_graph
from albert_tf.tasks import create_task
from helpers.tiny import tiny_config


def random_served(task_config, **changes):
    """A model of a task whose outputs differ a lot from row to row."""
    config = tiny_config(**{"num_hidden_layers": 2, "initializer_range": 0.4} | changes)
    if task_config is None:
        model = EncoderModel(config)
    else:
        build = create_task(task_config).build_model
        model = build(config, seed=3, rematerialize="none")
    rng = np.random.default_rng(5)
    for variable in model.variables:
        if not variable.name.startswith("bert/"):
            variable.assign(rng.normal(0, 2, variable.shape))
        elif "bias" in variable.name or "beta" in variable.name:
            variable.assign(rng.normal(0, 0.5, variable.shape))
    return create_served_model(model, config, task_config)


def content_of(served):
    return answer_graph(served).to_model({}, "1.2.3").SerializeToString()


def start(content, options=None) -> onnxruntime.InferenceSession:
    options = options or onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(content, options)


def run(session, batch):
    """Name of an output -> its value, for ids of any integer type."""
    names = [output.name for output in session.get_outputs()]
    batch = {name: np.asarray(batch[name], np.int64) for name in IDS}
    return dict(zip(names, session.run(names, batch), strict=True))


def random_batch(shape, seed=0, vocab_size=61):
    """Rows of two segments and padding, int64."""
    rng = np.random.default_rng(seed)
    columns = np.arange(shape[-1])
    ends = rng.integers(3, shape[-1] + 1, (*shape[:-1], 1))
    values = (
        rng.integers(0, vocab_size, shape),
        columns < ends,
        (columns >= 2) & (columns < ends),
    )
    return {n: v.astype(np.int64) for n, v in zip(IDS, values, strict=True)}


def expected_answers(served, batch):
    """The model's answers that are no texts."""
    answers = served.answer({n: tf.constant(v, tf.int32) for n, v in batch.items()})
    return {n: v.numpy() for n, v in answers.items() if v.dtype != tf.string}


def assert_refuses(session, batch, reason, **changes):
    """onnxruntime's error for a batch with changes names a rule."""
    with pytest.raises(Exception, match=reason):  # classes of its own without a base
        run(session, {**batch, **changes})


full = functools.partial(np.full, dtype=np.int64)
