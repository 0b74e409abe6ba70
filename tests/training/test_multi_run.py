"""The protocol of fine-tuning: learning, the best weights, runs, predictions."""

import dataclasses
import json
import shutil
import statistics

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import locks
from albert_tf.checkpoints.load import weights_checkpoint
from albert_tf.checkpoints.model_dir import ModelDir
from albert_tf.files import read_json
from albert_tf.model.heads import PretrainingModel
from albert_tf.records.features import classifier_features
from albert_tf.records.reader import read_rows
from albert_tf.records.sidecar import read_record_set
from albert_tf.records.writer import write_records
from albert_tf.task_config import Classification
from albert_tf.tasks.create import create_task
from albert_tf.training import evaluation as training_evaluation
from albert_tf.training import multi_run, stored_predictions
from albert_tf.training import run as training_run
from helpers.bucket_runs import broken, comparable, new_folder
from helpers.fine_tuning_toys import (
    TASK_CONFIG,
    config,
    make_job,
    write_rows,
    write_vocabulary,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    write_vocabulary(folder)
    return folder


@pytest.fixture(scope="module")
def sets(folder):
    """Rows to train on, to choose by and to predict."""
    vocabulary = folder / "vocab.txt"
    return [
        write_rows(folder / name, vocabulary, count, seed)
        for name, count, seed in [("train", 157, 1), ("dev", 23, 2), ("test", 13, 3)]
    ]


def device():
    return tf.distribute.OneDeviceStrategy("CPU:0")


@pytest.fixture(scope="module")
def trained(folder, sets):
    """The folder of a finished run, and its results."""
    train, dev, test = sets
    job = make_job(folder / "run", folder / "vocab.txt", train, dev)
    outcome = multi_run.train(job, 1, device(), {"dev": dev, "test": test})
    return folder / "run", outcome.results


def test_it_learns(trained):
    folder, results = trained
    assert results["eval_accuracy"] > 0.95 and results["eval_rows"] == 23
    assert results["best"]["eval_accuracy"] >= results["eval_accuracy"]
    assert json.loads((folder / "results.json").read_text()) == results


def test_labels_without_a_meaning_are_not_learned(folder, sets, tmp_path):
    train, dev, _ = sets
    rows = []
    rng = np.random.default_rng(3)
    for row in read_rows(train.paths[0]):
        rows.append({**row, "label_ids": rng.integers(2)})
    metadata = {k: v for k, v in train.metadata.items() if k != "features"}
    features = classifier_features("int64")
    write_records(tmp_path / "rows", rows, features, metadata)
    random = read_record_set([str(tmp_path / "rows")], {})
    job = make_job(tmp_path / "run", folder / "vocab.txt", random, dev)
    results = multi_run.train(job, 1, device(), {}).results
    assert results["eval_accuracy"] < 0.8


def test_the_best_weights_predict(trained, sets):
    folder, results = trained
    dev = sets[1]
    predicted = stored_predictions.read(folder, "dev")
    assert predicted["content_sha256"] == dev.metadata["content_sha256"]
    labels = [int(row["label_ids"]) for row in read_rows(dev.paths[0])]
    assert predicted["label_ids"].tolist() == labels
    accuracy = np.mean(predicted["probabilities"].argmax(-1) == labels)
    assert accuracy == pytest.approx(results["best"]["eval_accuracy"])
    assert results["sets"]["dev"]["eval_accuracy"] == pytest.approx(accuracy)
    assert stored_predictions.read(folder, "test")["probabilities"].shape == (
        13,
        2,
    )


def test_the_folder_is_a_model_that_needs_nothing_else(trained, sets, tmp_path):
    found = ModelDir.read(trained[0])
    assert found.config == config() and found.task_config == TASK_CONFIG
    assert "/best/" in found.checkpoint
    assert found.tokenizer().encode("lovely") == [5]
    job = make_job(tmp_path, found.vocabulary, init_checkpoint=found.checkpoint)
    outcome = multi_run.evaluate(job, device(), {"test": sets[2]})
    [one, other] = [
        stored_predictions.read(path, "test") for path in (trained[0], tmp_path)
    ]
    np.testing.assert_array_equal(one["probabilities"], other["probabilities"])
    # The predictions that are returned are those that are stored.
    returned = outcome.predictions["test"]
    assert returned.keys() == other.keys()
    for name, values in returned.items():
        np.testing.assert_array_equal(values, other[name])
    reports = json.loads((tmp_path / multi_run.EVALUATION_FILE).read_text())
    assert reports["sets"]["test"]["eval_rows"] == 13


def test_predictions_of_a_run_are_not_replaced_by_those_of_others(
    trained, sets, tmp_path
):
    run, _ = trained
    copy = shutil.copytree(run / "best", tmp_path / "copy")
    weights = ModelDir.read(copy).checkpoint
    job = make_job(run, copy / "vocab.txt", init_checkpoint=weights)
    before = (run / "predictions" / "dev.npz").read_bytes()
    with pytest.raises(ValueError, match="holds a run, whose results") as caught:
        multi_run.evaluate(job, device(), {"dev": sets[1]})
    assert f"{run} holds" in str(caught.value) and weights in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (run / "predictions" / "dev.npz").read_bytes() == before
    assert not (run / multi_run.EVALUATION_FILE).exists()


@pytest.mark.parametrize("batch_size", [2, 10, 32])
def test_any_devices_and_batches_predict_the_same(trained, sets, batch_size):
    found = ModelDir.read(trained[0])
    config = dataclasses.replace(
        make_job("unused", found.vocabulary).train_config, eval_batch_size=batch_size
    )
    strategies = {
        "one": device(),
        "two": tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]),
    }
    task = create_task(TASK_CONFIG)
    arguments = (task, found.config, config, found.checkpoint, {"dev": sets[1]})
    expected = stored_predictions.read(trained[0], "dev")
    for strategy in strategies.values():
        evaluation = training_evaluation.evaluate_splits(*arguments, strategy)["dev"]
        assert evaluation.report["eval_rows"] == 23
        for name in ("probabilities", "label_ids"):
            np.testing.assert_allclose(
                evaluation.predictions[name], expected[name], rtol=1e-4, atol=1e-6
            )


LIKE_ONE = {
    "padded": {"length_buckets": False},
    "accumulated": {"gradient_accumulation_steps": 4},
    "compiled": {"jit_compile": True},
}


@pytest.mark.parametrize("case", LIKE_ONE)
def test_how_it_is_computed_changes_no_loss(folder, sets, tmp_path, case):
    train, dev, _ = sets
    losses = []
    for name, changes in {"plain": {}, case: LIKE_ONE[case]}.items():
        job = make_job(
            tmp_path / name,
            folder / "vocab.txt",
            train,
            dev,
            num_train_steps=12,
            iterations_per_loop=12,
            **changes,
        )
        job = dataclasses.replace(job, task=create_task(TASK_CONFIG))
        results = training_run.run(job, device())
        losses.append([results["train"]["loss"], results["eval_loss"]])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)


def short_job(output_dir, folder, sets):
    train, dev, _ = sets
    changes = {"num_train_steps": 8, "eval_steps": 4}
    return make_job(output_dir, folder / "vocab.txt", train, dev, **changes)


@pytest.fixture(scope="module")
def three_runs(folder, sets):
    """The folder of three short runs, and their outcome."""
    job = short_job(folder / "three", folder, sets)
    return folder / "three", multi_run.train(job, 3, device(), {"test": sets[2]})


def test_runs_in_a_bucket_are_those_of_a_local_folder(
    three_runs, folder, sets, monkeypatch
):
    """Two of them, and the connection breaks at the end of the second one."""
    bucket = new_folder()
    job = short_job(bucket, folder, sets)
    with (
        broken(monkeypatch, "run_2/predictions/test.npz"),
        pytest.raises(OSError, match=r"test\.npz cannot be written: connection lost"),
    ):
        multi_run.train(job, 2, device(), {"test": sets[2]})
    outcome = multi_run.train(job, 2, device(), {"test": sets[2]})
    expected, place = three_runs[1], three_runs[0]
    assert outcome.results["values"] == expected.results["values"][:2]
    assert outcome.results == read_json(bucket / "results.json")
    for name, run in outcome.runs.items():
        assert read_json(bucket / name / "results.json") == run.results
        whole = comparable(expected.runs[name].results, output=place)
        assert comparable(run.results, output=bucket) == whole
        one = stored_predictions.read(bucket / name, "test")
        other = stored_predictions.read(place / name, "test")
        assert one.keys() == other.keys()
        assert all((one[key] == other[key]).all() for key in one)
    best = outcome.results["best_run"]
    assert stored_predictions.splits(bucket) == ["test"]
    found = ModelDir.read(str(bucket))
    assert found.checkpoint.startswith(f"{bucket}/{best}/best/model.ckpt-")
    assert found.task_config == TASK_CONFIG and found.config == config()
    with pytest.raises(ValueError, match="holds several runs, but one"):
        multi_run.train(job, 1, device(), {"test": sets[2]})


def test_runs_differ_in_their_seed_and_are_summed_up(three_runs, folder, sets):
    test, (tmp_path, outcome) = sets[2], three_runs
    job, results = short_job(tmp_path, folder, sets), outcome.results
    assert results == json.loads((tmp_path / "results.json").read_text())
    runs = [
        json.loads((tmp_path / f"run_{n}" / "results.json").read_text())
        for n in (1, 2, 3)
    ]
    values = [run["best"]["eval_accuracy"] for run in runs]
    assert results["values"] == values and results["seeds"] == [11, 12, 13]
    assert [run["settings"]["train"]["random_seed"] for run in runs] == [11, 12, 13]
    assert results["median"] == statistics.median(values)
    assert results["deviation"] == pytest.approx(np.std(values, ddof=1))
    best = f"run_{1 + int(np.argmax(values))}"
    assert results["best_run"] == best
    assert f"/{best}/best/" in ModelDir.read(tmp_path).checkpoint
    predicted = stored_predictions.read(tmp_path, "test")["probabilities"]
    own = stored_predictions.read(tmp_path / best, "test")["probabilities"]
    assert (predicted == own).all()
    assert (predicted == outcome.predictions["test"]["probabilities"]).all()
    assert outcome.runs["run_3"].results == runs[2] and not outcome.preempted
    assert len({run["train"]["loss"] for run in runs}) == 3
    # The folder's predictions are those of the best run.
    for name in ("run_1", "run_2", "run_3"):
        weights = ModelDir.read(tmp_path / name).checkpoint
        again = make_job(tmp_path, folder / "vocab.txt", init_checkpoint=weights)
        if name == best:
            multi_run.evaluate(again, device(), {"test": test})
            continue
        with pytest.raises(ValueError, match=f"holds a run, whose .*{weights}"):
            multi_run.evaluate(again, device(), {"test": test})
    assert (stored_predictions.read(tmp_path, "test")["probabilities"] == own).all()
    with pytest.raises(ValueError, match="holds several runs, but one"):
        multi_run.train(job, 1, device(), {"test": test})
    single = tmp_path / "run_1"
    config = dataclasses.replace(job.train_config, output_dir=str(single))
    single_job = dataclasses.replace(job, train_config=config)
    with pytest.raises(ValueError, match="holds a single run, but num_runs=2"):
        multi_run.train(single_job, 2, device(), {"test": test})
    assert not (single / "run_1").exists()


def test_training_stops_when_it_gets_no_better(folder, sets, tmp_path, monkeypatch):
    train, dev, _ = sets
    scores = iter([0.5, 0.7, 0.6, 0.7, 0.9])
    task = dataclasses.replace(
        create_task(TASK_CONFIG, dropout=0.1),
        host_metrics=lambda predicted: {"eval_accuracy": next(scores)},
    )
    job = make_job(
        tmp_path,
        folder / "vocab.txt",
        train,
        dev,
        task=task,
        eval_steps=4,
        early_stopping=2,
        num_train_steps=40,
    )
    results = training_run.run(job, device())
    assert results["status"] == "stopped early" and results["global_step"] == 16
    assert results["best"]["global_step"] == 8
    assert results["best"]["eval_accuracy"] == 0.7
    # Started again, it does not go on.
    again = dataclasses.replace(
        task, host_metrics=lambda predicted: {"eval_accuracy": 0.6}
    )
    results = training_run.run(dataclasses.replace(job, task=again), device())
    assert results["status"] == "stopped early" and results["global_step"] == 16


def test_a_head_of_another_task_starts_fresh(folder, sets, trained, tmp_path, capsys):
    train, dev, _ = sets
    job = make_job(
        tmp_path,
        folder / "vocab.txt",
        train,
        dev,
        task=create_task(Classification("three", ["a", "bad", "good"])),
        init_checkpoint=str(trained[0]),
        num_train_steps=2,
    )
    training_run.run(job, device())
    printed = capsys.readouterr().out
    assert "2 missing (output_bias, output_weights)" in printed
    assert "2 unused (output_bias, output_weights)" in printed


def test_a_head_that_was_never_trained_predicts_nothing(folder, sets, tmp_path):
    model = PretrainingModel(config(), seed=1)
    prefix = weights_checkpoint(model).write(str(tmp_path / "pretrained"))
    job = make_job(tmp_path, folder / "vocab.txt", init_checkpoint=prefix)
    with pytest.raises(ValueError, match=r"2 missing .*output_weights"):
        multi_run.evaluate(job, device(), {"dev": sets[1]})


def test_other_training_rows_are_another_run(folder, sets, trained):
    train, dev, _ = sets
    same_size = dataclasses.replace(
        train, metadata={**train.metadata, "content_sha256": "changed"}
    )
    job = make_job(trained[0], folder / "vocab.txt", same_size, dev)
    with pytest.raises(ValueError, match="content_sha256"):
        training_run.run(job, device())


@pytest.mark.parametrize("num_runs", [1, 2])
def test_two_trainings_of_one_folder_at_once_are_refused(
    num_runs, folder, sets, tmp_path
):
    train, dev, _ = sets
    job = make_job(tmp_path / "out", folder / "vocab.txt", train, dev)
    (tmp_path / "out").mkdir()
    with (
        locks.exclusive(tmp_path / "out", "training"),
        pytest.raises(OSError, match=r"Another process is training into .*out: let"),
    ):
        multi_run.train(job, num_runs, device(), {"dev": dev})
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("num_runs", [1, 2])
def test_runs_do_not_train_into_their_start(num_runs, trained, folder, sets):
    output, _ = trained
    before = {path: path.stat().st_mtime_ns for path in output.rglob("*")}
    start = str(output / "best")
    job = make_job(output, folder / "vocab.txt", sets[0], init_checkpoint=start)
    with pytest.raises(ValueError, match="would replace the weights"):
        multi_run.train(job, num_runs, device(), {})
    assert {path: path.stat().st_mtime_ns for path in output.rglob("*")} == before


@pytest.mark.parametrize(
    "name",
    ["results.json", "predictions/dev.npz", "run_2/results.json", "eval_results.json"],
)
def test_files_of_others_are_found_before_anything_is_computed(
    name, folder, sets, tmp_path, monkeypatch
):
    for function in ("run", "_evaluate_and_store"):
        monkeypatch.setattr(multi_run, function, lambda *_: pytest.fail("computed"))
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text('{"race": "2nd", "place": {}}')
    job = make_job(tmp_path, folder / "vocab.txt", sets[0])
    with pytest.raises(FileExistsError, match=f"{file} is there already"):
        if name == multi_run.EVALUATION_FILE:
            job = dataclasses.replace(job, train_rows=None)
            multi_run.evaluate(job, device(), {"dev": sets[1]})
        multi_run.train(job, 2, device(), {"dev": sets[1]})
