"""Losses and weights: padding counts for nothing, and parts of a batch add up."""

import numpy as np
import tensorflow as tf

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
