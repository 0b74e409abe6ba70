"""Writes what a model predicts: labels, values or letters, and probabilities."""

import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from albert_tf.file_kinds import check_replaceable
from albert_tf.files import json_bytes, make_folder, write_whole
from albert_tf.storage import AnyPath
from albert_tf.task_config import (
    Classification,
    MultiLabel,
    MultipleChoice,
    Regression,
    TaskConfig,
)
from data_prep.fine_tuning.multiple_choice import letter

Predictions = Mapping[str, np.ndarray]


def write_predictions(
    predicted: Predictions, task_config: TaskConfig, table: AnyPath, answers: AnyPath
) -> None:
    """Writes two files on the predictions for a split, each atomically.

    Args:
      predicted: what the task predicts for R rows, and `index` [R], their ids.
      task_config: the task; not SQuAD, whose answers `albert_tf` writes.
      table: gets the probabilities of each row, or its value, as text with tabs.
      answers: gets the prediction of each row: if its name ends in .jsonl, lines as
        SuperGLUE's leaderboard reads them; else for multiple choice JSON with a letter
        for each id, and for other tasks a table as GLUE's leaderboard reads it.
    """
    is_lines = answers.suffix == ".jsonl"
    for file, content in zip(
        (table, answers), _contents(predicted, task_config, is_lines), strict=True
    ):
        make_folder(file.parent)
        write_whole(file, content)


def check_outputs(task_config: TaskConfig, table: AnyPath, answers: AnyPath) -> None:
    """Checks that `write_predictions` would replace no files of another kind.

    Args:
      task_config: as there.
      table: as there.
      answers: as there.
    Raises:
      FileExistsError: it would.
    """
    classes = 2  # of multiple choice at least
    if isinstance(task_config, Classification | MultiLabel):
        classes = len(task_config.labels)
    sample = {
        "index": np.array(["0"]),
        "probabilities": np.zeros((1, classes)),
        "values": np.zeros(1),
        "options": np.array([classes]),
    }
    is_lines = answers.suffix == ".jsonl"
    for file, content in zip(
        (table, answers), _contents(sample, task_config, is_lines), strict=True
    ):
        check_replaceable(file, content)


def _contents(
    predicted: Predictions, task_config: TaskConfig, is_lines: bool
) -> tuple[bytes, bytes]:
    """The contents of the table and of the answers."""
    if isinstance(task_config, MultipleChoice):
        answers = json_bytes(choice_answers(predicted))
        if is_lines:
            answers = _text(superglue_lines(predicted, None))
        return _text(choice_lines(predicted)), answers
    if isinstance(task_config, MultiLabel):
        lines = label_set_lines(predicted, task_config)
        table = probability_lines(predicted, task_config.labels)
        return _text(table), _text(lines)
    labels = bounds = None
    if isinstance(task_config, Classification):
        labels = task_config.labels
    elif isinstance(task_config, Regression):
        bounds = task_config.bounds
    else:
        raise ValueError(
            "Predictions of classification, regression and multiple choice can be "
            f"written here. Received those of {task_config.task_name}."
        )
    if is_lines and labels is not None:
        lines = superglue_lines(predicted, labels)
    else:
        lines = submission_lines(predicted["index"], predicted, labels, bounds)
    return _text(probability_lines(predicted, labels)), _text(lines)


def superglue_lines(predicted: Predictions, labels: Sequence[str] | None) -> list[str]:
    """Lines of a file for SuperGLUE's leaderboard, an object each.

    Args:
      predicted: `probabilities` [R, labels or options], and `index` [R], the numbers of
        the rows.
      labels: names of the labels; None: options have their place, 0 or 1.
    """
    chosen = predicted["probabilities"].argmax(-1).tolist()
    answers = chosen if labels is None else [labels[place] for place in chosen]
    return [
        json.dumps({"idx": int(index), "label": answer})
        for index, answer in zip(predicted["index"], answers, strict=True)
    ]


def submission_lines(
    indices: Iterable[str],
    predicted: Mapping[str, np.ndarray],
    labels: Sequence[str] | None,
    bounds: Sequence[float] | None = None,
) -> list[str]:
    """Lines of a file for the leaderboard: `index` and `prediction`, tab-separated.

    Args:
      indices: ids of the R rows.
      predicted: `probabilities` [R, labels], or `values` [R] of a regression.
      labels: names of the labels; None: a regression.
      bounds: lowest and highest value of a regression; None: values stay as they are.
    """
    if labels is None:
        values = predicted["values"]
        if bounds is not None:
            values = np.clip(values, bounds[0], bounds[1])
        answers = [f"{value:.3f}" for value in values]
    else:
        answers = [labels[place] for place in predicted["probabilities"].argmax(-1)]
    pairs = zip(indices, answers, strict=True)
    return ["index\tprediction", *(f"{index}\t{answer}" for index, answer in pairs)]


def label_set_lines(predicted: Predictions, task_config: MultiLabel) -> list[str]:
    """Lines of a table, `index` and `labels`, tab-separated: the labels of each row
    whose probabilities reach their thresholds, in the order of the task.

    Args:
      predicted: `probabilities` [R, labels], and `index`, the ids of the R rows.
      task_config: labels, thresholds, and the text between two labels.
    """
    probabilities = predicted["probabilities"]
    thresholds = np.asarray(task_config.all_thresholds, probabilities.dtype)
    labels = np.asarray(task_config.labels)
    lines = ["index\tlabels"]
    for index, row in zip(predicted["index"], probabilities, strict=True):
        names = task_config.label_separator.join(labels[row >= thresholds])
        lines.append(f"{index}\t{names}")
    return lines


def probability_lines(
    predicted: Mapping[str, np.ndarray], labels: Sequence[str] | None
) -> list[str]:
    """Lines of `test_results.tsv`: a header, then one line for each row in order.

    A line holds the value of a regression, or the probability of each label.
    """
    if labels is None:
        return ["value", *(f"{value:.9g}" for value in predicted["values"])]
    rows = predicted["probabilities"]
    return [
        "\t".join(labels),
        *("\t".join(f"{number:.9g}" for number in row) for row in rows),
    ]


def choice_answers(predicted: Predictions) -> dict[str, str]:
    """Question id -> letter of the likeliest option.

    Args:
      predicted: `probabilities` float [R, C], and `index`, the ids of the R questions.
    """
    chosen = predicted["probabilities"].argmax(axis=-1)
    pairs = zip(predicted["index"].tolist(), chosen.tolist(), strict=True)
    return {question_id: letter(index) for question_id, index in pairs}


def choice_lines(predicted: Predictions) -> list[str]:
    """Lines of a table, tab-separated: id, and the probability of each option.

    Args:
      predicted: as `choice_answers`, and `options`, the number of options of each
        question; cells of options that a question lacks are empty.
    """
    most = predicted["probabilities"].shape[1]
    lines = ["\t".join(["id", *map(letter, range(most))])]
    columns = [predicted[name] for name in ("index", "probabilities", "options")]
    for question_id, row, options in zip(*columns, strict=True):
        cells = [f"{value:.9g}" for value in row[:options]]
        lines.append("\t".join([question_id, *cells, *[""] * (most - options)]))
    return lines


def _text(lines: Sequence[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode("utf-8")


def write_cosines(predicted: Predictions, table: AnyPath) -> None:
    """Writes a table, `index` and `cosine`, of pairs of texts, atomically.

    Args:
      predicted: `vectors` float [R, C, H], and `index`, the ids of the R rows.
      table: the file.
    """
    # Few commands need it, and all would wait for it.
    from sklearn.metrics.pairwise import paired_cosine_distances

    vectors = predicted["vectors"].astype(np.float64)
    cosines = 1 - paired_cosine_distances(vectors[:, 0], vectors[:, 1])
    pairs = zip(predicted["index"], cosines, strict=True)
    lines = ["index\tcosine", *(f"{index}\t{value:.6f}" for index, value in pairs)]
    make_folder(table.parent)
    write_whole(table, _text(lines))
