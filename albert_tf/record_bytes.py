"""Many rows -> the bytes of TFRecord frames at once; `records.py` alone imports this.

    frame = length (8 bytes) | its checksum (4) | Example | its checksum (4)

A row is a `tf.train.Example`, features in sorted order, as protobuf itself writes it.
Since the shapes are fixed, rows differ only in their values and in the lengths that
follow from them, all of them varints. So a block of rows is laid out as a matrix in
which a varint has as many bytes as its longest one in the block needs, and the unused
bytes are dropped at the end. Some hundred times faster than a message object a row.
"""

import functools
import math
from collections.abc import Mapping, Sequence

import google_crc32c
import numpy as np

# Frame bytes before and after the Example.
_HEAD, _TAIL = 12, 4
_MASK_DELTA = 0xA282EAD8

# Tags (field number << 3 | 2, "length-delimited") of the messages in an Example.
_FEATURES = _ENTRY = _KEY = _VALUES = b"\x0a"
_FEATURE = b"\x12"
_LIST_TAGS = {"int64": b"\x1a", "float32": b"\x12"}


def frame_rows(
    columns: Mapping[str, np.ndarray], dtypes: Mapping[str, str]
) -> tuple[np.ndarray, np.ndarray]:
    """Rows as TFRecord frames.

    Args:
      columns: each feature's values, [R, n], of any type that casts to its dtype.
      dtypes: each feature's dtype on disk, int64 or float32.
    Returns:
      The frames one after the other, uint8, and where each starts in them and the
      last ends, int64 [R + 1].
    """
    count = len(next(iter(columns.values())))
    parts: list[_Part] = []
    features_size = np.zeros(count, np.int64)
    for name in sorted(dtypes):
        entry = _entry(name, columns[name], dtypes[name])
        parts.extend(entry)
        features_size += sum(part.sizes for part in entry)
    opening = [
        _constant(count, bytes(_HEAD) + _FEATURES),
        _varints(features_size[:, None]),
    ]
    closing = [_constant(count, bytes(_TAIL))]
    parts = [*opening, *parts, *closing]
    slots = np.concatenate([part.slots for part in parts], axis=1)
    used = np.concatenate([part.used for part in parts], axis=1)
    frames = slots[used]
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(sum(part.sizes for part in parts), out=offsets[1:])
    _seal(frames, offsets)
    return frames, offsets


def split_frames(content: bytes) -> list[memoryview]:
    """Frames that lie one after the other -> each of them."""
    view, frames, begin = memoryview(content), [], 0
    while begin < len(content):
        size = int.from_bytes(view[begin : begin + 8], "little")
        end = begin + _HEAD + size + _TAIL
        frames.append(view[begin:end])
        begin = end
    return frames


class _Part:
    """Some bytes of every row: `slots` uint8 [R, w], of which `used` bool [R, w] count;
    `sizes` int64 [R] is how many these are."""

    def __init__(self, slots: np.ndarray, used: np.ndarray | None = None):
        self.slots = slots
        self.used = np.ones(slots.shape, bool) if used is None else used
        self.sizes = (
            np.full(len(slots), slots.shape[1])
            if used is None
            else np.count_nonzero(used, axis=1)
        )


def _constant(count: int, content: bytes) -> _Part:
    row = np.frombuffer(content, np.uint8)
    return _Part(np.broadcast_to(row, (count, len(row))))


def _varints(values: np.ndarray) -> _Part:
    """Values [R, n] as varints: 7 bits a byte, the lowest first."""
    values = values.astype(np.uint64)
    largest = int(values.max(initial=0))
    width = max(1, -(-largest.bit_length() // 7))
    if width == 1:
        return _Part(values.astype(np.uint8))
    if largest < 1 << 32:
        values = values.astype(np.uint32)
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
    return _Part(slots.reshape(flat), used.reshape(flat))


def _entry(name: str, values: np.ndarray, dtype: str) -> list[_Part]:
    """A feature: its key, then its values inside two messages, each with a length."""
    count = len(values)
    values = np.ascontiguousarray(values, np.dtype(dtype).newbyteorder("<"))
    values = values.reshape(count, math.prod(values.shape[1:]))
    inner = [_varints(values) if dtype == "int64" else _Part(values.view(np.uint8))]
    for tag in (_VALUES, _LIST_TAGS[dtype], _FEATURE):
        inner = [_constant(count, tag), _varints(_total(inner)), *inner]
    key = name.encode()
    # Names are ASCII words of less than 128 bytes, so one byte holds the length.
    inner = [_constant(count, _KEY + bytes([len(key)]) + key), *inner]
    return [_constant(count, _ENTRY), _varints(_total(inner)), *inner]


def _total(parts: Sequence[_Part]) -> np.ndarray:
    """Bytes of each row, [R, 1]."""
    return sum(part.sizes for part in parts)[:, None]


def _seal(frames: np.ndarray, offsets: np.ndarray) -> None:
    """Fills in lengths and checksums, in place."""
    sizes = np.diff(offsets) - _HEAD - _TAIL
    heads = np.zeros((len(sizes), _HEAD), np.uint8)
    heads[:, :8] = sizes.astype("<u8")[:, None].view(np.uint8)
    checksums = np.array([_length_checksum(size) for size in sizes.tolist()], "<u4")
    heads[:, 8:] = checksums[:, None].view(np.uint8)
    frames[offsets[:-1, None] + np.arange(_HEAD)] = heads
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


@functools.lru_cache(maxsize=1 << 16)
def _length_checksum(size: int) -> int:
    checksum = google_crc32c.value(size.to_bytes(8, "little"))
    return int(_masked(np.array([checksum], np.uint32))[0])
