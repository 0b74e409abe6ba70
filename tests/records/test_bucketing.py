"""Batches of rows of many lengths: which rows, how often, how far padded."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.records import batches
from albert_tf.records.features import Feature, classifier_features
from albert_tf.records.reader import read_rows
from albert_tf.records.sidecar import read_record_set
from albert_tf.records.writer import write_records

LONGEST = 40


def write_set(path, lengths, **metadata):
    """Rows whose first piece is their place in the file."""
    rows = [
        {
            "input_ids": [place, *[7] * (length - 1)],
            "segment_ids": [0] * (length - 1) + [1],
            "label_ids": place % 3,
            "index": str(place).encode(),
        }
        for place, length in enumerate(lengths)
    ]
    features = classifier_features("int64")
    known = {"max_seq_length": LONGEST, "vocab_size": 99, **metadata}
    write_records(path, rows, features, known)
    return read_record_set([str(path)], {})


@pytest.fixture(scope="module")
def lengths():
    return np.random.default_rng(5).integers(2, LONGEST + 1, 53).tolist()


@pytest.fixture(scope="module")
def rows(tmp_path_factory, lengths):
    return write_set(tmp_path_factory.mktemp("rows") / "rows.tfrecord", lengths)


def context(replicas=1, workers=1, worker=0):
    return tf.distribute.InputContext(workers, worker, replicas)


def training(
    rows, size, steps, seed=1, first=0, where=None, multiple=8, batching="length"
):
    dataset = batches.training_batches(
        rows, size, seed, first, where or context(), multiple, batching
    )
    return [{n: v.numpy() for n, v in b.items()} for b in dataset.take(steps)]


def evaluation(rows, size, where=None, multiple=8):
    dataset = batches.evaluation_batches(rows, size, where or context(), multiple)
    return [{n: v.numpy() for n, v in batch.items()} for batch in dataset]


def seen(found):
    return np.concatenate([batch["row_index"] for batch in found])


@pytest.mark.parametrize("size", [1, 4, 7])
def test_each_epoch_has_every_row_once(rows, size):
    """Pools and epochs end at different rows: over many epochs it evens out."""
    epochs = 3 * size
    counts = np.bincount(seen(training(rows, size, 53 * epochs // size)), minlength=53)
    batches_of_pool = max(1, min(64, 53 // size))
    # The last pool may end inside an epoch.
    assert (abs(counts - epochs) <= (53 % (batches_of_pool * size) > 0)).all()
    assert counts.sum() == 53 * epochs


def test_an_epoch_of_whole_pools_has_every_row_once(tmp_path, lengths):
    rows = write_set(tmp_path / "rows", lengths[:52])
    for epoch in range(3):
        found = training(rows, 4, 13, first=13 * epoch)
        assert sorted(seen(found)) == list(range(52))


def test_epochs_and_seeds_have_orders_of_their_own(rows):
    orders = [
        tuple(seen(training(rows, 4, 13, seed=seed, first=13 * epoch)))
        for seed, epoch in [(1, 0), (1, 1), (2, 0)]
    ]
    assert len(set(orders)) == 3
    again = seen(training(rows, 4, 13, seed=1))
    assert tuple(again) == orders[0]


def test_a_resumed_run_goes_on_where_it_was(rows):
    whole = training(rows, 6, 40)
    for first in (1, 8, 9, 25):
        rest = training(rows, 6, 40 - first, first=first)
        assert seen(rest).tolist() == seen(whole[first:]).tolist()


def test_random_batches_have_lengths_as_rows_drawn_at_random(rows, lengths):
    size, steps = 4, 13 * 40
    found = training(rows, size, steps, batching="random")
    deviations = {
        "random": np.array(lengths)[seen(found)].reshape(steps, size).mean(1).std(),
        "expected": np.std(lengths) / np.sqrt(size),
    }
    assert deviations["random"] == pytest.approx(deviations["expected"], rel=0.15)
    counts = np.bincount(seen(found), minlength=53)
    assert counts.max() - counts.min() <= 1
    rest = training(rows, size, 9, first=17, batching="random")
    assert seen(rest).tolist() == seen(found[17:26]).tolist()


def test_a_batch_has_rows_of_about_one_length(rows, lengths):
    found = training(rows, 4, 13 * 20)
    padded = sum(batch["input_ids"].size for batch in found)
    real = sum(batch["input_mask"].sum() for batch in found)
    assert padded < 1.3 * real
    widths = {batch["input_ids"].shape[1] for batch in found}
    assert widths <= {8, 16, 24, 32, 40} and len(widths) == 5
    # And which of about one length varies from epoch to epoch.
    batch_of_row = {tuple(sorted(b["row_index"])) for b in found}
    assert len(batch_of_row) > 100


@pytest.mark.parametrize("make", [training, evaluation])
def test_how_far_a_batch_is_padded_changes_nothing_else(rows, make):
    arguments = (rows, 5) if make is evaluation else (rows, 5, 30)
    narrow, wide = make(*arguments, multiple=8), make(*arguments, multiple=0)
    for one, other in zip(narrow, wide, strict=True):
        width = one["input_ids"].shape[1]
        assert other["input_ids"].shape == (5, LONGEST)
        for name, values in one.items():
            if values.ndim == 1:
                assert (values == other[name]).all()
            else:
                assert (values == other[name][:, :width]).all()
                assert not other[name][:, width:].any()


def test_rows_are_what_was_stored(rows, lengths):
    for batch in evaluation(rows, 5):
        for place, index in enumerate(batch["row_index"]):
            length = lengths[index]
            expected = [index, *[7] * (length - 1)]
            assert batch["input_ids"][place][:length].tolist() == expected
            assert batch["input_mask"][place].sum() == length
            assert batch["segment_ids"][place].argmax() == length - 1
            assert batch["label_ids"][place] == index % 3


@pytest.mark.parametrize("size", [1, 7, 53, 60])
@pytest.mark.parametrize("replicas", [1, 2])
def test_evaluation_counts_every_row_once(rows, size, replicas):
    found = evaluation(rows, size * replicas, context(replicas))
    counted = np.concatenate([b["row_index"][b["row_weight"] > 0] for b in found])
    assert sorted(counted) == list(range(53))
    assert {len(batch["row_index"]) for batch in found} == {size}
    assert len(found) == replicas * -(-53 // (size * replicas))


def test_workers_share_a_batch_and_its_width(rows):
    whole = training(rows, 6, 9)
    parts = [
        training(rows, 6, 9, where=context(replicas=2, workers=2, worker=worker))
        for worker in range(2)
    ]
    for batch, *halves in zip(whole, *parts, strict=True):
        joined = np.concatenate([half["input_ids"] for half in halves])
        assert (joined == batch["input_ids"]).all()


@pytest.mark.parametrize("count", [1, 3])
def test_a_batch_may_be_larger_than_the_file(tmp_path, count):
    rows = write_set(tmp_path / "rows", range(3, 3 + count))
    for batch in training(rows, 7, 4):
        counts = np.bincount(batch["row_index"], minlength=count)
        assert len(batch["row_index"]) == 7 and counts.max() - counts.min() <= 2


def test_options_are_padded_to_the_most_of_the_set(tmp_path):
    features = {
        "input_ids": Feature((None, None)),
        "label_ids": Feature(()),
    }
    stored = [[[1, 2, 3], [4]], [[5, 6]], [[7], [8], [9, 9, 9, 9, 9]]]
    rows = [{"input_ids": ids, "label_ids": i} for i, ids in enumerate(stored)]
    path = tmp_path / "rows"
    write_records(path, rows, features, {"max_seq_length": 12})
    found = list(read_rows(path))
    assert [[part.tolist() for part in row["input_ids"]] for row in found] == stored
    rows = read_record_set([str(path)], {})
    [batch] = [b for b in evaluation(rows, 2, multiple=4) if 2 in b["row_index"]]
    assert batch["input_ids"].shape == (2, 3, 8)
    place = batch["row_index"].tolist().index(2)
    assert batch["input_ids"][place].tolist()[2] == [9, 9, 9, 9, 9, 0, 0, 0]
    assert batch["input_mask"][place].sum(axis=-1).tolist() == [1, 1, 5]


def test_strings_and_numbers_come_back_as_they_were(tmp_path):
    features = {
        "input_ids": Feature((None,)),
        "id": Feature((), "string"),
        "scores": Feature((None,), "float32"),
        "pair": Feature((2,)),
    }
    row = {
        "input_ids": np.array([3, 1 << 40]),
        "id": "日本".encode(),
        "scores": [0.5, -1.25, 3.0],
        "pair": (-1, 2),
    }
    write_records(tmp_path / "rows", [row] * 3, features, {"max_seq_length": 4})
    found = list(read_rows(tmp_path / "rows"))
    assert len(found) == 3
    for name, values in row.items():
        kept = found[1][name]
        if isinstance(values, bytes):
            assert kept == values
        else:
            assert np.array_equal(kept, np.array(values, kept.dtype))


def test_rows_longer_than_their_sidecar_says_are_refused_not_cut(tmp_path):
    rows = write_set(tmp_path / "rows", [3, 12], max_seq_length=11)
    with pytest.raises(ValueError, match=r"up to 12 tokens, .*max_seq_length=11"):
        training(rows, 2, 1)


@pytest.mark.parametrize("make", [training, evaluation])
def test_another_number_of_rows_than_the_sidecar_says_is_named(make, tmp_path):
    write_set(tmp_path / "rows", [9, 12, 14])
    sidecar = tmp_path / "rows.json"
    sidecar.write_text(sidecar.read_text().replace('"rows": 3', '"rows": 4'))
    rows = read_record_set([str(tmp_path / "rows")], {})
    with pytest.raises(ValueError, match="has 3 rows, but its sidecar says 4"):
        make(rows, 2, 1) if make is training else make(rows, 2)
