"""The pretraining tasks, with and without sentence order."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.load import released_name
from albert_tf.tasks.pretraining import MASKED_LM, PRETRAINING, pretraining_task
from helpers.packed import MAX_DOCUMENTS, alone_and_packed, as_batch
from helpers.tiny import tiny_config


def test_a_batch_has_the_names_of_the_code():
    features = {
        "input_ids": tf.zeros([2, 3], tf.int32),
        "token_boundary": tf.zeros([2, 3], tf.int32),
        "next_sentence_labels": tf.constant([[1], [0]]),
    }
    batch = PRETRAINING.read_batch(features)
    assert batch.keys() == {"input_ids", "sentence_order_label"}
    assert batch["sentence_order_label"].numpy().tolist() == [1, 0]
    assert "token_boundary" in features


def test_without_sentence_order_its_head_and_the_pooler_stay_as_they_are():
    config = tiny_config(num_hidden_layers=1)
    whole, masked = (
        task.build_model(config, seed=1) for task in (PRETRAINING, MASKED_LM)
    )
    names, trained = (
        {released_name(v) for v in model.trainable_variables}
        for model in (whole, masked)
    )
    frozen = ("bert/pooler", "cls/seq_relationship")
    assert trained == {name for name in names if not name.startswith(frozen)}
    assert len(names) - len(trained) == 4
    assert MASKED_LM.losses.keys() == {"masked_lm_loss"}
    assert PRETRAINING.losses.keys() > MASKED_LM.losses.keys()


def test_metrics_of_next_sentence_rows_are_not_called_sentence_order():
    task = pretraining_task("nsp", True)
    names = {*task.losses, *task.metrics}
    assert names == {
        "masked_lm_loss",
        "next_sentence_loss",
        "masked_lm_accuracy",
        "next_sentence_accuracy",
    }
    assert (
        task.losses["next_sentence_loss"] is PRETRAINING.losses["sentence_order_loss"]
    )
    # One name, so that stopped runs of earlier releases go on.
    assert task.name == PRETRAINING.name


def test_the_task_follows_the_rows_and_the_choice():
    assert pretraining_task("sop", True) is pretraining_task(None, True) is PRETRAINING
    for objective in ("sop", "nsp", "none", None):
        assert pretraining_task(objective, False) is MASKED_LM
    with pytest.raises(
        ValueError, match=r"no sentence order .*--nosentence_order_loss"
    ):
        pretraining_task("none", True)


def test_losses_and_metrics_of_packed_rows_are_those_of_unpacked_ones():
    config = tiny_config(
        num_hidden_layers=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    model = PRETRAINING.build_model(config, seed=2)
    alone, packed, places = alone_and_packed()
    numbers = {}
    for kind, features in (("alone", alone), ("packed", packed)):
        batch = PRETRAINING.read_batch(as_batch(features))
        # The last document's row, or the last row, only fills the batch.
        is_used = np.ones(len(features["input_ids"]), np.float32)
        if kind == "packed":
            is_used[-1] = 0
        else:
            is_used[places.row == places.rows - 1] = 0
        batch["row_weight"] = is_used
        for training in (True, False):
            outputs = model(batch, training=training)
            for name, number in (PRETRAINING.losses | PRETRAINING.metrics).items():
                values, weights = number.values(outputs, batch), number.weights(batch)
                assert values.shape == weights.shape
                total = tf.reduce_sum(values * weights)
                numbers[kind, training, name] = (total, tf.reduce_sum(weights))
    for (kind, *key), expected in numbers.items():
        if kind == "alone":
            ours = numbers[("packed", *key)]
            np.testing.assert_allclose(ours, expected, rtol=1e-5)
    order = numbers["packed", True, "sentence_order_loss"]
    assert order[1] == np.sum(places.row < places.rows - 1)
    shape = (places.rows, MAX_DOCUMENTS, 2)
    assert outputs["sentence_order_logits"].shape == shape
