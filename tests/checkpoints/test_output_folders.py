"""Of an output folder the best weights count."""

import json

import pytest
import tensorflow as tf

from albert_tf.checkpoints import output_folders
from albert_tf.checkpoints.load import weights_checkpoint


def write_checkpoint(folder, name):
    folder.mkdir(parents=True, exist_ok=True)
    for suffix in ("index", "data-00000-of-00001"):
        (folder / f"{name}.{suffix}").write_bytes(b"")
    return str(folder / name)


def test_the_best_weights_of_a_run_count_before_its_others(tmp_path):
    latest = write_checkpoint(tmp_path, "model.ckpt-9")
    assert output_folders.locate_best(tmp_path) == latest
    best = write_checkpoint(tmp_path / "best", "model.ckpt-6")
    assert output_folders.locate_best(tmp_path) == best
    assert output_folders.locate_best(latest) == latest


def test_of_several_runs_the_best_one_counts(tmp_path):
    for number in (1, 2, 3):
        run = output_folders.run_folder(tmp_path, number)
        write_checkpoint(run / "best", f"model.ckpt-{number}")
    (tmp_path / "results.json").write_text(json.dumps({"best_run": "run_2"}))
    expected = tmp_path / "run_2"
    assert output_folders.best_run_folder(tmp_path) == expected
    best = str(expected / "best" / "model.ckpt-2")
    assert output_folders.locate_best(tmp_path) == best
    names = [folder.name for folder in output_folders.run_folders(tmp_path)]
    assert names == ["run_1", "run_2", "run_3"]


def test_a_single_run_is_its_own_best(tmp_path):
    assert output_folders.best_run_folder(tmp_path) == tmp_path
    assert output_folders.run_folders(tmp_path) == []


def test_a_damaged_summary_is_named(tmp_path):
    (tmp_path / "results.json").write_text("{")
    with pytest.raises(ValueError, match=r"results\.json is not valid JSON"):
        output_folders.locate_best(tmp_path)


@pytest.mark.parametrize("name", ["../other", "run_1/best", 3, ["run_1"]])
def test_a_summary_names_a_folder_of_its_own(name, tmp_path):
    (tmp_path / "results.json").write_text(json.dumps({"best_run": name}))
    with pytest.raises(ValueError, match=r"results\.json: best_run must name a folder"):
        output_folders.locate_best(tmp_path)


def test_a_run_that_made_no_step_is_no_trained_model(tmp_path):
    model = tf.Module()
    model.kernel = tf.Variable([1.0], name="bert/kernel")
    manager = tf.train.CheckpointManager(
        weights_checkpoint(model, 0), tmp_path, 1, checkpoint_name="model.ckpt"
    )
    prefix = manager.save(checkpoint_number=0)
    words = rf"{tmp_path} holds a run that has made no step yet: train first"
    for locate in (output_folders.locate_best, output_folders.locate_trained):
        with pytest.raises(ValueError, match=words):
            locate(tmp_path)
        assert locate(prefix) == prefix
