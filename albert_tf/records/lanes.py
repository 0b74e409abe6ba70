"""The order of training rows of one length: lanes through a shuffled set.

Each epoch, the set's rows, numbered in file order, are cut into segments at random
places, and the segments are put in random order. This sequence is cut into lanes, about
256 of them. A lane is read from its start to its end, 64 rows at a time, which are
shuffled. A batch takes the next rows of every lane, so it has rows from all over the
set. For example, two lanes in 7 rows, in batches of two rows, without the shuffling
of 64:

    rows in file order      0 1 2 3 4 5 6
    segments                0 1 2 | 3 4 | 5 6
    in random order         5 6   0 1 2   3 4
    lanes                   5 6 0 1 | 2 3 4
    batches                 [5 2] [6 3] [0 4] [1 ...

Epochs follow without a gap: a lane has as many rows of an epoch as there are places for
it in the batches. A batch smaller than 256 rows takes turns on the lanes with the next
ones (a round), so small batches are mixed as well. The order depends on the seed, the
epoch and the batch size only, not on the number of files or workers. A worker reads the
lanes of its own rows alone, in stretches of a segment, and a resumed run opens each
lane at its place.

How well it mixes: at any time the next rows are drawn from 64 * 256 rows, of 256 places
of the set, and a lane has about 16 segments or more (or so few rows that they are a
few shuffles), so a row's time in one epoch says next to nothing about that in another.

Sets of up to 10,000 rows are kept in memory by every worker and shuffled whole.

All of it is operations of tf.data: loaders that are made for random access (grain on
ArrayRecord files) need Python on every host, which a TPU pod's hosts do not run.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from albert_tf.records.row_index import RowIndex, counted

# About 30 MB of 512 tokens a row.
_ROWS_IN_MEMORY = 10_000
_LANES = 256
# Rows of a lane that are shuffled together: 256 lanes of them, of 512 tokens, are
# about 50 MB.
_ROWS_PER_CHUNK = 64
_SEGMENTS_PER_LANE = 16
_SEGMENT_ROWS = (64, 4096)
# Bytes read ahead: of all lanes of a worker, and of one at least and at most.
_BUFFERS, _BUFFER = 1 << 25, (1 << 16, 1 << 20)


@dataclasses.dataclass(frozen=True)
class Share:
    """The part of every global batch that belongs to one worker.

    Attributes:
      batch_size: rows of a global batch.
      first: this worker's first place in it.
      rows: its number of rows.
      replicas: its number of replicas, which share these rows in order.
    """

    batch_size: int
    first: int
    rows: int
    replicas: int

    @classmethod
    def of_worker(cls, batch_size: int, context: tf.distribute.InputContext) -> "Share":
        """Returns the part of the worker that a context names.

        Raises:
          ValueError: the replicas cannot share the batch evenly.
        """
        workers, replicas = context.num_input_pipelines, context.num_replicas_in_sync
        if batch_size % replicas:
            raise ValueError(
                f"A batch of {batch_size} rows cannot be shared by {replicas} "
                "replicas: use a multiple."
            )
        rows = batch_size // workers
        first = context.input_pipeline_id * rows
        return cls(batch_size, first, rows, replicas // workers)

    def cut(self, batch: tf.Tensor) -> tf.Tensor:
        """Cuts this worker's rows from a global batch."""
        return batch[self.first : self.first + self.rows]

    def per_replica(self, tensor: tf.Tensor) -> tf.Tensor:
        """Turns this worker's rows [n * rows] into rows of replicas, [..., R]."""
        return tf.reshape(tensor, [-1, self.rows // self.replicas])


@dataclasses.dataclass(frozen=True)
class Rounds:
    """The lanes that batches of a size take their rows from.

    A round is the fewest whole batches to which every lane gives the same number of
    rows, one after another.

    Attributes:
      lanes: number of lanes.
      block: rows that a lane gives to a round.
      steps: batches of a round.
    """

    lanes: int
    block: int
    steps: int

    @classmethod
    def of_batches(cls, batch_size: int, takes_turns: bool = True) -> "Rounds":
        """Returns about 256 lanes.

        Args:
          batch_size: rows of a global batch.
          takes_turns: False: small batches take their rows from the same lanes, one for
            each row.
        """
        divisors = [n for n in range(1, batch_size + 1) if batch_size % n == 0]
        lanes = min(divisors, key=lambda n: abs(math.log(n / _LANES)))
        steps = max(1, _LANES // batch_size) if takes_turns else 1
        return cls(lanes * steps, batch_size // lanes, steps)

    @property
    def rows(self) -> int:
        """Rows of a round."""
        return self.lanes * self.block

    def places(self, share: Share) -> np.ndarray:
        """Places in a round of the rows of one worker, in its order, int64."""
        own = share.first + np.arange(share.rows, dtype=np.int64)
        return (np.arange(self.steps)[:, None] * share.batch_size + own).ravel()

    def rows_before(self, lane: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Of the first rows of all rounds together, those of the lanes before one."""
        whole, rest = rows // self.rows, rows % self.rows
        return whole * self.block * lane + tf.minimum(lane * self.block, rest)

    def buffer(self, share: Share) -> int:
        """Bytes to read ahead of each lane of a worker."""
        lanes = len(np.unique(self.places(share) // self.block))
        return min(max(_BUFFERS // lanes, _BUFFER[0]), _BUFFER[1])

    def part(
        self, lane: tf.Tensor, begin: tf.Tensor, end: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns a lane's part of the rows at the places `begin` to `end` of a stream.

        Returns:
          Its begin and end in the sequence of these rows, lane after lane, int64 [].
        """
        start, stop = (
            self.rows_before(edge, end) - self.rows_before(edge, begin)
            for edge in (lane, lane + 1)
        )
        return start, stop


@tf.autograph.experimental.do_not_convert
def training_rows(
    index: RowIndex, share: Share, seed: int, first_step: int
) -> tf.data.Dataset:
    """Returns endless serialized rows of one worker, string [R] for each replica.

    Args:
      index: the places of the set's rows.
      share: the worker's part.
      seed: of the order.
      first_step: number of steps to skip.
    """
    if index.total_rows <= _ROWS_IN_MEMORY:
        return _shuffled_whole(index, share, seed, first_step)
    rounds, total = Rounds.of_batches(share.batch_size), index.total_rows
    first_round, skipped = divmod(first_step, rounds.steps)
    first_epoch = first_round * rounds.rows // total
    buffer = rounds.buffer(share)

    def read_lane(lane: tf.Tensor) -> tf.data.Dataset:
        epochs = tf.data.Dataset.range(first_epoch, tf.int64.max)
        return epochs.flat_map(lambda epoch: read_epoch(lane, epoch))

    def read_epoch(lane: tf.Tensor, epoch: tf.Tensor) -> tf.data.Dataset:
        begin, end = rounds.part(lane, epoch * total, (epoch + 1) * total)
        first, last = rounds.part(lane, 0, epoch * total)
        # Its rows of this epoch that came before the first round; 0 in later epochs.
        taken = tf.maximum(first_round * rounds.block - (last - first), 0)
        first_chunk = taken // _ROWS_PER_CHUNK
        seeds = tf.stack([tf.constant(seed, tf.int64), epoch])
        stretches = _stretches(
            _segments(total, rounds.lanes, seeds),
            begin + first_chunk * _ROWS_PER_CHUNK,
            end,
        )
        rows = index.read(*stretches, buffer)
        lane_seeds = tf.random.experimental.stateless_fold_in(seeds, lane)

        def shuffle(chunk: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
            chunk_seeds = tf.random.experimental.stateless_fold_in(lane_seeds, chunk)
            rows = tf.random.experimental.stateless_shuffle(rows, chunk_seeds)
            return rows[tf.maximum(taken - chunk * _ROWS_PER_CHUNK, 0) :]

        return rows.batch(_ROWS_PER_CHUNK).enumerate(first_chunk).map(shuffle)

    rows = _interleaved(rounds, share, read_lane).unbatch()
    return rows.skip(skipped * share.replicas)


@tf.autograph.experimental.do_not_convert
def evaluation_rows(
    index: RowIndex, share: Share, sample: np.ndarray | None
) -> tf.data.Dataset:
    """Returns serialized rows of one worker, their weights and numbers: each row once.

    Rows are in file order or, of a set that is too large for every worker to read, in
    lanes that are in file order.

    Args:
      index: the places of the set's rows.
      share: the worker's part.
      sample: places of the rows to read, rising, int64; None: all rows.
    Returns:
      String [R], float32 [R] and int64 [R] for each replica; the weight is 0 for rows
      that only fill the last batch, which are row 0 again.
    """
    if index.total_rows <= _ROWS_IN_MEMORY:
        rounds = Rounds(lanes=1, block=share.batch_size, steps=1)
    else:
        rounds = Rounds.of_batches(share.batch_size, takes_turns=False)
    total = index.total_rows if sample is None else len(sample)
    steps = -(-total // share.batch_size)
    buffer, places = rounds.buffer(share), rounds.places(share)
    chosen = None if sample is None else tf.constant(sample, tf.int64)

    def read_lane(lane: tf.Tensor) -> tf.data.Dataset:
        begin, end = rounds.part(lane, 0, total)
        if chosen is None:
            rows = index.read([begin], [end], buffer)
        else:
            rows = _read_some(index, chosen, begin, end, buffer)
        # The fill repeats a real row, so that all features have valid values.
        fill = index.read([0], [1], buffer)
        fill = fill.repeat().take(steps * rounds.block - (end - begin))
        return rows.concatenate(fill).batch(_ROWS_PER_CHUNK)

    def weigh(step: tf.Tensor, rows: tf.Tensor) -> tuple[tf.Tensor, ...]:
        is_row = step * share.batch_size + places < total
        begin, _ = rounds.part(tf.constant(places // rounds.block), 0, total)
        numbers = begin + step * rounds.block + places % rounds.block
        numbers = tf.where(is_row, numbers, 0)
        if chosen is not None:
            numbers = tf.where(is_row, tf.gather(chosen, numbers), 0)
        weights = tf.cast(is_row, tf.float32)
        return rows, share.per_replica(weights), share.per_replica(numbers)

    return _interleaved(rounds, share, read_lane).enumerate().map(weigh).unbatch()


def _shuffled_whole(
    index: RowIndex, share: Share, seed: int, first_step: int
) -> tf.data.Dataset:
    """Returns what `training_rows` does, from rows that are kept in memory."""
    total = index.total_rows
    first_epoch, offset = divmod(first_step * share.batch_size, total)

    def order(epoch: tf.Tensor) -> tf.Tensor:
        places = tf.range(total, dtype=tf.int64)
        seeds = tf.stack([tf.constant(seed, tf.int64), epoch])
        places = tf.random.experimental.stateless_shuffle(places, seeds)
        return places[tf.where(epoch == first_epoch, offset, 0) :]

    def cut(places: tf.Tensor) -> tf.Tensor:
        return share.per_replica(share.cut(places))

    places = tf.data.Dataset.range(first_epoch, tf.int64.max).map(order)
    places = places.rebatch(share.batch_size, drop_remainder=True).map(cut).unbatch()
    rows = index.read([0], [total], _BUFFER[1])
    return rows.batch(total).flat_map(
        lambda rows: places.map(lambda chosen: tf.gather(rows, chosen))
    )


def _segments(
    rows: int, lanes: int, seeds: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Cuts an epoch's rows into segments, in random order.

    Args:
      rows: their number.
      lanes: number of lanes.
      seeds: int64 [2], of the epoch.
    Returns:
      The segments' first rows, their sizes, and their first places in the epoch's
      sequence, int64.
    """
    fewest, most = _SEGMENT_ROWS
    size = min(max(rows // (lanes * _SEGMENTS_PER_LANE), fewest), most)
    count = -(-rows // size)
    # Random edges: with edges at multiples, rows whose places differ by a multiple
    # would come into one batch in every epoch.
    edge_seeds, order_seeds = (
        tf.random.experimental.stateless_fold_in(seeds, tf.constant(use, tf.int64))
        for use in (-1, -2)
    )
    edges = tf.range(1, count, dtype=tf.int64) * size - tf.random.stateless_uniform(
        [count - 1], edge_seeds, maxval=size, dtype=tf.int64
    )
    edges = tf.concat([[0], edges, [rows]], axis=0)
    order = tf.random.experimental.stateless_shuffle(tf.range(count), order_seeds)
    sizes = tf.gather(edges[1:] - edges[:-1], order)
    return tf.gather(edges[:-1], order), sizes, tf.cumsum(sizes, exclusive=True)


def _stretches(
    segments: tuple[tf.Tensor, tf.Tensor, tf.Tensor], begin: tf.Tensor, end: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the rows at the places `begin` to `end` of an epoch's sequence.

    Args:
      segments: from `_segments`.
      begin, end: int64 [].
    Returns:
      Begins and ends of stretches of rows, int64.
    """
    rows, sizes, places = segments
    first = tf.searchsorted(places + sizes, [begin], "right")[0]
    last = tf.searchsorted(places, [end], "left")[0]
    rows, sizes, places = rows[first:last], sizes[first:last], places[first:last]
    begins = rows + tf.maximum(begin - places, 0)
    return begins, rows + tf.minimum(end - places, sizes)


def _read_some(
    index: RowIndex, sample: tf.Tensor, begin: tf.Tensor, end: tf.Tensor, buffer: int
) -> tf.data.Dataset:
    """Returns the rows `begin` to `end` of a sample.

    Args:
      index: the places of the set's rows.
      sample: places of the rows to read, rising, int64.
      begin, end: int64 [].
      buffer: bytes that are read ahead.
    """
    own = sample[begin:end]
    # From the first of them to the last; a lane without rows reads nothing.
    first, last = own[:1], own[-1:]
    rows = index.read(first, last + 1, buffer).enumerate(tf.reduce_sum(first))

    def is_chosen(row: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
        return tf.gather(own, tf.searchsorted(own, [row]))[0] == row

    return counted(rows.filter(is_chosen).map(lambda _, row: row), end - begin)


def _interleaved(
    rounds: Rounds,
    share: Share,
    read_lane: Callable[[tf.Tensor], tf.data.Dataset],
) -> tf.data.Dataset:
    """Returns a worker's rows of every round, string [n, R], R for each replica.

    Args:
      rounds: the lanes.
      share: the worker's part.
      read_lane: reads a lane, as vectors of any sizes of serialized rows.
    """
    places = rounds.places(share)
    lanes, lane_of_row = np.unique(places // rounds.block, return_inverse=True)
    # Of a lane that two workers share, each drops the other's rows.
    own = lane_of_row * rounds.block + places % rounds.block
    blocks = tf.data.Dataset.from_tensor_slices(lanes).interleave(
        lambda lane: read_lane(lane).rebatch(rounds.block, drop_remainder=True),
        cycle_length=len(lanes),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )

    def cut(rows: tf.Tensor) -> tf.Tensor:
        rows = tf.reshape(rows, [-1])
        if len(own) < len(lanes) * rounds.block or np.any(np.diff(own) != 1):
            rows = tf.gather(rows, own)
        return share.per_replica(rows)

    return blocks.batch(len(lanes), drop_remainder=True).map(cut)
