"""Policies hold inside their context alone."""

import pytest
import tf_keras

from albert_tf.model.precision import policy_scope, precision_policy


def current():
    return tf_keras.mixed_precision.global_policy().name


@pytest.mark.parametrize(
    ("precision", "policy"), [("float32", "float32"), ("bfloat16", "mixed_bfloat16")]
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
