"""The names in an output folder, and the model that a run starts from."""

import os
from pathlib import Path

import pytest

from albert_tf.checkpoints import output_names


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("D/best", "D/run_2/best", "D/start", "E"):
        os.makedirs(name)
    os.symlink("D", "link")
    Path("D/results.json").write_text('{"best_run": "run_2"}')
    Path("E/results.json").write_text('{"global_step": 3}')


@pytest.mark.parametrize(
    ("start", "output"),
    [
        ("D", "D"),
        ("D", "D/"),
        ("link", "D"),
        ("D", "link"),
        ("D/model.ckpt-3", "D"),
        ("D/best", "D"),
        ("D/best/model.ckpt-3", "./E/../D"),
        ("D/run_2", "D"),
        ("D/run_2/best", "D"),
        ("D", "D/best"),
        ("D", "D/run_7"),
    ],
)
def test_a_run_does_not_train_into_its_start(start, output):
    with pytest.raises(
        ValueError, match="give another --output_dir, or leave"
    ) as error:
        output_names.check_start(start, output)
    assert start in str(error.value) and output in str(error.value)


@pytest.mark.parametrize(
    ("start", "output"),
    [
        ("", "D"),
        ("D", "E"),
        ("D/best", "D/tuned"),
        ("D/start", "D"),
        ("D", "D/new"),
        ("D", "."),
        ("E", "E/run_1"),
        ("E/model.ckpt-best", "E/run_1"),
        ("D/start/model.ckpt-3", "D/start/run_2"),
    ],
)
def test_other_folders_are_free(start, output):
    output_names.check_start(start, output)


@pytest.mark.parametrize("name", ["best", "run_1", "run_23"])
def test_subfolders_with_weights_are_known(name):
    assert output_names.holds_weights(Path("D"), name)
    assert not output_names.holds_weights(Path("D"), f"{name}_old")
    # Of a folder without several runs only the best weights are read.
    for folder in ("E", "nowhere"):
        found = output_names.holds_weights(Path(folder), name)
        assert found == (name == "best")
