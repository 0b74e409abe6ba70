"""Paths of this machine and of buckets, as pathlib's interface over both.

A path may be local or begin with a scheme, as gs://bucket/folder/file. For those
universal_pathlib has pathlib's interface to the file systems of fsspec; local ones stay
`pathlib.Path`. epath, which TensorFlow's own libraries use, imports TensorFlow for
gs://, which processes that only make data should not load, and knows no memory://.

Libraries that open files by name themselves (TensorFlow, safetensors) get local copies:
`local_copy`, `local_checkpoint`.
"""

import contextlib
import glob
import itertools
import os
import posixpath
import re
import secrets
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, NamedTuple, TypeAlias

from upath import UPath
from upath.implementations import cloud, memory
from upath.registry import register_implementation

# What functions return, and what they take.
AnyPath: TypeAlias = Path | UPath
PathLike: TypeAlias = str | os.PathLike[str] | UPath

# Schemes of storage -> the extra of this package that installs what they need; None:
# nothing. memory:// is a storage of one process, for tests.
SCHEMES = {"gs": "gs", "s3": "s3", "az": "az", "memory": None}
# `Path` makes one slash of two; others are mistyped, as s3:bucket and s3//bucket.
_SCHEME = re.compile(
    r"([A-Za-z][A-Za-z0-9+.:-]+)://|(gs|s3|az)(:|//)|(hdfs|https?|file):/"
)
# Listings are read anew each time: other machines write into the same folders.
_OPTIONS: dict[str, dict[str, Any]] = {
    "gs": {"use_listings_cache": False},
    "s3": {"use_listings_cache": False},
    "az": {"use_listings_cache": False},
}
_FILES_AT_ONCE = 16
_SECONDS_BETWEEN_LINES = 10
_PROBE_PREFIX = ".probe-"
# Top modules whose errors tell of the network or the storage, and are no OSError.
_LIBRARIES = {"aiobotocore", "aiohttp", "azure", "botocore", "gcsfs", "google"}


class _Answers(UPath):
    """Paths that tell a file that is not there from a bucket that is not reached.

    fsspec answers False whatever error comes, so that a run would start anew while the
    connection to its checkpoints is broken.
    """

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._kind() == "file"

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._kind() == "directory"

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        return bool(self._kind())

    def _kind(self) -> str:
        """The type of a file or folder, empty if there is none."""
        try:
            return self.fs.info(self.path)["type"]
        except (FileNotFoundError, NotADirectoryError):
            return ""


class _GoogleStoragePath(_Answers, cloud.GCSPath):
    pass


class _S3Path(_Answers, cloud.S3Path):
    pass


class _AzurePath(_Answers, cloud.AzurePath):
    pass


class _MemoryPath(_Answers, memory.MemoryPath):
    pass


_CLASSES: dict[str, type[UPath]] = {
    "gs": _GoogleStoragePath,
    "s3": _S3Path,
    "az": _AzurePath,
    "memory": _MemoryPath,
}
for _name, _class in _CLASSES.items():
    register_implementation(_name, _class, clobber=True)


def as_path(path: PathLike) -> AnyPath:
    """Returns a `pathlib.Path`, or the same interface for a path of a bucket.

    Raises:
      ValueError: the scheme is unknown, its package is not installed, or the path is
        not inside a bucket.
    """
    if isinstance(path, UPath):
        return path
    text = os.fspath(path)
    match = _SCHEME.match(text)
    if not match:
        return Path(path)
    scheme = match[1]
    if scheme not in SCHEMES:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        raise ValueError(
            f"{text} is not a path of this machine and begins with none of {known}: "
            "correct it, or copy the files to a disk and name that path."
        )
    remote = UPath(_normalized(text), **_OPTIONS.get(scheme, {}))
    try:
        remote.fs  # noqa: B018 (imports the scheme's package)
    except ImportError as error:
        raise ValueError(
            f"{text} needs a package that is not installed ({error}): "
            f"pip install 'albert-tf[{SCHEMES[scheme]}]'."
        ) from None
    return remote


def _normalized(text: str) -> str:
    """Takes `.`, `..` and repeated slashes out of a path of a bucket, as of a disk.

    Raises:
      ValueError: it names no bucket, or leads out of it.
    """
    scheme, _, rest = text.partition("://")
    bucket, name = rest.split("/")[0], posixpath.normpath(rest)
    if not bucket or name.split("/")[0] != bucket or bucket in (".", ".."):
        raise ValueError(
            f"{text} must be {scheme}://BUCKET/PATH, inside the bucket: correct it."
        )
    return f"{scheme}://{name}"


def check_local(path: PathLike) -> None:
    """Checks that a path is one of this machine, for files that nothing copies.

    Raises:
      ValueError: it is of a bucket, or its scheme is unknown.
    """
    if not is_local(path):
        raise ValueError(
            f"{path} is not a path of this machine: copy the files to a local or "
            "mounted disk, and name that path."
        )


def is_local(path: PathLike) -> bool:
    """True for a path of this machine, mounted disks included.

    Raises:
      ValueError: as `as_path`.
    """
    return isinstance(as_path(path), Path)


def find(pattern: str) -> list[str]:
    """Returns the paths that a glob matches, sorted; ** matches folders of any depth.

    Raises:
      ValueError: as `as_path`.
    """
    path = as_path(pattern)
    if isinstance(path, Path):
        return sorted(glob.glob(pattern, recursive=True))
    scheme = pattern.partition("://")[0]
    return sorted(f"{scheme}://{each.lstrip('/')}" for each in path.fs.glob(path.path))


def resolve(path: PathLike) -> AnyPath:
    """Returns an absolute path without links; one of a bucket is so already."""
    place = as_path(path)
    return place.resolve() if isinstance(place, Path) else place


class Entries(NamedTuple):
    """The names in a folder."""

    files: frozenset[str]
    folders: frozenset[str]


def entries(folder: PathLike) -> Entries:
    """Lists a folder, with one request to a bucket; nothing if it is no folder.

    Raises:
      ValueError: as `as_path`.
      OSError: the folder may not be read.
    """
    place = as_path(folder)
    if isinstance(place, Path):
        found = [*place.iterdir()] if place.is_dir() else []
        files = (path.name for path in found if path.is_file())
        return Entries(frozenset(files), frozenset(p.name for p in found if p.is_dir()))
    names: dict[str, set[str]] = {"file": set(), "directory": set()}
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for each in place.fs.ls(place.path, detail=True):
            name = each["name"].strip("/")
            # A file lists itself, and some storages list a folder in itself.
            if name != place.path.strip("/"):
                names[each["type"]].add(posixpath.basename(name))
    return Entries(frozenset(names["file"]), frozenset(names["directory"]))


def comparable(path: PathLike) -> PurePath:
    """Returns a path to compare with others: absolute, without links and dots.

    One of a bucket becomes gs:/bucket/folder, which no local one is.
    """
    place = resolve(path)
    if isinstance(place, Path):
        return place
    return PurePosixPath(f"{place.protocol}:/{place.path.lstrip('/')}")


def check_writable(folder: UPath) -> None:
    """Proves that files can be written to a folder of a bucket.

    Call it before hours are spent on the files.

    Raises:
      OSError: the bucket is missing, or may not be written.
    """
    probe = folder / f"{_PROBE_PREFIX}{secrets.token_hex(4)}"
    try:
        probe.write_bytes(b"probe")
        probe.unlink()
    except Exception as error:
        if not isinstance(error, OSError) and not is_storage_error(error):
            raise
        reason = str(error) or type(error).__name__
        if isinstance(error, FileNotFoundError):
            reason = "there is no such bucket"
        raise OSError(
            f"{folder} cannot be written ({reason}): check the bucket's name and your "
            "permissions."
        ) from error


def is_storage_error(error: BaseException) -> bool:
    """True for errors of the libraries that reach buckets."""
    return type(error).__module__.partition(".")[0] in _LIBRARIES


@contextlib.contextmanager
def local_copy(path: PathLike) -> Iterator[Path]:
    """Yields a local path with the content of a file or folder.

    It is the path itself, or a temporary copy of what a bucket has, removed at the end.

    Raises:
      FileNotFoundError: there is no such file or folder.
    """
    source = as_path(path)
    if isinstance(source, Path):
        yield source
        return
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, source.name or "copy")
        if source.is_file():
            source.fs.get_file(source.path, str(target))
        elif source.is_dir():
            source.fs.get(f"{source.path.rstrip('/')}/", f"{target}/", recursive=True)
        else:
            raise FileNotFoundError(f"There is no {path}: check the path.")
        yield target


@contextlib.contextmanager
def local_checkpoint(prefix: PathLike) -> Iterator[str]:
    """Yields the prefix of a checkpoint of TensorFlow as a local path.

    It is the prefix itself, or that of temporary copies of what a bucket has.
    """
    path = as_path(prefix)
    if isinstance(path, Path):
        yield str(prefix)
        return
    with tempfile.TemporaryDirectory() as folder:
        for file in path.parent.iterdir():
            if file.name.startswith(f"{path.name}."):
                file.fs.get_file(file.path, os.path.join(folder, file.name))
        yield os.path.join(folder, path.name)


@contextlib.contextmanager
def tensorflow_paths(paths: Sequence[PathLike]) -> Iterator[list[str]]:
    """Yields paths under which TensorFlow can open files, as tf.data does.

    Local ones stay, and those of gs://, which TensorFlow reads itself, on each host of
    a TPU pod. Files of other schemes, and of an emulator of gs://, which TensorFlow
    does not know, are copied to a temporary folder, removed at the end.

    Raises:
      FileNotFoundError: there is no such file.
    """
    found = [as_path(path) for path in paths]
    remote = [
        path
        for path in found
        if isinstance(path, UPath) and not opens_in_tensorflow(path)
    ]
    if not remote:
        yield [str(path) for path in found]
        return
    with tempfile.TemporaryDirectory() as folder:
        # Files of two folders may have one name.
        copies = {
            str(path): os.path.join(folder, f"{number}-{path.name}")
            for number, path in enumerate(remote)
        }
        print(f"Copying {len(remote)} files for TensorFlow to {folder}.", flush=True)
        _download(remote, copies)
        yield [copies.get(str(path), str(path)) for path in found]


def _download(paths: Sequence[UPath], copies: Mapping[str, str]) -> None:
    """Copies files of buckets, and prints how far it is every ten seconds.

    Args:
      paths: the files.
      copies: path -> local path.
    """
    printed, done = time.monotonic(), 0
    for files, group in itertools.groupby(paths, lambda path: path.fs):
        while part := list(itertools.islice(group, _FILES_AT_ONCE)):
            files.get(
                [path.path for path in part], [copies[str(path)] for path in part]
            )
            done += len(part)
            if time.monotonic() - printed > _SECONDS_BETWEEN_LINES:
                print(f"Copied {done} of {len(paths)} files.", flush=True)
                printed = time.monotonic()


def opens_in_tensorflow(path: PathLike) -> bool:
    """True if TensorFlow reads a path by itself, so that nothing need be copied."""
    place = as_path(path)
    if isinstance(place, Path):
        return True
    return place.protocol == "gs" and not os.environ.get("STORAGE_EMULATOR_HOST")


def move_up(local: PathLike, path: PathLike) -> None:
    """Gives a finished local file its name; a bucket has it whole or not at all.

    Args:
      local: the file, on the same disk if `path` is local; it is gone afterwards.
      path: its name from now on.
    Raises:
      OSError: it cannot be written.
    """
    target = as_path(path)
    if isinstance(target, Path):
        os.replace(str(local), target)
        return
    target.fs.put_file(str(local), target.path)
    os.unlink(str(local))
