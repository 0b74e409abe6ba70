"""The classifier's and the regression's head against the original's numbers."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.load import load_tf1_checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.model.heads import ClassificationModel
from albert_tf.task_config import Classification, Regression
from albert_tf.tasks import create_task, losses
from helpers.tiny import tiny_config


def load(folder, outputs):
    expected = dict(np.load(folder / "expected.npz"))
    config = AlbertConfig.from_json(folder / "albert_config.json")
    model = ClassificationModel(config, num_outputs=outputs, seed=1)
    load_tf1_checkpoint(model, folder)
    names = ("input_ids", "input_mask", "segment_ids", "label_ids")
    return model, {name: tf.constant(expected[name]) for name in names}, expected


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_the_classifier_is_the_original_one(reference):
    model, batch, expected = load(reference / "head_classifier", outputs=3)
    outputs = model(batch)
    close(outputs["logits"], expected["logits"])
    close(losses.classification(outputs, batch), expected["per_example_loss"])
    close(tf.reduce_mean(losses.classification(outputs, batch)), expected["loss"])
    predicted = create_task(Classification("toy", "abc")).predictions(outputs, batch)
    close(predicted["probabilities"], expected["probabilities"])
    classes = np.argmax(predicted["probabilities"], axis=-1)
    assert classes.tolist() == expected["predictions"].tolist()


def test_the_regression_is_the_original_one(reference):
    model, batch, expected = load(reference / "head_regression", outputs=1)
    outputs = model(batch)
    close(outputs["logits"][:, 0], expected["logits"])
    close(losses.regression(outputs, batch), expected["per_example_loss"])
    close(tf.reduce_mean(losses.regression(outputs, batch)), expected["loss"])
    predicted = create_task(Regression("toy")).predictions(outputs, batch)
    close(predicted["values"], expected["predictions"])


def batch_of(lengths, rng):
    size = (len(lengths), max(lengths))
    mask = np.arange(size[1]) < np.array(lengths)[:, None]
    ids = rng.integers(5, 61, size) * mask
    values = {"input_ids": ids, "input_mask": mask, "segment_ids": 0 * ids}
    return {name: tf.constant(value, tf.int32) for name, value in values.items()}


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_the_head_drops_its_share_in_training_alone(dropout):
    config = tiny_config(hidden_size=300)
    head = ClassificationModel(config, num_outputs=2, head_dropout=dropout, seed=3).head
    pooled = tf.ones([2, 300])
    head.output_weights.assign(tf.ones([2, 300]))
    assert head(pooled)[0, 0] == 300
    trained = head(pooled, tf.constant([1, 2]))
    kept = trained[0, 0] * (1 - dropout) / 300
    assert float(kept) == pytest.approx(1 - dropout, abs=0.1 if dropout else 1e-6)
    assert trained[0, 0] != trained[1, 0] or not dropout
    assert (trained == head(pooled, tf.constant([1, 2]))).numpy().all()


def test_padding_changes_nothing():
    rng = np.random.default_rng(0)
    model = ClassificationModel(tiny_config(), num_outputs=3, seed=3)
    batch = batch_of([4, 7], rng)
    longer = {n: tf.pad(v, [[0, 0], [0, 6]]) for n, v in batch.items()}
    close(model(longer)["logits"], model(batch)["logits"])
