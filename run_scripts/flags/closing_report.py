"""The last lines of a run: what there is now, its scores, and what can be done next."""

import json
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from albert_tf.checkpoints.output_names import LOG_FILE
from albert_tf.storage import as_path
from albert_tf.task_config import (
    Classification,
    Embedding,
    MultiLabel,
    MultipleChoice,
    Regression,
    Squad,
    Tagging,
    TaskConfig,
)
from data_prep.fine_tuning.task_data import CUSTOM

if TYPE_CHECKING:
    from albert_tf.training.fine_tune import FineTuned

_FINISHED = ("finished", "stopped early")
# Numbers of an evaluation that are no score.
_COUNTS = ("eval_rows", "eval_rows_of")
_NLI = {"entailment", "contradiction"}
# Scripts and their flags, with {} for the folder of the model.
_EMBED = [
    "embed.py",
    "--model={}",
    "--input_file=TEXTS.txt",
    "--output_file=TEXTS.npy",
]
_ASK = ["ask.py", "--model={}", "--context=TEXT.txt", "--question=...?"]
_EXPORT = ["export_saved_model.py", "--model={}", "--export_dir=SERVED"]


def print_pretraining(results: Mapping[str, Any], output_dir: str) -> None:
    """Prints the report of a pretraining.

    Args:
      results: the content of `results.json`.
      output_dir: the folder of the run.
    """
    scores = {"evaluation": results} if "eval_rows" in results else {}
    commands = {
        "fill a blank": ["fill_mask.py", "--model={}", "... [MASK] ..."],
        "fine-tune": [
            "run_classifier.py",
            "--init_checkpoint={}",
            f"--task_name={CUSTOM}",
            "--train_file=TABLE.csv",
            "--output_dir=FINE_TUNED",
        ],
        "vectors": _EMBED,
        "serve": _EXPORT,
    }
    if "train" in results:
        _print(results, scores, output_dir, commands)


def print_fine_tuning(outcome: "FineTuned", output_dir: str) -> None:
    """Prints the report of a fine-tuning, or the scores of an evaluation.

    Args:
      outcome: as of `fine_tune` or `evaluate`.
      output_dir: the folder of the run.
    """
    if not (outcome.trained or outcome.runs):
        if outcome.reports:
            print("\n".join(score_table(outcome.reports)), flush=True)
        return
    commands = _commands(outcome.task_config) if outcome.task_config else {}
    _print(outcome.results, outcome.reports, output_dir, commands)


def _commands(task: TaskConfig) -> dict[str, list[str]]:
    """Use of a trained model -> script and flags; {} is its folder."""
    predict = ["--nodo_train", "--do_predict", "--output_dir={}"]
    commands = {}
    match task:
        case Squad():
            commands["ask"] = _ASK
        case Tagging():
            commands["tag"] = [
                "run_tagging.py",
                *predict,
                "--predict_file=SENTENCES.conll",
            ]
        case Embedding():
            commands["vectors"] = _EMBED
        case MultipleChoice():
            commands["answer"] = [
                "run_race.py",
                *predict,
                "--input_format=jsonl",
                "--predict_file=QUESTIONS.jsonl",
            ]
        case Classification() | Regression() | MultiLabel():
            if task.task_name == CUSTOM:
                commands["predict"] = [
                    "run_classifier.py",
                    *predict,
                    "--predict_file=TABLE.csv",
                ]
            if isinstance(task, Classification) and set(task.labels) >= _NLI:
                commands["labels of your own"] = [
                    "zero_shot.py",
                    "--model={}",
                    "--candidate_labels=politics,sports",
                    "...",
                ]
    return {**commands, "serve": _EXPORT}


def _print(
    results: Mapping[str, Any],
    scores: Mapping[str, Mapping[str, Any]],
    output_dir: str,
    commands: Mapping[str, list[str]],
) -> None:
    """Prints all parts.

    Args:
      results: the content of `results.json`, of one run or of several.
      scores: name of the split -> its metrics.
      output_dir: the folder of the run.
      commands: what is next -> script and flags; {} is the folder.
    """
    status = results.get("status", "finished")
    if status not in _FINISHED:
        print(
            f"\nStopped at step {results['global_step']:,}, {status}: the same command "
            "goes on from there.",
            flush=True,
        )
        return
    lines = ["", _heading(results), f"  model   {output_dir}"]
    folder = as_path(output_dir)
    if results.get("best_run"):
        folder = folder / results["best_run"]
        lines.append(f"  best    {folder}")
    lines += [
        f"  curves  {folder / 'curves.png'}, curves.html",
        f"  log     {folder / LOG_FILE}",
        *score_table(scores),
        "Next:",
    ]
    width = max(map(len, commands), default=0)
    for purpose, (script, *arguments) in commands.items():
        words = " ".join(shlex.quote(each.format(output_dir)) for each in arguments)
        lines.append(f"  {purpose:{width}}  python run_scripts/{script} {words}")
    print("\n".join(lines), flush=True)


def _heading(results: Mapping[str, Any]) -> str:
    settings = results["settings"]
    trained = f"Trained on the task {settings['task']}"
    if "runs" in results:
        median = json.dumps(results["median"])
        return f"{trained}: {results['runs']} runs, median {results['metric']} {median}"
    rows = settings["train"]["train_batch_size"]
    return f"{trained}: {results['global_step']:,} steps of {rows:,} rows"


def score_table(scores: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Lines of a table: a row for each metric, a column for each split."""
    if not scores:
        return []
    reports = {
        name: {
            metric: value
            for metric, value in report.items()
            if (isinstance(value, float) or metric in _COUNTS)
            and "per_second" not in metric
        }
        for name, report in scores.items()
    }
    metrics = list(dict.fromkeys(key for each in reports.values() for key in each))
    width = max(len("scores"), *map(len, metrics))
    columns = {name: max(len(name), 10) for name in reports}
    header = "  ".join(f"{name:>{size}}" for name, size in columns.items())
    lines = [f"{'scores':{width}}  {header}"]
    for metric in metrics:
        cells = [
            f"{_cell(report.get(metric)):>{columns[name]}}"
            for name, report in reports.items()
        ]
        lines.append(f"{metric.replace('_', ' '):{width}}  {'  '.join(cells)}")
    return lines


def _cell(value: float | int | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
