"""Files of predictions."""

import json

import numpy as np
import pytest

from albert_tf.storage import as_path
from albert_tf.task_config import Classification, MultipleChoice, Regression, Squad
from data_prep.fine_tuning import predictions


def test_submissions_are_as_the_leaderboard_reads_them():
    probabilities = np.array([[0.9, 0.1], [0.25, 0.75]])
    lines = predictions.submission_lines(
        ["7", "9"], {"probabilities": probabilities}, ["entailment", "not_entailment"]
    )
    assert lines == ["index\tprediction", "7\tentailment", "9\tnot_entailment"]
    values = {"values": np.array([5.4, -0.2, 3.14159])}
    lines = predictions.submission_lines("abc", values, None, (0.0, 5.0))
    assert lines[1:] == ["a\t5.000", "b\t0.000", "c\t3.142"]
    assert predictions.probability_lines(
        {"probabilities": probabilities}, ["x", "y"]
    ) == [
        "x\ty",
        "0.9\t0.1",
        "0.25\t0.75",
    ]
    assert predictions.probability_lines(values, None)[1:] == ["5.4", "-0.2", "3.14159"]


def test_predictions_are_letters_and_probabilities_by_id(tmp_path):
    predicted = {
        "index": np.array(["one", "zwei ä"]),
        "options": np.array([3, 2], np.int32),
        "probabilities": np.array([[0.25, 0.125, 0.625], [0.5625, 0.4375, 0.0]]),
    }
    files = tmp_path / "new" / "answers.json", tmp_path / "new" / "table.tsv"
    predictions.write_predictions(
        predicted, MultipleChoice("race"), table=files[1], answers=files[0]
    )
    answers, table = (file.read_text(encoding="utf-8") for file in files)
    assert json.loads(answers) == {"one": "C", "zwei ä": "A"}
    assert table.split("\n") == [
        "id\tA\tB\tC",
        "one\t0.25\t0.125\t0.625",
        "zwei ä\t0.5625\t0.4375\t",
        "",
    ]


def test_labels_and_values_are_written_too(tmp_path):
    table, answers = tmp_path / "a" / "table.tsv", tmp_path / "b" / "answers.tsv"
    predicted = {
        "index": np.array(["7", "9"]),
        "probabilities": np.array([[0.75, 0.25], [0.5, 0.5]]),
    }
    task_config = Classification("custom", ["no", "yes"])
    predictions.write_predictions(predicted, task_config, table, answers)
    assert table.read_text() == "no\tyes\n0.75\t0.25\n0.5\t0.5\n"
    assert answers.read_text() == "index\tprediction\n7\tno\n9\tno\n"
    values = {"index": np.array(["7"]), "values": np.array([7.5])}
    task_config = Regression("sts-b", (0.0, 5.0))
    predictions.write_predictions(values, task_config, table, answers)
    assert table.read_text() == "value\n7.5\n"
    assert answers.read_text() == "index\tprediction\n7\t5.000\n"
    with pytest.raises(ValueError, match="Received those of squad_v1"):
        predictions.write_predictions(predicted, Squad(False), table, answers)


def test_predictions_go_to_a_bucket(bucket):
    table, answers = as_path(f"{bucket}/a/table.tsv"), as_path(f"{bucket}/answers.tsv")
    values = {"index": np.array(["7"]), "values": np.array([7.5])}
    task_config = Regression("sts-b", (0.0, 5.0))
    predictions.check_outputs(task_config, table, answers)
    predictions.write_predictions(values, task_config, table, answers)
    assert table.read_text() == "value\n7.5\n"
    assert answers.read_text() == "index\tprediction\n7\t5.000\n"
    answers.write_text('{"something": "else"}')
    with pytest.raises(FileExistsError, match="holds something else"):
        predictions.check_outputs(task_config, table, answers)
