"""zero_shot.py as a user runs it."""

import json

import pytest

from helpers.scripts import assert_one_line, run_script, succeed
from helpers.served_models import write_classifier

ENTAILMENT = ["contradiction", "entailment", "neutral"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a model of entailment, another classifier, and a table."""
    folder = tmp_path_factory.mktemp("models")
    for name, labels in {"mnli": ENTAILMENT, "other": ["bad", "good", "odd"]}.items():
        (folder / name).mkdir()
        write_classifier(folder / name, labels, pair=True)
    table = "text,topic\nworda,lovely\nwordb wordc,awful\nwordd,lovely\n"
    (folder / "news.csv").write_text(table)
    return folder


def ask(place, *arguments, model="mnli"):
    flags = (f"--model={model}", "--candidate_labels=lovely, awful")
    return run_script("zero_shot.py", *flags, *arguments, cwd=place)


def test_labels_are_ranked_for_each_text(place):
    done = ask(place, "worda", "wordb")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if line[0] != " "] == ["worda", "wordb"]
    shares = [float(line.split("(")[1][:-2]) for line in lines if line[0] == " "]
    assert shares[0] >= shares[1] and sum(shares[:2]) == pytest.approx(100, abs=0.11)


def test_tables_are_scored_and_written(place):
    done = ask(
        place,
        *("--input_file=news.csv", "--label_column=topic", "--output_file=out.jsonl"),
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (place / "out.jsonl").read_text().splitlines()]
    assert [row["text"] for row in rows] == ["worda", "wordb wordc", "wordd"]
    gold = ["lovely", "awful", "lovely"]
    right = sum(row["labels"][0] == g for row, g in zip(rows, gold, strict=True))
    assert f"accuracy {right / 3:.1%}, macro F1" in done.stdout
    assert all(sum(row["scores"]) == pytest.approx(1, abs=1e-5) for row in rows)
    # Lines of text, from a file or from standard input, are the same texts.
    (place / "lines.txt").write_text("worda\nwordb wordc\nwordd\n")
    again = ("--input_file=lines.txt", "--output_file=again.jsonl")
    succeed(
        "zero_shot.py",
        *("--model=mnli", "--candidate_labels=lovely,awful", *again),
        cwd=place,
    )
    assert (place / "again.jsonl").read_text() == (place / "out.jsonl").read_text()


def test_what_cannot_be_done_is_one_line(place):
    assert_one_line(ask(place), 2, "Pass texts")
    assert_one_line(ask(place, "a", model="other"), 1, "needs a model of entailment")
    assert_one_line(ask(place, "--hypothesis_template=x", "a"), 1, "one {}")
    table = ("--input_file=news.csv", "--label_column=text")
    assert_one_line(ask(place, *table), 1, "has the label 'worda'")
    assert_one_line(ask(place, *table, "a"), 2, "have no labels")
    assert_one_line(ask(place, *table, "--multi_label"), 2, "leave --multi_label out")
    lines = ("--input_file=mnli/vocab.txt", "--label_column=a")
    assert_one_line(ask(place, *lines), 1, "Lines of text have no labels")
    assert_one_line(ask(place, "--input_file=none.txt"), 1, "There is no file none.txt")
