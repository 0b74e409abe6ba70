"""Exports are complete versions with a card, or leave nothing."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.model_dir import ModelDir
from albert_tf.config import AlbertConfig
from albert_tf.serving import export
from albert_tf.storage import as_path
from albert_tf.task_config import Classification, Squad
from helpers.bucket_files import copies_of, files_of, new_bucket, upload
from helpers.served_models import (
    ENCODER_CONFIG as CONFIG,
)
from helpers.served_models import (
    ENCODER_TOKENIZER,
    LABELS,
    export_encoder,
    export_folder,
)
from helpers.tiny_weights import random_model, write_model


def everything_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.fixture
def save_no_graph(monkeypatch):
    """Saves time where only the files around the graph count."""

    def save(_, folder, *__):
        tf.io.gfile.makedirs(folder)

    monkeypatch.setattr(tf.saved_model, "save", save)


def test_what_a_client_needs_to_know_lies_beside_the_model(
    encoder_export, encoder_checkpoint, tmp_path, save_no_graph
):
    extra = encoder_export / "assets.extra"
    assert AlbertConfig.from_json(extra / "albert_config.json") == CONFIG
    assert json.loads((extra / "tokenizer.json").read_text()) == ENCODER_TOKENIZER
    export_encoder(CONFIG, encoder_checkpoint, tmp_path / "1")
    assert everything_in(tmp_path / "1" / "assets.extra") == [
        "albert_config.json",
        "batching_parameters.txt",
        "model_card.json",
        "tf_serving_warmup_requests",
    ]


def test_an_export_leaves_nothing_beside_it(encoder_export):
    assert [path.name for path in encoder_export.parent.iterdir()] == ["1"]


def test_versions_are_counted_up(encoder_checkpoint, tmp_path, save_no_graph):
    for _ in range(2):
        exported = export.ExportedModel(CONFIG, str(encoder_checkpoint))
        export.export_model(exported, tmp_path)
    export.export_model(exported, tmp_path, version=10)
    export.export_model(exported, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"1", "2", "10", "11"}


@pytest.mark.parametrize("used", ["folder", "file"])
def test_a_place_in_use_is_refused_and_left_alone(used, encoder_checkpoint, tmp_path):
    target = tmp_path / "1"
    occupant = target / "saved_model.pb" if used == "folder" else target
    occupant.parent.mkdir(exist_ok=True)
    occupant.write_text("older")
    before = everything_in(tmp_path)
    with pytest.raises(ValueError, match="1 is in use"):
        export_encoder(CONFIG, encoder_checkpoint, target)
    assert everything_in(tmp_path) == before
    assert occupant.read_text() == "older"


def fill_disk_at_saving(_, folder, *__):
    tf.io.gfile.makedirs(f"{folder}/variables")
    raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")


def fill_disk_at_assets(*_):
    raise OSError("No space left on device")


@pytest.mark.parametrize(
    ("owner", "name", "fail"),
    [
        (tf.saved_model, "save", fill_disk_at_saving),
        (export, "write_json", fill_disk_at_assets),
    ],
)
def test_an_export_that_fails_leaves_nothing(
    owner, name, fail, encoder_checkpoint, tmp_path, save_no_graph, monkeypatch
):
    monkeypatch.setattr(owner, name, fail)
    with pytest.raises(OSError, match="No space left"):
        export_encoder(CONFIG, encoder_checkpoint, tmp_path / "1")
    assert everything_in(tmp_path) == []


def test_what_a_killed_export_left_does_not_disturb(
    encoder_checkpoint, tmp_path, save_no_graph
):
    left = tmp_path / ".1.0123abcd.partial"
    left.mkdir()
    (left / "rest").write_text("half a model")
    export_encoder(CONFIG, encoder_checkpoint, tmp_path / "1")
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
    assert not (tmp_path / "1" / "rest").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"vocab_size": 62}, r"word_embeddings of shape \[61, 6\].*\[62, 6\]"),
        ({"num_hidden_groups": 4}, r"2 attention groups, the model 4"),
    ],
)
def test_a_checkpoint_of_another_model_is_refused(
    changes, words, encoder_checkpoint, tmp_path
):
    with pytest.raises(ValueError, match=words):
        export_encoder(
            CONFIG.replace(**changes), encoder_checkpoint, tmp_path / "model" / "1"
        )
    assert everything_in(tmp_path) == []


def test_a_missing_checkpoint_is_named_and_nothing_written(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        export_encoder(CONFIG, tmp_path / "nowhere", tmp_path / "model" / "1")
    assert everything_in(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_an_os_error(encoder_checkpoint, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(OSError):
        export_encoder(CONFIG, encoder_checkpoint, tmp_path / "file" / "1")


def test_the_card_says_what_it_is(pair_model):
    folder, exported = pair_model
    extra = exported / "assets.extra"
    card = json.loads((extra / "model_card.json").read_text())
    assert card["task"]["labels"] == LABELS
    settings = json.loads((folder / "tokenizer.json").read_text())
    assert card["tokenizer"] == settings and card["versions"]["tensorflow"]
    assert card["signatures_with_custom_operations"] == ["text"]


def test_embeddings_are_exported_beside_the_tasks_signatures(
    pair_model, tmp_path, monkeypatch
):
    saved = []

    def save(module, folder, signatures):
        saved.append((set(module.served), set(signatures)))
        tf.io.gfile.makedirs(folder)

    monkeypatch.setattr(tf.saved_model, "save", save)
    version = export_folder(pair_model[0], tmp_path, embeddings=True)
    names = {"serving_default", "ids", "ids_int64", "examples", "text"}
    names |= {"embeddings", "embeddings_text"}
    assert saved == [(names, names)]
    card = json.loads((version / "assets.extra" / "model_card.json").read_text())
    custom = card["signatures_with_custom_operations"]
    assert custom == ["text", "embeddings_text"]
    assert card["checkpoint_step"] == 3


def test_weights_without_a_pooler_have_no_embeddings(tmp_path, save_no_graph):
    config, weights = random_model()
    head = {n: v for n, v in weights.items() if "pooler" not in n and "cls/" not in n}
    head |= {"cls/squad/output_weights": np.ones((2, 12), np.float32)}
    head |= {"cls/squad/output_bias": np.ones(2, np.float32)}
    write_model(tmp_path / "model", head, config)
    squad = Squad(version_2=False, max_seq_length=20, doc_stride=9, max_query_length=5)
    known = (config, str(tmp_path / "model"), squad)
    export.export_model(export.ExportedModel(*known), tmp_path / "served")
    asked = export.ExportedModel(*known, embeddings=True)
    with pytest.raises(ValueError, match=r"lacks bert/pooler/dense/bias,.* leave --s"):
        export.export_model(asked, tmp_path / "other")


def test_a_threshold_to_export_is_the_classifiers(pair_model):
    found = ModelDir.read(pair_model[0])
    exported = export.from_model_dir(found, text=False, threshold=0.75)
    assert isinstance(exported.task_config, Classification)
    assert exported.task_config.threshold == 0.75
    exported = export.from_model_dir(found, text=False)
    assert exported.task_config.threshold is None
    with pytest.raises(ValueError, match=r"must be a number\. Received inf"):
        export.from_model_dir(found, text=False, threshold=np.inf)


def folder_of(task_config):
    """A value as `ModelDir.read` gives it for a model of a task."""
    return ModelDir("", CONFIG, task_config, None, {}, {})


def test_a_threshold_belongs_to_models_that_decide():
    found = folder_of(Squad(version_2=False))
    with pytest.raises(ValueError, match="is of squad_v1: leave out --threshold_to"):
        export.from_model_dir(found, threshold=1.0)


def test_an_infinite_threshold_to_export_is_known_to_the_model():
    task_config = Squad(version_2=True, threshold=0.5)
    exported = export.from_model_dir(folder_of(task_config), threshold=-np.inf)
    assert exported.task_config.threshold == -np.inf
    json.dumps(exported.task_config.to_dict(), allow_nan=False)
    exported = export.from_model_dir(folder_of(task_config))
    assert exported.task_config == task_config


def test_two_exports_at_once_are_one_version_and_a_refusal(
    encoder_checkpoint, tmp_path, monkeypatch
):
    exported = export.ExportedModel(CONFIG, str(encoder_checkpoint))
    refused = []

    def save(_, folder, *__):
        if not refused:
            refused.append(None)
            with pytest.raises(OSError, match=r"process is exporting to .*: let it"):
                export.export_model(exported, tmp_path)
        (Path(folder) / "saved_model.pb").write_bytes(b"model")

    monkeypatch.setattr(tf.saved_model, "save", save)
    export.export_model(exported, tmp_path)
    assert refused and [path.name for path in tmp_path.iterdir()] == ["1"]


def test_exports_to_other_schemes_are_refused(
    encoder_checkpoint, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    exported = export.ExportedModel(CONFIG, str(encoder_checkpoint))
    with pytest.raises(ValueError, match="hdfs://b/served is not a path"):
        export.export_model(exported, "hdfs://b/served")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def save_one_file(monkeypatch):
    """Saves time where the graph's content does not count."""

    def save(_, folder, *__):
        for name in ("saved_model.pb", "variables/variables.index"):
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(name.encode())

    monkeypatch.setattr(tf.saved_model, "save", save)


def test_versions_of_a_bucket_have_the_files_of_local_ones(
    encoder_checkpoint, tmp_path, save_one_file, capsys
):
    exported = export.ExportedModel(CONFIG, str(encoder_checkpoint))
    served = f"{new_bucket()}/served"
    for number in ("1", "2"):
        local, _ = export.export_model(exported, tmp_path)
        version, _ = export.export_model(exported, served)
        assert str(version) == f"{served}/{number}"
        assert files_of(version) == files_of(local)
    assert {path.name for path in as_path(served).iterdir()} == {"1", "2"}
    assert "this storage has no locks" in capsys.readouterr().out
    with pytest.raises(ValueError, match="2 is in use: export another version"):
        export.export_model(exported, served, version=2)


def test_what_is_left_of_a_version_in_a_bucket_is_replaced(
    encoder_checkpoint, save_one_file
):
    exported = export.ExportedModel(CONFIG, str(encoder_checkpoint))
    served = as_path(new_bucket()) / "served"
    expected = files_of(export.export_model(exported, served)[0])
    (served / "1/saved_model.pb").unlink()
    listed = json.dumps({"token": "1", "files": [*expected, "saved_model.pb"]})
    (served / "1/.unfinished").write_text(listed)
    version, _ = export.export_model(exported, served)
    assert version == served / "1" and files_of(version) == expected


def test_an_export_to_a_bucket_ends_if_another_one_began(
    encoder_checkpoint, monkeypatch
):
    exported = export.ExportedModel(CONFIG, str(encoder_checkpoint))
    served = as_path(new_bucket())

    def save(*_):
        (served / ".writer").write_text('{"token": "x", "host": "h", "since": "s"}')

    monkeypatch.setattr(tf.saved_model, "save", save)
    with pytest.raises(
        OSError, match=r"Another process is exporting to .* since s, on"
    ):
        export.export_model(exported, served)
    assert set(files_of(served)) == {".writer"}


def test_weights_that_are_read_once_serve_several_files(
    pair_model, save_one_file, monkeypatch
):
    source = upload(pair_model[0], new_bucket())
    copied = copies_of(monkeypatch)
    exported = export.from_model_dir(ModelDir.read(source)).read()
    for version in (1, 2):
        _, report = export.export_model(exported, f"{new_bucket()}/served", version)
        assert report.global_step == 3 and not report.missing
    parts = ["model.ckpt-3.data-00000-of-00001", "model.ckpt-3.index"]
    assert sorted(copied) == parts
