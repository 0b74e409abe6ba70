"""Attention in a window: numbers of full attention with a mask, on every path."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.model import kernels, local_attention
from albert_tf.model.documents import MASKED_LOGIT
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.local_attention import Window
from helpers.tiny import tiny_config

HEADS, WIDTH = 3, 5


def parts_of(rows, length, seed=7):
    rng = np.random.default_rng(seed)
    shape = (rows, HEADS, length, WIDTH)
    return [tf.constant(rng.normal(size=shape), tf.float32) for _ in range(3)]


def mask_of(rows, length, hidden):
    visible = np.arange(length) < length - hidden * (np.arange(rows) == 0)[:, None]
    return tf.constant((1 - visible[:, None, None]) * MASKED_LOGIT, tf.float32)


def seen(length, window):
    """bool [S, S]: what each token sees, by the definition."""
    places = np.arange(length)
    near = np.abs(places[:, None] - places) <= window.size
    first = places < window.global_tokens
    return near | first | first[:, None]


def with_gradients(attend, parts):
    with tf.GradientTape() as tape:
        tape.watch(parts)
        context = attend(parts)
        loss = tf.reduce_sum(context**2 * tf.range(1.0, WIDTH + 1))
    return [context, *tape.gradient(loss, parts)]


@pytest.mark.parametrize(
    "window", [Window(1, 0), Window(4, 0), Window(4, 3), Window(6, 1)]
)
@pytest.mark.parametrize("length", [2, 5, 8, 9, 23])
@pytest.mark.parametrize("recompute", [False, True])
def test_numbers_are_those_of_full_attention_with_a_mask(window, length, recompute):
    parts, mask = parts_of(2, length), mask_of(2, length, length // 4)
    far = np.where(seen(length, window), 0.0, 2 * MASKED_LOGIT).astype(np.float32)

    def expected(parts):
        return kernels.attend(parts, mask + far, tf.identity)

    def found(parts):
        return local_attention.attend(parts, mask, window, tf.identity, recompute)

    pairs = zip(
        with_gradients(expected, parts), with_gradients(found, parts), strict=True
    )
    for place, (one, other) in enumerate(pairs):
        # Tokens that are padding have numbers without a meaning.
        kept = one.shape[2] - length // 4
        one, other = (each[:, :, :kept] for each in (one, other))
        if place == 0:
            np.testing.assert_allclose(one, other, atol=2e-6)
    # The gradients, of tokens alone.
    weight = tf.cast(mask[:, :, 0, :, tf.newaxis] == 0, tf.float32)

    def of_tokens(attend):
        return lambda parts: attend(parts) * weight

    for one, other in zip(
        with_gradients(of_tokens(expected), parts),
        with_gradients(of_tokens(found), parts),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("shape", [(2, None), (None, None)])
def test_the_length_need_not_be_known(shape):
    window = Window(4, 2)
    rows, length = shape
    signature = [tf.TensorSpec([rows, HEADS, length, WIDTH])] * 3
    signature.append(tf.TensorSpec([rows, 1, 1, length]))

    @tf.function(input_signature=signature)
    def attend(query, key, value, mask):
        parts = query, key, value
        return with_gradients(
            lambda parts: local_attention.attend(parts, mask, window, tf.identity),
            parts,
        )

    for length in (3, 5, 6, 17):
        parts, mask = parts_of(2, length), mask_of(2, length, 1)
        expected = with_gradients(
            lambda parts, mask=mask: local_attention.attend(
                parts, mask, window, tf.identity
            ),
            parts,
        )
        for one, other in zip(attend(*parts, mask), expected, strict=True):
            np.testing.assert_allclose(one, other, atol=2e-5)


def test_dropout_is_of_the_probabilities():
    parts, mask = parts_of(2, 11), mask_of(2, 11, 0)
    shapes = []

    def drop(probabilities):
        shapes.append(tuple(probabilities.shape))
        return probabilities * 2.0

    window = Window(3, 1)
    plain = local_attention.attend(parts, mask, window, tf.identity)
    doubled = local_attention.attend(parts, mask, window, drop)
    np.testing.assert_allclose(2 * plain, doubled, rtol=1e-5)
    # Four blocks of three tokens, which see nine around them and the first one.
    assert set(shapes) == {(2, HEADS, 4, 3, 10), (2, HEADS, 1, 11)}


# -- the encoder


def batch_of(length, hidden=3):
    rng = np.random.default_rng(3)
    mask = np.arange(length) < np.array([[length], [length - hidden]])
    return {
        "input_ids": tf.constant(rng.integers(5, 29, mask.shape), tf.int32),
        "input_mask": tf.constant(mask, tf.int32),
        "segment_ids": tf.constant(rng.integers(0, 2, mask.shape), tf.int32),
    }


def encoder(**changes):
    changes = {"initializer_range": 0.3, "max_position_embeddings": 32, **changes}
    return AlbertEncoder(tiny_config(**changes), seed=5)


def outputs_of(model, batch, path):
    """Outputs at tokens on one of the paths, and with it gradients if it trains."""

    def run(batch):
        training = path in ("training", "recomputed")
        seed = tf.constant([3, 5]) if training else None
        with tf.GradientTape() as tape:
            outputs = model(batch, training=training, dropout_seed=seed)
            tokens = tf.cast(batch["input_mask"], tf.float32)[..., tf.newaxis]
            sequence = outputs["sequence_output"] * tokens
            loss = tf.reduce_sum(sequence**3)
        if path not in ("training", "recomputed", "xla"):
            return [sequence]
        return [sequence, *tape.gradient(loss, model.blocks[0][0].trainable_variables)]

    if path == "any length":
        spec = tf.TensorSpec([None, None], tf.int32)
        return tf.function(run, input_signature=[dict.fromkeys(batch, spec)])(batch)
    model.skips_padding = path != "call"
    return tf.function(run, jit_compile=path == "xla")(batch)


PATHS = ("inference", "call", "any length", "training", "xla")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("length", [13, 27])
def test_a_window_that_covers_the_row_changes_no_bit(path, length):
    batch = batch_of(length)
    full = outputs_of(encoder(), batch, path)
    covered = encoder(attention_window=length - 1, global_attention_tokens=2)
    for one, other in zip(full, outputs_of(covered, batch, path), strict=True):
        assert np.array_equal(one, other)
    narrow = encoder(attention_window=length - 2)
    assert np.abs(full[0] - outputs_of(narrow, batch, path)[0]).max() > 1e-3


def test_all_paths_agree():
    batch = batch_of(27)
    local = {"attention_window": 4, "global_attention_tokens": 1}
    model = encoder(**local)
    expected = outputs_of(model, batch, "call")[0]
    for path in PATHS:
        found = outputs_of(model, batch, path)
        np.testing.assert_allclose(expected, found[0], atol=1e-4)
    compiled = outputs_of(model, batch, "xla")
    again = AlbertEncoder(model.config, seed=5, rematerialize="attention")
    recomputed = outputs_of(again, batch, "recomputed")
    for one, other in zip(compiled, recomputed, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-3)


def test_packed_rows_are_refused():
    batch = batch_of(27)
    batch["document_ids"] = tf.zeros_like(batch["input_ids"])
    with pytest.raises(ValueError, match="rows of one document, without document_ids"):
        encoder(attention_window=4)(batch)


def test_a_configuration_says_what_a_token_sees():
    assert Window.of(tiny_config()) is None
    assert Window.of(tiny_config(attention_window=4)) == (4, 0)
    assert "attention_window" not in tiny_config().to_dict()
    values = tiny_config(attention_window=4, global_attention_tokens=2).to_dict()
    assert Window.of(AlbertConfig.from_dict(values)) == (4, 2)
    for wrong in ({"global_attention_tokens": 2}, {"attention_window": 0}):
        with pytest.raises(ValueError, match="attention_window"):
            tiny_config(**wrong)
    with pytest.raises(ValueError, match=r"at least as many tokens\. Received 5 and 4"):
        tiny_config(attention_window=4, global_attention_tokens=5)


def test_formats_without_a_window_are_refused():
    config = tiny_config(attention_window=4)
    with pytest.raises(ValueError, match="An ONNX file has no attention_window"):
        config.require_full_attention("An ONNX file")
    # A window that covers all rows is none.
    covered = config.max_position_embeddings - 1
    tiny_config(attention_window=covered).require_full_attention("An ONNX file")
