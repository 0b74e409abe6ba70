"""The line about an error is never empty, never long, and says what was being done."""

import errno
import itertools

import aiohttp
import botocore.exceptions
import gcsfs.retry
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from albert_tf.files import json_bytes, parse_json, read_json
from albert_tf.storage import as_path
from flags import error_text
from helpers.bucket_files import new_bucket
from helpers.scripts import run_script


def described(function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        return error_text.describe(error)
    raise AssertionError("there was no error")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), ["MemoryError", "not enough memory"]),
        (RecursionError(), ["RecursionError", "nested too deeply"]),
        (OSError(28, "No space left on device"), ["OSError", "No space left"]),
        (OverflowError(), ["OverflowError"]),
    ],
)
def test_an_error_without_a_file_gets_its_kind_and_place(error, words, monkeypatch):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("albert_tf.files.json.dumps", fail)
    line = described(json_bytes, {})
    for word in (*words, "in _encode (albert_tf/files.py:"):
        assert word in line


def test_errors_of_python_itself_say_where():
    line = described(parse_json, "{")
    assert line.startswith("JSONDecodeError in parse_json (albert_tf/files.py:")
    assert "Expecting property name" in line


def test_errors_that_the_project_raises_stay_as_they_are(tmp_path):
    assert described(read_json, tmp_path / "no") == (
        f"There is no file {tmp_path}/no: check the path."
    )


def test_a_file_of_an_operating_system_error_is_named(tmp_path):
    line = described(open, tmp_path / "no")
    assert line == f"FileNotFoundError: {tmp_path}/no: No such file or directory"


def test_notes_are_part_of_the_line():
    error = ValueError("bad row")
    error.add_note("In rows.tfrecord.")
    assert error_text.describe(error) == "bad row In rows.tfrecord."


def test_a_long_text_keeps_its_beginning_and_end():
    line = error_text.describe(ValueError("\n".join(["first", *"x" * 99_999, "last"])))
    assert len(line) <= error_text.MAX_LENGTH and "\n" not in line
    assert line.startswith("first x x") and line.endswith("x x last")


def test_of_an_error_in_a_graph_only_the_error_is_shown():
    text = "in user code:\n\n    File 'x.py', line 3\n\n    ValueError: odd shape\n"
    assert error_text.describe(ValueError(text)) == "odd shape"


def test_every_kind_of_error_has_a_text():
    kinds = [ValueError, OSError, MemoryError, RecursionError, OverflowError]
    for kind, text in itertools.product(kinds, ["", "\n ", "word"]):

        def fail(kind=kind, text=text):
            raise kind(text)

        assert described(fail).strip(": ")


def test_an_argument_that_is_not_utf8_is_refused_by_every_script(tmp_path):
    argument = b"--model=m\xffodel".decode("utf-8", "surrogateescape")
    done = run_script("export_saved_model.py", argument, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("ERROR: Arguments must be UTF-8. Received '--model=m")
    assert r"\udcff" in done.stderr


REFUSED = {"Error": {"Code": "NoSuchBucket", "Message": "no bucket"}}


@pytest.mark.parametrize(
    "error",
    [
        botocore.exceptions.ClientError(REFUSED, "GetObject"),
        gcsfs.retry.HttpError({"code": 401, "message": "no bucket"}),
        aiohttp.ClientPayloadError("no bucket"),
        FileNotFoundError("no bucket"),
        PermissionError("no bucket"),
        OSError(errno.EIO, "no bucket"),
        ConnectionResetError("no bucket"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_a_storage_names_the_path_that_was_in_use(error, monkeypatch):
    def fail(*_, **__):
        raise error

    path = as_path(new_bucket()) / "weights.json"
    path.write_bytes(b"{}")
    monkeypatch.setattr(MemoryFileSystem, "_open", fail)
    line = described(read_json, path)
    assert line.startswith(f"{path} cannot be reached ({type(error).__name__}: ")
    assert "no bucket" in line
    assert line.endswith("check the path, your permissions and the connection.")


def test_an_error_of_a_storage_without_a_path_is_told_as_well():
    line = error_text.describe(aiohttp.ClientPayloadError("cut off"))
    assert line.startswith("A bucket cannot be reached (ClientPayloadError: cut off)")


def test_errors_about_a_bucket_that_the_project_raises_stay_as_they_are():
    path = as_path(new_bucket()) / "none"
    assert described(read_json, path) == f"There is no file {path}: check the path."


def test_a_full_disk_is_no_fault_of_a_bucket(monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    path = as_path(new_bucket()) / "weights.json"
    path.write_bytes(b"{}")
    monkeypatch.setattr(MemoryFileSystem, "_open", fail)
    assert described(read_json, path).startswith("OSError in read_json (albert_tf/file")
