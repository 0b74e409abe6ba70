"""Encodes rows as TFRecord frames, and reads frames back, without TensorFlow.

    frame = length (8 bytes) | its checksum (4) | Example | its checksum (4)

A row is a `tf.train.Example` whose features are sorted by name, byte for byte as
protobuf writes it. Rows of fixed shapes differ only in their values and in the lengths
that follow from these, and both are varints (7 bits a byte, lowest first; the highest
bit of a byte is set if another byte follows). `frame_rows` therefore encodes many rows
as one matrix of bytes, in which a varint gets as many columns as the longest one of its
kind needs; the bytes that are not used are dropped at the end. For example, two rows of
one feature with the values 5 and 300:

    _varints([[5], [300]])        slots          used         sizes
                                  05 00          yes no       1
                                  ac 02          yes yes      2
    _length([that part])          01             (all)        1
                                  02
    both, joined and selected     01 05
                                  02 ac 02

This is about a hundred times faster than one message object a row. Fine-tuning rows,
which vary in length and are fewer, use message objects (`encode_rows`).
"""

import functools
import itertools
import math
import mmap
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import google_crc32c
import numpy as np

from albert_tf.records.features import (
    Features,
    Strings,
    check_size,
    lengths_name,
    row_value,
)
from albert_tf.storage import PathLike, as_path, local_copy

# Bytes of a frame before and after the Example.
_HEAD, _TAIL = 12, 4
_MASK_DELTA = 0xA282EAD8
_LENGTH = struct.Struct("<Q")
# Rows between two places of an index: it takes a byte or less a row, and at most 63
# rows are read for nothing where reading begins.
INDEX_EVERY = 64

# Tags (field number << 3 | 2, "length-delimited") of the messages in an Example.
_FEATURES = _ENTRY = _KEY = _VALUES = b"\x0a"
_FEATURE = b"\x12"
_LIST_TAGS = {"int64": b"\x1a", "float32": b"\x12", "string": b"\x0a"}
# Field of a `tf.train.Feature` that holds the values of a dtype.
_LISTS = {"int64": "int64_list", "float32": "float_list", "string": "bytes_list"}


def frame_rows(
    columns: Mapping[str, np.ndarray | Strings], features: Features
) -> tuple[np.ndarray, np.ndarray]:
    """Encodes rows of fixed shapes as the bytes of a record file.

    Frames can be joined: a record file is any number of them.

    Args:
      columns: each feature's values, [R, ...]; integers for int64. R may be 0.
      features: the spec; int64 and float32 features of fixed shapes, and strings.
    Returns:
      The frames, joined, uint8; and int64 [R + 1], the place at which each starts and,
      last, their end.
    """
    count = len(next(iter(columns.values())))
    parts = [
        part
        for name in sorted(features)
        for part in _entry(name, columns[name], features[name].dtype)
    ]
    opening = [_constant(bytes(_HEAD) + _FEATURES), _length(parts)]
    parts = [*opening, *parts, _constant(bytes(_TAIL))]
    width = sum(part.slots.shape[1] for part in parts)
    slots = np.empty((count, width), np.uint8)
    used = np.ones((count, width), bool)
    column = 0
    for part in parts:
        columns_of_part = slice(column, column + part.slots.shape[1])
        slots[:, columns_of_part] = part.slots
        if part.used is not None:
            used[:, columns_of_part] = part.used
        column = columns_of_part.stop
    frames = slots[used]
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.broadcast_to(_total(parts), count), out=offsets[1:])
    _seal(frames, offsets)
    return frames, offsets


def encode_rows(
    rows: Iterable[Mapping[str, Any]], features: Features
) -> Iterator[bytes]:
    """Encodes rows of any shapes as serialized Examples, one at a time.

    Args:
      rows: each feature's values: numbers, bytes, lists, or lists of lists.
      features: the spec.
    Raises:
      ValueError: a row lacks a feature or has another number of values.
    """
    from tensorflow.core.example import example_pb2

    for row in rows:
        example = example_pb2.Example()
        stored = example.features.feature
        for name, feature in features.items():
            values = row_value(row, name)
            if feature.varies and len(feature.shape) == 2:
                lengths = stored[lengths_name(name)].int64_list.value
                lengths.extend([len(part) for part in values])
                values = list(itertools.chain.from_iterable(values))
            elif not feature.varies:
                scalar = isinstance(values, bytes)
                values = [values] if scalar else np.ravel(values).tolist()
                check_size(name, feature, len(values))
            kind = _LISTS[feature.dtype]
            getattr(stored[name], kind).value.extend(values)
        yield example.SerializeToString(deterministic=True)


def frame_examples(examples: Iterable[bytes]) -> bytes:
    """Encodes serialized Examples of any sizes as TFRecord frames, joined."""
    return b"".join(
        _head(len(example)) + example + _checksum(example) for example in examples
    )


def split_frames(content: bytes) -> list[memoryview]:
    """Splits joined frames, without checking them."""
    view, frames, begin = memoryview(content), [], 0
    while begin < len(content):
        size = int.from_bytes(view[begin : begin + 8], "little")
        end = begin + _HEAD + size + _TAIL
        frames.append(view[begin:end])
        begin = end
    return frames


class DamagedRecordError(ValueError):
    """A record is cut off or its checksum is wrong.

    Attributes:
      offset: place of the record's first byte in its file.
    """

    def __init__(self, number: int, offset: int, fault: str):
        super().__init__(f"row {number} {fault} (at byte {offset:,}).")
        self.offset = offset


def read_examples(file: BinaryIO) -> Iterator[bytes]:
    """Yields the Examples of a record file and checks lengths and checksums.

    Args:
      file: an open file, which is read from its start.
    Raises:
      DamagedRecordError: a frame is damaged or cut off; the message has its number,
        from 0.
    """
    number, offset = 0, 0
    end = file.seek(0, os.SEEK_END)
    file.seek(0)
    while head := file.read(_HEAD):
        size = int.from_bytes(head[:8], "little")
        if len(head) < _HEAD or head[8:] != _checksum(head[:8]):
            raise DamagedRecordError(number, offset, "is damaged in its length")
        # Checked before memory is taken: a length may claim any number of bytes.
        if size > end - offset - _HEAD - _TAIL:
            raise DamagedRecordError(number, offset, "is cut off")
        example, tail = file.read(size), file.read(_TAIL)
        if tail != _checksum(example):
            raise DamagedRecordError(number, offset, "is damaged")
        yield example
        number += 1
        offset += _HEAD + size + _TAIL


class FrameIndex(NamedTuple):
    """Places of the records of a file, by their lengths alone.

    Attributes:
      rows: number of records before the end, or before the one that is cut off.
      offsets: places of every `INDEX_EVERY`-th of them, bytes, int64.
      cut_off: place of the first record that claims more bytes than there are; None:
        there is none.
    """

    rows: int
    offsets: np.ndarray
    cut_off: int | None


def index_frames(path: PathLike) -> FrameIndex:
    """Walks over the lengths of a file's records; checksums are not compared.

    A file of a bucket is copied for it.
    """
    with local_copy(path) as local:
        return _index_frames(local)


def _index_frames(path: Path) -> FrameIndex:
    end = path.stat().st_size
    if not end:
        return FrameIndex(0, np.zeros(0, np.int64), None)
    rows, offset, offsets = 0, 0, []
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as m,
    ):
        while offset < end:
            room = end - offset - _HEAD - _TAIL
            if room < 0 or (size := _LENGTH.unpack_from(m, offset)[0]) > room:
                break
            if rows % INDEX_EVERY == 0:
                offsets.append(offset)
            rows += 1
            offset += _HEAD + size + _TAIL
    cut_off = offset if offset < end else None
    return FrameIndex(rows, np.array(offsets, np.int64), cut_off)


def count_frames(path: PathLike) -> int | None:
    """Counts the records of a file by their lengths alone, without their checksums.

    Returns:
      The number of records; None: the last one is cut off.
    """
    frames = index_frames(path)
    return frames.rows if frames.cut_off is None else None


def has_record_at(path: PathLike, offset: int) -> bool:
    """True if a record that fits into its file begins at a place, by its head."""
    place = as_path(path)
    end = place.stat().st_size
    with place.open("rb") as file:
        file.seek(offset)
        head = file.read(_HEAD)
    if len(head) < _HEAD or head[8:] != _checksum(head[:8]):
        return False
    return int.from_bytes(head[:8], "little") <= end - offset - _HEAD - _TAIL


def starts_with_record(path: PathLike) -> bool:
    """True if a file is empty or begins with the length of a record."""
    place = as_path(path)
    if not place.is_file():
        return False
    with place.open("rb") as file:
        head = file.read(_HEAD)
    return not head or (len(head) == _HEAD and head[8:] == _checksum(head[:8]))


def find_damage(path: PathLike) -> int | None:
    """Returns the place of the first damaged record of a file, in bytes, or None."""
    with as_path(path).open("rb") as file:
        try:
            for _ in read_examples(file):
                pass
        except DamagedRecordError as error:
            return error.offset
    return None


class _Part(NamedTuple):
    """Columns of the matrix of bytes; the module's docstring has an example.

    Attributes:
      slots: uint8 [R, w], or [1, w] for bytes that are the same in all rows.
      used: bool [R, w], true for slots that are part of the row; None: all are.
      sizes: used slots of each row, int64 [R]; an int if all rows have the same number.
    """

    slots: np.ndarray
    used: np.ndarray | None
    sizes: np.ndarray | int


def _constant(content: bytes) -> _Part:
    """Returns bytes that are the same in all rows."""
    return _Part(np.frombuffer(content, np.uint8)[None], None, len(content))


def _varints(values: np.ndarray) -> _Part:
    """Encodes integers [R, n] as varints; negative ones as unsigned 64 bits."""
    if values.min(initial=0) < 0:
        values = values.astype(np.uint64)
    largest = int(values.max(initial=0))
    width = max(1, -(-largest.bit_length() // 7))
    if width == 1:
        return _Part(values.astype(np.uint8), None, values.shape[1])
    values = values.astype(np.uint32 if largest < 1 << 32 else np.uint64)
    slots = np.empty((*values.shape, width), np.uint8)
    used = np.ones(slots.shape, bool)
    for place in range(width):
        rest = values >> (7 * place) if place else values
        more = rest >= 128
        # The cast keeps the lowest 8 bits; the highest of these is the "more" bit.
        np.bitwise_and(rest.astype(np.uint8), 127, out=slots[..., place])
        slots[..., place] |= more.astype(np.uint8) << 7
        if place + 1 < width:
            used[..., place + 1] = more
    flat = (len(values), width * values.shape[1])
    used = used.reshape(flat)
    return _Part(slots.reshape(flat), used, np.count_nonzero(used, axis=1))


def _entry(name: str, values: np.ndarray | Strings, dtype: str) -> list[_Part]:
    """Encodes a feature: its name, and its values inside two messages with lengths."""
    parts = [_content(values, dtype)]
    for tag in (_VALUES, _LIST_TAGS[dtype], _FEATURE):
        parts = [_constant(tag), _length(parts), *parts]
    key = name.encode()
    # Names are ASCII words of less than 128 bytes, so one byte holds the length.
    parts = [_constant(_KEY + bytes([len(key)]) + key), *parts]
    return [_constant(_ENTRY), _length(parts), *parts]


def _content(values: np.ndarray | Strings, dtype: str) -> _Part:
    """Encodes the values of a feature alone."""
    if isinstance(values, Strings):
        used = np.arange(values.content.shape[1]) < values.sizes[:, None]
        return _Part(values.content, used, values.sizes)
    values = values.reshape(len(values), math.prod(values.shape[1:]))
    if dtype == "int64":
        return _varints(values.astype(np.int64) if values.dtype == bool else values)
    floats = np.ascontiguousarray(values, "<f4").view(np.uint8)
    return _Part(floats, None, floats.shape[1])


@functools.lru_cache
def _constant_length(size: int) -> _Part:
    return _constant(_varints(np.array([[size]])).slots.tobytes())


def _length(parts: Sequence[_Part]) -> _Part:
    """Encodes the joint size of some parts of each row as a varint."""
    total = _total(parts)
    if isinstance(total, int):
        return _constant_length(total)
    return _varints(total[:, None])


def _total(parts: Sequence[_Part]) -> np.ndarray | int:
    """Returns the joint size of some parts: int64 [R], or an int if all rows agree."""
    return sum(part.sizes for part in parts)


def _seal(frames: np.ndarray, offsets: np.ndarray) -> None:
    """Writes lengths and checksums into frames, in place."""
    sizes = np.diff(offsets) - _HEAD - _TAIL
    heads = np.frombuffer(b"".join(map(_head, sizes.tolist())), np.uint8)
    places = offsets[:-1, None] + np.arange(_HEAD)
    frames[places] = heads.reshape(places.shape)
    content = frames.tobytes()
    bounds = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    checksums = np.array(
        [
            google_crc32c.value(content[begin + _HEAD : end - _TAIL])
            for begin, end in bounds
        ],
        np.uint32,
    )
    tails = _masked(checksums).astype("<u4")[:, None].view(np.uint8)
    frames[offsets[1:, None] - _TAIL + np.arange(_TAIL)] = tails


def _masked(checksums: np.ndarray) -> np.ndarray:
    """Turns CRC-32C checksums, uint32, into the form that TFRecord stores."""
    rotated = (checksums >> np.uint32(15)) | (checksums << np.uint32(17))
    return rotated + np.uint32(_MASK_DELTA)


def _checksum(content: bytes) -> bytes:
    """Returns the checksum of some bytes as a frame stores it."""
    checksum = np.array([google_crc32c.value(content)], np.uint32)
    return _masked(checksum).astype("<u4").tobytes()


@functools.lru_cache(maxsize=1 << 16)
def _head(size: int) -> bytes:
    """Returns the head of a frame for an Example of `size` bytes."""
    length = size.to_bytes(8, "little")
    return length + _checksum(length)
