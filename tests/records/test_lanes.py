"""Lanes: one order for any number of files and workers, opened at any step."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.records import batches, lanes
from albert_tf.records.lanes import Rounds, Share
from albert_tf.records.row_index import open_index
from helpers.numbered import (
    change_sidecar,
    contexts,
    evaluation,
    numbered_set,
    read_again,
    together,
    training,
)

ROWS, SIZE, EPOCHS = 700, 8, 3
FILES = (300, 0, 129, 71, 200)
# (rows of each file, batch size, workers, replicas of each)
CASES = (
    ((0, 97, 130, 0, 71), 12, 2, 1),
    ((131, 2), 30, 3, 2),
    ((90,), 140, 2, 1),
)


@pytest.fixture(scope="module", autouse=True)
def small_lanes():
    """Sizes at which a few hundred rows are a large set."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanes, "_ROWS_IN_MEMORY", 0)
        patch.setattr(lanes, "_LANES", 16)
        patch.setattr(lanes, "_ROWS_PER_CHUNK", 6)
        patch.setattr(lanes, "_SEGMENT_ROWS", (5, 40))
        patch.setattr(lanes, "_SEGMENTS_PER_LANE", 4)
        yield


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return numbered_set(tmp_path_factory.mktemp("rows"), FILES)


@pytest.fixture(scope="module")
def batches_in_order(rows):
    """The batches of three epochs, [steps, B]."""
    return training(rows, SIZE, -(-EPOCHS * ROWS // SIZE))


@pytest.fixture(scope="module")
def times(batches_in_order):
    """For each epoch the place of each row in its order, [3, rows]."""
    order = batches_in_order.ravel()[: EPOCHS * ROWS].reshape(EPOCHS, ROWS)
    return np.argsort(order, axis=1)


@pytest.mark.parametrize(("files", "size", "workers", "per_worker"), CASES)
def test_workers_that_start_at_any_step_have_the_batches_of_one(
    files, size, workers, per_worker, tmp_path
):
    rows, total = numbered_set(tmp_path, files), sum(files)
    steps = -(-3 * total // size) + 1
    order = training(rows, size, steps)
    for epoch in range(3):
        found = order.ravel()[epoch * total : (epoch + 1) * total]
        assert sorted(found) == list(range(total))
    # Also in the middle of a round, and where a batch spans two epochs.
    rng = np.random.default_rng(size)
    for worker, context in enumerate(contexts(workers, per_worker)):
        first = int(rng.integers(1, steps))
        rest = (steps - first) * per_worker
        found = training(rows, size, rest, first, context=context)
        own = np.split(order, workers, axis=1)[worker][first:]
        np.testing.assert_array_equal(together([found], per_worker), own)


@pytest.mark.parametrize("files", [(ROWS,), (100,) * 7])
def test_the_order_does_not_depend_on_the_files(files, batches_in_order, tmp_path):
    found = training(numbered_set(tmp_path, files), SIZE, 100)
    np.testing.assert_array_equal(found, batches_in_order[:100])


def test_the_order_depends_on_the_seed_alone(rows, batches_in_order):
    tf.random.set_seed(1)
    found = training(rows, SIZE, 20)
    np.testing.assert_array_equal(found, batches_in_order[:20])
    assert np.any(training(rows, SIZE, 20, seed=6) != found)


def test_places_and_times_of_rows_say_nothing_about_each_other(times):
    assert np.array_equal(np.sort(times), np.tile(np.arange(ROWS), (EPOCHS, 1)))
    # Segments are moved as a whole, and there are about 70 of them.
    for some, other in itertools.pairwise([np.arange(ROWS), *times]):
        assert abs(np.corrcoef(some, other)[0, 1]) < 0.3


def test_batches_have_rows_from_all_over_the_set(batches_in_order):
    """Two rounds, 32 rows, touch about as many of 35 stretches as 32 random ones."""
    stretches = batches_in_order[:260].reshape(-1, 32) // 20
    assert np.mean([len(np.unique(some)) for some in stretches]) > 16


def test_rows_that_meet_in_one_epoch_are_apart_in_the_next(times):
    met = [batch[:, None] == batch[None, :] for batch in times // SIZE]
    again = (met[0] & met[1]).sum() - ROWS
    # By chance one pair in 88 meets again.
    assert again < 0.05 * (met[0].sum() - ROWS)


def test_records_without_an_index_give_the_same_order(batches_in_order, tmp_path):
    rows = numbered_set(tmp_path, FILES)
    for path in rows.paths:
        change_sidecar(path, format_version=1, index=None)
    older = read_again(rows)
    assert older.offsets == (None,) * 5 and older.sha256 == rows.sha256
    found = training(older, SIZE, 60, first_step=200)
    np.testing.assert_array_equal(found, batches_in_order[200:260])


@pytest.mark.parametrize(
    ("case", "most"), [(CASES[0], None), (CASES[1], 37), (CASES[2], 3)]
)
def test_evaluation_has_every_row_once_whatever_the_workers(case, most, tmp_path):
    files, size, workers, per_worker = case
    rows, total = numbered_set(tmp_path, files), sum(files)
    sample, expected = None, np.arange(total)
    if most:
        chosen = np.random.default_rng(size).choice(total, most, replace=False)
        sample = expected = np.sort(chosen)
    numbers, weights = evaluation(rows, size, sample=sample)
    assert sorted(numbers[weights > 0]) == expected.tolist()
    assert len(numbers) == batches.evaluation_steps(rows, size, sample)
    assert np.all(np.diff(weights.ravel()) <= 0)
    parts = [
        evaluation(rows, size, context, sample)
        for context in contexts(workers, per_worker)
    ]
    for found, whole in zip(zip(*parts, strict=True), (numbers, weights), strict=True):
        np.testing.assert_array_equal(together(found, per_worker), whole)


@pytest.mark.parametrize("in_memory", [0, 10_000])
@pytest.mark.parametrize(("case", "most"), [(CASES[0], None), (CASES[1], 37)])
def test_evaluation_knows_the_numbers_of_its_rows(
    case, most, in_memory, tmp_path, monkeypatch
):
    monkeypatch.setattr(lanes, "_ROWS_IN_MEMORY", in_memory)
    files, size, workers, per_worker = case
    rows = numbered_set(tmp_path, files)
    sample = most and np.sort(np.random.default_rng(1).permutation(sum(files))[:most])
    share = Share.of_worker(size, contexts(workers, per_worker)[-1])
    found = list(lanes.evaluation_rows(open_index(rows), share, sample))
    for serialized, weights, numbers in found:
        spec = {"number": tf.io.FixedLenFeature([], tf.int64)}
        read = tf.io.parse_example(serialized, spec)["number"].numpy()
        assert np.array_equal(read[weights > 0], numbers[weights > 0])
        assert not numbers[weights == 0].numpy().any()
    assert sum(tf.reduce_sum(weights) for _, weights, _ in found) > 0


def test_a_small_set_is_evaluated_in_file_order(rows, monkeypatch):
    monkeypatch.setattr(lanes, "_ROWS_IN_MEMORY", ROWS)
    numbers, weights = evaluation(rows, 16)
    assert numbers[weights > 0].tolist() == list(range(ROWS))


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (1, Rounds(16, 1, 16)),
        (3, Rounds(15, 1, 5)),
        (16, Rounds(16, 1, 1)),
        (18, Rounds(18, 1, 1)),
        (96, Rounds(16, 6, 1)),
        (1000, Rounds(20, 50, 1)),
        (17, Rounds(17, 1, 1)),
    ],
)
def test_batches_of_any_size_have_about_so_many_lanes(size, expected):
    assert Rounds.of_batches(size) == expected


def test_a_worker_reads_the_lanes_of_its_own_rows():
    rounds = Rounds.of_batches(32)
    share = Share.of_worker(32, tf.distribute.InputContext(4, 3, 4))
    read = rounds.places(share) // rounds.block
    assert read.tolist() == [12, 12, 13, 13, 14, 14, 15, 15]


@pytest.mark.parametrize("size", [1, 5, 6, 7, 64])
def test_parts_of_lanes_are_the_stream_cut_in_any_place(size):
    """Against counting the places of a stream one by one."""
    rounds = Rounds.of_batches(size)
    rng = np.random.default_rng(size)
    begin, end = np.sort(rng.integers(0, 500, 2))
    lane_of = np.arange(begin, end) % rounds.rows // rounds.block
    counts = np.bincount(lane_of, minlength=rounds.lanes)
    edges = np.cumsum([0, *counts])
    for lane in range(rounds.lanes):
        found = rounds.part(tf.constant(lane, tf.int64), int(begin), int(end))
        assert [int(edge) for edge in found] == edges[lane : lane + 2].tolist()
