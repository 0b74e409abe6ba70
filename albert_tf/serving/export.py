"""A checkpoint -> a SavedModel that TensorFlow Serving runs, with no code of ours."""

import contextlib
import dataclasses
import importlib.metadata
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from albert_tf.checkpoints import formats, model_dir
from albert_tf.checkpoints.load import HEADS, LoadReport, load_weights
from albert_tf.config import AlbertConfig
from albert_tf.files import whole_folder, write_json
from albert_tf.model.precision import precision_policy
from albert_tf.serving import base as serving_base
from albert_tf.serving import multiple_choice, squad
from albert_tf.tasks.squad import NAMES as SQUAD_NAMES
from albert_tf.tasks.squad import SquadSettings
from albert_tf.text.tokenizer import AlbertTokenizer

MODEL_CARD = "model_card.json"
WARMUP_FILE = "tf_serving_warmup_requests"
BATCHING_FILE = "batching_parameters.txt"
# Rows of a request that a server may join, and the shapes it is warmed up for.
_ALLOWED_BATCH_SIZES = (1, 2, 4, 8, 16, 32)
_WARMUP_LENGTH = 32


@dataclasses.dataclass(frozen=True)
class ExportedModel:
    """What is exported.

    Attributes:
      config: the model's shape.
      checkpoint: its weights, as `checkpoints.load_weights` takes it.
      task: what it was trained for, as `task.json` says; empty: the encoder alone.
      tokenizer: for a signature that takes text; None: there is none, nor any custom
        operation.
      tokenizer_settings: what is known of the vocabulary, JSON values.
      scores: of the model, for its card.
      precision: of activations, "float32" or "bfloat16".
    """

    config: AlbertConfig
    checkpoint: str
    task: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    tokenizer: AlbertTokenizer | None = None
    tokenizer_settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    scores: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    precision: str = "float32"


def of_folder(
    folder: model_dir.ModelDir,
    text: bool | None = None,
    precision: str = "float32",
    threshold: float | None = None,
) -> ExportedModel:
    """What a model's folder gives to export.

    Args:
      folder: with a configuration.
      text: whether there is a signature that takes text; None: if there is a
        vocabulary.
      precision: of activations.
      threshold: put into the output `threshold`; of SQuAD v2.0 in place of the stored
        one. None: the stored one, if there is one.
    Raises:
      ValueError: such a model decides by no threshold.
    """
    if text is None:
        text = folder.vocabulary is not None
    tokenizer = folder.tokenizer() if text else None
    settings = tokenizer.metadata() if tokenizer else folder.tokenizer_settings
    return ExportedModel(
        config=folder.config,
        checkpoint=folder.checkpoint,
        task=_with_threshold(folder.task, threshold),
        tokenizer=tokenizer,
        tokenizer_settings=settings,
        scores=folder.metrics,
        precision=precision,
    )


def _with_threshold(
    task: Mapping[str, Any], threshold: float | None
) -> Mapping[str, Any]:
    if threshold is None:
        return task
    if task.get("task_name") == SQUAD_NAMES[True]:
        settings = SquadSettings.from_dict(task)
        return dataclasses.replace(settings, threshold=threshold).to_dict()
    if not task.get("labels") or "levels" in task:
        name = task.get("task_name", "no task")
        raise ValueError(
            "A threshold belongs to a classifier or a model of SQuAD v2.0. The model "
            f"is of {name}: leave out --threshold_to_export."
        )
    if not math.isfinite(threshold):
        raise ValueError(
            f"--threshold_to_export must be a number. Received {threshold}."
        )
    return {**task, "threshold": threshold}


def export_model(
    exported: ExportedModel, export_dir: str | os.PathLike, version: int = 0
) -> tuple[Path, LoadReport]:
    """Writes the next version of a model, whole or not at all.

    Signatures: `serving_default` and `ids` (int32 [B, S] `input_ids`, `input_mask`,
    `segment_ids`; both dimensions free up to the model's longest input), `ids_int64`,
    `examples` (serialized tf.Examples with those features), and `text`, with a
    tokenizer. Outputs are the task's (`serving`); for multiple choice inputs have an
    axis of options too (`serving_choice`); for SQuAD `text` takes `question` and
    `context` (`serving_squad`). In `assets.extra/` lie the configuration, a model card,
    requests that warm a server up and its batching parameters.

    Args:
      exported: what to write.
      export_dir: folder of versions.
      version: number of the new one; 0: 1, or the next that is free.
    Returns:
      The version's folder, and the load report; heads that the model has not are in
      `unused`.
    Raises:
      FileNotFoundError: no such checkpoint.
      ValueError: the checkpoint is of another shape, or its head was never trained; the
        version is in use.
      OSError: the folder cannot be written, or its disk is full.
    """
    model, report = load_model(exported)
    served_class = _parts(exported.task)[1]
    served = served_class(model, exported.config, exported.task, exported.tokenizer)
    with _new_version(Path(export_dir), version) as (folder, partial):
        tf.saved_model.save(served, str(partial), served.served)
        extra = partial / "assets.extra"
        extra.mkdir(exist_ok=True)
        write_json(extra / model_dir.CONFIG_FILE, exported.config.to_dict())
        if exported.tokenizer_settings:
            write_json(
                extra / model_dir.TOKENIZER_FILE, dict(exported.tokenizer_settings)
            )
        write_json(extra / MODEL_CARD, model_card(exported))
        _write_warmup(extra / WARMUP_FILE, served)
        (extra / BATCHING_FILE).write_text(_batching_parameters(), "utf-8")
    return folder, report


def load_model(exported: ExportedModel) -> tuple[tf.Module, LoadReport]:
    """The model with its weights; heads that it has not are in the report's `unused`.

    Raises: as `export_model`.
    """
    build_model = _parts(exported.task)[0]
    with precision_policy(exported.precision):
        model = build_model(exported.config, exported.task)
    report = load_weights(model, exported.checkpoint, unused_ok=HEADS)
    serving_base.keep_kernels_in(model, tf.as_dtype(exported.precision))
    return model, report


def _is_squad(task: Mapping[str, Any]) -> bool:
    return task.get("task_name") in SQUAD_NAMES.values()


def _parts(task: Mapping[str, Any]) -> tuple[Callable, type[serving_base.ServedModel]]:
    """What builds a task's model, and what serves it."""
    if _is_squad(task):
        return squad.build_model, squad.ServedAnswers
    if "levels" in task:
        return serving_base.build_model, multiple_choice.ServedChoices
    return serving_base.build_model, serving_base.ServedModel


@contextlib.contextmanager
def _new_version(export_dir: Path, version: int) -> Iterator[tuple[Path, Path]]:
    """A version's folder, and one to fill, which gets that name when it is whole."""
    if export_dir.exists() and not export_dir.is_dir():
        raise NotADirectoryError(f"{export_dir} is a file: name a folder.")
    there = export_dir.iterdir() if export_dir.is_dir() else ()
    versions = [int(path.name) for path in there if path.name.isdigit()]
    folder = export_dir / str(version or max(versions, default=0) + 1)
    if folder.exists():
        raise ValueError(f"{folder} is in use: export another version.")
    made = not export_dir.is_dir()
    export_dir.mkdir(parents=True, exist_ok=True)
    try:
        with whole_folder(folder) as partial:
            yield folder, partial
    except tf.errors.OpError as error:
        raise OSError(f"{folder} cannot be written: {error.message}.") from error
    finally:
        if made and not any(export_dir.iterdir()):
            export_dir.rmdir()


def model_card(exported: ExportedModel) -> dict[str, Any]:
    """What people and programs want to know of a model, JSON values."""
    libraries = ("tensorflow", "tensorflow-text", "sentencepiece", "albert-tf")
    return {
        "task": dict(exported.task) or {"task_name": "encoder"},
        "config": exported.config.to_dict(),
        "tokenizer": dict(exported.tokenizer_settings),
        "scores": dict(exported.scores),
        "checkpoint_step": formats.read_global_step(exported.checkpoint),
        "precision": exported.precision,
        "signatures_with_custom_operations": ["text"] if exported.tokenizer else [],
        "versions": {name: importlib.metadata.version(name) for name in libraries},
    }


def _write_warmup(path: Path, served: serving_base.ServedModel) -> None:
    """Requests that TensorFlow Serving runs before it answers any."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for size in _ALLOWED_BATCH_SIZES[:3]:
            for name, inputs in served.example_inputs(size, _WARMUP_LENGTH).items():
                request = predict_pb2.PredictRequest()
                request.model_spec.signature_name = name
                for key, value in inputs.items():
                    proto = tf.make_tensor_proto(value, shape=np.shape(value))
                    request.inputs[key].CopyFrom(proto)
                log = prediction_log_pb2.PredictionLog(
                    predict_log=prediction_log_pb2.PredictLog(request=request)
                )
                writer.write(log.SerializeToString())


def _batching_parameters() -> str:
    """For `tensorflow_model_server --batching_parameters_file`.

    The server can pad inputs of other lengths itself, but with their first element: a
    1 in `input_mask`. So ids are joined where lengths agree; texts and examples, which
    the graph pads, always.
    """
    sizes = "".join(f"allowed_batch_sizes: {size}\n" for size in _ALLOWED_BATCH_SIZES)
    return (
        f"max_batch_size {{ value: {_ALLOWED_BATCH_SIZES[-1]} }}\n"
        "batch_timeout_micros { value: 2000 }\n"
        "max_enqueued_batches { value: 1000 }\n"
        f"num_batch_threads {{ value: {os.cpu_count()} }}\n"
        "pad_variable_length_inputs: false\n" + sizes
    )
