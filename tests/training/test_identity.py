"""Jobs that may resume a folder, and workers that belong together."""

import dataclasses

import pytest

from albert_tf.files import read_json, write_json
from albert_tf.records.sidecar import read_record_set
from albert_tf.tasks.pretraining import MASKED_LM
from albert_tf.training import identity, run_checkpoints
from helpers.tiny import tiny_config, write_rows
from helpers.training_jobs import make_job, stored_run


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


def test_a_run_of_an_earlier_release_had_batches_by_length(rows, tmp_path):
    stored_run(make_job(rows, tmp_path), tmp_path)
    file = tmp_path / identity.SETTINGS_FILE
    settings = read_json(file)
    assert settings.pop("batching") == "length"
    write_json(file, settings)
    job = make_job(rows, tmp_path)
    identity.check_job(job)
    train_config = dataclasses.replace(job.train_config, batching="random")
    random = dataclasses.replace(job, train_config=train_config)
    with pytest.raises(ValueError, match="batching=length, but batching=random"):
        identity.check_job(random)


def test_a_run_of_an_earlier_release_had_a_polynomial_decay(rows, tmp_path):
    stored_run(make_job(rows, tmp_path), tmp_path)
    file = tmp_path / identity.SETTINGS_FILE
    settings = read_json(file)
    assert settings.pop("lr_schedule") == "polynomial"
    assert settings.pop("num_decay_steps") == 0
    write_json(file, settings)
    identity.check_job(make_job(rows, tmp_path))
    for changes, message in (
        ({"lr_schedule": "cosine"}, "lr_schedule=polynomial, but lr_schedule=cosine"),
        ({"lr_schedule": "constant"}, "lr_schedule=polynomial, but lr_schedule=consta"),
        ({"steps": 13}, "num_train_steps=12, but num_train_steps=13"),
    ):
        with pytest.raises(ValueError, match=message):
            identity.check_job(make_job(rows, tmp_path, **changes))


def test_a_run_of_an_earlier_release_applied_all_layers(rows, tmp_path):
    stored_run(make_job(rows, tmp_path), tmp_path)
    file = tmp_path / identity.SETTINGS_FILE
    settings = read_json(file)
    assert settings.pop("depth_schedule") == ""
    write_json(file, settings)
    identity.check_job(make_job(rows, tmp_path))
    job = make_job(rows, tmp_path, depth_schedule="3:2")
    with pytest.raises(ValueError, match="depth_schedule=, but depth_schedule=3:2 is"):
        identity.check_job(job)


def wsd(steps, decay):
    return {"lr_schedule": "wsd", "steps": steps, "num_decay_steps": decay}


def test_the_decay_of_a_stable_run_may_be_moved(rows, tmp_path):
    """The run is at step 6."""
    constant = {"lr_schedule": "constant"}
    for stored in (constant, {**constant, "steps": 6}, wsd(12, 6), wsd(9, 3)):
        stored_run(make_job(rows, tmp_path, **stored), tmp_path)
        for asked in (constant, {**constant, "steps": 6}, wsd(7, 1), wsd(90, 50)):
            identity.check_job(make_job(rows, tmp_path, **asked))
            end = {"end_learning_rate": 0.001}
            identity.check_job(make_job(rows, tmp_path, **asked, **end))
        # What decided the steps before is compared all the same.
        for name, value in (("num_warmup_steps", 2), ("learning_rate", 0.03)):
            with pytest.raises(ValueError, match=f"{name}=.*but {name}={value}"):
                identity.check_job(
                    make_job(rows, tmp_path, **wsd(9, 3), **{name: value})
                )
        with pytest.raises(ValueError, match=r"but (num_train_steps=9|lr_schedule=p)"):
            identity.check_job(make_job(rows, tmp_path, steps=9))
        for asked, least in ((wsd(7, 2), 8), ({**constant, "steps": 5}, 6)):
            decay = asked.get("num_decay_steps", 0)
            with pytest.raises(ValueError) as caught:
                identity.check_job(make_job(rows, tmp_path, **asked))
            assert str(caught.value) == (
                f"{tmp_path} holds a run at step 6: with num_decay_steps={decay}, "
                f"num_train_steps must be at least {least}. Received {asked['steps']}."
            )


def test_a_decay_that_began_goes_on_as_it_began(rows, tmp_path):
    """The run is at step 6; its decay began at step 5."""
    stored_run(make_job(rows, tmp_path, **wsd(9, 4)), tmp_path)
    identity.check_job(make_job(rows, tmp_path, **wsd(9, 4)))
    constant = {"lr_schedule": "constant", "steps": 9}
    for asked, words in (
        (wsd(10, 4), "num_train_steps=9, but num_train_steps=10"),
        (wsd(9, 3), "num_decay_steps=4, but num_decay_steps=3"),
        (constant, "lr_schedule=wsd, but lr_schedule=constant"),
    ):
        with pytest.raises(ValueError) as caught:
            identity.check_job(make_job(rows, tmp_path, **asked))
        assert str(caught.value) == (
            f"{tmp_path} holds a run at step 6 whose decay began at step 5 with "
            f"{words} is asked for: resume a copy of it whose last checkpoint is of "
            "step 5 or before."
        )


@pytest.mark.parametrize("stored", ["window", "lanes"])
def test_a_run_goes_on_in_the_order_that_it_began_with(stored, rows, tmp_path):
    new = make_job(rows, tmp_path)
    assert identity.keep_row_order(new) is new
    stored_run(new, tmp_path)
    file = tmp_path / identity.SETTINGS_FILE
    settings = read_json(file)
    assert settings.pop("row_order") == "lanes"
    if stored == "lanes":
        settings["row_order"] = stored
    write_json(file, settings)
    kept = identity.keep_row_order(new)
    assert kept.train_config.row_order == stored
    identity.check_job(kept)
    # Neither does it change when the run is stopped once more.
    identity.write_files(kept, tmp_path)
    assert identity.keep_row_order(new) == kept


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
