"""Many rows -> the bytes of TFRecord frames at once; `records.py` alone imports this.

    frame = length (8 bytes) | its checksum (4) | Example | its checksum (4)

A row is a `tf.train.Example`, features in sorted order, as protobuf itself writes it.
Since the shapes are fixed, rows differ only in their values and in the lengths that
follow from them, all of them varints. So a block of rows is laid out as a matrix in
which a varint has as many bytes as its longest one in the block needs, and the unused
bytes are dropped at the end. Some hundred times faster than a message object a row,
which is what fine-tuning rows get, whose lengths vary and which are fewer.
"""

import functools
import itertools
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO, NamedTuple

import google_crc32c
import numpy as np

# Frame bytes before and after the Example.
_HEAD, _TAIL = 12, 4
_MASK_DELTA = 0xA282EAD8

# Tags (field number << 3 | 2, "length-delimited") of the messages in an Example.
_FEATURES = _ENTRY = _KEY = _VALUES = b"\x0a"
_FEATURE = b"\x12"
_LIST_TAGS = {"int64": b"\x1a", "float32": b"\x12"}
# Where an Example keeps the values of a dtype.
_LISTS = {"int64": "int64_list", "float32": "float_list", "string": "bytes_list"}


def frame_rows(
    columns: Mapping[str, np.ndarray], dtypes: Mapping[str, str]
) -> tuple[np.ndarray, np.ndarray]:
    """Rows as TFRecord frames.

    Args:
      columns: each feature's values, [R, ...]: integers for int64, else numbers.
      dtypes: each feature's dtype on disk, int64 or float32.
    Returns:
      The frames one after the other, uint8, and where each starts in them and the
      last ends, int64 [R + 1].
    """
    count = len(next(iter(columns.values())))
    parts = [
        part
        for name in sorted(dtypes)
        for part in _entry(name, columns[name], dtypes[name])
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


def encode_rows(rows: Iterable[Mapping], features: Mapping) -> Iterator[bytes]:
    """Rows whose lengths vary -> serialized Examples, one at a time.

    Args:
      rows: each feature's values: numbers, bytes, lists, or lists of lists.
      features: name -> `records.Feature`.
    Raises:
      ValueError: a row lacks a feature or has another number of values.
    """
    from tensorflow.core.example import example_pb2

    for row in rows:
        example = example_pb2.Example()
        stored = example.features.feature
        for name, feature in features.items():
            values = value_of(row, name)
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


def lengths_name(name: str) -> str:
    """The feature that holds the lengths of a `(None, None)` feature's lists."""
    return f"{name}_lengths"


def value_of(row: Mapping, name: str):
    """A feature's value in a row.

    Raises:
      ValueError: the row lacks it.
    """
    if name not in row:
        raise ValueError(f"A row lacks the feature {name!r}: it has {sorted(row)}.")
    return row[name]


def check_size(name: str, feature, size: int) -> None:
    """Refuses another number of values than a feature's fixed shape has."""
    if size != feature.size:
        raise ValueError(
            f"Feature {name!r} must have {feature.size} values. "
            f"Received {size}: make rows with the lengths of the spec."
        )


def frame_examples(examples: Iterable[bytes]) -> bytes:
    """Serialized Examples of any size -> their TFRecord frames."""
    return b"".join(
        _head(len(example)) + example + _checksum(example) for example in examples
    )


def split_frames(content: bytes) -> list[memoryview]:
    """Frames that lie one after the other -> each of them."""
    view, frames, begin = memoryview(content), [], 0
    while begin < len(content):
        size = int.from_bytes(view[begin : begin + 8], "little")
        end = begin + _HEAD + size + _TAIL
        frames.append(view[begin:end])
        begin = end
    return frames


class DamagedRecordError(ValueError):
    """A record is cut off or its checksum differs; `offset` is its first byte."""

    def __init__(self, number: int, offset: int, fault: str):
        super().__init__(f"row {number} {fault} (at byte {offset:,}).")
        self.offset = offset


def read_examples(file: BinaryIO) -> Iterator[bytes]:
    """The Examples of a record file, their checksums checked.

    Raises:
      DamagedRecordError: a frame is damaged or cut off; its number, from 0, is named.
    """
    number, offset = 0, 0
    while head := file.read(_HEAD):
        size = int.from_bytes(head[:8], "little")
        if len(head) < _HEAD or head[8:] != _checksum(head[:8]):
            raise DamagedRecordError(number, offset, "is damaged in its length")
        example, tail = file.read(size), file.read(_TAIL)
        if len(tail) < _TAIL:
            raise DamagedRecordError(number, offset, "is cut off")
        if tail != _checksum(example):
            raise DamagedRecordError(number, offset, "is damaged")
        yield example
        number += 1
        offset += _HEAD + size + _TAIL


def find_damage(path: str | os.PathLike) -> int | None:
    """The first byte of the first damaged record of a file."""
    with open(path, "rb") as file:
        try:
            for _ in read_examples(file):
                pass
        except DamagedRecordError as error:
            return error.offset
    return None


class _Part(NamedTuple):
    """Some bytes of every row.

    Attributes:
      slots: uint8 [R, w], or [1, w] where they are the same in all rows.
      used: bool [R, w], which of them count; None for all.
      sizes: how many count, int64 [R]; a plain number where all rows have as many.
    """

    slots: np.ndarray
    used: np.ndarray | None
    sizes: np.ndarray | int


def _constant(content: bytes) -> _Part:
    return _Part(np.frombuffer(content, np.uint8)[None], None, len(content))


def _varints(values: np.ndarray) -> _Part:
    """Values [R, n] as varints: 7 bits a byte, the lowest first."""
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
        # The cast keeps the lowest 8 bits, of which the highest says "more follow".
        np.bitwise_and(rest.astype(np.uint8), 127, out=slots[..., place])
        slots[..., place] |= more.astype(np.uint8) << 7
        if place + 1 < width:
            used[..., place + 1] = more
    flat = (len(values), width * values.shape[1])
    used = used.reshape(flat)
    return _Part(slots.reshape(flat), used, np.count_nonzero(used, axis=1))


def _entry(name: str, values: np.ndarray, dtype: str) -> list[_Part]:
    """A feature: its key, then its values inside two messages, each with a length."""
    values = values.reshape(len(values), math.prod(values.shape[1:]))
    if dtype == "int64":
        parts = [_varints(values.astype(np.int64) if values.dtype == bool else values)]
    else:
        floats = np.ascontiguousarray(values, "<f4").view(np.uint8)
        parts = [_Part(floats, None, floats.shape[1])]
    for tag in (_VALUES, _LIST_TAGS[dtype], _FEATURE):
        parts = [_constant(tag), _length(parts), *parts]
    key = name.encode()
    # Names are ASCII words of less than 128 bytes, so one byte holds the length.
    parts = [_constant(_KEY + bytes([len(key)]) + key), *parts]
    return [_constant(_ENTRY), _length(parts), *parts]


@functools.lru_cache
def _constant_length(size: int) -> _Part:
    return _constant(_varints(np.array([[size]])).slots.tobytes())


def _length(parts: Sequence[_Part]) -> _Part:
    """The size of some parts, as a varint."""
    total = _total(parts)
    if isinstance(total, int):
        return _constant_length(total)
    return _varints(total[:, None])


def _total(parts: Sequence[_Part]) -> np.ndarray | int:
    return sum(part.sizes for part in parts)


def _seal(frames: np.ndarray, offsets: np.ndarray) -> None:
    """Fills in lengths and checksums, in place."""
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
    """TFRecord stores checksums rotated and shifted; uint32, modulo 2**32."""
    rotated = (checksums >> np.uint32(15)) | (checksums << np.uint32(17))
    return rotated + np.uint32(_MASK_DELTA)


def _checksum(content: bytes) -> bytes:
    """The checksum of some bytes as a frame has it."""
    checksum = np.array([google_crc32c.value(content)], np.uint32)
    return _masked(checksum).astype("<u4").tobytes()


@functools.lru_cache(maxsize=1 << 16)
def _head(size: int) -> bytes:
    length = size.to_bytes(8, "little")
    return length + _checksum(length)
