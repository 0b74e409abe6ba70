"""Standard input as a file: "-" in place of a table or a text."""

import io
import sys
from pathlib import Path

import pytest
from absl import flags

from flags.standard_input import standard_input_as_file


def stored(monkeypatch, content, **given):
    """The name and content of the file that standard input becomes."""
    values = flags.FlagValues()
    for name, value in given.items():
        flags.DEFINE_string(name, value, "", flag_values=values)
    values(["script"])
    stream = io.TextIOWrapper(io.BytesIO(content))
    monkeypatch.setattr(sys, "stdin", stream)
    with standard_input_as_file(values):
        [path] = [Path(values[name].value) for name in given if given[name] == "-"]
        found = path.name, path.read_bytes()
    assert not path.exists()
    return found


@pytest.mark.parametrize(
    ("content", "flag", "name"),
    [
        (b'{"text": "a", "label": 1}\n', "train_file", "stdin.jsonl"),
        (b"\xef\xbb\xbftext\tlabel\na\t1\n", "dev_file", "stdin.tsv"),
        (b"text,label\na,1\n", "predict_file", "stdin.csv"),
        (b"PAR1\x15\x04", "train_file", "stdin.parquet"),
        (b"one, two\nthree\n", "input_file", "stdin.txt"),
        (b'id,"body"\n1,a\n', "input_file", "stdin.csv"),
        (b"id\tbody\n1\ta\n", "input_file", "stdin.tsv"),
        (b"", "input_file", "stdin.txt"),
        (b"\xff\xfe\n", "texts", "stdin.txt"),
    ],
)
def test_the_suffix_is_that_of_the_content(content, flag, name, monkeypatch):
    found = stored(monkeypatch, content, **{flag: "-", "text_column": "body"})
    assert found == (name, content)


def test_two_flags_cannot_share_it(monkeypatch):
    with pytest.raises(flags.Error, match="--train_file and --dev_file"):
        stored(monkeypatch, b"", train_file="-", dev_file="-")


@pytest.mark.parametrize("beginning", [b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd\x04"])
def test_packed_input_is_refused(beginning, monkeypatch):
    with pytest.raises(flags.Error, match="is packed: unpack it before"):
        stored(monkeypatch, beginning, train_file="-")


def test_other_values_stay(monkeypatch):
    values = flags.FlagValues()
    flags.DEFINE_string("input_file", "a.txt", "", flag_values=values)
    values(["script"])
    with standard_input_as_file(values):
        assert values["input_file"].value == "a.txt"
