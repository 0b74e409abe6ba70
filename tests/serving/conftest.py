"""Exports that the tests of serving share, each made once."""

import pytest

from albert_tf.checkpoints.model_dir import ModelDir
from albert_tf.config import OptimizerConfig
from albert_tf.model.heads import PretrainingModel
from albert_tf.serving import export, tflite
from albert_tf.serving.tflite import TfliteSettings
from albert_tf.training import optimization, run_checkpoints
from helpers.served_models import (
    ENCODER_CONFIG,
    ENCODER_TOKENIZER,
    FILE_LENGTH,
    LABELS,
    PAIRS,
    export_encoder,
    export_folder,
    python_answer,
    write_classifier,
)


@pytest.fixture(scope="session")
def pair_model(tmp_path_factory):
    """The folder of a classifier of pairs, and its export."""
    folder = write_classifier(tmp_path_factory.mktemp("pair"), LABELS, pair=True)
    return folder, export_folder(folder, tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def pair_file(pair_model, tmp_path_factory):
    """The TensorFlow Lite file of that classifier, and its report."""
    path = tmp_path_factory.mktemp("tflite") / "toy.tflite"
    exported = export.from_model_dir(ModelDir.read(pair_model[0]), text=False)
    return path, tflite.export_tflite(exported, path, TfliteSettings(FILE_LENGTH))


@pytest.fixture(scope="session")
def pair_answers(pair_model):
    """Predictions of the Python path for `PAIRS`, and their rows."""
    return python_answer(pair_model[0], PAIRS)


@pytest.fixture(scope="session")
def encoder_checkpoint(tmp_path_factory):
    """A training checkpoint: encoder, heads and optimizer state."""
    model = PretrainingModel(ENCODER_CONFIG, seed=5)
    optimizer = optimization.create_optimizer(OptimizerConfig())
    optimizer.build(model.trainable_variables)
    saved = run_checkpoints.training_checkpoint(model, optimizer)
    return saved.save(tmp_path_factory.mktemp("run") / "model.ckpt")


@pytest.fixture(scope="session")
def encoder_export(encoder_checkpoint, tmp_path_factory):
    """The encoder of that checkpoint, exported without a vocabulary."""
    folder = tmp_path_factory.mktemp("serving") / "model" / "1"
    report = export_encoder(
        ENCODER_CONFIG, encoder_checkpoint, folder, ENCODER_TOKENIZER
    )
    assert report.missing == () and len(report.unused) == 7
    return folder
