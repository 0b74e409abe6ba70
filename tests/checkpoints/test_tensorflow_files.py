"""Files of TensorFlow checkpoints are found, read and written."""

import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import storage
from albert_tf.checkpoints import tensorflow_files
from albert_tf.checkpoints.tensorflow_files import Naming
from helpers.bucket_files import copies_of, files_of, new_bucket, upload
from helpers.tiny_weights import assert_same_weights, random_model, write_model

DATA = "model.ckpt-best.data-00000-of-00001"


WEIGHTS = {"bert/kernel": np.float32([[1, 2]]), "output_bias": np.float32([3])}
INDEX = "model.ckpt-best.index"


@pytest.fixture
def shared(reference):
    return reference / "encoder_shared"


@pytest.fixture
def copied(shared, tmp_path):
    """A writable copy of a reference checkpoint's files."""
    for name in (DATA, INDEX):
        shutil.copyfile(shared / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("form", ["", "model.ckpt-best", INDEX, DATA])
def test_a_checkpoint_is_found_by_its_folder_prefix_or_files(form, shared):
    found = tensorflow_files.find_checkpoint(shared / form)
    assert found == str(shared / "model.ckpt-best")
    assert tensorflow_files.find_checkpoint(str(shared / form)) == found


def test_a_folder_of_two_checkpoints_is_ambiguous(copied):
    tensorflow_files.write_named(copied / "model.ckpt-9", {"x": np.float32(0)})
    words = "several checkpoints.*model.ckpt-9, model.ckpt-best"
    with pytest.raises(ValueError, match=words):
        tensorflow_files.find_checkpoint(copied)
    named = copied / "model.ckpt-best.index"
    assert tensorflow_files.find_checkpoint(named) == str(copied / "model.ckpt-best")


def test_a_folder_of_training_gives_its_latest_even_when_moved(tmp_path):
    saved = tf.train.Checkpoint(x=tf.Variable(1.0))
    manager = tf.train.CheckpointManager(saved, tmp_path / "run", max_to_keep=3)
    for _ in range(3):
        manager.save()
    shutil.move(tmp_path / "run", tmp_path / "moved")
    found = tensorflow_files.find_checkpoint(tmp_path / "moved")
    assert found == str(tmp_path / "moved" / "ckpt-3")


@pytest.fixture
def run(tmp_path):
    """The folder of a run with checkpoints of the steps 0 and 2."""
    step = tf.Variable(0, dtype=tf.int64)
    saved = tf.train.Checkpoint(weights={"x": tf.Variable([1.0])}, global_step=step)
    manager = tf.train.CheckpointManager(saved, tmp_path, 3, checkpoint_name=RUN)
    for value in (0, 2):
        step.assign(value)
        manager.save(checkpoint_number=value)
    return tmp_path


RUN = "model.ckpt"


@pytest.mark.parametrize("suffix", ["index", "data-00000-of-00001"])
def test_a_listed_checkpoint_that_is_not_whole_is_no_reason_to_take_another(
    suffix, run
):
    (run / f"model.ckpt-2.{suffix}").unlink()
    words = rf"{run}/checkpoint names checkpoint model\.ckpt-2, but .*-2\.{suffix} is m"
    with pytest.raises(ValueError, match=words):
        tensorflow_files.find_checkpoint(run)
    named = tensorflow_files.find_checkpoint(run / "model.ckpt-0")
    assert named == str(run / "model.ckpt-0")


def test_without_a_list_parts_of_a_checkpoint_are_one_as_well(run):
    (run / "checkpoint").unlink()
    (run / "model.ckpt-2.index").unlink()
    with pytest.raises(ValueError, match="several checkpoints"):
        tensorflow_files.find_checkpoint(run)
    for file in run.glob("model.ckpt-0*"):
        file.unlink()
    with pytest.raises(ValueError, match=r"model\.ckpt-2\.index is missing"):
        tensorflow_files.find_checkpoint(run)


@pytest.mark.parametrize("content", [b"", b"\xff\x00\x9c", b"PK\3\4", b"[1, 2]"])
def test_a_damaged_list_of_checkpoints_is_named(content, run):
    (run / "checkpoint").write_bytes(content)
    words = rf"{run}/checkpoint (is no list|lists no checkpoint).*'\.index'"
    with pytest.raises(ValueError, match=words) as caught:
        tensorflow_files.find_checkpoint(run)
    assert "\n" not in str(caught.value)


def test_a_list_of_another_machine_is_read_by_its_names(run, tmp_path):
    text = 'model_checkpoint_path: "{}/model.ckpt-{}"\n'
    (run / "checkpoint").write_text(text.format("/somewhere", 2))
    assert tensorflow_files.read_state(run) == [str(run / "model.ckpt-2")]
    other = tmp_path / "other"
    other.mkdir()
    (other / "checkpoint").write_text(text.format(run, 0))
    assert tensorflow_files.find_checkpoint(other) == str(run / "model.ckpt-0")


def test_the_start_of_a_run_is_told_from_converted_weights_of_an_unknown_step(run):
    assert tensorflow_files.is_start_of_run(str(run / "model.ckpt-0"))
    assert not tensorflow_files.is_start_of_run(str(run / "model.ckpt-2"))
    (run / "own").mkdir()
    prefix = str(run / "own" / "model.ckpt-0")
    tensorflow_files.write_own(prefix, WEIGHTS, 0)
    assert not tensorflow_files.is_start_of_run(prefix)


@pytest.mark.parametrize("form", ["", "nowhere", "nowhere/model.ckpt", "notes.index"])
def test_a_missing_checkpoint_is_named(form, tmp_path):
    with pytest.raises(FileNotFoundError, match=re.escape(str(tmp_path / form))):
        tensorflow_files.find_checkpoint(tmp_path / form)


def test_the_step_of_a_tensorflow_1_checkpoint_is_read(tmp_path):
    for name, step in (("global_step", 125_000), ("x", 0)):
        prefix = str(tmp_path / name)
        tensorflow_files.write_named(prefix, {name: np.int64(step)})
        assert tensorflow_files.read_global_step(prefix) == step


def test_a_checkpoint_that_holds_no_step_may_have_it_in_its_name(tmp_path):
    for name, step in (("model.ckpt-75", 75), ("model.ckpt-best", 0), ("x-7", 0)):
        prefix = str(tmp_path / name)
        tensorflow_files.write_named(prefix, WEIGHTS)
        assert tensorflow_files.read_global_step(prefix) == step


def test_a_missing_shard_is_named(tmp_path):
    config, weights = random_model()
    folder = write_model(tmp_path, weights, config)
    (folder / "model.ckpt-best.data-00000-of-00001").unlink()
    words = r"copy its \.index and \.data files.*00001"
    prefix = folder / "model.ckpt-best"
    with (
        tensorflow_files.open_checkpoint(prefix) as checkpoint,
        pytest.raises(ValueError, match=words),
    ):
        checkpoint.read()


@pytest.mark.parametrize("write", ["write_named", "write_own"])
def test_what_cannot_be_written_is_one_line(write, tmp_path):
    (tmp_path / "file").write_text("in the way")
    arguments = [WEIGHTS, 0] if write == "write_own" else [WEIGHTS]
    with pytest.raises(OSError, match=r"cannot be written .*: make space") as caught:
        getattr(tensorflow_files, write)(tmp_path / "file" / "x", *arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("write", "arguments", "naming"),
    [("write_named", (), Naming.NAMES), ("write_own", (9,), Naming.OWN)],
)
def test_weights_are_read_as_they_were_written(write, arguments, naming, tmp_path):
    prefix = str(tmp_path / "model.ckpt")
    getattr(tensorflow_files, write)(prefix, WEIGHTS, *arguments)
    with tensorflow_files.open_checkpoint(prefix) as checkpoint:
        assert checkpoint.naming is naming
        assert_same_weights(checkpoint.read(), WEIGHTS)
    assert tensorflow_files.read_global_step(prefix) == sum(arguments)


def test_variables_of_objects_are_read_by_their_names(tmp_path):
    variable = tf.Variable([1.0, 2.0], name="scope/kernel")
    objects = tf.train.Checkpoint(layer=tf.train.Checkpoint(weight=variable))
    objects.write(str(tmp_path / "ckpt"))
    with tensorflow_files.open_checkpoint(tmp_path / "ckpt") as checkpoint:
        assert checkpoint.naming is Naming.OBJECTS
        assert_same_weights(checkpoint.read(), {"scope/kernel": np.float32([1, 2])})


def test_a_long_list_is_summarized():
    assert tensorflow_files.summarize(["a", "b", "c"], 3) == "a, b, c"
    assert tensorflow_files.summarize(["a", "b", "c"], 2) == "a, b and 1 more"


@pytest.mark.parametrize("write", ["write_named", "write_own"])
def test_a_checkpoint_of_a_bucket_has_the_bytes_of_a_local_one(write, tmp_path):
    bucket, arguments = (
        new_bucket(),
        [WEIGHTS, 9] if write == "write_own" else [WEIGHTS],
    )
    for folder in (tmp_path, f"{bucket}/run"):
        getattr(tensorflow_files, write)(f"{folder}/model.ckpt-9", *arguments)
    assert files_of(f"{bucket}/run") == files_of(tmp_path) != {}
    assert (
        tensorflow_files.find_checkpoint(f"{bucket}/run")
        == f"{bucket}/run/model.ckpt-9"
    )


def test_all_of_a_checkpoint_is_read_from_one_copy(monkeypatch):
    prefix = f"{new_bucket()}/model.ckpt-9"
    tensorflow_files.write_own(prefix, WEIGHTS, 9)
    copied = copies_of(monkeypatch)
    with tensorflow_files.open_checkpoint(prefix) as checkpoint:
        assert_same_weights(checkpoint.read(), WEIGHTS)
        assert checkpoint.read_global_step() == 9
    parts = ["model.ckpt-9.data-00000-of-00001", "model.ckpt-9.index"]
    assert sorted(copied) == parts


def test_a_checkpoint_whose_upload_breaks_is_no_checkpoint(monkeypatch):
    prefix, names = f"{new_bucket()}/run/model.ckpt-9", []

    def move_up(local, path):
        names.append(path.name)
        if path.name.endswith(".index"):
            raise ConnectionResetError("the connection broke")
        storage.move_up(local, path)

    monkeypatch.setattr(tensorflow_files, "move_up", move_up)
    with pytest.raises(OSError, match=r"model\.ckpt-9\.index cannot be written: the c"):
        tensorflow_files.write_own(prefix, WEIGHTS, 9)
    assert names == ["model.ckpt-9.data-00000-of-00001", "model.ckpt-9.index"]
    with pytest.raises(ValueError, match=r"model\.ckpt-9\.index is missing: bring"):
        tensorflow_files.find_checkpoint(prefix.rpartition("/")[0])


def test_the_list_of_a_bucket_is_read_and_names_checkpoints_elsewhere(run):
    bucket = new_bucket()
    upload(run, f"{bucket}/run")
    latest = f"{bucket}/run/model.ckpt-2"
    assert tensorflow_files.read_state(f"{bucket}/run")[-1] == latest
    text = f'model_checkpoint_path: "{latest}"\n'
    (storage.as_path(bucket) / "other/checkpoint").write_text(text)
    (run / "checkpoint").write_text(text)
    assert tensorflow_files.find_checkpoint(f"{bucket}/other") == latest
    # A list that was downloaded together with its checkpoints.
    assert tensorflow_files.find_checkpoint(run) == str(run / "model.ckpt-2")


def test_a_damaged_checkpoint_of_a_bucket_is_named_by_its_own_path(shared):
    prefix = f"{upload(shared, new_bucket())}/model.ckpt-best"
    storage.as_path(f"{prefix}.index").write_bytes(b"cut off")
    with (
        pytest.raises(
            ValueError, match=f"Checkpoint {prefix} cannot be read"
        ) as caught,
        tensorflow_files.open_checkpoint(prefix),
    ):
        pass
    assert "/tmp" not in str(caught.value)


def test_a_folder_without_a_name_may_hold_no_checkpoint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("", ".", new_bucket()):
        with pytest.raises(FileNotFoundError, match="No checkpoint"):
            tensorflow_files.find_checkpoint(path)


def test_a_file_that_a_bucket_lists_late_is_there(monkeypatch):
    prefix = f"{new_bucket()}/model.ckpt-9"
    tensorflow_files.write_own(prefix, WEIGHTS, 9)
    data = frozenset({"model.ckpt-9.data-00000-of-00001"})

    def entries(path):
        is_folder = storage.as_path(path).name != "model.ckpt-9"
        return storage.Entries(data if is_folder else frozenset(), frozenset())

    monkeypatch.setattr(tensorflow_files, "entries", entries)
    assert tensorflow_files.find_checkpoint(prefix) == prefix
