"""Random numbers of rows: each row's are a function of a seed and its place alone.

Philox is a counter-based generator: four numbers follow from a key and a counter. The
row at place n gets the counters from n * K / 4 on, so the numbers of neighboring rows
are one range of counters and are drawn in one operation.
"""

import tensorflow as tf

_PHILOX = 1
_PER_COUNTER = 4


def round_up(count: int) -> int:
    """Returns the next multiple of the numbers that one counter gives."""
    return -(-count // _PER_COUNTER) * _PER_COUNTER


def draw_range(
    seed: tuple[int, int], first: tf.Tensor, rows: int, count: int
) -> tf.Tensor:
    """Returns the numbers of rows at neighboring places.

    Args:
      seed: a seed, and the purpose of the numbers.
      first: place of the first row, int64 [].
      rows: number of rows.
      count: K, numbers of a row, a multiple of 4.
    Returns:
      float32 [rows, K] in [0, 1).
    Raises:
      ValueError: K is no multiple of 4.
    """
    if count % _PER_COUNTER:
        raise ValueError(f"count must be a multiple of 4. Received {count}.")
    key, _ = tf.raw_ops.StatelessRandomGetKeyCounter(seed=tf.constant(seed, tf.int64))
    counter = tf.cast(tf.stack([first * (count // _PER_COUNTER), 0]), tf.uint64)
    return tf.raw_ops.StatelessRandomUniformV2(
        shape=[rows, count], key=key, counter=counter, alg=_PHILOX, dtype=tf.float32
    )


def draw_each(seed: tuple[int, int], places: tf.Tensor, count: int) -> tf.Tensor:
    """Returns the numbers of rows at any places, which takes an operation a row.

    Args:
      seed, count: as for `draw_range`.
      places: int64 [R].
    Returns:
      float32 [R, K] in [0, 1).
    """
    return tf.map_fn(
        lambda place: draw_range(seed, place, 1, count)[0],
        places,
        fn_output_signature=tf.TensorSpec([count], tf.float32),
    )
