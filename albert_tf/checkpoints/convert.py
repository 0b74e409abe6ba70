"""Weights of one layout -> a model folder of another, checked and all or nothing.

read (layouts.py) -> complete? -> grow the vocabulary -> write beside the target
-> read that again -> same outputs? -> rename
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from albert_tf.checkpoints import (
    edit,
    formats,
    hugging_face,
    model_dir,
    model_garden,
    output_folders,
    tensorflow_files,
    verify,
)
from albert_tf.checkpoints.checkpoint_format import WRITABLE_FORMATS
from albert_tf.config import AlbertConfig
from albert_tf.files import whole_folder, write_json
from albert_tf.text.tokenizer import AlbertTokenizer

REPORT_FILE = "conversion.json"
_PREFIXES = {
    "own": "model.ckpt-{step}",
    "tensorflow1": "model.ckpt-best",
    "model_garden": "albert_encoder.ckpt",
}


@dataclasses.dataclass(frozen=True)
class Conversion:
    """What `convert` does.

    Attributes:
      source: an output folder, or weights of any layout that `layouts` knows.
      target: new folder.
      layout: one of `WRITABLE_FORMATS`.
      config: the model's shape, in the place of what lies beside the source.
      vocabulary: in the place of what lies beside the source.
      strict: whether a weight that the model or the target lacks is an error.
      multiple_choice: whether a head of one class scores choices, not a regression.
      vocab_size: rows that the vocabulary shall grow to; None: as it is.
      seed: of new rows, and of weights that start fresh.
    """

    source: str
    target: str
    layout: str
    config: AlbertConfig | None = None
    vocabulary: model_dir.VocabularyFile | None = None
    strict: bool = True
    multiple_choice: bool = False
    vocab_size: int | None = None
    seed: int = 12345


def convert(conversion: Conversion) -> dict:
    """Converts; the target's folder is there whole or not at all.

    Returns:
      What its `conversion.json` holds: `source_layout`, `target_layout`, `weights`
      (names that were `loaded`, start `fresh`, are `unused` or `ignored`),
      `largest_differences` of outputs, and `notes` for people.
    Raises:
      FileNotFoundError: no weights, or no configuration beside them.
      ValueError: as `layouts.read_weights`; the target is in use; weights do not fit
        the configuration, each other or the target; the vocabulary does not; outputs
        differ by more than 1e-4.
      OSError: the target cannot be written.
    """
    target = Path(conversion.target).absolute()
    if conversion.layout not in WRITABLE_FORMATS:
        raise ValueError(
            f"Cannot write the layout {conversion.layout!r}: choose one of "
            f"{', '.join(WRITABLE_FORMATS)}."
        )
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ValueError(f"{target} is in use: convert into a new folder.")
    source = output_folders.locate_best(conversion.source)
    conversion = dataclasses.replace(conversion, source=source)
    config = conversion.config or model_dir.require_config(source)
    stored = formats.read_weights(source, config)
    stored, report = edit.complete(stored, conversion.strict, conversion.seed)
    if conversion.vocab_size:
        stored = edit.grow_vocabulary(stored, conversion.vocab_size, conversion.seed)
    with whole_folder(target) as partial:
        results = _write_and_check(conversion, stored, report, partial)
        write_json(partial / REPORT_FILE, results)
    return results


def _write_and_check(conversion, stored, report, partial: Path) -> dict:
    """Fills the folder of a conversion; its results."""
    batch = verify.random_batch(stored.config, np.random.default_rng(conversion.seed))
    expected = verify.outputs(stored, batch)
    differences = {}
    if stored.saved_model and not conversion.vocab_size:
        own = verify.saved_model_outputs(stored.saved_model, batch)
        differences["source"] = verify.largest_difference(own, expected)
        verify.require_close(
            differences["source"], f"{stored.source} and its weights read here"
        )
    vocabulary, notes = choose_vocabulary(conversion, stored.config)
    if conversion.layout != "own":
        stored = edit.with_equal_groups(stored)
    dropped = _write_weights(conversion, stored, vocabulary, partial)
    if dropped and conversion.strict:
        raise ValueError(
            f"The layout {conversion.layout} has no place for "
            f"{tensorflow_files.few(dropped)}: leave them out with --nostrict."
        )
    report = dataclasses.replace(
        report,
        loaded=tuple(name for name in report.loaded if name not in dropped),
        unused=tuple(sorted({*report.unused, *dropped})),
    )
    if conversion.layout == "model_garden":
        own = model_garden.run(
            _prefix(conversion, stored, partial), stored.config, batch
        )
        differences["target"] = verify.largest_difference(own, expected)
        verify.require_close(differences["target"], "tf-models' own encoder")
    reread = formats.read_weights(partial)
    differences["reload"] = verify.largest_difference(
        expected, verify.outputs(reread, batch)
    )
    kept = set(stored.weights) - set(dropped)
    lost = {name for name in kept - set(reread.weights) if not name.startswith("bert/")}
    if lost:
        raise ValueError(
            f"Written weights lack {tensorflow_files.few(sorted(lost))} when they are "
            "read again: this is a fault of the conversion, report it."
        )
    verify.require_close(differences["reload"], "The written weights")
    return {
        "source": conversion.source,
        "source_layout": stored.layout,
        "target_layout": conversion.layout,
        "weights": report.to_dict(),
        "largest_differences": differences,
        "notes": notes,
    }


def choose_vocabulary(
    conversion: Conversion, config: AlbertConfig
) -> tuple[model_dir.VocabularyFile | None, list[str]]:
    """The vocabulary that travels along, and what to say about it.

    Raises:
      ValueError: it has more pieces than the model; it is not the one that the model
        was made with; or pieces of that one have other ids in it.
    """
    chosen, beside = conversion.vocabulary, None
    if not chosen or conversion.vocab_size:
        beside = model_dir.read_vocabulary(conversion.source)
        chosen = chosen or beside
    if chosen is None:
        return None, [
            "No vocabulary lies beside the weights, so that none travels along: name "
            "it with --spm_model_file or --vocab_file."
        ]
    tokenizer = chosen.tokenizer()
    if tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            f"{chosen.path} has {tokenizer.vocab_size} pieces, the model "
            f"{config.vocab_size}: give the model's own, or --resize_vocabulary."
        )
    made_with = model_dir.read_metadata(conversion.source).get("vocabulary_sha256")
    digest = tokenizer.metadata()["vocabulary_sha256"]
    if made_with not in (None, digest) and not conversion.vocab_size:
        raise ValueError(
            f"{chosen.path} is not the vocabulary that the model was made with (its "
            f"digest is {digest[:12]}, expected {made_with[:12]}): give that one."
        )
    if beside and chosen is not beside:
        old = beside.tokenizer()
        for index in range(old.vocab_size):
            if tokenizer.token_to_id(old.id_to_token(index)) != index:
                raise ValueError(
                    f"{chosen.path} does not have {old.id_to_token(index)!r} at "
                    f"{index}, as {beside.path} has: append new pieces to that one."
                )
    notes = []
    cleaning = model_dir.read_cleaning(conversion.source)
    if not conversion.vocabulary and not cleaning:
        notes.append(
            "Nothing beside the weights says how text is cleaned: taken as "
            "lower-cased, accents stripped. If not: --nodo_lower_case, "
            "--nostrip_accents."
        )
    if tokenizer.vocab_size < config.vocab_size:
        notes.append(
            f"{chosen.path.name} has {tokenizer.vocab_size} pieces, the model "
            f"{config.vocab_size} rows."
        )
    return chosen, notes


def _write_weights(conversion, stored, vocabulary, folder: Path) -> tuple[str, ...]:
    """Writes weights, configuration and vocabulary; names that have no place there."""
    if conversion.layout == "hugging_face":
        return _write_hugging_face(conversion, stored, vocabulary, folder)
    prefix, dropped = _prefix(conversion, stored, folder), ()
    if conversion.layout == "own":
        tensorflow_files.write_own(prefix, stored.weights, stored.global_step)
    elif conversion.layout == "tensorflow1":
        step = {"global_step": np.int64(stored.global_step)}
        tensorflow_files.write_named(prefix, {**stored.weights, **step})
    else:
        dropped = model_garden.write(prefix, stored.weights, stored.config)
    write_json(folder / model_dir.CONFIG_FILE, stored.config.to_dict())
    if vocabulary:
        model_dir.write_vocabulary(folder, vocabulary)
    else:
        model_dir.copy_metadata(conversion.source, folder)
    task = model_dir.read_task(conversion.source)
    if task:
        write_json(folder / model_dir.TASK_FILE, task)
    return dropped


def _prefix(conversion, stored, folder: Path) -> str:
    return str(folder / _PREFIXES[conversion.layout].format(step=stored.global_step))


def _write_hugging_face(conversion, stored, vocabulary, folder) -> tuple[str, ...]:
    task = model_dir.read_task(conversion.source)
    values = hugging_face.config_values(
        stored.config, _architecture(stored.weights, conversion, task)
    )
    classes = len(stored.weights.get("output_bias", ()))
    if classes:
        # What they call classes without names.
        labels = task.get("labels") or [f"LABEL_{each}" for each in range(classes)]
        values["id2label"] = {str(each): label for each, label in enumerate(labels)}
        values["label2id"] = {label: each for each, label in enumerate(labels)}
    if vocabulary:
        tokenizer = model_dir.write_transformers_vocabulary(folder, vocabulary)
        values |= _special_ids(tokenizer)
    tensors, dropped = hugging_face.their_weights(stored.weights, stored.config)
    hugging_face.write(folder, tensors, values)
    return dropped


def _special_ids(tokenizer: AlbertTokenizer) -> dict[str, int]:
    """Ids that a `config.json` of `transformers` names."""
    return {
        "pad_token_id": tokenizer.pad_id,
        "bos_token_id": tokenizer.cls_id,
        "eos_token_id": tokenizer.sep_id,
    }


def _architecture(
    weights: Mapping[str, np.ndarray], conversion: Conversion, task: Mapping
) -> str:
    """The class of `transformers` that has the heads of a model.

    Raises:
      ValueError: there is none.
    """
    heads = edit.heads_of(weights)
    known = {
        frozenset(): "AlbertModel",
        frozenset({"masked-LM"}): "AlbertForMaskedLM",
        frozenset({"masked-LM", "sentence-order"}): "AlbertForPreTraining",
        frozenset({"span"}): "AlbertForQuestionAnswering",
        frozenset({"classifier"}): "AlbertForSequenceClassification",
    }
    classes = len(weights.get("output_bias", ()))
    if conversion.multiple_choice and classes != 1:
        raise ValueError(
            f"A multiple-choice head gives one score, this model's {classes}: leave "
            "--multiple_choice out."
        )
    if conversion.multiple_choice or task.get("task_name") == "race":
        known[frozenset({"classifier"})] = "AlbertForMultipleChoice"
    found = heads & {"masked-LM", "sentence-order", "span", "classifier"}
    if heads in known:
        return known[heads]
    if conversion.strict or found not in known:
        raise ValueError(
            f"No class of transformers has these heads: {', '.join(sorted(heads))}. "
            "Convert to another layout."
        )
    return known[found]
