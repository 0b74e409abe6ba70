"""Files are complete or absent, and errors name them."""

import json
import os

import pytest

from albert_tf import files


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
    write(path, b"old")
    monkeypatch.setattr(os, "replace", raise_no_space)
    with pytest.raises(OSError, match="No space"):
        write(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def raise_no_space(*_):
    raise OSError(28, "No space left on device")


def test_a_folder_appears_only_when_it_is_complete(tmp_path):
    target = tmp_path / "new" / "folder"
    with files.whole_folder(target) as partial:
        (partial / "inner").mkdir()
        (partial / "inner" / "file").write_bytes(b"1")
        assert not target.exists()
    assert (target / "inner" / "file").read_bytes() == b"1"
    with pytest.raises(KeyError), files.whole_folder(tmp_path / "other") as partial:
        (partial / "file").write_bytes(b"1")
        raise KeyError
    assert os.listdir(tmp_path) == ["new"]


def test_errors_of_the_disk_name_the_file(tmp_path):
    words = "out cannot be written: No space"
    with pytest.raises(OSError, match=words), files.writing("out"):
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


def test_a_lock_is_held_by_one_until_it_is_released(tmp_path):
    path = tmp_path / "lock"
    with (
        files.exclusive(path, "making rows"),
        pytest.raises(OSError, match="Another process is making rows"),
        files.exclusive(path, "making rows"),
    ):
        pass
    with files.exclusive(path, "making rows"):
        pass


def test_a_shared_lock_lets_others_share_but_not_own(tmp_path):
    path = tmp_path / "lock"
    with open(path, "a") as one, open(path, "a") as two:
        assert files.try_lock(one) is True
        assert files.try_lock(two) is False
        files.share_lock(one)
        files.share_lock(two)
        assert files.try_lock(one) is False


def test_json_for_people_has_the_asked_indentation():
    assert json.loads(files.json_bytes({"a": 1})) == {"a": 1}
    assert files.json_bytes({"a": 1}, indent=2) == b'{\n  "a": 1\n}\n'


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
