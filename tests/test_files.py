"""Files are complete or absent, and errors name them."""

import json
import math
import os
from pathlib import Path

import pytest

from albert_tf import files, folders, partial_files, storage


def test_json_is_read_as_it_was_written(tmp_path):
    value = {"words": ["è", "言"], "count": 3, "none": None}
    files.write_json(tmp_path / "value.json", value)
    assert files.read_json(tmp_path / "value.json") == value
    text = (tmp_path / "value.json").read_text(encoding="utf-8")
    assert "言" in text and text.endswith("}\n")


def test_a_missing_json_file_is_an_error_or_an_empty_object(tmp_path):
    path = tmp_path / "value.json"
    assert files.read_json(path, missing_ok=True) == {}
    with pytest.raises(FileNotFoundError, match=r"value\.json"):
        files.read_json(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not valid JSON"),
        (b'{"a": 1', "not valid JSON"),
        (b'{"a": "\xff"}', "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[1]", "one JSON object. Received a list"),
    ],
)
def test_damaged_json_is_named_in_one_line(content, words, tmp_path):
    path = tmp_path / "value.json"
    path.write_bytes(content)
    for missing_ok in (False, True):
        with pytest.raises(ValueError, match=words) as caught:
            files.read_json(path, missing_ok=missing_ok)
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("write", [files.write_whole, files.write_shared])
def test_a_failed_write_keeps_the_older_file_and_leaves_no_other(
    write, tmp_path, monkeypatch
):
    path = tmp_path / "file"
    write(path, b"word\t1\nold")
    monkeypatch.setattr(os, "replace", raise_no_space)
    with pytest.raises(OSError, match="No space"):
        write(path, b"word\t1\nnew")
    assert path.read_bytes() == b"word\t1\nold"
    assert os.listdir(tmp_path) == ["file"]


def raise_no_space(*_):
    raise OSError(28, "No space left on device")


def test_a_folder_appears_only_when_it_is_complete(tmp_path):
    target = tmp_path / "new" / "folder"
    with folders.whole_folder(target, "a") as partial:
        (partial / "inner").mkdir()
        (partial / "inner" / "file").write_bytes(b"1")
        assert not target.exists()
    assert (target / "inner" / "file").read_bytes() == b"1"
    with (
        pytest.raises(KeyError),
        folders.whole_folder(tmp_path / "other", "a") as partial,
    ):
        (partial / "file").write_bytes(b"1")
        raise KeyError
    assert os.listdir(tmp_path) == ["new"]


def test_errors_of_the_disk_name_the_file(tmp_path):
    words = "out cannot be written: No space"
    with pytest.raises(OSError, match=words), partial_files.writing("out"):
        raise_no_space()


def test_json_that_cannot_be_written_leaves_the_older_file(tmp_path):
    path = tmp_path / "settings.json"
    files.write_json(path, {"size": 1, "name": "größe"})
    with pytest.raises(TypeError):
        files.write_json(path, {"size": object()})
    assert json.loads(path.read_text(encoding="utf-8"))["name"] == "größe"
    assert os.listdir(tmp_path) == ["settings.json"]


def test_digests_are_sha_256(tmp_path):
    # The digest of "abc" that FIPS 180-2 gives as its first example.
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    (tmp_path / "abc").write_bytes(b"abc")
    assert files.sha256(tmp_path / "abc") == files.digest(b"abc") == expected


def test_json_for_people_has_the_asked_indentation():
    assert json.loads(files.json_bytes({"a": 1})) == {"a": 1}
    assert files.json_bytes({"a": 1}, indent=2) == b'{\n  "a": 1\n}\n'


@pytest.mark.parametrize(
    "path",
    ["gs:/b/f", "s4://b/f", "hdfs://h/f", "http://h/f", "file:///f", Path("gs://b/f")],
)
def test_paths_of_other_schemes_are_refused_before_anything_is_written(
    path, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for use in (
        files.read_json,
        files.make_folder,
        lambda path: files.write_whole(path, b"1"),
        lambda path: folders.whole_folder(path, "a").__enter__(),
        lambda path: files.partial_file(path).__enter__(),
    ):
        with pytest.raises(ValueError, match="not a path of this machine") as caught:
            use(path)
        assert str(path) in str(caught.value)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("path", ["a:b", "c:/d", "./gs:", "a/gs://b", "x?://y"])
def test_names_with_a_colon_are_local(path):
    assert storage.as_path(path) == Path(path)


def test_json_is_strict_whatever_the_numbers(tmp_path):
    value = {"a": [math.inf, -math.inf], "b": {"c": (math.nan, 1.5)}, "d": "\udce9"}
    files.write_json(tmp_path / "value.json", value)
    content = (tmp_path / "value.json").read_bytes()
    assert json.loads(content, parse_constant=pytest.fail) == {
        "a": ["inf", "-inf"],
        "b": {"c": [None, 1.5]},
        "d": "\udce9",
    }


def test_files_that_belong_together_are_written_together(tmp_path, monkeypatch):
    one, two = tmp_path / "one", tmp_path / "two"
    files.write_together({one: b"a\t1", two: b"b\t1"})
    rename = os.replace

    def fail_at_two(source, target):
        if target == two:
            raise_no_space()
        rename(source, target)

    monkeypatch.setattr(os, "replace", fail_at_two)
    with pytest.raises(OSError, match="two cannot be written: No space"):
        files.write_together({one: b"a\t1\n2", two: b"b\t1\n2"})
    assert (one.read_bytes(), two.read_bytes()) == (b"a\t1", b"b\t1")
    one.unlink()
    with pytest.raises(OSError, match="two cannot be written: No space"):
        files.write_together({one: b"a\t1\n2", two: b"b\t1\n2"})
    assert os.listdir(tmp_path) == ["two"]


def test_temporary_files_are_new_and_links_are_left_alone(tmp_path):
    diary = tmp_path / "diary"
    diary.write_bytes(b"mine")
    names = [".out.partial", ".out.00000000.partial", ".out.lock"]
    for name in names:
        (tmp_path / name).symlink_to(diary)
    files.write_whole(tmp_path / "out", b"1")
    assert diary.read_bytes() == b"mine"
    assert sorted(os.listdir(tmp_path)) == sorted([*names, "diary", "out"])


def test_what_a_killed_process_left_is_removed_and_a_living_one_keeps_its_own(tmp_path):
    left = tmp_path / ".out.0123abcd.partial"
    left.write_bytes(b"half")
    others = [tmp_path / ".out.0123abcd.partial.x", tmp_path / ".out2.0123abcd.partial"]
    for other in others:
        other.write_bytes(b"other")
    with files.partial_file(tmp_path / "out") as living:
        assert not left.exists()
        files.write_whole(tmp_path / "out", b"1")
        assert os.path.exists(living.name)
    assert not os.path.exists(living.name)
    assert all(other.exists() for other in others)


def test_abandoned_files_are_told_by_their_age_on_disks_without_locks(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(partial_files, "try_lock", lambda _: None)
    old, new = tmp_path / ".out.00000001.partial", tmp_path / ".out.00000002.partial"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    files.write_whole(tmp_path / "out", b"1")
    assert sorted(os.listdir(tmp_path)) == [new.name, "out"]


def test_folders_of_two_writers_are_apart_and_the_first_wins(tmp_path):
    left = tmp_path / ".out.0123abcd.partial"
    left.mkdir()
    (left / "rest").write_bytes(b"half")
    home = tmp_path / "home"
    home.mkdir()
    (home / "gold").write_bytes(b"gold")
    (tmp_path / ".out.00000000.partial").symlink_to(home)
    with (
        pytest.raises(FileExistsError, match="out is in use"),
        folders.whole_folder(tmp_path / "out", "a") as second,
    ):
        assert not left.exists()
        with folders.whole_folder(tmp_path / "out", "a") as first:
            assert first != second
            (first / "a").write_bytes(b"1")
        (second / "b").write_bytes(b"2")
    assert os.listdir(tmp_path / "out") == ["a"]
    assert os.listdir(home) == ["gold"]
    assert not second.exists()


def test_a_folder_is_as_readable_as_others(tmp_path):
    (tmp_path / "plain").mkdir()
    with folders.whole_folder(tmp_path / "whole", "a") as partial:
        (partial / "file").write_bytes(b"1")
    files.write_whole(tmp_path / "file", b"1")
    (tmp_path / "plain" / "file").write_bytes(b"1")
    modes = [(tmp_path / n).stat().st_mode for n in ("plain", "whole")]
    assert modes[0] == modes[1]
    modes = [(tmp_path / n).stat().st_mode for n in ("plain/file", "file")]
    assert modes[0] == modes[1]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1, "b": {"c": 2, "d": 3, "c": 2}}', "has the key 'c' twice"),
        ('{"a": 1, "a": 1}', "has the key 'a' twice"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
    ],
)
def test_json_that_no_writer_makes_is_refused_with_its_file(text, problem, tmp_path):
    path = tmp_path / "values.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"values\.json is not .*{problem}"):
        files.read_json(path)


def test_paths_must_be_utf8():
    files.require_utf8("ü")
    with pytest.raises(ValueError, match=r"must be UTF-8.*udcff.*: rename"):
        files.require_utf8(b"x\xff".decode("utf-8", "surrogateescape"))


def test_digests_are_shortened_for_messages_and_other_values_are_not():
    assert files.short_digest("ab" * 32) == "abababababab…"
    assert files.short_digest("ab") == "ab" and files.short_digest(7) == 7


@pytest.mark.parametrize("below", ["", "sub", "sub/deeper"])
def test_a_folder_in_place_of_a_file_is_refused_and_the_file_kept(tmp_path, below):
    file = tmp_path / "file"
    file.write_text("kept")
    with pytest.raises(NotADirectoryError, match="a file, not a folder") as found:
        files.make_folder(file / below)
    assert found.value.filename == str(file)
    assert file.read_text() == "kept"
