"""Buckets in memory, and what they hold."""

import uuid

from fsspec.implementations.memory import MemoryFileSystem

from albert_tf.storage import as_path


def new_bucket() -> str:
    """The path of an empty bucket of this process."""
    return f"memory://{uuid.uuid4().hex}"


def upload(folder, target: str) -> str:
    """Copies the files of a local folder to a folder of a bucket; returns its path."""
    for name, content in files_of(folder).items():
        (as_path(target) / name).write_bytes(content)
    return target


def files_of(folder) -> dict[str, bytes]:
    """Name in the folder -> content, of the files of a local folder or a bucket's."""
    files = [path for path in as_path(folder).rglob("*") if path.is_file()]
    start = len(str(as_path(folder))) + 1
    return {str(path)[start:]: path.read_bytes() for path in files}


def copies_of(monkeypatch) -> list[str]:
    """A list that gets the name of each file that is copied from a bucket."""
    copied: list[str] = []
    get_file = MemoryFileSystem.get_file

    def counted(self, path, *arguments, **options):
        copied.append(path.rsplit("/", 1)[1])
        return get_file(self, path, *arguments, **options)

    monkeypatch.setattr(MemoryFileSystem, "get_file", counted)
    return copied
