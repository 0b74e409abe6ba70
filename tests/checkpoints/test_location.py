"""A path names one set of weights, or the error says why not."""

import shutil

import pytest

from albert_tf.checkpoints import (
    formats,
    hugging_face,
    model_dir,
    transformers_config,
    transformers_names,
)
from albert_tf.checkpoints.location import Container, WeightsLocation, locate
from albert_tf.serving import export
from albert_tf.storage import as_path
from helpers.bucket_files import new_bucket
from helpers.tiny_weights import assert_same_weights, random_model, write_model


@pytest.fixture
def released(tmp_path):
    """A released folder; its weights."""
    config, weights = random_model()
    return write_model(tmp_path / "released", weights, config), weights


def test_a_folder_of_two_checkpoints_or_formats_is_ambiguous(released, tmp_path):
    folder, weights = released
    shutil.copytree(folder, tmp_path / "two")
    config = model_dir.read_config(folder)
    write_model(tmp_path / "two", weights, config, "model.ckpt-3")
    with pytest.raises(ValueError, match=r"several .*model\.ckpt-3, model\.ckpt-best"):
        formats.read_weights(tmp_path / "two")
    tensors, _ = transformers_names.to_transformers(weights, config)
    hugging_face.write(folder, tensors, transformers_config.config_to_dict(config, "X"))
    with pytest.raises(ValueError, match=r"several formats \(hugging_face, checkpoint"):
        formats.read_weights(folder)
    named = formats.read_weights(folder / "model.ckpt-best")
    assert_same_weights(named.weights, weights)


@pytest.mark.parametrize("name", ["", "nowhere", "nowhere/model.ckpt-best"])
def test_a_path_without_weights_is_named(name, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No weights at .*up to '\.index'"):
        formats.read_weights(tmp_path / name)


def test_a_saved_model_without_variables_is_refused(released, tmp_path):
    config = model_dir.read_config(released[0])
    model = export.ExportedModel(config, str(released[0]))
    exported, _ = export.export_model(model, tmp_path / "serving")
    shutil.rmtree(exported / "variables")
    with pytest.raises(FileNotFoundError, match="without its variables/: copy all"):
        formats.read_weights(exported)


@pytest.mark.parametrize("name", ["", "model.ckpt-best", "model.ckpt-best.index"])
def test_a_checkpoint_is_located_by_its_prefix(name, released):
    prefix = str(released[0] / "model.ckpt-best")
    expected = WeightsLocation(Container.CHECKPOINT, prefix)
    assert locate(released[0] / name) == expected and expected.prefix == prefix


@pytest.fixture(params=["disk", "bucket"])
def place(request, tmp_path):
    """An empty folder."""
    return tmp_path if request.param == "disk" else as_path(new_bucket()) / "model"


def test_a_saved_model_is_located_by_its_folder(place):
    for name in ("saved_model.pb", "variables/variables.index"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(b"")
    for path in (place, place / "saved_model.pb"):
        location = locate(path)
        assert location == WeightsLocation(Container.SAVED_MODEL, str(place))
        assert location.prefix == str(place / "variables" / "variables")


def test_a_folder_of_transformers_is_located_by_its_weights(place):
    (place / "pytorch_model.bin").write_bytes(b"")
    for path in (place, place / "pytorch_model.bin"):
        assert locate(path) == WeightsLocation(Container.TRANSFORMERS, str(place))


def test_a_folder_that_is_not_whole_is_named(place):
    (place / "model.safetensors").write_bytes(b"")
    (place / ".unfinished").write_text('{"files": ["model.safetensors", "x.json"]}')
    for path in (place, place / "model.safetensors", place / "model.ckpt-3"):
        with pytest.raises(ValueError, match="is not complete: what wrote it was cut"):
            locate(path)


def test_a_bucket_without_weights_may_be_one_that_cannot_be_read():
    with pytest.raises(FileNotFoundError, match=r"No weights .*your permissions\.$"):
        locate(f"{new_bucket()}/none")
