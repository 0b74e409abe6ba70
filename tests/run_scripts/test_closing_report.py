"""The last lines of a run: scores as a table, and commands that can be typed."""

import shlex

import pytest

from albert_tf.task_config import (
    Classification,
    Embedding,
    MultipleChoice,
    Squad,
    Tagging,
)
from albert_tf.training.fine_tune import FineTuned
from flags import closing_report
from helpers.paths import ROOT
from helpers.scripts import run_script

SETTINGS = {"task": "toy", "train": {"train_batch_size": 3_072}}
RESULTS = {
    "status": "finished",
    "global_step": 1_250,
    "settings": SETTINGS,
    "train": {},
}


def printed(capsys, outcome, folder="out"):
    closing_report.print_fine_tuning(outcome, folder)
    return capsys.readouterr().out


def test_pretraining_ends_with_scores_and_commands(capsys):
    scores = {"eval_rows": 1_097, "masked_lm_accuracy": 0.20346, "rows_per_second": 3.0}
    closing_report.print_pretraining({**RESULTS, **scores}, "out")
    text = capsys.readouterr().out
    assert "Trained on the task toy: 1,250 steps of 3,072 rows" in text
    assert "curves  out/curves.png" in text and "log     out/train.log" in text
    rows = [line.rsplit(maxsplit=1) for line in text.splitlines()]
    assert ["eval rows", "1,097"] in rows
    assert ["masked lm accuracy", "0.2035"] in rows
    assert "per second" not in text
    assert_commands_parse(text, 4)


@pytest.mark.parametrize(
    ("task", "commands"),
    [
        (Squad(version_2=True), 2),
        (Tagging(task_name="ner", labels=("O", "B-X"), max_seq_length=16), 2),
        (Embedding(task_name="x", max_seq_length=16), 2),
        (MultipleChoice(), 2),
        (Classification(task_name="custom", labels=("a", "b"), max_seq_length=16), 2),
        (Classification(task_name="cola", labels=("0", "1"), max_seq_length=16), 1),
        (
            Classification(
                task_name="mnli",
                labels=("contradiction", "entailment", "neutral"),
                max_seq_length=16,
            ),
            2,
        ),
    ],
    ids=lambda value: getattr(value, "task_name", None),
)
def test_commands_of_each_task_can_be_typed(task, commands, capsys):
    results = {**RESULTS, "sets": {"dev": {"eval_rows": 7, "eval_accuracy": 0.5}}}
    text = printed(capsys, FineTuned(results, task_config=task), "o ut")
    assert_commands_parse(text, commands)


def assert_commands_parse(text, count):
    lines = [line for line in text.splitlines() if " python " in line]
    assert len(lines) == count
    for line in lines:
        script, *arguments = shlex.split(line[line.index("python ") :])[1:]
        # A purpose of several words stands before the command.
        done = run_script(
            script.split("/")[1], *arguments, "--only_check_args", cwd=ROOT
        )
        assert done.returncode == 0, (line, done.stderr)


def test_splits_are_columns(capsys):
    sets = {
        "dev": {"eval_rows": 41, "eval_accuracy": 0.75, "f1": None},
        "dev_mm": {"eval_rows": 43, "eval_accuracy": 0.5},
    }
    text = printed(capsys, FineTuned({**RESULTS, "sets": sets}))
    cells = [line.split() for line in text.splitlines()]
    assert ["scores", "dev", "dev_mm"] in cells
    assert ["eval", "rows", "41", "43"] in cells
    assert ["eval", "accuracy", "0.7500", "0.5000"] in cells


def test_several_runs_are_summarized(capsys):
    one = FineTuned({**RESULTS, "sets": {"dev": {"eval_rows": 5}}})
    summary = {"runs": 3, "metric": "f1", "median": 0.625, "best_run": "run_2"}
    summary["settings"] = SETTINGS
    text = printed(capsys, FineTuned(summary, runs={"run_2": one}))
    assert "3 runs, median f1 0.625" in text
    assert "out/run_2/curves.png" in text


@pytest.mark.parametrize("status", ["pre-empted", "out of time"])
def test_a_stopped_run_says_how_to_go_on(status, capsys):
    text = printed(capsys, FineTuned({**RESULTS, "status": status}))
    assert text == (
        f"\nStopped at step 1,250, {status}: the same command goes on from there.\n"
    )


def test_an_evaluation_prints_its_scores_alone(capsys):
    text = printed(capsys, FineTuned({"dev": {"eval_rows": 5, "f1": 0.5}}))
    assert text.splitlines()[0].split() == ["scores", "dev"] and "Next" not in text
