"""Policies hold inside their context alone."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from albert_tf.model.heads import ClassificationModel
from albert_tf.model.precision import policy_scope, precision_policy
from albert_tf.model.span_heads import AnswerableSpanModel, SpanModel
from helpers.tiny import tiny_config


def current():
    return tf_keras.mixed_precision.global_policy().name


@pytest.mark.parametrize(
    ("precision", "policy"),
    [
        ("float32", "float32"),
        ("bfloat16", "mixed_bfloat16"),
        ("float16", "mixed_float16"),
    ],
)
def test_a_precision_is_a_policy_of_keras_until_the_end(precision, policy):
    with precision_policy(precision):
        assert current() == policy
        with policy_scope(tf_keras.mixed_precision.Policy("float64")):
            assert current() == "float64"
        assert current() == policy
    assert current() == "float32"


def test_an_error_ends_a_policy_too():
    with pytest.raises(RuntimeError), precision_policy("bfloat16"):
        raise RuntimeError
    assert current() == "float32"


def test_a_model_on_tpus_is_not_built_in_float16(monkeypatch):
    # There is no TPU here: the strategy of this process stands for one's.
    monkeypatch.setattr(
        tf.distribute, "TPUStrategy", type(tf.distribute.get_strategy())
    )
    for precision in ("float32", "bfloat16"):
        with precision_policy(precision):
            assert precision in current()
    message = r"Received float16: pass --precision=bfloat16\."
    with pytest.raises(ValueError, match=message), precision_policy("float16"):
        pass
    assert current() == "float32"


@pytest.mark.parametrize(
    ("model_class", "options"),
    [
        (ClassificationModel, {"num_outputs": 3}),
        (SpanModel, {}),
        (AnswerableSpanModel, {"head_dropout": 0.0}),
    ],
)
def test_heads_in_float16_have_outputs_and_gradients_near_float32(model_class, options):
    rng = np.random.default_rng(2)
    shape = (2, 9)
    batch = {
        "input_ids": rng.integers(5, 30, shape),
        "segment_ids": rng.integers(0, 2, shape),
        "input_mask": [[1] * 9, [1] * 6 + [0] * 3],
        "p_mask": [[1] * 2 + [0] * 7] * 2,
        "start_positions": [4, 3],
    }
    batch = {name: tf.constant(value, tf.int32) for name, value in batch.items()}

    def compute(precision):
        """Outputs without the scores of what may not be chosen, and a norm."""
        with precision_policy(precision):
            model = model_class(tiny_config(initializer_range=0.2), seed=4, **options)
        with tf.GradientTape() as tape:
            outputs = model(batch, training=True, dropout_seed=tf.constant([1, 2]))
            kept = [tf.where(value > -1e8, value, 0.0) for value in outputs.values()]
            total = tf.add_n([tf.reduce_sum(tf.square(value)) for value in kept])
        gradients = tape.gradient(total, model.trainable_variables)
        norm = tf.linalg.global_norm(list(map(tf.convert_to_tensor, gradients)))
        return np.concatenate([*(np.ravel(value) for value in kept), [norm]])

    found, expected = compute("float16"), compute("float32")
    assert found.dtype == np.float32 and not np.array_equal(found, expected)
    np.testing.assert_allclose(found, expected, rtol=0.02, atol=0.02)
