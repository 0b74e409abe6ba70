"""ONNX files give the model's numbers and say what they are, or are not written."""

import json
import sys

import numpy as np
import onnx
import pytest
import tensorflow as tf

from albert_tf.checkpoints.model_dir import ModelDir
from albert_tf.config import AlbertConfig
from albert_tf.serving import export, onnx_check, onnx_file
from helpers.bucket_files import files_of, new_bucket
from helpers.fine_tuning_toys import MAX_SEQ_LENGTH
from helpers.onnx_models import random_batch, run, start
from helpers.paths import ROOT
from helpers.served_models import LABELS, signature
from helpers.tiny import tiny_config


@pytest.fixture(scope="module")
def exported(pair_model):
    return export.from_model_dir(ModelDir.read(pair_model[0]), text=False)


@pytest.fixture(scope="module")
def written(exported, tmp_path_factory):
    """The file, and its differences from the model."""
    path = tmp_path_factory.mktemp("onnx") / "new" / "toy.onnx"
    return path, onnx_file.export_onnx(exported, path)


def test_a_file_gives_the_numbers_of_the_saved_model(written, pair_model):
    path, differences = written
    assert set(differences) == {"probabilities"} and differences["probabilities"] < 1e-5
    assert [each.name for each in path.parent.iterdir()] == ["toy.onnx"]
    ask = signature(pair_model[1], "ids_int64")
    for shape in ((1, 5), (4, 23)):
        batch = random_batch(shape, vocab_size=27)
        served = ask(**{name: tf.constant(v) for name, v in batch.items()})
        np.testing.assert_allclose(
            run(start(str(path)), batch)["probabilities"],
            served["probabilities"],
            atol=1e-5,
        )


def test_the_metadata_say_what_a_reader_needs(written, exported):
    stored = start(str(written[0])).get_modelmeta().custom_metadata_map
    metadata = {key: json.loads(value) for key, value in stored.items()}
    assert metadata["task"]["labels"] == LABELS
    assert metadata["max_seq_length"] == MAX_SEQ_LENGTH
    assert AlbertConfig.from_dict(metadata["config"]) == exported.config
    for name in ("vocabulary_sha256", "lower_case"):
        assert metadata["tokenizer"][name] == exported.tokenizer_settings[name]
    assert metadata["checkpoint_step"] == 3


def test_a_file_is_as_large_as_the_variables_of_the_saved_model(written, exported):
    path, _ = written
    config = exported.config
    head = len(LABELS) * (config.hidden_size + 1)
    # Those of pretraining, which `num_parameters` counts too.
    masked_lm = (config.hidden_size + 1 + 2) * config.embedding_size + config.vocab_size
    others = masked_lm + 2 * (config.hidden_size + 1)
    weights = 4 * (config.num_parameters - others + head)
    model = onnx.load(path)
    stored = sum(len(each.raw_data) for each in model.graph.initializer)
    assert weights <= stored <= weights + 200
    # The graph of two layers, whatever their width, and the metadata.
    assert path.stat().st_size - stored < 20_000


def test_other_numbers_are_not_written(exported, tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_check, "TOLERANCE", -1.0)
    with pytest.raises(ValueError, match=r"differs from the model by .*not written\.$"):
        onnx_file.export_onnx(exported, tmp_path / "toy.onnx")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_a_file_is_refused_before_it_is_loaded(tmp_path, monkeypatch):
    def refused(reason, name="toy.onnx", config=None, **changes):
        model = export.ExportedModel(config or tiny_config(), "nowhere", **changes)
        with pytest.raises(ValueError, match=reason) as caught:
            onnx_file.check_exportable(model, tmp_path / name)
        assert "\n" not in str(caught.value)

    refused("hold a TensorFlow Lite model", name="toy.tflite")
    refused(r"float32.*bfloat16: leave out --precision\.", precision="bfloat16")
    large = AlbertConfig.from_json(ROOT / "configs" / "albert_xxlarge.json")
    onnx_file.check_exportable(export.ExportedModel(large, "nowhere"), "toy.onnx")
    refused("less than 2 GiB.*use its SavedModel", config=large.unshared())
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    refused(r"library onnxruntime: pip install 'albert-tf\[onnx\]'\.")


def test_a_file_of_a_bucket_has_the_same_bytes(written, exported):
    folder = f"{new_bucket()}/new"
    onnx_file.export_onnx(exported, f"{folder}/toy.onnx")
    assert files_of(folder) == {"toy.onnx": written[0].read_bytes()}
