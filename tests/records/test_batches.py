"""Batches are one stream, whatever the files, the workers and the step it starts at."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.records import batches, encoding
from albert_tf.records.reader import read_rows
from albert_tf.records.sidecar import read_record_set
from helpers import tiny

ROWS_PER_FILE = (5, 8, 3)
TOTAL = sum(ROWS_PER_FILE)
ONE = tf.distribute.InputContext(1, 0, 1)
SEED = 11


@pytest.fixture(scope="module")
def record_set(tmp_path_factory):
    """16 rows, no two of them equal, in three files."""
    folder = tmp_path_factory.mktemp("records")
    paths = [
        tiny.write_rows(folder / f"{index}.tfrecord", rows, seed=index)
        for index, rows in enumerate(ROWS_PER_FILE)
    ]
    return read_record_set(paths, {})


@pytest.fixture(scope="module")
def rows_in_order(record_set):
    read = [row for path in record_set.paths for row in read_rows(path)]
    assert len({key(row) for row in read}) == TOTAL
    return read


def key(row):
    """The values that identify a row."""
    return tuple(np.concatenate([row["input_ids"], row["masked_lm_ids"]]).tolist())


def keys(stream):
    """Keys of the rows of some batches, in order."""
    return [
        key({name: values[index] for name, values in batch.items()})
        for batch in stream
        for index in range(len(batch["input_ids"]))
    ]


def training(record_set, batch_size, steps, first_step=0, seed=SEED, context=ONE):
    stream = batches.training_batches(record_set, batch_size, seed, first_step, context)
    return list(itertools.islice(stream.as_numpy_iterator(), steps))


def assert_equal_batches(some, others):
    assert len(some) == len(others)
    for batch, other in zip(some, others, strict=True):
        assert set(batch) == set(other)
        for name in batch:
            assert np.array_equal(batch[name], other[name]), name


def joined(parts):
    return {n: np.concatenate([part[n] for part in parts]) for n in parts[0]}


def together(workers, per_worker):
    """Global batches from the per-replica batches of each worker."""
    steps = range(0, len(workers[0]), per_worker)
    return [
        joined([part for own in workers for part in own[step : step + per_worker]])
        for step in steps
    ]


@pytest.mark.parametrize("batch_size", [3, 4, 16])
def test_every_epoch_has_every_row_once_in_an_order_of_its_own(
    batch_size, record_set, rows_in_order
):
    steps = -(-3 * TOTAL // batch_size)
    order = keys(training(record_set, batch_size, steps))
    epochs = [order[i : i + TOTAL] for i in range(0, 3 * TOTAL, TOTAL)]
    expected = [key(row) for row in rows_in_order]
    for epoch, other in itertools.pairwise([expected, *epochs]):
        assert sorted(epoch) == sorted(expected)
        assert epoch != other


def test_batches_hold_whole_rows(record_set, rows_in_order):
    by_key = {key(row): row for row in rows_in_order}
    for batch in training(record_set, 4, 4):
        for index, name in itertools.product(range(4), record_set.features):
            row = by_key[key({n: values[index] for n, values in batch.items()})]
            assert np.array_equal(batch[name][index], row[name])


def test_order_depends_on_the_seed_and_not_on_the_batch_size(record_set):
    orders = {
        (seed, size): keys(training(record_set, size, 48 // size, seed=seed))
        for seed in (SEED, SEED + 1)
        for size in (3, 4, 48)
    }
    for seed in (SEED, SEED + 1):
        assert orders[seed, 3] == orders[seed, 4] == orders[seed, 48]
    assert orders[SEED, 4] != orders[SEED + 1, 4]


def test_order_does_not_depend_on_the_seed_of_the_program(record_set):
    order = keys(training(record_set, 4, 8))
    drawn = []
    for seed in (1, 2, 1):
        tf.random.set_seed(seed)
        assert keys(training(record_set, 4, 8)) == order
        drawn.append(float(tf.random.uniform([])))
    # Nor does reading batches set it.
    assert drawn[0] == drawn[2] != drawn[1]


@pytest.mark.parametrize(
    ("batch_size", "first_step"),
    [
        pytest.param(4, 2, id="inside epoch 0"),
        pytest.param(4, 4, id="at the edge of epoch 0"),
        pytest.param(4, 13, id="in epoch 3"),
        pytest.param(6, 2, id="where a batch spans two epochs"),
        pytest.param(6, 8, id="at an edge after such batches"),
        pytest.param(40, 1, id="batches of several epochs"),
    ],
)
def test_a_resumed_stream_continues_the_first_one(batch_size, first_step, record_set):
    whole = training(record_set, batch_size, first_step + 6)
    resumed = training(record_set, batch_size, 6, first_step=first_step)
    assert_equal_batches(resumed, whole[first_step:])


@pytest.mark.parametrize(("workers", "per_worker"), [(1, 2), (3, 1), (2, 2)])
def test_the_parts_of_all_replicas_are_the_batches_of_one(
    workers, per_worker, record_set
):
    replicas, batch_size = workers * per_worker, 12
    contexts = [
        tf.distribute.InputContext(workers, w, replicas) for w in range(workers)
    ]
    one_training = training(record_set, batch_size, 5, first_step=3)
    parts = [
        training(record_set, batch_size, 5 * per_worker, first_step=3, context=context)
        for context in contexts
    ]
    assert_equal_batches(together(parts, per_worker), one_training)
    one_evaluation = evaluation(record_set, batch_size)
    parts = [evaluation(record_set, batch_size, context) for context in contexts]
    assert_equal_batches(together(parts, per_worker), one_evaluation)


def evaluation(record_set, batch_size, context=ONE):
    stream = batches.evaluation_batches(record_set, batch_size, context)
    return list(stream.as_numpy_iterator())


@pytest.mark.parametrize("batch_size", [1, 4, 7, 16, 40])
def test_evaluation_has_every_row_once_and_fills_with_rows_of_no_weight(
    batch_size, record_set, rows_in_order
):
    read = evaluation(record_set, batch_size)
    assert len(read) == batches.evaluation_steps(record_set, batch_size)
    assert {len(batch["input_ids"]) for batch in read} == {batch_size}
    everything = joined(read)
    expected = np.zeros(len(read) * batch_size)
    expected[:TOTAL] = 1
    assert np.array_equal(everything["row_weight"], expected)
    for name in record_set.features:
        real = np.stack([row[name] for row in rows_in_order])
        assert np.array_equal(everything[name][:TOTAL], real), name
    # What fills is rows too, so that every value in it is a valid one.
    assert set(keys(read)) == set(map(key, rows_in_order))


def test_evaluation_of_one_row_fills_a_batch(tmp_path):
    path = tiny.write_rows(tmp_path / "rows", 1)
    (batch,) = evaluation(read_record_set([path], {}), 3)
    assert batch["row_weight"].tolist() == [1, 0, 0]
    assert len(set(keys([batch]))) == 1


def test_files_without_rows_do_no_harm(record_set, tmp_path):
    empty = tiny.write_rows(tmp_path / "empty", 0)
    larger = read_record_set([empty, *record_set.paths], {})
    assert_equal_batches(evaluation(larger, 7), evaluation(record_set, 7))
    order = keys(training(larger, 4, 8))
    assert sorted(order[:TOTAL]) == sorted(order[TOTAL:])
    assert len(set(order)) == TOTAL


@pytest.mark.parametrize("replicas", [1, 2])
def test_all_dimensions_are_static_as_a_tpu_needs_them(replicas, record_set):
    context = tf.distribute.InputContext(1, 0, replicas)
    sizes = {name: list(f.shape) for name, f in record_set.features.items()}
    for stream, extra in (
        (batches.training_batches(record_set, 8, SEED, 0, context), {}),
        (batches.evaluation_batches(record_set, 8, context), {"row_weight": []}),
    ):
        spec = stream.element_spec
        assert {name: value.shape.as_list() for name, value in spec.items()} == {
            name: [8 // replicas, *shape] for name, shape in {**sizes, **extra}.items()
        }
        floats = {name for name in spec if spec[name].dtype == tf.float32}
        assert floats == {"masked_lm_weights", *extra}
        assert {spec[name].dtype for name in set(spec) - floats} == {tf.int32}


def test_a_batch_that_replicas_cannot_share_is_refused(record_set):
    context = tf.distribute.InputContext(1, 0, 4)
    with pytest.raises(ValueError, match=r"6 rows .* 4 replicas"):
        batches.training_batches(record_set, 6, SEED, 0, context)
    with pytest.raises(ValueError, match=r"6 rows .* 4 replicas"):
        batches.evaluation_batches(record_set, 6, context)


@pytest.mark.parametrize("claim", [2**40, 2**62])
def test_a_forged_length_is_named_before_memory_is_taken_for_it(claim, tmp_path):
    path = tiny.write_rows(tmp_path / "rows", 3)
    content = path.read_bytes()
    head = claim.to_bytes(8, "little")
    path.write_bytes(head + encoding._checksum(head) + content[12:])
    record_set = read_record_set([str(path)], {})
    context = tf.distribute.InputContext(1, 0, 1)
    for read in (
        lambda: batches.training_batches(record_set, 2, 1, 0, context),
        lambda: batches.evaluation_batches(record_set, 2, context),
    ):
        with pytest.raises(ValueError, match=f"corrupt: {path} at byte 0"):
            read()
