"""Writes the folder of a model in one checkpoint format."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf import task_config
from albert_tf.checkpoints import (
    edit,
    heads,
    hugging_face,
    model_dir,
    model_garden,
    sentence_transformers,
    tensorflow_files,
    transformers_config,
    transformers_names,
    transformers_tasks,
)
from albert_tf.checkpoints.checkpoint_format import CheckpointFormat
from albert_tf.checkpoints.formats import StoredWeights
from albert_tf.files import make_folder, write_json, write_whole
from albert_tf.task_config import (
    Classification,
    Embedding,
    MultiLabel,
    MultipleChoice,
    Tagging,
    TaskConfig,
)
from albert_tf.text.tokenizer import AlbertTokenizer

_PREFIXES = {
    CheckpointFormat.OWN: "model.ckpt-{step}",
    CheckpointFormat.TENSORFLOW1: "model.ckpt-best",
    CheckpointFormat.MODEL_GARDEN: "albert_encoder.ckpt",
}
# Heads -> the class of `transformers` that has them, without its model's name.
_CLASSES = {
    frozenset(): "Model",
    frozenset({heads.MASKED_LM}): "ForMaskedLM",
    frozenset({heads.MASKED_LM, heads.SENTENCE_ORDER}): "ForPreTraining",
    frozenset({heads.SPAN}): "ForQuestionAnswering",
    frozenset({heads.CLASSIFIER}): "ForSequenceClassification",
    frozenset({heads.TAGGER}): "ForTokenClassification",
}
# Those that BERT alone has.
_CLASSES_OF_BERT = {frozenset({heads.SENTENCE_ORDER}): "ForNextSentencePrediction"}
_MULTIPLE_CHOICE_CLASS = "ForMultipleChoice"


@dataclasses.dataclass(frozen=True)
class Model:
    """A model to write.

    Attributes:
      stored: complete weights and their configuration.
      vocabulary: copied into the folder; None: there is none.
      tokenizer_metadata: content of the source's own `tokenizer.json`, which is kept if
        there is no vocabulary.
      task: content of the source's `task.json`; empty: there is none.
      multiple_choice: whether a head of one class scores options, not a regression.
      strict: whether every head must have a place in the format.
      pretraining: content of the source's `pretraining.json`; empty: there is none.
    """

    stored: StoredWeights
    vocabulary: model_dir.VocabularyFile | None
    tokenizer_metadata: Mapping[str, Any]
    task: Mapping[str, Any]
    multiple_choice: bool
    strict: bool
    pretraining: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def write(
    model: Model, target_format: CheckpointFormat, folder: Path
) -> tuple[str, ...]:
    """Writes weights, configuration, vocabulary and task.

    Returns:
      Names of weights that have no place in the format.
    Raises:
      ValueError: the format cannot hold the model.
      OSError: the disk is full, for instance.
    """
    if target_format is not CheckpointFormat.OWN:
        model.stored.require_config().require_full_attention(
            f"The format {target_format.value}"
        )
        model = dataclasses.replace(model, stored=edit.with_equal_groups(model.stored))
    if target_format is CheckpointFormat.TRANSFORMERS:
        return _write_transformers(model, folder)
    stored = model.stored
    prefix = checkpoint_prefix(folder, target_format, stored.global_step)
    dropped = _WEIGHT_WRITERS[target_format](prefix, stored)
    write_json(folder / model_dir.CONFIG_FILE, stored.require_config().to_dict())
    if model.vocabulary:
        model_dir.write_vocabulary(folder, model.vocabulary)
    elif model.tokenizer_metadata:
        write_json(folder / model_dir.TOKENIZER_FILE, dict(model.tokenizer_metadata))
    if model.task:
        write_json(folder / model_dir.TASK_FILE, dict(model.task))
    if model.pretraining:
        write_json(folder / model_dir.PRETRAINING_FILE, dict(model.pretraining))
    return dropped


def checkpoint_prefix(
    folder: Path, target_format: CheckpointFormat, global_step: int
) -> str:
    """Path up to `.index` of a TensorFlow checkpoint that `write` makes."""
    return str(folder / _PREFIXES[target_format].format(step=global_step))


def _write_own(prefix: str, stored: StoredWeights) -> tuple[str, ...]:
    tensorflow_files.write_own(prefix, stored.weights, stored.global_step)
    return ()


def _write_tensorflow1(prefix: str, stored: StoredWeights) -> tuple[str, ...]:
    step = np.array(stored.global_step, np.int64)
    tensorflow_files.write_named(prefix, {**stored.weights, "global_step": step})
    return ()


def _write_model_garden(prefix: str, stored: StoredWeights) -> tuple[str, ...]:
    return model_garden.write(prefix, stored.weights, stored.require_config())


_WEIGHT_WRITERS: dict[
    CheckpointFormat, Callable[[str, StoredWeights], tuple[str, ...]]
] = {
    CheckpointFormat.OWN: _write_own,
    CheckpointFormat.TENSORFLOW1: _write_tensorflow1,
    CheckpointFormat.MODEL_GARDEN: _write_model_garden,
}


def _write_transformers(model: Model, folder: Path) -> tuple[str, ...]:
    config, weights = model.stored.require_config(), model.stored.weights
    task = task_config.from_dict(model.task) if model.task else None
    values = transformers_config.config_to_dict(config, _class_of(model, task))
    if heads.TAGGER_BIAS in weights:
        weights = transformers_tasks.without_tagger(weights)
    num_classes = len(weights.get(heads.CLASSIFIER_BIAS, ()))
    if num_classes:
        values |= _label_values(task, num_classes)
    if model.vocabulary:
        tokenizer = model_dir.write_transformers_vocabulary(folder, model.vocabulary)
        values |= _special_ids(tokenizer)
    tensors, dropped = transformers_names.to_transformers(weights, config)
    hugging_face.write(folder, tensors, values, model.stored.global_step)
    if isinstance(task, Embedding) and task.pooling != "pooled":
        contents = sentence_transformers.files(task, config.hidden_size)
        for name, content in contents.items():
            make_folder((folder / name).parent)
            write_whole(folder / name, content)
    return dropped


def _label_values(task: TaskConfig | None, num_classes: int) -> dict[str, Any]:
    """Keys of a `config.json` that name the classes, `LABEL_0` ... if unknown."""
    if isinstance(task, Classification | MultiLabel | Tagging):
        labels = list(task.labels)
    else:
        labels = [f"LABEL_{index}" for index in range(num_classes)]
    problem = {"problem_type": transformers_tasks.MULTI_LABEL}
    return {
        **(problem if isinstance(task, MultiLabel) else {}),
        "id2label": {str(index): label for index, label in enumerate(labels)},
        "label2id": {label: index for index, label in enumerate(labels)},
    }


def _special_ids(tokenizer: AlbertTokenizer) -> dict[str, int]:
    """Keys of a `config.json` that hold ids of special tokens."""
    return {
        "pad_token_id": tokenizer.pad_id,
        "bos_token_id": tokenizer.cls_id,
        "eos_token_id": tokenizer.sep_id,
    }


def _class_of(model: Model, task: TaskConfig | None) -> str:
    """The class of `transformers` that has the heads of a model, without its prefix.

    Raises:
      ValueError: there is none.
    """
    num_classes = len(model.stored.weights.get(heads.CLASSIFIER_BIAS, ()))
    if model.multiple_choice and num_classes != 1:
        raise ValueError(
            f"A multiple-choice head gives one score, this model's {num_classes}: "
            "leave --multiple_choice out."
        )
    classes = dict(_CLASSES)
    if transformers_config.is_bert(model.stored.require_config()):
        classes |= _CLASSES_OF_BERT
    if model.multiple_choice or isinstance(task, MultipleChoice):
        classes[frozenset({heads.CLASSIFIER})] = _MULTIPLE_CHOICE_CLASS
    present = heads.heads_of(model.stored.weights)
    if not model.strict:
        # Heads that no class has are left out.
        present &= frozenset().union(*classes)
    if present not in classes:
        names = ", ".join(sorted(heads.heads_of(model.stored.weights)))
        raise ValueError(
            f"No class of transformers has these heads: {names}. Convert to another "
            "format."
        )
    return classes[present]
