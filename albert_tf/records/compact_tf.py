"""Reads compact rows: strings -> tokens in the layout of a model's input.

Many rows at once, in TensorFlow: a TPU pod's hosts run no Python.
"""

from typing import NamedTuple

import tensorflow as tf

from albert_tf.records.compact import CompactFormat
from albert_tf.records.features import compact_features
from albert_tf.records.reader import parsing_spec
from albert_tf.text import packing


class TextRows(NamedTuple):
    """R rows of two segments as stored, T places for their tokens.

    Attributes:
      tokens: int32 [R, T], ids, then zeros; with `_STARTS_WORD` added for the first
        token of a word.
      length: int32 [R], tokens of both segments.
      split: int32 [R], tokens of the first segment in the order of the text.
      label: int32 [R], the label that data creation fixed.
    """

    tokens: tf.Tensor
    length: tf.Tensor
    split: tf.Tensor
    label: tf.Tensor


class PackedRows(NamedTuple):
    """R rows of S tokens, [CLS] a [SEP] b [SEP] and padding.

    Attributes:
      input_ids: int32 [R, S].
      starts: bool [R, S], the first token of each word.
      separator: int32 [R], column of the first [SEP].
      last: int32 [R], column of the second.
      label: int32 [R]; 1 for swapped segments, or as stored.
    """

    input_ids: tf.Tensor
    starts: tf.Tensor
    separator: tf.Tensor
    last: tf.Tensor
    label: tf.Tensor


# A bit above all ids; vocabularies have far fewer.
_STARTS_WORD = 1 << 30


def parse_text(serialized: tf.Tensor, layout: CompactFormat) -> TextRows:
    """Parses serialized compact rows.

    Args:
      serialized: string [R].
      layout: what the sidecar says.
    Raises:
      tf.errors.InvalidArgumentError: a row is longer than the sidecar says, or has no
        two segments.
    """
    rows = tf.io.parse_example(serialized, parsing_spec(compact_features()))
    most = layout.max_text_tokens
    size = layout.token_bytes
    kind = tf.uint16 if size == 2 else tf.int32
    tokens = tf.io.decode_raw(rows["tokens"], kind, fixed_length=most * size)
    length = tf.strings.length(rows["tokens"]) // size
    split = tf.cast(rows["segment_split"], tf.int32)
    is_wrong = (length > most) | (split < 1) | (split >= length)
    check = tf.debugging.Assert(
        ~tf.reduce_any(is_wrong),
        ["A row has other lengths than its sidecar says: make the records again."],
    )
    with tf.control_dependencies([check]):
        tokens = tf.cast(tokens, tf.int32)
    tokens = tf.ensure_shape(tokens, [None, most])
    return TextRows(
        tokens + _word_starts(rows["word_starts"], most),
        length,
        split,
        tf.cast(rows["next_sentence_labels"][:, 0], tf.int32),
    )


def _word_starts(strings: tf.Tensor, most: int) -> tf.Tensor:
    """Returns `_STARTS_WORD` where a bit is set, else 0; int32 [R, most]."""
    size = -(-most // 8)
    bytes_of_row = tf.io.decode_raw(strings, tf.uint8, fixed_length=size)
    # The eight bits of each byte, by a table of all bytes.
    table = tf.constant(
        [[_STARTS_WORD * (byte >> bit & 1) for bit in range(8)] for byte in range(256)],
        tf.int32,
    )
    bits = tf.gather(table, tf.cast(bytes_of_row, tf.int32))
    return tf.reshape(bits, [-1, size * 8])[:, :most]


def pack_text(text: TextRows, layout: CompactFormat, swapped: tf.Tensor) -> PackedRows:
    """Packs rows into the layout of a model's input.

    Args:
      text: R rows.
      layout: their format, or that of shorter rows: the longer segment then loses its
        last tokens, whichever comes first.
      swapped: bool [R], rows whose second segment comes first.
    """
    most = text.tokens.shape[1]
    zero = tf.zeros_like(text.split)
    first = tf.where(swapped, text.length - text.split, text.split)
    second = text.length - first
    if layout.max_text_tokens < most:
        room = layout.max_text_tokens
        first, second = packing.kept_lengths(first, second, room, "longest", tf)
    separator, last = first + 1, first + second + 2
    shift = tf.where(swapped, text.split, zero) - 1
    shift_b = tf.where(swapped, zero, text.split) - separator - 1
    columns = tf.range(layout.max_seq_length)
    # Special tokens and padding read any token here and are overwritten below.
    source = columns + tf.where(
        columns <= separator[:, None], shift[:, None], shift_b[:, None]
    )
    source = tf.clip_by_value(source, 0, most - 1)
    rows = tf.range(tf.shape(source)[0])
    tokens = tf.gather(tf.reshape(text.tokens, [-1]), source + (rows * most)[:, None])
    tokens = tf.where(columns < last[:, None], tokens, layout.pad_id)
    specials = tf.stack([tf.zeros_like(rows), separator, last], axis=1)
    places = tf.stack([tf.broadcast_to(rows[:, None], tf.shape(specials)), specials], 2)
    ids = tf.constant([layout.cls_id, layout.sep_id, layout.sep_id])
    tokens = tf.tensor_scatter_nd_update(
        tokens, places, tf.broadcast_to(ids, tf.shape(specials))
    )
    return PackedRows(
        tokens & (_STARTS_WORD - 1),
        tokens >= _STARTS_WORD,
        separator,
        last,
        tf.where(swapped, 1, text.label),
    )
