"""Old path of `albert_tf.text.packing`, kept for code that imports it."""

from albert_tf.text.packing import SPECIAL_TOKENS_OF_PAIR as SPECIAL_PIECES_OF_PAIR
from albert_tf.text.packing import SPECIAL_TOKENS_OF_SINGLE as SPECIAL_PIECES_OF_SINGLE
from albert_tf.text.packing import (
    join_segments,
    pack_rows,
    pack_segments,
    truncate_longest_first,
    truncate_pair_randomly,
)

__all__ = [
    "SPECIAL_PIECES_OF_PAIR",
    "SPECIAL_PIECES_OF_SINGLE",
    "join_segments",
    "pack_rows",
    "pack_segments",
    "truncate_longest_first",
    "truncate_pair_randomly",
]
