"""A model's folder is written in every format, or the error names what has no place."""

import json

import pytest

from albert_tf.checkpoints import model_dir, writers
from albert_tf.checkpoints.checkpoint_format import WRITABLE_FORMATS, CheckpointFormat
from albert_tf.checkpoints.formats import StoredWeights
from albert_tf.task_config import Classification
from helpers.tiny_weights import convert, files_in, model_with_head, random_model


def test_a_head_that_the_other_side_lacks_is_left_out_only_when_told(tmp_path):
    source, values = model_with_head(tmp_path / "source", "span and answerable")
    with pytest.raises(ValueError, match="No class of transformers has these heads"):
        convert(source, tmp_path / "there", "hugging_face")
    with pytest.raises(ValueError, match=r"no place for answer_class.*--nostrict"):
        convert(source, tmp_path / "there", "model_garden")
    assert files_in(tmp_path) == ["source"]
    for name in ("hugging_face", "model_garden"):
        results = convert(source, tmp_path / name, name, strict=False)
        assert results["weights"]["unused"] == sorted(values)
        assert not set(results["weights"]["loaded"]) & set(values)


def test_labels_of_a_task_are_named_there(tmp_path):
    source, _ = model_with_head(tmp_path / "source", "classifier")
    labels = ["no", "maybe", "yes"]
    task = {"task_name": "custom", "labels": labels}
    (source / "task.json").write_text(json.dumps(task))
    objective = '{"pair_objective": "nsp"}\n'
    (source / "pretraining.json").write_text(objective)
    convert(source, tmp_path / "theirs", "hugging_face")
    values = json.loads((tmp_path / "theirs" / "config.json").read_text())
    assert values["id2label"] == {"0": "no", "1": "maybe", "2": "yes"}
    assert values["architectures"] == ["AlbertForSequenceClassification"]
    convert(source, tmp_path / "own", "own")
    assert model_dir.read_task(tmp_path / "own") == task
    kept = json.loads((tmp_path / "own" / "pretraining.json").read_text())
    assert kept == json.loads(objective)
    task_config = model_dir.read_task_config(tmp_path / "own")
    assert task_config == Classification("custom", labels)


def test_a_classifier_is_no_multiple_choice(tmp_path):
    source, _ = model_with_head(tmp_path / "source", "classifier")
    with pytest.raises(ValueError, match="one score, this model's 3"):
        convert(source, tmp_path / "x", "hugging_face", multiple_choice=True)


FILES = {
    "own": "model.ckpt-7.index",
    "tensorflow1": "model.ckpt-best.index",
    "hugging_face": "model.safetensors",
    "model_garden": "albert_encoder.ckpt.index",
}


@pytest.mark.parametrize("target_format", WRITABLE_FORMATS, ids=lambda f: f.value)
def test_each_format_has_its_files(target_format, tmp_path):
    config, weights = random_model()
    stored = StoredWeights(
        "here", CheckpointFormat.OWN, weights, config=config, global_step=7
    )
    task = {"task_name": "race", "labels": None, "levels": ["high"]}
    model = writers.Model(stored, None, {"lower_case": False}, task, False, False)
    dropped = writers.write(model, target_format, tmp_path)
    heads = sorted(name for name in weights if name.startswith("cls/"))
    is_garden = target_format is CheckpointFormat.MODEL_GARDEN
    assert dropped == (tuple(heads) if is_garden else ())
    assert (tmp_path / FILES[target_format.value]).is_file()
    if target_format is CheckpointFormat.TRANSFORMERS:
        values = json.loads((tmp_path / "config.json").read_text())
        assert values["architectures"] == ["AlbertForPreTraining"]
        return
    assert model_dir.read_config(tmp_path) == config
    assert model_dir.read_task(tmp_path) == task
    stored_metadata = json.loads((tmp_path / "tokenizer.json").read_text())
    assert stored_metadata == {"lower_case": False}
