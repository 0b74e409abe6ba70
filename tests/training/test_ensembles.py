"""Averages of models, and the choice among them."""

import numpy as np
import pytest

from albert_tf.files import write_json
from albert_tf.task_config import Classification, Regression, Squad
from albert_tf.tasks.create import create_task
from albert_tf.training import ensembles


def member(probabilities, labels=(0, 1, 1, 0), **more):
    first = np.array(probabilities)
    return {
        "probabilities": np.stack([1 - first, first], axis=-1),
        "label_ids": np.array(labels),
        "content_sha256": np.array("x"),
        **more,
    }


METRICS = create_task(Classification("toy", ["a", "b"])).host_metrics


def test_probabilities_are_averaged_and_labels_kept():
    found = ensembles.average([member([0.1, 0.2, 0.9, 0]), member([0.3, 1, 0.1, 0])])
    np.testing.assert_allclose(found["probabilities"][:, 1], [0.2, 0.6, 0.5, 0])
    assert found["label_ids"].tolist() == [0, 1, 1, 0]
    values = [{"values": np.array([1.0, 3.0])}, {"values": np.array([2.0, 5.0])}]
    assert ensembles.average(values)["values"].tolist() == [1.5, 4.0]


def test_the_best_subset_is_chosen_one_by_one():
    members = [
        member([0.9, 0.9, 0.1, 0.9]),  # one of four
        member([0.2, 0.95, 0.4, 0.7]),  # two of four
        member([0.1, 0.1, 0.7, 0.1]),  # three of four
        member([0.4, 0.6, 0.6, 0.6]),  # three of four
    ]
    alone = [METRICS(each)["eval_accuracy"] for each in members]
    assert alone == [0.25, 0.5, 0.75, 0.75]
    chosen = ensembles.select(members, METRICS, "eval_accuracy")
    # With the second, the third one's mistake is outvoted.
    assert chosen == [2, 1]
    averaged = ensembles.average([members[index] for index in chosen])
    assert METRICS(averaged)["eval_accuracy"] == 1.0


def test_one_model_that_is_better_than_any_average_stays_alone():
    members = [member([0.9, 0.0, 0.0, 0.9]), member([0.4, 0.6, 0.6, 0.4])]
    assert ensembles.select(members, METRICS, "eval_accuracy") == [1]


def test_models_of_other_tasks_or_rows_are_refused():
    one, other = Classification("rte", ["a"]), Classification("rte", ["b"])
    with pytest.raises(ValueError, match=r"two was trained with labels=\['b'\]"):
        ensembles.shared_task(["one", "two"], [one, other])
    with pytest.raises(ValueError, match="task_name=sts-b"):
        ensembles.shared_task(["one", "two"], [one, Regression("sts-b")])
    with pytest.raises(ValueError, match="two was not trained"):
        ensembles.shared_task(["one", "two"], [one, None])
    with pytest.raises(ValueError, match=r"for squad_v1: .*ensemble_squad"):
        ensembles.shared_task(["one"], [Squad(version_2=False)])
    assert ensembles.shared_task(["one", "two"], [one, one]) == one


def test_a_run_is_not_overwritten_but_an_ensemble_is(tmp_path):
    ensembles.check_output(tmp_path)
    write_json(tmp_path / "results.json", {"models": ["one"], "sets": {}})
    ensembles.check_output(tmp_path)
    (tmp_path / "results.json").unlink()
    write_json(tmp_path / "results.json", {"best_run": "run_1"})
    with pytest.raises(ValueError, match="holds a run"):
        ensembles.check_output(tmp_path)


def test_models_are_chosen_by_their_development_scores(tmp_path):
    folders = []
    for number, score in enumerate([0.5, 0.9, 0.7, 0.8]):
        folder = tmp_path / str(number)
        (folder / "run_2").mkdir(parents=True)
        results = {"f1": 1.0, "best": {"f1": score}}
        if number == 3:
            write_json(folder / "run_2" / "results.json", results)
            results = {"best_run": "run_2"}
        write_json(folder / "results.json", results)
        folders.append(folder)
    best = ensembles.best_models(folders, 3, "f1")
    assert [folder.name for folder in best] == ["1", "2", "3"]
    assert ensembles.best_models(folders, 0, "f1") == folders
    with pytest.raises(ValueError, match="num_models=5 of 4 models"):
        ensembles.best_models(folders, 5, "f1")
    with pytest.raises(ValueError, match="no development score accuracy"):
        ensembles.best_models(folders, 1, "accuracy")
