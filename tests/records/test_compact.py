"""Compact rows give back the text that they are packed of."""

import numpy as np
import pytest
from tensorflow.core.example import example_pb2

from albert_tf.records.compact import (
    CompactFormat,
    format_metadata,
    pack_compact,
    token_bytes,
    unpack_compact,
)
from helpers import compact_rows


@pytest.mark.parametrize("size", [700, 1 << 16, 70_000])
def test_packed_rows_are_unpacked_to_the_same_text(size):
    rng = np.random.default_rng(size)
    ids, starts, ranges_a, ranges_b = compact_rows.pairs(90, 37, rng)
    ids = rng.integers(5, size, len(ids))
    ids[-1] = size - 1
    packed = pack_compact(ids, starts, ranges_a, ranges_b, size)
    strings = [
        [
            column.content[row, : column.sizes[row]].tobytes()
            for row in range(len(ranges_a))
        ]
        for column in (packed["tokens"], packed["word_starts"])
    ]
    found_ids, found_starts = unpack_compact(*strings, token_bytes(size))
    for row, (begin, middle, end) in enumerate(
        zip(ranges_a[:, 0], ranges_b[:, 0], ranges_b[:, 1], strict=True)
    ):
        assert found_ids[row].tolist() == ids[begin:end].tolist()
        expected = starts[begin:end].copy()
        expected[[0, middle - begin]] = True
        assert found_starts[row].tolist() == expected.tolist()
        assert packed["segment_split"][row] == middle - begin


def test_segments_may_lie_anywhere_in_the_text():
    ids = np.arange(10, 30)
    packed = pack_compact(
        ids, np.zeros(20, bool), np.array([[12, 15]]), np.array([[3, 5]]), 30
    )
    content = packed["tokens"].content[0, : packed["tokens"].sizes[0]].tobytes()
    assert np.frombuffer(content, "<u2").tolist() == [22, 23, 24, 13, 14]


def test_frames_are_examples_as_protobuf_reads_them():
    text = compact_rows.pairs(40, 31, np.random.default_rng(2))
    made = compact_rows.columns(*text)
    for row, content in enumerate(compact_rows.serialized(made)):
        example = example_pb2.Example.FromString(content)
        assert example.SerializeToString(deterministic=True) == content
        stored = example.features.feature
        tokens = made["tokens"]
        expected = tokens.content[row, : tokens.sizes[row]].tobytes()
        assert stored["tokens"].bytes_list.value[:] == [expected]
        split = made["segment_split"][row]
        assert stored["segment_split"].int64_list.value[:] == [split]


def test_the_format_is_read_back_from_the_sidecar():
    ordinary = np.array([3, 4, 5, 9, 20, 21])
    special = {"pad_id": 0, "cls_id": 1, "sep_id": 2, "mask_id": 6}
    metadata = format_metadata(22, ordinary, special)
    assert metadata["ordinary_ids"] == [[3, 6], [9, 10], [20, 22]]
    sizes = {"vocab_size": 22, "max_seq_length": 9, "pair_objective": "nsp"}
    found = CompactFormat.from_metadata({**metadata, **sizes}, "rows")
    assert found.ordinary_ids.tolist() == ordinary.tolist()
    assert (found.mask_id, found.token_bytes, found.max_text_tokens) == (6, 2, 6)
