"""Answers of a model to many rows, in batches of rows of about one length.

Letters in shapes: B rows of a batch, S tokens.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import tensorflow as tf

from albert_tf.serving.base import IDS, Tensors
from albert_tf.text.packing import join_segments
from albert_tf.text.tokenizer import AlbertTokenizer

# A row that is not padded: `input_ids` and `segment_ids`.
Row: TypeAlias = Mapping[str, Sequence[int]]
# A graph of a batch of rows.
Answer: TypeAlias = Callable[[Tensors], tf.Tensor]


def make_row(
    tokenizer: AlbertTokenizer, first: Sequence[int], second: Sequence[int] | None
) -> Row:
    """Joins the tokens of a text, or of two, with the special ones."""
    return join_segments(
        first, second, cls_id=tokenizer.cls_id, sep_id=tokenizer.sep_id
    )


def trace(answer: Callable[[Tensors], tf.Tensor]) -> Answer:
    """Makes a graph, once, of a function of a batch of `IDS`, int32 [B, S] each, that
    returns a tensor [B, ...]."""
    specs = {name: tf.TensorSpec([None, None], tf.int32) for name in IDS}
    traced = tf.function(answer, input_signature=[specs], autograph=False)
    return traced.get_concrete_function()


def answers(
    answer: Answer,
    rows: Sequence[Row],
    batch_size: int,
    pad_id: int,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields the answers to rows, from the longest rows to the shortest.

    The first batch needs the most memory, so that what cannot be done fails at once.

    Args:
      answer: from `trace`.
      rows: the rows.
      batch_size: most rows of a batch.
      pad_id: id of the tokens after the end of a row.
    Yields:
      Places of some rows, int [B], and the answers to them, [B, ...].
    """
    lengths = np.array([len(row["input_ids"]) for row in rows], int)
    order = np.argsort(-lengths, kind="stable")
    for first in range(0, len(rows), batch_size):
        places = order[first : first + batch_size]
        width = int(lengths[places[0]])
        batch = {name: np.zeros((len(places), width), np.int32) for name in IDS}
        batch["input_ids"][:] = pad_id
        for line, place in enumerate(places):
            length = lengths[place]
            batch["input_ids"][line, :length] = rows[place]["input_ids"]
            batch["segment_ids"][line, :length] = rows[place]["segment_ids"]
            batch["input_mask"][line, :length] = 1
        yield places, answer({n: tf.constant(v) for n, v in batch.items()}).numpy()
