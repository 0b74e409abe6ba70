"""Masks compact rows while they are read: strings -> features of a masked row.

Many rows at once, in TensorFlow: a TPU pod's hosts run no Python.
"""

import dataclasses

import tensorflow as tf

from albert_tf.records.compact import CompactFormat
from albert_tf.records.compact_tf import PackedRows, pack_text, parse_text
from albert_tf.records.masking_config import MaskingConfig
from albert_tf.records.ngrams_tf import (
    DrawsLayout,
    MoreDraws,
    choose_ngrams,
    draws_layout,
    find_words,
)


def masked_rows(
    serialized: tf.Tensor,
    draws: tf.Tensor,
    draw_more: MoreDraws,
    rates: tf.Tensor,
    rows_format: CompactFormat,
    masking: MaskingConfig,
    length: int = 0,
) -> dict[str, tf.Tensor]:
    """Parses compact rows, cuts them to a length, and draws orders (`sop`) and masks.

    Args:
      serialized: string [R].
      draws: float32 [R, K] in [0, 1), as `ngrams_tf.draws_layout` says.
      draw_more: numbers for rows that need more of them, which few do.
      rates: float64 [R], share of each row's tokens to mask.
      rows_format: what the sidecar says.
      masking: how to mask; its rate is not used.
      length: S, tokens in a row; 0: the format's longest. Of longer rows the longer
        segment loses its last tokens, as in `cutting`.
    Returns:
      The features of `pretraining_features` without `token_boundary`; int32, weights
      float32. Every row has a prediction.
    Raises:
      tf.errors.InvalidArgumentError: as `parse_text`.
    """
    text = parse_text(serialized, rows_format)
    if length:
        rows_format = dataclasses.replace(rows_format, max_seq_length=length)
    layout = draws_layout(rows_format.max_seq_length, masking)
    swapped = tf.zeros_like(text.length, tf.bool)
    if rows_format.pair_objective == "sop":
        swapped = (draws[:, layout.order] < 0.5) & (text.label >= 0)
    packed = pack_text(text, rows_format, swapped)
    wanted = tf.round(tf.cast(packed.last + 1, tf.float64) * rates)
    most = masking.max_predictions_per_seq
    budget = tf.clip_by_value(tf.cast(wanted, tf.int32), 1, most)
    places, counts = _choose_tokens(packed, budget, draws, layout, draw_more, masking)
    columns = tf.range(rows_format.max_seq_length)
    is_real = columns <= packed.last[:, None]
    in_second = is_real & (columns > packed.separator[:, None])
    return {
        **_replace(
            packed.input_ids, places, counts, draws, layout, rows_format, masking
        ),
        "input_mask": tf.cast(is_real, tf.int32),
        "segment_ids": tf.cast(in_second, tf.int32),
        "next_sentence_labels": packed.label[:, None],
    }


def _choose_tokens(
    packed: PackedRows,
    budget: tf.Tensor,
    draws: tf.Tensor,
    layout: DrawsLayout,
    draw_more: MoreDraws,
    masking: MaskingConfig,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Chooses tokens so that every row has one; as `choose_ngrams`.

    If no word of a row fits its budget (text without spaces, or a row of a few tokens),
    each token of that row counts as a word: a row without a prediction would teach
    nothing.
    """
    size = packed.input_ids.shape[1]
    columns = tf.range(size)

    def text_tokens() -> tf.Tensor:
        is_text = (columns > 0) & (columns < packed.last[:, None])
        return is_text & (columns != packed.separator[:, None])

    def choose(starts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        words = find_words(packed, starts, masking.ngram)
        return choose_ngrams(words, budget, draws, layout, draw_more, masking, size)

    if not masking.do_whole_word_mask:
        return choose(text_tokens())
    places, counts = choose(packed.starts)
    # Of the words that fit, at least the first is chosen.
    is_empty = counts == 0
    return tf.cond(
        tf.reduce_any(is_empty),
        lambda: choose(packed.starts | (text_tokens() & is_empty[:, None])),
        lambda: (places, counts),
    )


def _replace(
    input_ids: tf.Tensor,
    places: tf.Tensor,
    counts: tf.Tensor,
    draws: tf.Tensor,
    layout: DrawsLayout,
    rows_format: CompactFormat,
    masking: MaskingConfig,
) -> dict[str, tf.Tensor]:
    """Replaces masked tokens.

    Args:
      input_ids: int32 [R, S].
      places, counts: from `choose_ngrams`.
      draws, rows_format, masking: as for `masked_rows`.
      layout: the places of the numbers of `draws`.
    Returns:
      The rows, and the features of their predictions.
    """
    size, most = rows_format.max_seq_length, masking.max_predictions_per_seq
    offset = tf.range(tf.shape(input_ids)[0])[:, None] * size
    places = tf.RaggedTensor.from_row_lengths(places, counts, validate=False)
    places = places.to_tensor(default_value=-1, shape=[None, most])
    is_used = places >= 0
    # Unused places put [CLS] where it is.
    places = tf.maximum(places, offset)
    flat_ids = tf.reshape(input_ids, [-1])
    labels = tf.gather(flat_ids, places)
    as_mask, or_kept = masking.replacement_bounds
    kinds = draws[:, layout.kinds]
    ordinary = rows_format.ordinary_ids
    drawn = tf.cast(draws[:, layout.tokens] * float(len(ordinary)), tf.int32)
    drawn = tf.gather(ordinary, tf.minimum(drawn, len(ordinary) - 1))
    new = tf.where(kinds < or_kept, labels, drawn)
    new = tf.where((kinds < as_mask) & is_used, rows_format.mask_id, new)
    new = tf.where(is_used, new, rows_format.cls_id)
    masked = tf.tensor_scatter_nd_update(flat_ids, places[:, :, None], new)
    return {
        "input_ids": tf.reshape(masked, [-1, size]),
        "masked_lm_positions": places - offset,
        "masked_lm_ids": tf.where(is_used, labels, 0),
        "masked_lm_weights": tf.cast(is_used, tf.float32),
    }
