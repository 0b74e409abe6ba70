"""Flags of masks that are drawn while rows are read."""

import dataclasses
from collections.abc import Sequence

from absl import flags

from albert_tf.records.masking_config import MaskingConfig, ReadTimeMasks
from albert_tf.records.sidecar import RecordSet, check_expected
from flags import common_flags, fields

FLAGS = flags.FLAGS

_OF_ROWS = (
    "masked_lm_prob",
    "ngram",
    "favor_shorter_ngram",
    "do_whole_word_mask",
    "replace_with_mask",
    "replace_with_random",
    "replace_with_keep",
)
_OF_RUN = ("masked_lm_prob_end", "masked_lm_prob_end_step")


def define_mask_flags() -> None:
    """Defines how rows that are stored without masks are masked."""
    common_flags.define_max_predictions_flag()
    fields.define(MaskingConfig, *_OF_ROWS)
    fields.define(ReadTimeMasks, *_OF_RUN)


def with_masks(
    train_sets: Sequence[RecordSet], eval_rows: RecordSet | None
) -> tuple[list[RecordSet], RecordSet | None]:
    """Says for rows that are stored without masks how to mask them.

    Args:
      train_sets: training rows, a set for each length; none: no training.
      eval_rows: rows to evaluate on.
    Returns:
      The same rows.
    Raises:
      ValueError: flags of masks are given for rows that are stored with masks, or have
        impossible values, or another max_predictions_per_seq than the rows.
    """
    decisive = [*train_sets] or [rows for rows in (eval_rows,) if rows]
    if not any(rows.compact_format for rows in decisive):
        for rows in decisive:
            _refuse_flags(rows)
    evaluated = _with_masks(eval_rows) if eval_rows else None
    return [_with_masks(rows) for rows in train_sets], evaluated


def _refuse_flags(rows: RecordSet) -> None:
    for name in (*_OF_ROWS, *_OF_RUN):
        if FLAGS[name].present:
            raise flags.Error(
                f"--{name} is for rows without masks, but those of {rows.paths[0]} are "
                "stored with masks: leave it out, or make rows with --masking=none."
            )
    expected = {"max_predictions_per_seq": _given_predictions() or None}
    check_expected(rows.paths[0], rows.metadata, expected)


def _with_masks(rows: RecordSet) -> RecordSet:
    if rows.compact_format is None:
        return rows
    masks = ReadTimeMasks.for_length(
        rows.compact_format.max_seq_length,
        _given_predictions(),
        **{name: FLAGS[name].value for name in (*_OF_ROWS, *_OF_RUN)},
        random_seed=FLAGS.random_seed,
        num_train_steps=FLAGS.num_train_steps,
    )
    return dataclasses.replace(rows, masks=masks)


def _given_predictions() -> int:
    """Returns `--max_predictions_per_seq`; 0: the rows or the rate say it."""
    flag = FLAGS["max_predictions_per_seq"]
    return flag.value if flag.present else 0
