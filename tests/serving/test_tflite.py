"""TensorFlow Lite files give the model's numbers, or are not written."""

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from albert_tf.checkpoints.model_dir import ModelDir
from albert_tf.serving import export, tflite
from albert_tf.task_config import Squad
from helpers.fine_tuning_toys import config
from helpers.served_models import signature


def test_tflite_gives_the_models_numbers(pair_model, tmp_path):
    exported = export.from_model_dir(ModelDir.read(pair_model[0]), text=False)
    path = tmp_path / "toy.tflite"
    differences = tflite.export_tflite(exported, path, 11)
    assert set(differences) == {"probabilities"} and differences["probabilities"] < 1e-5
    runner = Interpreter(str(path)).get_signature_runner()
    row = {
        name: np.full((1, 11), value, np.int32)
        for name, value in {"input_ids": 6, "input_mask": 1, "segment_ids": 0}.items()
    }
    for name, value in (
        ("input_ids", 27),
        ("input_ids", -1),
        ("input_mask", 2),
        ("segment_ids", 2),
        ("segment_ids", -1),
    ):
        with pytest.raises(RuntimeError, match="index out of bounds"):
            runner(**{**row, name: np.full((1, 11), value, np.int32)})
    served = signature(pair_model[1], "ids")(
        **{n: tf.constant(v) for n, v in row.items()}
    )
    np.testing.assert_allclose(
        runner(**row)["probabilities"], served["probabilities"], atol=1e-5
    )


def test_a_conversion_that_fails_says_so_and_writes_nothing(
    pair_model, tmp_path, monkeypatch
):
    exported = export.from_model_dir(ModelDir.read(pair_model[0]), text=False)

    def fail(_):
        raise RuntimeError("no such operation\nand more")

    monkeypatch.setattr(
        tf.lite.TFLiteConverter,
        "from_concrete_functions",
        lambda *_: type("C", (), {"convert": fail})(),
    )
    with pytest.raises(ValueError, match=r"TFLite file: no such operation\.$"):
        tflite.export_tflite(exported, tmp_path / "toy.tflite", 11)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match=r"24\. Received 25"):
        tflite.export_tflite(exported, tmp_path / "toy.tflite", 25)


def test_models_whose_answers_are_no_numbers_are_refused(tmp_path):
    exported = export.ExportedModel(config(), "nowhere", Squad(version_2=False))
    with pytest.raises(ValueError, match="model for squad_v1 cannot be a TFLite"):
        tflite.export_tflite(exported, tmp_path / "toy.tflite", 11)
