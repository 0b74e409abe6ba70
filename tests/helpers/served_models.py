"""Folders of toy models, their exports, and the answers of the Python path."""

import json
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from albert_tf.checkpoints.load import load_weights, weights_checkpoint
from albert_tf.checkpoints.model_dir import ModelDir, model_files
from albert_tf.model.heads import ClassificationModel
from albert_tf.serving import export
from albert_tf.serving.server_files import WARMUP_FILE
from albert_tf.task_config import Classification, Regression
from albert_tf.tasks import create_task
from albert_tf.text import packing
from albert_tf.text.tokenizer import AlbertTokenizer
from helpers.fine_tuning_toys import MAX_SEQ_LENGTH, config, write_vocabulary
from helpers.tiny import tiny_config

# With dropout, so that an export that drops is noticed.
ENCODER_CONFIG = tiny_config(
    num_hidden_groups=2, initializer_range=0.3, hidden_dropout_prob=0.4
)
ENCODER_TOKENIZER = {"vocab_size": ENCODER_CONFIG.vocab_size, "lower_case": True}
LABELS = ["bad", "good", "ugly"]
# Tokens of a row of the fixture `pair_file`.
FILE_LENGTH = 11
PAIRS = [
    ("lovely worda", "wordb awful"),
    ("", "wordc"),
    ("WORDD  Lövely", ""),
    ("worda " * 40, "wordb " * 3),
    ("wordc " * 9, "wordd " * 30),
    ("[SEP] unheard of 日本", "wordt"),
]


def filled(shape, **values):
    """Rows of one id, all visible."""
    known = {"input_ids": 6, "input_mask": 1, "segment_ids": 0, **values}
    return {name: np.full(shape, value, np.int32) for name, value in known.items()}


def write_model(folder: Path, task_config, model, shape) -> AlbertTokenizer:
    """Writes a model's folder: weights, configuration, vocabulary and task."""
    tokenizer = AlbertTokenizer(vocab_file=write_vocabulary(folder))
    files = model_files(folder / "vocab.txt", task_config.to_dict())
    for name, content in files.items():
        (folder / name).write_bytes(content)
    shape.to_json(folder / "albert_config.json")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer.metadata()))
    weights_checkpoint(model).write(str(folder / "model.ckpt-3"))
    return tokenizer


def write_classifier(folder: Path, labels, pair: bool, **changes) -> Path:
    """A folder with random weights of a task on one text or two."""
    shape = config(hidden_dropout_prob=0.4, **changes)
    model = ClassificationModel(shape, num_outputs=len(labels or [0]), seed=7)
    for variable in model.trainable_variables:
        if "output_weights" in variable.name:
            variable.assign(tf.random.stateless_normal(variable.shape, [1, 2]))
    known = {
        "max_seq_length": MAX_SEQ_LENGTH,
        "columns": {"text": "text", "text_pair": "other" if pair else None},
    }
    if labels:
        task_config = Classification("toy", labels, **known)
    else:
        task_config = Regression("toy", **known)
    write_model(folder, task_config, model, shape)
    return folder


def export_folder(folder: Path, target: Path, **options) -> Path:
    """Exports a model's folder; returns the version's."""
    exported = export.from_model_dir(ModelDir.read(folder), **options)
    return export.export_model(exported, target)[0]


def export_encoder(config, checkpoint, folder: Path, settings=None):
    """Exports as the version that a folder's name says; returns the load report."""
    exported = export.ExportedModel(
        config, str(checkpoint), tokenizer_settings=settings or {}
    )
    return export.export_model(exported, folder.parent, int(folder.name))[1]


def signature(version: Path, name: str = "text"):
    return tf.saved_model.load(str(version)).signatures[name]


def python_answer(folder: Path, pairs) -> tuple[list[dict], list[dict]]:
    """Predictions of the Python path for texts or pairs, and their rows."""
    found = ModelDir.read(folder)
    tokenizer = found.tokenizer()
    task = create_task(found.task_config)
    model = task.build_model(found.config, seed=0, rematerialize="none")
    load_weights(model, found.checkpoint)
    answers, rows = [], []
    for pair in pairs:
        ids = [tokenizer.encode(text) for text in pair] + [None] * (2 - len(pair))
        special = 3 if len(pair) == 2 else 2
        kept = packing.truncate_longest_first(
            len(ids[0]), len(ids[1] or []), MAX_SEQ_LENGTH - special
        )
        row = packing.pack_segments(
            ids[0][: kept[0]],
            None if ids[1] is None else ids[1][: kept[1]],
            MAX_SEQ_LENGTH,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            pad_id=tokenizer.pad_id,
        )
        rows.append(row)
        batch = {name: tf.constant([values]) for name, values in row.items()}
        outputs = model(batch, training=False)
        predictions = task.predictions(outputs, {"label_ids": 0})
        answers.append({name: np.asarray(v) for name, v in predictions.items()})
    return answers, rows


def warmup_requests(version: Path) -> list[tuple[str, dict[str, tf.Tensor]]]:
    """Signature and inputs of each request that warms a server up."""
    requests = []
    file = version / "assets.extra" / WARMUP_FILE
    for record in tf.data.TFRecordDataset(str(file)):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        request = log.predict_log.request
        inputs = {
            key: tf.constant(tf.make_ndarray(value))
            for key, value in request.inputs.items()
        }
        requests.append((request.model_spec.signature_name, inputs))
    return requests
