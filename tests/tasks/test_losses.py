"""Losses and weights: padding counts for nothing, and parts of a batch add up."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from sklearn.metrics import log_loss

from albert_tf.tasks import losses


def test_padding_rows_and_padding_predictions_have_no_weight():
    batch = {
        "input_ids": tf.zeros([3, 4], tf.int32),
        "masked_lm_weights": tf.constant([[1, 1], [1, 0], [1, 1]]),
    }
    assert losses.row_weights(batch).numpy().tolist() == [1, 1, 1]
    batch["row_weight"] = tf.constant([1, 1, 0])
    assert losses.row_weights(batch).numpy().tolist() == [1, 1, 0]
    weights = losses.masked_lm_weights(batch)
    assert weights.numpy().tolist() == [[1, 1], [1, 0], [0, 0]]


def test_a_mean_without_weight_is_zero():
    mean = losses.weighted_mean(tf.constant([6.0, 0.0]), tf.constant([4.0, 0.0]))
    assert mean.numpy().tolist() == [1.5, 0.0]


def test_cross_entropies_are_those_of_the_formula():
    logits = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]], np.float32)
    expected = np.log(np.exp(logits).sum(-1)) - logits[[0, 1], [2, 0]]
    labels = tf.constant([2, 0])
    named = {
        losses.classification: ({"logits": logits}, {"label_ids": labels}),
        losses.sentence_order: (
            {"sentence_order_logits": logits},
            {"sentence_order_label": labels},
        ),
    }
    for loss, (outputs, batch) in named.items():
        np.testing.assert_allclose(loss(outputs, batch), expected, rtol=1e-5)
    masked = losses.masked_lm(
        {"masked_lm_logits": logits[:, None]}, {"masked_lm_ids": labels[:, None]}
    )
    np.testing.assert_allclose(masked, expected[:, None], rtol=1e-5)


def test_the_error_of_a_regression_is_squared():
    outputs = {"logits": tf.constant([[1.0], [4.0]])}
    loss = losses.regression(outputs, {"label_ids": tf.constant([3.0, 4.0])})
    assert loss.numpy().tolist() == [4.0, 0.0]


LABELS = [2, 0, 1, 2, 2, 1]


@pytest.fixture
def logits():
    rng = np.random.default_rng(5)
    return rng.normal(size=(6, 3)).astype(np.float32)


def mean_of(loss, logits, labels, **batch):
    """The weighted mean of a loss, as training takes it."""
    batch = {
        "input_ids": tf.zeros([len(logits), 7], tf.int32),
        "label_ids": tf.constant(labels),
        **batch,
    }
    weights = loss.weights(batch)
    total = tf.reduce_sum(loss.values({"logits": tf.constant(logits)}, batch) * weights)
    return float(losses.weighted_mean(total, tf.reduce_sum(weights)))


def test_class_weights_are_those_of_scikit_learn(logits):
    weights = (0.5, 3.0, 1.25)
    loss = losses.ClassificationLoss(class_weights=weights).of_labels()
    probabilities = tf.nn.softmax(logits).numpy().astype(np.float64)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    of_rows = [weights[label] for label in LABELS]
    expected = log_loss(LABELS, probabilities, sample_weight=of_rows)
    assert mean_of(loss, logits, LABELS) == pytest.approx(expected, abs=1e-5)
    # A row that only fills the batch does not count, whatever its label weighs.
    fill = {"row_weight": tf.constant([1.0] * 5 + [0.0])}
    expected = log_loss(LABELS[:5], probabilities[:5], sample_weight=of_rows[:5])
    assert mean_of(loss, logits, LABELS, **fill) == pytest.approx(expected, abs=1e-5)


def test_smoothing_and_the_focal_loss_are_those_of_keras(logits):
    one_hot = tf.one_hot(LABELS, 3)
    smooth = losses.ClassificationLoss(label_smoothing=0.2).of_labels()
    keras = tf_keras.losses.CategoricalCrossentropy(
        from_logits=True, label_smoothing=0.2
    )
    expected = float(keras(one_hot, logits))
    assert mean_of(smooth, logits, LABELS) == pytest.approx(expected, abs=1e-5)
    focal = losses.ClassificationLoss(focal_gamma=1.5).of_labels()
    keras = tf_keras.losses.CategoricalFocalCrossentropy(
        alpha=1.0, gamma=1.5, from_logits=True
    )
    expected = float(keras(one_hot, logits))
    assert mean_of(focal, logits, LABELS) == pytest.approx(expected, abs=1e-5)
    assert mean_of(losses.PLAIN.of_labels(), logits, LABELS) == pytest.approx(
        log_loss(LABELS, tf.nn.softmax(logits).numpy()), abs=1e-5
    )


SETS = [[0, 1, 1], [0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 0, 1], [0, 1, 0]]


def test_losses_of_label_sets_are_those_of_keras(logits):
    def of(**settings):
        loss = losses.ClassificationLoss(**settings).of_label_sets()
        return mean_of(loss, logits, SETS)

    keras = tf_keras.losses.BinaryCrossentropy(from_logits=True)
    assert of() == pytest.approx(3 * float(keras(SETS, logits)), abs=1e-5)
    keras = tf_keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=0.3)
    assert of(label_smoothing=0.3) == pytest.approx(
        3 * float(keras(SETS, logits)), abs=1e-5
    )
    keras = tf_keras.losses.BinaryFocalCrossentropy(from_logits=True, gamma=1.5)
    assert of(focal_gamma=1.5) == pytest.approx(
        3 * float(keras(SETS, logits)), abs=1e-5
    )
    weights = np.array([2.0, 0.5, 7.0])
    parts = np.where(
        np.array(SETS) > 0,
        weights * np.log1p(np.exp(-logits)),
        np.log1p(np.exp(logits)),
    )
    assert of(class_weights=tuple(weights)) == pytest.approx(
        parts.sum(axis=1).mean(), abs=1e-5
    )
