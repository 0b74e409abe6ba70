"""Reads the tensors of a `pytorch_model.bin`, and nothing else, without PyTorch.

Such a file is a pickle, which could run any program. Here a pickle may name only what
tensors are made of; anything else is refused before it is called. There are two
layouts: an archive with a file for each storage (PyTorch 1.6 on), and the earlier one,
pickles and then the storages in one stream.
"""

import math
import pickle
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np
import tensorflow as tf

from albert_tf.storage import PathLike

_DTYPES = {
    "HalfStorage": np.dtype(np.float16),
    "BFloat16Storage": np.dtype(tf.bfloat16.as_numpy_dtype),
    "FloatStorage": np.dtype(np.float32),
    "DoubleStorage": np.dtype(np.float64),
    "ByteStorage": np.dtype(np.uint8),
    "BoolStorage": np.dtype(np.bool_),
    "IntStorage": np.dtype(np.int32),
    "LongStorage": np.dtype(np.int64),
}
# The pickles that begin a file of the earlier layout.
_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_BROKEN = (
    *(pickle.UnpicklingError, zipfile.BadZipFile, EOFError, OSError, RuntimeError),
    # Those of a pickle that keeps its own rules only in part.
    *(ArithmeticError, AttributeError, ImportError, LookupError, MemoryError),
    *(TypeError, ValueError),
)


class _Storage(NamedTuple):
    """The place of a tensor's numbers in the file."""

    key: str
    dtype: str
    size: int


class _Tensor(NamedTuple):
    """A tensor whose numbers are not read yet; offset and strides count numbers."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Mapping(dict[Any, Any]):
    """A dict that drops the attributes which a pickle gives it."""

    def __setstate__(self, state: Any) -> None:
        del state


class _Function:
    """A function that a pickle may call, and cannot change."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., Any]):
        self._call = call

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def __setstate__(self, state: Any) -> NoReturn:
        raise pickle.UnpicklingError("it changes a function")


class _Unpickler(pickle.Unpickler):
    """Reads a pickle that names tensors alone."""

    def find_class(self, module: str, name: str) -> Any:
        """Returns a stand-in for what the pickle names, or refuses it."""
        if module == "torch" and name in _DTYPES:
            return name
        known: dict[tuple[str, str], Callable[..., Any]] = {
            ("collections", "OrderedDict"): _Mapping,
            ("torch._utils", "_rebuild_tensor"): _tensor,
            ("torch._utils", "_rebuild_tensor_v2"): _tensor,
            ("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
        }
        if (module, name) not in known:
            raise pickle.UnpicklingError(
                f"it names {module}.{name}, which is no tensor"
            )
        return _Function(known[module, name])

    def persistent_load(self, pid: Any) -> _Storage:
        """Returns the storage that the pickle refers to."""
        kind, dtype, key, _, size, *view = pid
        if kind != "storage" or dtype not in _DTYPES or any(view):
            raise pickle.UnpicklingError(f"it has no storage {kind!r:.80}")
        return _Storage(str(key), dtype, size)


def _tensor(
    storage: _Storage,
    offset: int,
    shape: Sequence[int],
    strides: Sequence[int],
    *_: Any,
) -> _Tensor:
    return _Tensor(storage, offset, tuple(shape), tuple(strides))


def read_tensors(file: Path, name: PathLike = "") -> dict[str, np.ndarray]:
    """Reads all tensors of a file.

    Args:
      file: the file, on this machine.
      name: of the file in messages; empty: its path.
    Raises:
      ValueError: it holds anything but tensors, or is damaged.
    """
    try:
        with file.open("rb") as opened:
            if zipfile.is_zipfile(opened):
                return _read_archive(opened)
            opened.seek(0)
            return _read_stream(opened, file.stat().st_size)
    except _BROKEN as error:
        raise ValueError(
            f"{name or file} cannot be read as tensors alone ({error}): take "
            "model.safetensors of the same model, or copy the file again."
        ) from error


def _read_archive(opened: IO[bytes]) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(opened) as archive:
        [name] = (n for n in archive.namelist() if n.endswith("data.pkl"))
        prefix = name.removesuffix("data.pkl")
        if f"{prefix}byteorder" in archive.namelist():
            _require(archive.read(f"{prefix}byteorder") == b"little", "byte order")
        # Of compressed ones no one knows how much memory they take.
        for entry in archive.infolist():
            _require(entry.compress_type == zipfile.ZIP_STORED, entry.filename)
        with archive.open(name) as pickled:
            tensors = _Unpickler(pickled).load()
        contents = {
            storage.key: archive.read(f"{prefix}data/{storage.key}")
            for storage in _storages(tensors)
        }
    return _arrays(tensors, contents)


def _read_stream(opened: IO[bytes], length: int) -> dict[str, np.ndarray]:
    _require(_Unpickler(opened).load() == _MAGIC, "beginning")
    _require(_Unpickler(opened).load() == _PROTOCOL, "version")
    _require(_Unpickler(opened).load().get("little_endian") is True, "byte order")
    tensors = _Unpickler(opened).load()
    storages = {storage.key: storage for storage in _storages(tensors)}
    contents = {}
    for key in _Unpickler(opened).load():
        storage = storages[key]
        size = int.from_bytes(opened.read(8), "little")
        size *= _DTYPES[storage.dtype].itemsize
        _require(size <= length - opened.tell(), "length")
        contents[key] = opened.read(size)
    return _arrays(tensors, contents)


def _storages(tensors: Any) -> list[_Storage]:
    """The storages of a pickle's tensors, checked to be tensors by name."""
    _require(isinstance(tensors, dict), "content")
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, _Tensor):
            raise ValueError(f"{name!r:.80} is no tensor")
        numbers = (*tensor.shape, *tensor.strides, tensor.offset, tensor.storage.size)
        are_counts = all(type(number) is int and number >= 0 for number in numbers)
        _require(are_counts and len(tensor.shape) == len(tensor.strides), name)
    return [tensor.storage for tensor in tensors.values()]


def _arrays(
    tensors: Mapping[str, _Tensor], contents: Mapping[str, bytes]
) -> dict[str, np.ndarray]:
    """Makes arrays of tensors, each of its own memory."""
    arrays = {}
    for name, (storage, offset, shape, strides) in tensors.items():
        dtype, content = _DTYPES[storage.dtype], contents[storage.key]
        numbers = len(content) // dtype.itemsize
        _require(storage.size * dtype.itemsize == len(content), f"storage of {name}")
        count = math.prod(shape)
        last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        _require(count <= numbers and (count == 0 or last < numbers), f"size of {name}")
        array = np.frombuffer(content, dtype)[offset:]
        if count == 0:
            arrays[name] = np.zeros(shape, dtype)
            continue
        steps = [step * dtype.itemsize for step in strides]
        view = np.lib.stride_tricks.as_strided(array, shape, steps, writeable=False)
        arrays[name] = view.copy()
    return arrays


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"its {what} is not as PyTorch writes it")
