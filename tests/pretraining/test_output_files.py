"""Names of record files, and the report on them."""

import pytest

from data_prep.pretraining.output_files import (
    expand_outputs,
    label_warning,
    report_table,
    unknown_warning,
)


@pytest.mark.parametrize("names", ["", " , ", "a,b,./a"])
def test_output_names_that_are_missing_or_double_are_refused(
    names, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="each once"):
        expand_outputs(names)


def test_output_folders_are_made_and_a_folder_is_no_output(tmp_path):
    paths = f"{tmp_path}/x/a, {tmp_path}/y/b"
    expected = (f"{tmp_path}/x/a", f"{tmp_path}/y/b")
    assert expand_outputs(paths).own_paths == expected
    assert (tmp_path / "y").is_dir()
    with pytest.raises(ValueError, match="is a folder"):
        expand_outputs(str(tmp_path))
    with pytest.raises(ValueError, match="new/ is a folder: name a file"):
        expand_outputs(f"{tmp_path}/new/")
    with pytest.raises(OSError, match="file/a cannot be made or written"):
        (tmp_path / "file").write_text("")
        expand_outputs(str(tmp_path / "file" / "a" / "b"))


def test_a_range_of_shards(tmp_path):
    some = expand_outputs(f"{tmp_path}/rows@9", "3:5")
    assert len(some.paths) == 9 and list(some.own) == [3, 4]
    assert [path[-14:] for path in some.own_paths] == [
        "00003-of-00009",
        "00004-of-00009",
    ]


@pytest.mark.parametrize("text", ["5:3", "3", "0:10", "a:b", "-1:2", "3:3", ":"])
def test_a_range_that_cannot_be_is_refused(text, tmp_path):
    with pytest.raises(ValueError, match=r"within 0:9.*Received"):
        expand_outputs(f"{tmp_path}/rows@9", text)


def test_the_report_of_some_shards_is_named_after_them(tmp_path):
    names = f"{tmp_path}/rows@9"
    assert expand_outputs(names).report_path == f"{tmp_path}/report.json"
    some = expand_outputs(names, "3:5")
    assert some.report_path == f"{tmp_path}/report-00003-00005.json"


def test_a_report_is_a_line_a_number():
    report = {
        "rows": 12345,
        "unknown_share": 0.0512,
        "pair_labels": {"in order": 1, "swapped": 3},
        "skipped": {},
        "shares": {"pair_labels": {"in order": 0.25, "swapped": 0.75}},
    }
    assert [line.split(maxsplit=1) for line in report_table(report).splitlines()] == [
        ["rows", "12,345"],
        ["unknown", "share                   5.12%"],
        ["pair", "labels                     in order: 1 (25.0%), swapped: 3 (75.0%)"],
        ["skipped", "none"],
    ]


def test_many_unknown_tokens_are_worth_a_warning():
    labels = {"in order": 2, "swapped": 2, "inside a sentence, no order label": 4}
    assert label_warning({"rows": 8, "pair_labels": labels}) == ""
    labels["inside a sentence, no order label"] = 5
    assert "5 of 9 rows" in label_warning({"rows": 9, "pair_labels": labels})
    assert unknown_warning({"unknown_share": 0.02}) == ""
    assert "5.1% of the tokens" in unknown_warning({"unknown_share": 0.0512})
