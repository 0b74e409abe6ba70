"""Task configurations: what `task.json` holds, of this release and of earlier ones."""

import json
import math

import pytest

from albert_tf import task_config
from albert_tf.task_config import (
    Classification,
    MultipleChoice,
    Regression,
    Squad,
    Tagging,
)

COLUMNS = {"text": 0, "text_pair": 1, "label": None, "index": None, "header": True}
CONFIGS = [
    Classification("rte", ["yes", "no"], ["f1", "eval_accuracy"], 17, COLUMNS),
    Classification("toy", ["one"], threshold=0.25),
    Regression("sts-b", (0.0, 5.0), 17, COLUMNS),
    Regression("toy"),
    MultipleChoice("race", ["middle", "high"], 23, 0),
    MultipleChoice(),
    Squad(True, n_best_size=7, threshold=-1.25),
    Squad(False, doc_stride=9),
]


def through_json(values):
    return json.loads(json.dumps(values, allow_nan=False))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.task_name)
def test_a_configuration_survives_strict_json(config):
    values = through_json(config.to_dict())
    assert task_config.from_dict(values) == config
    assert values["kind"] == config.kind


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.task_name)
def test_a_file_of_an_earlier_release_has_no_kind_and_is_read_alike(config):
    values = through_json(config.to_dict())
    del values["kind"]
    assert task_config.from_dict(values) == config


@pytest.mark.parametrize(
    ("values", "config"),
    [
        (
            {
                "task_name": "mnli",
                "labels": ["a", "b"],
                "scores": ["eval_accuracy"],
                "bounds": None,
                "max_seq_length": 128,
                "columns": {"text": "x", "text_pair": None},
            },
            Classification(
                "mnli",
                ["a", "b"],
                max_seq_length=128,
                columns={"text": "x", "text_pair": None},
            ),
        ),
        ({"task_name": "toy", "labels": None, "scores": []}, Regression("toy")),
        (
            {"task_name": "quiz", "labels": None, "levels": [], "max_qa_length": 0},
            MultipleChoice("quiz", max_qa_length=0),
        ),
        ({"task_name": "race", "labels": None}, MultipleChoice()),
        (
            {"task_name": "squad_v2", "doc_stride": 7, "threshold": "-inf"},
            Squad(True, doc_stride=7, threshold=-math.inf),
        ),
    ],
)
def test_files_of_earlier_releases(values, config):
    assert task_config.from_dict(values) == config


@pytest.mark.parametrize("threshold", [math.inf, -math.inf])
def test_an_infinite_threshold_is_written_as_a_string(threshold):
    values = Squad(True, threshold=threshold).to_dict()
    assert values["threshold"] == str(threshold)
    assert task_config.from_dict(through_json(values)).threshold == threshold


def test_the_keys_of_squad_stay_those_of_earlier_releases():
    assert Squad(True).to_dict() == {
        "kind": "squad",
        "task_name": "squad_v2",
        "max_seq_length": 384,
        "doc_stride": 128,
        "max_query_length": 64,
        "n_best_size": 20,
        "max_answer_length": 30,
        "start_n_top": 5,
        "end_n_top": 5,
        "threshold": 0.0,
    }


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "must say which labels"),
        ({"task_name": "toy", "kind": "poetry"}, "of a known kind .*'poetry'"),
        ({"kind": "classification", "labels": ["a"]}, "lacks values .*task_name"),
        ({"task_name": "toy", "labels": []}, "needs labels"),
        ({"task_name": "squad_v2"}, "another release"),
        ({"task_name": "squad_v2", "threshold": 0, "other": 1}, "another release"),
        ({"task_name": "squad_v2", "threshold": "nan"}, "must be a number"),
        ({"task_name": "squad_v2", "threshold": 0, "end_n_top": 0}, "end_n_top must"),
        ({"task_name": "squad_v2", "threshold": 0, "doc_stride": 0}, "doc_stride must"),
    ],
)
def test_wrong_values_are_refused(values, message):
    with pytest.raises(ValueError, match=message) as caught:
        task_config.from_dict(values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (Regression("cola"), "trained for cola, not for SQuAD"),
        (None, "trained for no task"),
    ],
)
def test_another_task_is_no_squad(config, message):
    with pytest.raises(ValueError, match=message):
        Squad.require(config)


def test_squad_is_squad():
    assert Squad.require(Squad(True)) == Squad(True)


@pytest.mark.parametrize(("pair", "has_pair"), [(None, False), (0, True), ("b", True)])
def test_columns_say_whether_there_are_two_texts(pair, has_pair):
    columns = {"text": "a", "text_pair": pair}
    assert Regression("toy", columns=columns).has_text_pair is has_pair
    assert Classification("toy", "ab", columns=columns).has_text_pair is has_pair
    assert not Classification("toy", "ab").has_text_pair


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": "ab"},
        {"labels": ["a", 7]},
        {"scores": "f1"},
        {"task_name": ["toy"]},
        {"max_seq_length": "48"},
        {"max_seq_length": 2**40},
        {"columns": ["text"]},
        {"columns": {"text": ["a"]}},
        {"columns": {"title": "a"}},
        {"threshold": [0.5]},
        {"kind": ["classification"]},
        {"kind": "regression", "bounds": [5, 0]},
        {"kind": "regression", "bounds": 5},
        {"kind": "multiple_choice", "levels": {"high": 1}},
        {"kind": "multiple_choice", "max_qa_length": -1},
        {"kind": "squad", "task_name": "squad_v1", "n_best_size": [[]]},
        {"kind": "squad", "task_name": "squad_v1", "n_best_size": 10**9},
        {"kind": "squad", "task_name": "squad_v1", "threshold": "low"},
    ],
    ids=str,
)
def test_values_of_other_types_are_refused_by_name(changes):
    squad = {"threshold": 0.0} if changes.get("kind") == "squad" else {}
    known = squad or {"kind": "classification", "task_name": "toy", "labels": ["a"]}
    with pytest.raises(ValueError, match=r"must be|of a known kind") as caught:
        task_config.from_dict({**known, **changes})
    assert [*changes][-1].replace("scores", "metrics") in str(caught.value) + "kind"


def test_a_model_of_no_task_says_what_to_do_for_one_of_squad():
    with pytest.raises(ValueError, match=r"no task\.json: train it with run_squad\.py"):
        Squad.require(None)


def test_a_tagging_survives_strict_json_and_has_labels_to_tell_apart():
    for config in (Tagging("ner", ["O", "B-x"], 17, 9), Tagging("pos", ["N", "V"])):
        values = through_json(config.to_dict())
        assert task_config.from_dict(values) == config
    for wrong in ({"doc_stride": 0}, {"labels": ["O"]}, {"labels": "O"}):
        with pytest.raises(ValueError, match="Received"):
            task_config.from_dict({**values, **wrong})
