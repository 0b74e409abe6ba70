"""Files of answers, and ensembles of them."""

import json
import math

import pytest

from albert_tf.task_config import Squad
from albert_tf.tasks.answers import Candidate, Proposals
from albert_tf.training import squad_answers
from helpers.bucket_runs import new_folder
from helpers.strict_json import assert_strict_json

TEXT = "hot tea and rain"


@pytest.fixture(params=["disk", "bucket"])
def place(request, tmp_path):
    return tmp_path if request.param == "disk" else new_folder()


class Questions:
    """Two questions on a text, the second of which has no answer."""

    path = "dev.json"

    def contexts(self):
        return {"a": TEXT, "b": TEXT}

    def golds(self):
        return {"a": ["tea"], "b": []}


def proposals(null_scores, text="tea"):
    start = TEXT.index(text)
    candidate = Candidate(text, start, start + len(text), -0.5, 1.0)
    return Proposals({"a": [candidate], "b": [candidate]}, null_scores, {})


class Answerable(Questions):
    """Two questions that v1.1 can have."""

    def golds(self):
        return {"a": ["tea"], "b": ["tea"]}


def write(folder, found, task_config, source="given"):
    file = Questions() if task_config.version_2 else Answerable()
    questions = squad_answers.question_set(file, task_config)
    return squad_answers.write_answers(folder, found, questions, task_config, source)


def read(path):
    return json.loads(path.read_text())


def test_answers_are_written_under_the_threshold_and_scored(place, capsys):
    found = proposals({"a": -2.0, "b": 3.0})
    results = write(place, found, Squad(True, threshold=1.0))
    assert read(place / "predictions.json") == {"a": "tea", "b": ""}
    assert read(place / "null_odds.json") == {"a": -2.0, "b": 3.0}
    assert read(place / "nbest_predictions.json")["b"][0]["text"] == "tea"
    assert results == read(place / "squad_results.json")
    assert results["scores"]["f1"] == 100 and results["threshold"] == 1.0
    assert results["threshold_source"] == "given" and results["questions"] == 2
    assert "f1: 100" in capsys.readouterr().out
    everything = write(place, found, Squad(True, threshold=math.inf))
    assert everything["scores"]["f1"] == 50 and everything["threshold"] == "inf"


def test_answers_that_are_all_empty_are_said(tmp_path, capsys):
    found = proposals({"a": -2.0, "b": 3.0})
    write(tmp_path, found, Squad(True, threshold=1.0))
    assert "WARNING" not in capsys.readouterr().out
    write(tmp_path, found, Squad(True, threshold=-math.inf))
    warning = f"WARNING: every answer in {tmp_path / 'predictions.json'} is empty: "
    said = capsys.readouterr().out
    assert f"{warning}no null score is below the threshold -inf;" in said
    none = Proposals({"a": [], "b": []}, None, {"a": "no valid span", "b": "empty"})
    write(tmp_path, none, Squad(False))
    said = capsys.readouterr().out
    assert f"{warning}the model has found none (empty or no valid span);" in said


def test_a_threshold_is_tuned_for_the_best_f1():
    task_config = Squad(True, threshold=9.0)
    questions = squad_answers.question_set(Questions(), task_config)
    found = proposals({"a": -2.0, "b": 3.0})
    tuned = squad_answers.tune_threshold(found, questions, task_config)
    assert -2.0 < tuned.threshold < 3.0

    class Unlabelled(Questions):
        def golds(self):
            return None

    questions = squad_answers.question_set(Unlabelled(), task_config)
    with pytest.raises(ValueError, match="no gold answers to tune"):
        squad_answers.tune_threshold(found, questions, task_config)


def test_models_are_read_and_averaged(place):
    folders = [place / "one", place / "two"]
    for folder, threshold in zip(folders, (0.5, 1.5), strict=True):
        found = proposals({"a": 2 * threshold, "b": 3.0})
        write(folder, found, Squad(True, threshold=threshold))
    ensemble = squad_answers.Ensemble.read(folders, Questions(), n_best_size=5)
    assert ensemble.version_2 and ensemble.mean_threshold() == 1.0
    assert ensemble.proposals.null_scores == {"a": 2.0, "b": 3.0}
    assert ensemble.proposals.best_texts() == {"a": "tea", "b": "tea"}
    endless = squad_answers.Ensemble(ensemble.proposals, True, [math.inf, -math.inf])
    with pytest.raises(ValueError, match="have no mean"):
        endless.mean_threshold()


def test_what_is_no_folder_of_answers_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"squad_results\.json is missing"):
        squad_answers.Ensemble.read([tmp_path], Questions(), 5)
    write(tmp_path, proposals(None), Squad(False))
    ensemble = squad_answers.Ensemble.read([tmp_path], Questions(), 5)
    assert not ensemble.version_2 and not ensemble.thresholds
    (tmp_path / "nbest_predictions.json").write_text('{"a": [], "b": []}')
    with pytest.raises(ValueError, match=r"is not a file of run_squad\.py"):
        squad_answers.Ensemble.read([tmp_path], Questions(), 5)

    class Others(Questions):
        def contexts(self):
            return {"a": "cold tea", "b": TEXT}

    write(tmp_path, proposals(None), Squad(False))
    with pytest.raises(ValueError, match=r"answers to other questions than dev\.json"):
        squad_answers.Ensemble.read([tmp_path], Others(), 5)


def test_scores_without_a_finite_value_are_strict_json_and_read_back(tmp_path):
    found = proposals({"a": math.inf, "b": math.nan})
    write(tmp_path, found, Squad(True))
    assert_strict_json(tmp_path)
    assert read(tmp_path / "null_odds.json") == {"a": "inf", "b": None}
    scores = read(tmp_path / "squad_results.json")["scores"]
    assert math.isfinite(scores["best_f1_thresh"])
    ensemble = squad_answers.Ensemble.read([tmp_path], Questions(), n_best_size=5)
    assert ensemble.proposals.null_scores["a"] == math.inf
    assert math.isnan(ensemble.proposals.null_scores["b"])


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("nbest_predictions.json", lambda v: v["a"][0].update(end="9")),
        ("nbest_predictions.json", lambda v: v["a"][0].update(start=None)),
        ("nbest_predictions.json", lambda v: v["b"][0].update(score=[1])),
        ("nbest_predictions.json", lambda v: v["b"][0].update(text=3)),
        ("nbest_predictions.json", lambda v: v.update(b=7)),
        ("null_odds.json", lambda v: v.update(a="3")),
        ("null_odds.json", lambda v: v.update(b=True)),
        ("null_odds.json", lambda v: v.pop("a")),
        ("squad_results.json", lambda v: v.update(threshold="high")),
        ("squad_results.json", lambda v: v.pop("task_name")),
    ],
)
def test_values_of_other_types_are_refused_with_their_file(file, change, tmp_path):
    write(tmp_path, proposals({"a": -2.0, "b": 3.0}), Squad(True))
    values = read(tmp_path / file)
    change(values)
    (tmp_path / file).write_text(json.dumps(values))
    with pytest.raises(ValueError, match=rf"{file} is not a file of run_squad\.py"):
        squad_answers.Ensemble.read([tmp_path], Questions(), 5)


@pytest.mark.parametrize(
    "name",
    [
        "predictions.json",
        "nbest_predictions.json",
        "null_odds.json",
        "squad_results.json",
    ],
)
def test_a_file_of_others_is_found_before_there_are_answers(name, tmp_path):
    task_config = Squad(True)
    for _ in range(2):  # an empty folder, and one of earlier answers
        squad_answers.check_outputs(tmp_path, "ab", task_config)
        write(tmp_path, proposals({"a": -2.0, "b": 3.0}), task_config)
    squad_answers.check_outputs(tmp_path, ["other"], task_config)
    (tmp_path / name).write_text('{"places": [], "length": 1}')
    with pytest.raises(FileExistsError, match=f"{name} is there already"):
        squad_answers.check_outputs(tmp_path, "ab", task_config)
