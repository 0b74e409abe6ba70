"""The quick start as a newcomer runs it, made short; and what it leaves behind."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.paths import ROOT
from helpers.strict_json import assert_strict_json

BOOK = ["The cat sat on the mat; it was a fine mat, said the cat.", "Who sat there?"]


def quickstart(*options, cwd):
    command = [str(ROOT / "run_scripts" / "quickstart.sh"), *options]
    # The environment of the tests, whether or not a shell has activated it.
    path = os.pathsep.join([str(Path(sys.prefix) / "bin"), os.environ["PATH"]])
    environment = os.environ | {"VIRTUAL_ENV": sys.prefix, "PATH": path}
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder and the printed lines of a short quick start on the embedded text."""
    folder = tmp_path_factory.mktemp("quickstart")
    result = quickstart("--num_train_steps=12", cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder / "quickstart_output", result.stdout


def test_the_table_and_the_answer_are_printed(finished):
    _, printed = finished
    table = printed.split("== Result")[1]
    for line in ("rows, training", "unknown tokens", "steps a second"):
        assert line in table
    for line in ("masked-LM accuracy", "commonest piece", "sentence-order accuracy"):
        [row] = [row for row in table.splitlines() if line in row]
        assert 0 <= float(row.split()[-1].rstrip("%")) <= 100
    for line in ("classifier's accuracy", "commonest label"):
        [row] = [row for row in table.splitlines() if line in row]
        assert 0 < float(row.split()[-1].rstrip("%")) < 100
    answer = table.split("asked by text:")[1]
    assert re.search(r"\n  \w+ \d+%, \w+ \d+%, \w+ \d+%  \(it is from: \w+\)", answer)
    curves = answer.splitlines()[-1]
    assert "classifier/curves.png" in curves and "model/curves.png" in curves


def test_the_nearest_sentences_are_listed(finished):
    _, printed = finished
    lines = printed.split("The nearest of ")[1].splitlines()
    assert [bool(re.match(r"  -?[01]\.\d\d  \w", line)) for line in lines[1:4]] == [
        True,
        True,
        True,
    ]
    cosines = [float(line.split()[0]) for line in lines[1:4]]
    assert cosines == sorted(cosines, reverse=True)
    assert "embed.py --model=" in lines[4]


def test_every_stage_left_its_output(finished):
    folder, _ = finished
    results = json.loads((folder / "model" / "results.json").read_text())
    assert results["global_step"] == 12
    rows = json.loads((folder / "eval.tfrecord.json").read_text())["rows"]
    assert results["eval_rows"] == rows > 100
    extra = folder / "saved_model" / "12" / "assets.extra"
    tokenizer = json.loads((extra / "tokenizer.json").read_text())
    assert tokenizer["vocab_size"] == 1200 and tokenizer["lower_case"] is True
    assert not list(folder.rglob(".*partial*"))
    assert assert_strict_json(folder) > 6


def test_a_second_run_makes_nothing_anew(finished):
    folder, _ = finished
    files = ["train.tfrecord", "vocabulary.model", "saved_model/12/saved_model.pb"]
    before = [(folder / name).stat().st_mtime_ns for name in files]
    result = quickstart("--num_train_steps=12", cwd=folder.parent)
    assert result.returncode == 0, result.stderr
    assert [(folder / name).stat().st_mtime_ns for name in files] == before
    assert "model is there already." in result.stdout


@pytest.mark.parametrize("option", ["--inptu=book.txt", "--num_train_steps=abc"])
def test_a_wrong_option_is_refused(option, tmp_path):
    result = quickstart(option, cwd=tmp_path)
    assert result.returncode == 2 and option.split("=")[-1] in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_folder_of_other_text_is_refused(finished, tmp_path):
    folder, _ = finished
    (tmp_path / "book.txt").write_text("\n\n".join(BOOK * 900))
    result = quickstart("--input=book.txt", f"--output_dir={folder}", cwd=tmp_path)
    assert result.returncode == 1 and "holds other text" in result.stderr


def test_text_too_short_for_the_vocabulary_names_the_largest(tmp_path):
    (tmp_path / "book.txt").write_text("\n\n".join(BOOK * 900))
    result = quickstart("--input=book.txt", cwd=tmp_path)
    assert result.returncode == 1
    assert "vocab_size must be at most" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_model_fills_a_blank_of_a_text_that_it_has_not_seen(finished):
    folder, printed = finished
    assert len(list((folder / "model").glob("*.model"))) == 1
    lines = printed.split("filled:")[1].splitlines()[1:6]
    assert lines[0].count("[MASK]") == 1
    assert len([line for line in lines if line.endswith("%)")]) == 3
    assert "fill_mask.py --model=" in lines[-1]
