"""Frames are those that protobuf and TensorFlow write, byte for byte."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.records import encoding
from albert_tf.records.encoding import frame_rows
from albert_tf.records.features import Feature, pretraining_features
from helpers import tiny

FEATURES = pretraining_features(tiny.MAX_SEQ_LENGTH, tiny.MAX_PREDICTIONS)


def rows(count, seed=0):
    return list(tiny.random_rows(count, np.random.default_rng(seed)))


def as_example(row, features):
    """The same by protobuf, a row at a time."""
    values = {}
    for name, feature in features.items():
        flat = np.asarray(row[name]).ravel().tolist()
        if feature.dtype == "int64":
            value = tf.train.Feature(int64_list=tf.train.Int64List(value=flat))
        else:
            value = tf.train.Feature(float_list=tf.train.FloatList(value=flat))
        values[name] = value
    example = tf.train.Example(features=tf.train.Features(feature=values))
    return example.SerializeToString(deterministic=True)


@pytest.mark.parametrize("bits", [1, 7, 8, 14, 15, 21, 28, 31, 32, 33, 56, 63])
def test_frames_are_those_of_protobuf_and_tensorflow_byte_for_byte(bits, tmp_path):
    rng = np.random.default_rng(bits)
    features = {
        "b": Feature((3, 50)),
        "score": Feature((2,), "float32"),
        "a": Feature(()),
        # Long enough that its length, and that of all, are of two or three bytes.
        "long": Feature((17_000,)),
    }
    columns = {
        "b": rng.integers(0, 1 << bits, (7, 3, 50), np.int64, endpoint=bits < 63),
        "score": rng.normal(size=(7, 2)).astype(np.float32),
        "a": rng.integers(-(1 << bits), 1, 7),
        "long": rng.integers(0, 1 + 200 * np.arange(7)[:, None], (7, 17_000)),
    }
    # Values of every size, so that lengths differ from row to row.
    columns["b"] >>= rng.integers(0, bits + 1, (7, 3, 50))
    frames, offsets = frame_rows(columns, features)
    path = tmp_path / "rows"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for index in range(7):
            row = {name: values[index] for name, values in columns.items()}
            writer.write(as_example(row, features))
    assert frames.tobytes() == path.read_bytes()
    sizes = [
        len(r) + 16 for r in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    ]
    assert np.diff(offsets).tolist() == sizes and offsets[0] == 0


def test_no_rows_are_no_bytes():
    columns = {name: np.zeros((0, *f.shape)) for name, f in FEATURES.items()}
    frames, offsets = frame_rows(columns, FEATURES)
    assert len(frames) == 0 and offsets.tolist() == [0]


def test_frames_are_counted_by_their_lengths(tmp_path):
    path = tmp_path / "file"
    for examples in ([], [b""], [b"a", b"", b"x" * 1000, b"bc"]):
        content = encoding.frame_examples(examples)
        path.write_bytes(content)
        assert encoding.count_frames(path) == len(examples)
        assert encoding.starts_with_record(path)
        if content:
            path.write_bytes(content[:-1])
            assert encoding.count_frames(path) is None
    path.write_bytes(b"no record, but some text")
    assert not encoding.starts_with_record(path)
    assert not encoding.starts_with_record(tmp_path)


@pytest.mark.parametrize("claim", [100, 2**31, 2**40, 2**62, 2**63, 2**64 - 16])
@pytest.mark.parametrize("first", [True, False])
def test_a_record_that_claims_more_than_its_file_has_is_found(claim, first, tmp_path):
    """Its checksum is right, so that only the size of the file tells."""
    head = claim.to_bytes(8, "little")
    before = b"" if first else encoding.frame_examples([b"a row", b"another"])
    path = tmp_path / "rows"
    path.write_bytes(before + head + encoding._checksum(head) + b"x" * 30)
    assert encoding.index_frames(path).cut_off == len(before)
    assert encoding.find_damage(path) == len(before)


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 130])
def test_an_index_has_the_places_of_every_64th_row(count, tmp_path):
    rng = np.random.default_rng(count)
    frames = [encoding.frame_examples([bytes(n)]) for n in rng.integers(0, 99, count)]
    path = tmp_path / "rows"
    path.write_bytes(b"".join(frames))
    rows, offsets, cut_off = encoding.index_frames(path)
    places = np.cumsum([0, *map(len, frames)])[:-1]
    assert rows == count and cut_off is None
    assert offsets.tolist() == places[::64].tolist()
    for place in offsets.tolist():
        assert encoding.has_record_at(path, place)
        assert not encoding.has_record_at(path, place + 1)
    assert not encoding.has_record_at(path, path.stat().st_size)
