"""Exports a checkpoint as a SavedModel for TensorFlow Serving.

Running the SavedModel needs no code of this project.
"""

import contextlib
import dataclasses
import importlib.metadata
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from albert_tf.checkpoints.formats import StoredWeights, read_weights
from albert_tf.checkpoints.load import LoadReport, released_name
from albert_tf.checkpoints.location import SAVED_MODEL_FILE
from albert_tf.checkpoints.model_dir import CONFIG_FILE, TOKENIZER_FILE, ModelDir
from albert_tf.config import AlbertConfig
from albert_tf.file_kinds import check_replaceable, check_suffix
from albert_tf.files import make_folder, write_json
from albert_tf.folders import is_whole, whole_folder
from albert_tf.locks import exclusive
from albert_tf.model.precision import precision_policy
from albert_tf.serving.base import SavedModule
from albert_tf.serving.create import (
    EMBEDDINGS,
    FILL_MASK,
    create_fill_mask,
    create_served_model,
    embedding_signatures,
    load_model,
)
from albert_tf.serving.hub import HubModel
from albert_tf.serving.server_files import write_server_files
from albert_tf.storage import AnyPath, PathLike, as_path, local_copy
from albert_tf.task_config import Classification, Squad, TaskConfig
from albert_tf.text.tokenizer import AlbertTokenizer

MODEL_CARD = "model_card.json"


@dataclasses.dataclass(frozen=True)
class ExportedModel:
    """A model to export.

    Attributes:
      config: the model's configuration.
      checkpoint: its weights, as `checkpoints.load.load_weights` takes them.
      task_config: the task that it was trained for; None: the encoder alone.
      tokenizer: tokenizer of a signature that takes text; None: no such signature, and
        no custom operation.
      tokenizer_settings: what is known of the vocabulary, JSON values.
      metrics: metrics of the model, for its card.
      precision: of activations, as `TrainConfig.precision`.
      embeddings: whether there are signatures of embeddings beside the task's.
      fill_mask: tokens for each mask that the signature `fill_mask` lists; 0: there is
        no such signature.
      hub: whether there are the signatures of a hub module.
      vocabulary: the vocabulary's file, which they name; None: there is none.
      use_ema: whether to take averaged weights; None: if there are any.
      stored: the weights, if they are read already; see `read`.
    """

    config: AlbertConfig
    checkpoint: str
    task_config: TaskConfig | None = None
    tokenizer: AlbertTokenizer | None = None
    tokenizer_settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    metrics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    precision: str = "float32"
    embeddings: bool = False
    fill_mask: int = 0
    hub: bool = False
    vocabulary: AnyPath | None = None
    use_ema: bool | None = None
    stored: StoredWeights | None = dataclasses.field(default=None, repr=False)

    def read(self) -> "ExportedModel":
        """Reads the weights, so that several files can be made of them.

        Raises:
          FileNotFoundError, ValueError: as `checkpoints.formats.read_weights`.
        """
        return dataclasses.replace(self, stored=self.weights)

    @property
    def weights(self) -> StoredWeights:
        """The weights, which are read now if they are not yet."""
        return self.stored or read_weights(self.checkpoint, use_ema=self.use_ema)


def from_model_dir(
    folder: ModelDir,
    text: bool | None = None,
    precision: str = "float32",
    threshold: float | None = None,
    embeddings: bool = False,
    fill_mask: int = 0,
    hub: bool = False,
    use_ema: bool | None = None,
) -> ExportedModel:
    """Takes a model to export from its folder.

    Args:
      folder: content of the folder.
      text: whether there is a signature that takes text; None: if there is a
        vocabulary.
      precision: of activations.
      threshold: the output `threshold`; for SQuAD v2.0 it replaces the stored one.
        None: the stored one, if there is one.
      embeddings: whether there are signatures of embeddings beside the task's.
      fill_mask: as of `ExportedModel`.
      hub: as of `ExportedModel`.
      use_ema: whether to take averaged weights; None: if there are any.
    Raises:
      FileNotFoundError: the folder has no configuration.
      ValueError: a model of this kind has no threshold.
    """
    if folder.config is None:
        raise FileNotFoundError(
            f"No {CONFIG_FILE} next to {folder.checkpoint}: pass --albert_config_file."
        )
    if text is None:
        text = folder.vocabulary is not None
    tokenizer = folder.tokenizer() if text else None
    settings = tokenizer.metadata() if tokenizer else folder.tokenizer_settings
    task_config = folder.task_config
    if threshold is not None:
        task_config = _with_threshold(task_config, threshold)
    return ExportedModel(
        config=folder.config,
        checkpoint=folder.checkpoint,
        task_config=task_config,
        tokenizer=tokenizer,
        tokenizer_settings=settings,
        metrics=folder.metrics,
        precision=precision,
        embeddings=embeddings,
        fill_mask=fill_mask,
        hub=hub,
        vocabulary=folder.vocabulary,
        use_ema=use_ema,
    )


def _with_threshold(task_config: TaskConfig | None, threshold: float) -> TaskConfig:
    if isinstance(task_config, Squad) and task_config.version_2:
        return dataclasses.replace(task_config, threshold=threshold)
    if not isinstance(task_config, Classification):
        name = task_config.task_name if task_config else "no task"
        raise ValueError(
            "A threshold belongs to a classifier or a model of SQuAD v2.0. The model "
            f"is of {name}: leave out --threshold_to_export."
        )
    if not math.isfinite(threshold):
        raise ValueError(
            f"--threshold_to_export must be a number. Received {threshold}."
        )
    return dataclasses.replace(task_config, threshold=threshold)


def export_model(
    exported: ExportedModel, export_dir: PathLike, version: int = 0
) -> tuple[AnyPath, LoadReport]:
    """Writes the next version of a model, completely or not at all.

    Signatures: `serving_default` and `ids` (int32 [B, S] `input_ids`, `input_mask`,
    `segment_ids`; both dimensions free up to the model's longest input), `ids_int64`,
    `examples` (serialized tf.Examples with those features), and `text` with a
    tokenizer. The outputs are those of the task's class in `albert_tf.serving`, which
    also says what is different for multiple choice (options are one more dimension)
    and for SQuAD (`text` takes `question` and `context`). If asked for, `embeddings`
    and `embeddings_text` give the encoder's outputs of rows and of texts, and
    `fill_mask` the likeliest tokens for the masks of texts.
    `assets.extra/` holds the configuration, a model card, warm-up requests and batching
    parameters.

    Args:
      exported: the model.
      export_dir: folder of versions, local or in a bucket.
      version: number of the new version; 0: the next one, from 1.
    Returns:
      The version's folder, and the load report; heads that the model lacks are in
      `unused`.
    Raises:
      FileNotFoundError: there is no such checkpoint.
      ValueError: the checkpoint is of another configuration, or lacks the task's head;
        or the version exists.
      OSError: the folder cannot be written, its disk is full, or another process
        exports to it.
    """
    place = as_path(export_dir)
    if not isinstance(place, Path):
        make_folder(place)  # Fails now if nothing can be written.
    stored = exported.weights
    model, report = load_model(
        exported.config, stored, exported.task_config, exported.precision
    )
    served = create_served_model(
        model, exported.config, exported.task_config, exported.tokenizer
    )
    module = served.to_module()
    if exported.embeddings:
        _require_pooler(exported, report)
        more = embedding_signatures(
            model, exported.config, exported.task_config, exported.tokenizer
        )
        module.served = {**module.served, **more}
    if exported.fill_mask:
        report = _with_head(report, _add_fill_mask(module, model, exported, stored))
    with contextlib.ExitStack() as stack:
        if exported.hub:
            head = _add_hub(module, model, exported, stored, stack)
            report = _with_head(report, head)
        folder, partial = stack.enter_context(_new_version(place, version))
        tf.saved_model.save(module, str(partial), dict(module.served))
        extra = partial / "assets.extra"
        extra.mkdir(exist_ok=True)
        write_json(extra / CONFIG_FILE, exported.config.to_dict())
        if exported.tokenizer_settings:
            write_json(extra / TOKENIZER_FILE, dict(exported.tokenizer_settings))
        write_json(extra / MODEL_CARD, model_card(exported, report))
        write_server_files(extra, served)
    return folder, report


def _add_fill_mask(
    module: SavedModule,
    model: tf.Module,
    exported: ExportedModel,
    stored: StoredWeights,
) -> list[str]:
    """Adds the signature `fill_mask`, and the weights of its head.

    Returns:
      Names of these weights.
    Raises:
      ValueError: the model has no vocabulary, or as `create_fill_mask`.
    """
    if exported.tokenizer is None:
        raise ValueError(
            f"The signature {FILL_MASK} takes texts, and {exported.checkpoint} is "
            "exported without a vocabulary: copy it next to the weights, and leave "
            "out --notext_signature."
        )
    served = create_fill_mask(
        model.encoder,
        stored,
        exported.config,
        exported.tokenizer,
        exported.fill_mask,
        exported.precision,
    )
    head = {released_name(v): v for v in served.model.masked_lm.variables}
    module.weights = {**module.weights, **head}
    module.served = {**module.served, FILL_MASK: served.signatures["text"]}
    return list(head)


def _add_hub(
    module: SavedModule,
    model: tf.Module,
    exported: ExportedModel,
    stored: StoredWeights,
    stack: contextlib.ExitStack,
) -> list[str]:
    """Adds the signatures of a hub module, and the weights of their heads.

    Args:
      module: what is saved.
      model: the encoder's model.
      exported: the model.
      stored: its weights.
      stack: keeps a copy of a vocabulary in a bucket.
    Returns:
      Names of these weights.
    Raises:
      ValueError: the model has no vocabulary, or lacks a head.
    """
    if exported.vocabulary is None:
        raise ValueError(
            "The signature tokenization_info names the vocabulary, and there is none "
            f"next to {exported.checkpoint}: copy it there."
        )
    with precision_policy(exported.precision):
        hub = HubModel(model.encoder, stored)
    local = stack.enter_context(local_copy(exported.vocabulary))
    module.vocabulary = tf.saved_model.Asset(str(local))
    lower_case = bool(exported.tokenizer_settings.get("lower_case", True))
    module.weights = {**module.weights, **hub.head_weights}
    signatures = hub.signatures(module.vocabulary, lower_case)
    module.served = {**module.served, **signatures}
    return list(hub.head_weights)


def _with_head(report: LoadReport, head: list[str]) -> LoadReport:
    """A load report in which the weights of a head are used."""
    return dataclasses.replace(
        report,
        loaded=tuple(sorted({*report.loaded, *head})),
        unused=tuple(name for name in report.unused if name not in head),
    )


def _require_pooler(exported: ExportedModel, report: LoadReport) -> None:
    """Raises ValueError if weights have no pooler, so that its output means nothing."""
    if report.missing:
        raise ValueError(
            f"{exported.checkpoint} lacks {', '.join(report.missing)}, so there are no "
            "embeddings of rows: leave --signatures out."
        )


@contextlib.contextmanager
def _new_version(export_dir: AnyPath, version: int) -> Iterator[tuple[AnyPath, Path]]:
    """Yields a version's folder, and a local folder to fill, which becomes it."""
    if export_dir.exists() and not export_dir.is_dir():
        raise NotADirectoryError(f"{export_dir} is a file: name a folder.")
    is_new = not export_dir.is_dir()
    make_folder(export_dir)
    folder = export_dir
    try:
        with exclusive(export_dir, f"exporting to {export_dir}") as check:
            # What a killed process left of a version is replaced.
            paths = [path for path in export_dir.iterdir() if path.name.isdigit()]
            versions = [int(path.name) for path in paths if is_whole(path)]
            folder = export_dir / str(version or max(versions, default=0) + 1)
            if folder.exists() and is_whole(folder):
                raise ValueError(f"{folder} is in use: export another version.")
            with whole_folder(folder, last=SAVED_MODEL_FILE) as partial:
                yield folder, partial
                check()
    except tf.errors.OpError as error:
        raise OSError(f"{folder} cannot be written: {error.message}.") from error
    finally:
        if is_new and isinstance(export_dir, Path):
            with contextlib.suppress(OSError):  # it holds a version
                export_dir.rmdir()


def check_output_file(path: PathLike, kind: str, signature: bytes) -> None:
    """Checks that a model's file can be written, before it is made.

    Args:
      path: the file.
      kind: what it will hold, as `file_kinds` names it.
      signature: the first bytes of such files.
    Raises:
      ValueError: the name is that of another kind of file.
      OSError: the place cannot be written, or holds something else.
    """
    place = as_path(path)
    check_suffix(path, kind)
    check_replaceable(path, signature)
    if not isinstance(place, Path):
        make_folder(place.parent)
        return
    folder = place.absolute().parent
    above = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise OSError(f"{path} cannot be written: {above} is no folder to write into.")


def model_card(exported: ExportedModel, report: LoadReport) -> dict[str, Any]:
    """Describes a model for people and programs, in JSON values.

    Args:
      exported: the model.
      report: of its weights.
    """
    libraries = ("tensorflow", "tensorflow-text", "sentencepiece", "albert-tf")
    task_config = exported.task_config
    custom = ["text"] + [f"{EMBEDDINGS}_text"] * exported.embeddings
    custom += [FILL_MASK] * bool(exported.fill_mask)
    return {
        "task": task_config.to_dict() if task_config else {"task_name": "encoder"},
        "config": exported.config.to_dict(),
        "tokenizer": dict(exported.tokenizer_settings),
        "scores": dict(exported.metrics),
        "checkpoint_step": report.global_step,
        "averaged_weights": report.averaged,
        "precision": exported.precision,
        "signatures_with_custom_operations": custom if exported.tokenizer else [],
        "versions": {name: importlib.metadata.version(name) for name in libraries},
    }
