"""Old path of `albert_tf.text.packing`, kept for code that imports it."""

from albert_tf.text.packing import SPECIAL_PIECES_OF_PAIR as SPECIAL_PIECES_OF_PAIR
from albert_tf.text.packing import SPECIAL_PIECES_OF_SINGLE as SPECIAL_PIECES_OF_SINGLE
from albert_tf.text.packing import join_segments as join_segments
from albert_tf.text.packing import pack_rows as pack_rows
from albert_tf.text.packing import pack_segments as pack_segments
from albert_tf.text.packing import truncate_longest_first as truncate_longest_first
from albert_tf.text.packing import truncate_pair_randomly as truncate_pair_randomly
