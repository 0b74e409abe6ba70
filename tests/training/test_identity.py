"""Jobs that may resume a folder, and workers that belong together."""

import dataclasses

import pytest

from albert_tf.files import read_json, write_json
from albert_tf.records.sidecar import read_record_set
from albert_tf.tasks.pretraining import MASKED_LM
from albert_tf.training import identity, run_checkpoints
from helpers.tiny import tiny_config, write_rows
from helpers.training_jobs import make_job


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = write_rows(tmp_path_factory.mktemp("rows") / "rows.tfrecord", 7)
    return read_record_set([path], {})


def test_workers_differ_by_settings_and_rows_but_not_by_their_folders(rows):
    digest = identity.digest(make_job(rows, "one"), 2)
    assert digest == identity.digest(make_job(rows, "other"), 2)
    others = [
        identity.digest(make_job(rows, "one", learning_rate=0.5), 2),
        identity.digest(make_job(rows, "one", eval_rows=rows), 2),
        identity.digest(make_job(rows, "one"), 3),
    ]
    assert len({digest, *others}) == 4


def test_the_files_of_a_run_make_its_weights_a_model(rows, tmp_path):
    job = make_job(rows, tmp_path, files={"task.json": b"{}"})
    identity.write_files(job, tmp_path)
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {
        "albert_config.json",
        "tokenizer.json",
        "task.json",
        identity.SETTINGS_FILE,
    }
    assert read_json(tmp_path / "albert_config.json") == job.model_config.to_dict()
    assert read_json(tmp_path / "tokenizer.json") == rows.tokenizer_settings


def stored_run(job, folder):
    """Leaves settings, and a checkpoint as far as its name and list tell."""
    identity.write_files(job, folder)
    (folder / "checkpoint").write_text(
        'model_checkpoint_path: "model.ckpt-6"\n'
        'all_model_checkpoint_paths: "model.ckpt-6"\n'
    )
    (folder / "model.ckpt-6.index").touch()


def test_only_settings_that_decide_the_weights_are_compared(rows, tmp_path):
    stored_run(make_job(rows, tmp_path), tmp_path)
    identity.check_job(make_job(rows, tmp_path, iterations_per_loop=1, eval_steps=3))
    for changes, message in (
        ({"random_seed": 1}, "random_seed=12345, but random_seed=1"),
        ({"precision": "bfloat16"}, "precision=float32, but precision=bfloat16"),
        ({"model_config": tiny_config(hidden_act="relu")}, "hidden_act=relu"),
    ):
        with pytest.raises(ValueError, match=message):
            identity.check_job(make_job(rows, tmp_path, **changes))


def test_damaged_settings_are_named(rows, tmp_path):
    stored_run(make_job(rows, tmp_path), tmp_path)
    (tmp_path / identity.SETTINGS_FILE).write_text("{")
    with pytest.raises(
        ValueError, match=rf"{identity.SETTINGS_FILE} is not valid JSON"
    ):
        identity.check_job(make_job(rows, tmp_path))


def test_a_folder_without_its_checkpoints_is_refused(rows, tmp_path):
    stored_run(make_job(rows, tmp_path), tmp_path)
    (tmp_path / "model.ckpt-6.index").rename(tmp_path / "model.ckpt-6.data")
    with pytest.raises(ValueError, match="no whole checkpoint"):
        identity.check_job(make_job(rows, tmp_path))


def test_evaluation_rows_of_another_vocabulary_are_refused(rows, tmp_path):
    path = write_rows(tmp_path / "other.tfrecord", 4, lower_case=False)
    other = read_record_set([path], {})
    with pytest.raises(ValueError, match="made with lower_case=False"):
        identity.check_job(make_job(rows, tmp_path / "out", eval_rows=other))


def test_a_run_does_not_train_into_the_model_that_it_starts_from(rows, tmp_path):
    (tmp_path / "best").mkdir()
    for start in (tmp_path, tmp_path / "model.ckpt-6", tmp_path / "best"):
        job = make_job(rows, tmp_path, init_checkpoint=str(start))
        with pytest.raises(ValueError, match="would replace the weights"):
            identity.check_job(job)
    identity.check_job(make_job(rows, tmp_path / "new", init_checkpoint=str(start)))


@pytest.mark.parametrize("name", ["model.index", "saved_model.pb", "x.safetensors"])
def test_a_folder_of_another_model_is_refused(name, rows, tmp_path):
    (tmp_path / name).touch()
    with pytest.raises(ValueError, match=f"holds {name} of a model that was not"):
        identity.check_job(make_job(rows, tmp_path))
    identity.write_files(make_job(rows, tmp_path), tmp_path)  # killed before step 0
    identity.check_job(make_job(rows, tmp_path))


def test_a_configuration_in_the_output_folder_stays_as_it_is(rows, tmp_path):
    tiny_config().to_json(tmp_path / "albert_config.json")
    identity.check_job(make_job(rows, tmp_path))
    changed = tiny_config(hidden_act="relu")
    with pytest.raises(ValueError, match=r"holds albert_config\.json of a model"):
        identity.check_job(make_job(rows, tmp_path, model_config=changed))


@pytest.mark.parametrize("name", ["training_sha256", "pair_objective"])
def test_rows_of_the_same_number_but_another_content_are_another_run(
    name, tmp_path, monkeypatch
):
    def rows(folder, **metadata):
        (tmp_path / folder).mkdir()
        path = write_rows(tmp_path / folder / "rows.tfrecord", 7, **metadata)
        return read_record_set([path], {})

    objective = "nsp" if name == "pair_objective" else "sop"
    first = make_job(rows("first", pair_objective="sop"), tmp_path)
    other = rows("other", pair_objective=objective, random_seed=8)
    second = dataclasses.replace(first, train_rows=other, task=MASKED_LM)
    first = dataclasses.replace(first, task=MASKED_LM)
    identity.write_files(first, tmp_path)
    monkeypatch.setattr(run_checkpoints, "latest_of_run", lambda _: "model.ckpt-2")
    identity.check_job(first)
    with pytest.raises(ValueError, match=f"holds a run with {name}=.*but {name}="):
        identity.check_job(second)
    # Folders of earlier releases do not say it.
    settings = read_json(tmp_path / identity.SETTINGS_FILE)
    del settings["training_sha256"], settings["pair_objective"]
    write_json(tmp_path / identity.SETTINGS_FILE, settings)
    identity.check_job(second)
