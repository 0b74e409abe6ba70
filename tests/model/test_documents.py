"""Documents of a packed row are computed as if each had a row of its own."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.documents import (
    MASKED_LOGIT,
    mask_logits,
    positions_in_documents,
)
from albert_tf.model.encoder import AlbertEncoder
from helpers.packed import alone_and_packed, as_batch
from helpers.tiny import tiny_config

NAMES = ("input_ids", "input_mask", "segment_ids")
# Whether the graph trains, XLA compiles it, and its shapes vary.
FORMS = {
    "training": (True, False, False),
    "training, rows of tokens": (True, False, True),
    "XLA": (True, True, False),
    "inference": (False, False, False),
    "inference, shapes vary": (False, False, True),
}


def test_positions_restart_and_other_documents_are_hidden():
    ids = tf.constant([[1, 1, 1, 2, 3, 3, 0], [1, 2, 2, 2, 2, 0, 0]])
    assert positions_in_documents(ids).numpy()[:, :5].tolist() == [
        [0, 1, 2, 0, 0],
        [0, 0, 1, 2, 3],
    ]
    logits = mask_logits(tf.cast(ids > 0, tf.int32), ids).numpy()
    assert logits.shape == (2, 1, 7, 7)
    for row, documents in enumerate(ids.numpy()):
        seen = (documents[:, None] == documents) & (documents > 0)
        np.testing.assert_array_equal(logits[row, 0], np.where(seen, 0, MASKED_LOGIT))


def encode(model, batch, weights, form):
    """Sequence output, and the gradients of its weighted sum."""
    training, xla, varies = FORMS[form]

    def compute(batch, weights):
        with tf.GradientTape() as tape:
            outputs = model(batch, training=training, dropout_seed=tf.constant([1, 2]))
            loss = tf.reduce_sum(outputs["sequence_output"] * weights)
        gradients = tape.gradient(
            loss, model.trainable_variables, unconnected_gradients="zero"
        )
        return outputs["sequence_output"], list(map(tf.convert_to_tensor, gradients))

    shape = [None, None] if varies else batch["input_ids"].shape
    signature = [
        {name: tf.TensorSpec(shape, tf.int32) for name in batch},
        tf.TensorSpec([*shape, None]),
    ]
    function = tf.function(
        compute, jit_compile=xla, input_signature=signature, autograph=False
    )
    output, gradients = function(batch, weights)
    return output.numpy(), [gradient.numpy() for gradient in gradients]


@pytest.mark.parametrize(
    ("form", "rematerialize"),
    [
        ("training", "none"),
        ("training", "attention"),
        ("training, rows of tokens", "block"),
        ("XLA", "attention"),
        ("inference", "none"),
        ("inference, shapes vary", "none"),
    ],
)
def test_a_packed_row_gives_what_its_documents_give_alone(form, rematerialize):
    alone, packed, places = alone_and_packed()
    assert places.rows < 5 and places.number.max() > 1
    config = tiny_config(
        num_hidden_layers=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    model = AlbertEncoder(config, seed=5, rematerialize=rematerialize)
    weights = np.random.default_rng(6).normal(size=(*alone["input_ids"].shape, 12))
    weights = np.float32(weights * alone["input_mask"][..., None])
    document, column = np.nonzero(alone["input_mask"])
    target = places.row[document], places.column[document] + column
    moved = np.zeros((*packed["input_ids"].shape, 12), np.float32)
    moved[target] = weights[document, column]

    inputs = {name: as_batch(alone)[name] for name in NAMES}
    expected, gradients = encode(model, inputs, weights, form)
    inputs = {name: as_batch(packed)[name] for name in (*NAMES, "document_ids")}
    output, packed_gradients = encode(model, inputs, moved, form)
    np.testing.assert_allclose(output[target], expected[document, column], atol=1e-5)
    for ours, theirs in zip(packed_gradients, gradients, strict=True):
        scale = np.abs(theirs).max()
        np.testing.assert_allclose(ours, theirs, atol=1e-5 * max(scale, 1.0))


@pytest.mark.parametrize("form", ["training, rows of tokens", "inference"])
def test_a_packed_row_of_padding_alone_is_finite(form):
    _, packed, _ = alone_and_packed()
    inputs = {name: as_batch(packed)[name] for name in (*NAMES, "document_ids")}
    inputs["input_mask"][1] = 0
    model = AlbertEncoder(tiny_config(num_hidden_layers=1), seed=5)
    weights = np.ones((*inputs["input_ids"].shape, 12), np.float32)
    output, gradients = encode(model, inputs, weights, form)
    assert np.isfinite(output).all() and all(map(np.all, map(np.isfinite, gradients)))
