"""Folders of buckets, which cannot be renamed, are whole or known as unfinished."""

import json
import os
import uuid

import pytest

from albert_tf import folders, storage


@pytest.fixture(params=["bucket", "mounted"])
def target(request, tmp_path, monkeypatch):
    """A folder of a bucket, and one of a mounted bucket, which renames none."""
    if request.param == "bucket":
        return storage.as_path(f"memory://{uuid.uuid4().hex}/parent/out")
    replace = os.replace

    def refuse(source, place):
        if os.path.isdir(source):
            raise PermissionError("Operation not permitted")
        replace(source, place)

    monkeypatch.setattr(os, "replace", refuse)
    return tmp_path / "out"


def fill(folder, **contents):
    for name, content in {"a.pb": "A", "z": "Z", **contents}.items():
        (folder / name).write_text(content)
    (folder / "sub").mkdir()
    (folder / "sub" / "b").write_text("B")


def test_a_folder_is_copied_with_its_last_file_last(target, monkeypatch):
    copied = []
    copy = folders._copy

    def note(source, place):
        copied.append(str(place).removeprefix(f"{target}/"))
        copy(source, place)

    monkeypatch.setattr(folders, "_copy", note)
    with folders.whole_folder(target, last="a.pb") as partial:
        fill(partial)
    assert copied == ["sub/b", "z", "a.pb"]
    assert (target / "sub" / "b").read_text() == "B"
    assert (target / "a.pb").read_text() == "A"
    assert sorted(each.name for each in target.iterdir()) == ["a.pb", "sub", "z"]
    folders.check_whole(target)


def test_what_a_kill_left_is_known_and_removed_by_the_next(target, monkeypatch):
    copy = folders._copy

    def die(source, place):
        if source.name == "z":
            raise KeyboardInterrupt
        copy(source, place)

    monkeypatch.setattr(folders, "_copy", die)
    with (
        pytest.raises(KeyboardInterrupt),
        folders.whole_folder(target, last="a.pb") as partial,
    ):
        fill(partial)
    with pytest.raises(ValueError, match="is not complete"):
        folders.check_whole(target)
    assert not (target / "a.pb").exists() and (target / "sub" / "b").exists()
    monkeypatch.setattr(folders, "_copy", copy)
    with folders.whole_folder(target, last="a.pb") as partial:
        (partial / "a.pb").write_text("new")
    folders.check_whole(target)
    found = [each.name for each in target.rglob("*") if each.is_file()]
    assert found == ["a.pb"]


def test_a_second_writer_is_noticed_before_the_last_file(target, monkeypatch):
    copy = folders._copy

    def meanwhile(source, place):
        copy(source, place)
        if source.name == "z":
            other = {"token": "another", "files": ["z", "a.pb"]}
            (target / ".unfinished").write_text(json.dumps(other))

    monkeypatch.setattr(folders, "_copy", meanwhile)
    with (
        pytest.raises(OSError, match="Another process began to write"),
        folders.whole_folder(target, last="a.pb") as partial,
    ):
        fill(partial)
    assert not (target / "a.pb").exists()


def test_a_folder_in_use_is_kept(target):
    target.mkdir(parents=True)
    (target / "mine").write_text("kept")
    with (
        pytest.raises(FileExistsError, match="is in use"),
        folders.whole_folder(target, last="a.pb") as partial,
    ):
        fill(partial)
    assert [each.name for each in target.iterdir()] == ["mine"]
