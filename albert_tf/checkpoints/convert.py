"""Converts weights of one format to the folder of a model in another, and checks it.

read (formats.py) -> complete, grow the vocabulary (edit.py) -> write (writers.py)
-> read again -> compare outputs (verify.py) -> rename the finished folder
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.checkpoints import (
    agreement,
    edit,
    formats,
    hugging_face,
    model_dir,
    model_garden,
    output_folders,
    transformers_tasks,
    verify,
    writers,
)
from albert_tf.checkpoints.checkpoint_format import (
    POSITION_METHODS,
    WRITABLE_FORMATS,
    CheckpointFormat,
)
from albert_tf.checkpoints.formats import StoredWeights
from albert_tf.checkpoints.heads import CLASSIFIER_BIAS, TAGGER_BIAS
from albert_tf.checkpoints.model_dir import VocabularyFile
from albert_tf.checkpoints.tensorflow_files import summarize
from albert_tf.config import AlbertConfig
from albert_tf.files import make_folder, read_json, write_json
from albert_tf.folders import is_whole, whole_folder
from albert_tf.storage import AnyPath, as_path, is_local, local_copy
from albert_tf.text.tokenizer import AlbertTokenizer

REPORT_FILE = "conversion.json"
_DIGEST = "vocabulary_sha256"


@dataclasses.dataclass(frozen=True)
class Conversion:
    """The arguments of `convert`.

    Attributes:
      source: an output folder, or weights of any format that `formats` knows.
      target: new folder.
      target_format: one of `WRITABLE_FORMATS`.
      config: replaces the configuration next to the source.
      vocabulary: replaces the vocabulary next to the source.
      strict: whether a weight that the model or the target lacks is an error.
      multiple_choice: whether a head of one class scores options, not a regression.
      vocab_size: rows that the vocabulary grows to; None: it stays.
      positions: number of positions that rows may have; None: it stays.
      position_method: how positions are added, as of `edit.grow_positions`.
      old_vocabulary: the vocabulary that the source was trained with, to compare a
        grown one with; None: the one next to the source.
      seed: seed of new rows, and of weights that start fresh.
      run_source: whether a source that is a SavedModel is run, to compare its outputs.
        Its graph can read and write files with the rights of this process.
      use_ema: whether to take averaged weights; None: if there are any.
    """

    source: str
    target: str
    target_format: CheckpointFormat
    config: AlbertConfig | None = None
    vocabulary: VocabularyFile | None = None
    strict: bool = True
    multiple_choice: bool = False
    vocab_size: int | None = None
    positions: int | None = None
    position_method: str = POSITION_METHODS[0]
    old_vocabulary: VocabularyFile | None = None
    seed: int = 12345
    run_source: bool = False
    use_ema: bool | None = None


def convert(conversion: Conversion) -> dict[str, Any]:
    """Converts a model; the target's folder is complete or does not exist.

    Returns:
      The content of its `conversion.json`: `source_layout`, `target_layout`, `weights`
      (names that were `loaded`, start `fresh`, are `unused` or `ignored`),
      `averaged_weights` (whether they are averages),
      `largest_differences` of outputs, and `notes` for people.
    Raises:
      FileNotFoundError: no weights, or no configuration next to them.
      ValueError: as `formats.read_weights`; the target is in use; weights do not fit
        the configuration, each other or the target; the vocabulary does not; outputs
        differ by more than 1e-4.
      OSError: the target cannot be written.
    """
    target = _new_folder(conversion)
    source = output_folders.locate_best(conversion.source)
    conversion = dataclasses.replace(conversion, source=source)
    config = conversion.config or agreement.choose_config(source)
    stored = formats.read_weights(source, config, conversion.use_ema)
    stored, report = edit.complete(stored, conversion.strict, conversion.seed)
    if conversion.vocab_size:
        stored = edit.grow_vocabulary(stored, conversion.vocab_size, conversion.seed)
    if conversion.positions:
        stored = edit.grow_positions(
            stored, conversion.positions, conversion.position_method
        )
    checks = _Checks(stored, conversion.seed)
    task, notes = _choose_task(stored)
    if conversion.target_format is CheckpointFormat.TRANSFORMERS:
        notes += transformers_tasks.losses_of(task)
    notes += _check_source(conversion, stored, checks)
    vocabulary, more = _choose_vocabulary(conversion, stored)
    notes += more
    model = writers.Model(
        stored=stored,
        vocabulary=vocabulary,
        tokenizer_metadata=model_dir.read_metadata(source),
        task=task,
        multiple_choice=conversion.multiple_choice,
        strict=conversion.strict,
        pretraining=read_json(
            model_dir.folder_of(source) / model_dir.PRETRAINING_FILE, missing_ok=True
        ),
    )
    with whole_folder(target, last=REPORT_FILE) as folder:
        dropped = writers.write(model, conversion.target_format, folder)
        if dropped and conversion.strict:
            raise ValueError(
                f"The format {conversion.target_format.value} has no place for "
                f"{summarize(dropped)}: leave them out with --nostrict."
            )
        checks.check_target(folder, conversion.target_format, dropped)
        results = {
            "source": source,
            "source_layout": stored.format.value,
            "target_layout": conversion.target_format.value,
            "weights": report.without(dropped).to_dict(),
            "averaged_weights": stored.averaged,
            "largest_differences": checks.differences,
            "notes": notes,
        }
        write_json(folder / REPORT_FILE, results)
    return results


def _new_folder(conversion: Conversion) -> AnyPath:
    """Checks the target; returns its absolute path."""
    target = as_path(conversion.target).absolute()
    if conversion.target_format not in WRITABLE_FORMATS:
        raise ValueError(
            f"Cannot write the format {conversion.target_format.value!r}: choose one "
            f"of {', '.join(known.value for known in WRITABLE_FORMATS)}."
        )
    is_used = target.is_file() or (target.is_dir() and any(target.iterdir()))
    if is_used and is_whole(target):
        raise ValueError(f"{target} is in use: convert into a new folder.")
    if not is_local(target):
        make_folder(target)  # Fails now if nothing can be written.
    return target


class _Checks:
    """Compares the outputs of the weights with those of the source and the target.

    Attributes:
      differences: what was compared -> largest difference of each output.
    """

    def __init__(self, stored: StoredWeights, seed: int):
        self._stored = stored
        config = stored.require_config()
        self._batch = verify.random_batch(config, np.random.default_rng(seed))
        self._expected = verify.outputs(stored, self._batch)
        self.differences: dict[str, dict[str, float]] = {}

    def check_source(self, folder: AnyPath) -> bool:
        """Runs the source itself.

        Args:
          folder: a SavedModel.
        Returns:
          True if outputs could be compared.
        Raises:
          ValueError: its outputs differ from those of its weights.
        """
        with local_copy(folder) as local:
            outputs = verify.saved_model_outputs(local, self._batch)
        name = f"{self._stored.source} and its weights read here"
        self._compare("source", outputs, name)
        return bool(outputs)

    def check_target(
        self, folder: Path, target_format: CheckpointFormat, dropped: tuple[str, ...]
    ) -> None:
        """Reads the target again; runs it with tf-models' encoder, if it is for that.

        Raises:
          ValueError: outputs differ, or a weight of a head was lost.
        """
        if target_format is CheckpointFormat.MODEL_GARDEN:
            step, config = self._stored.global_step, self._stored.require_config()
            prefix = writers.checkpoint_prefix(folder, target_format, step)
            outputs = model_garden.run(prefix, config, self._batch)
            self._compare("target", outputs, "tf-models' own encoder")
        reread = formats.read_weights(folder)
        absent = set(self._stored.weights) - set(dropped) - set(reread.weights)
        lost = sorted(name for name in absent if not name.startswith("bert/"))
        if lost:
            raise ValueError(
                f"Written weights lack {summarize(lost)} when they are read again: "
                "this is a fault of the conversion, report it."
            )
        outputs = verify.outputs(reread, self._batch)
        self._compare("reload", outputs, "The written weights")

    def _compare(self, key: str, outputs: Mapping[str, np.ndarray], name: str) -> None:
        differences = verify.largest_difference(
            self._expected, verify.without_padding(outputs, self._batch)
        )
        verify.require_close(differences, name)
        self.differences[key] = differences


def _choose_task(stored: StoredWeights) -> tuple[dict[str, Any], list[str]]:
    """The values of the source's task, and notes on what is not known of it.

    Raises:
      ValueError: its files are damaged, or name more or fewer labels than its
        classifier has outputs.
    """
    notes = []
    if stored.needs_no_pooler:
        notes.append("The weights have no pooler, so none was written.")
    folder = model_dir.folder_of(stored.source)
    is_theirs = stored.format is CheckpointFormat.TRANSFORMERS
    if is_theirs and not (folder / model_dir.TASK_FILE).is_file():
        file = folder / hugging_face.CONFIG_FILE
        values = read_json(file)
        outputs = sum(
            np.size(stored.weights.get(bias, ()))
            for bias in (CLASSIFIER_BIAS, TAGGER_BIAS)
        )
        try:
            notes += transformers_tasks.notes(values, outputs)
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from error
    return model_dir.read_task(stored.source), notes


def _check_source(
    conversion: Conversion, stored: StoredWeights, checks: _Checks
) -> list[str]:
    """Runs a SavedModel if this is asked for; returns notes on it.

    Raises:
      ValueError: the source is no SavedModel, or its outputs differ.
    """
    if not stored.saved_model:
        if conversion.run_source:
            raise ValueError(
                f"{stored.source} is no SavedModel, so there is no graph to run: leave "
                "--run_source out."
            )
        return []
    if conversion.run_source and (conversion.vocab_size or conversion.positions):
        raise ValueError(
            "A model whose vocabulary or positions grow does not give the source's "
            "outputs: leave --run_source, or --resize_vocabulary and "
            "--resize_positions, out."
        )
    if not conversion.run_source:
        return [
            "The source's weights were read and its graph was not run, so its own "
            "outputs were not compared. If you trust it, --run_source does that."
        ]
    if not checks.check_source(stored.saved_model):
        return [
            "The source's graph gave no outputs of an encoder, so none were compared."
        ]
    return []


def _choose_vocabulary(
    conversion: Conversion, stored: StoredWeights
) -> tuple[VocabularyFile | None, list[str]]:
    """Chooses the vocabulary that is copied, and makes notes on it.

    Raises:
      ValueError: it has more tokens than the model; it is not the one that the model
        was trained with; or tokens of that one have other ids in it.
    """
    vocabulary = conversion.vocabulary
    if vocabulary is None:
        vocabulary = model_dir.read_vocabulary(conversion.source)
    if vocabulary is None:
        return None, [
            "No vocabulary found next to the weights, so none was copied. Pass "
            "--spm_model_file or --vocab_file."
        ]
    tokenizer = vocabulary.tokenizer()
    model_size = stored.require_config().vocab_size
    if tokenizer.vocab_size > model_size:
        raise ValueError(
            f"{vocabulary.path} has {tokenizer.vocab_size} tokens, the model "
            f"{model_size}: give the model's own, or --resize_vocabulary."
        )
    if not conversion.vocab_size:
        _check_digest(conversion.source, vocabulary.path, tokenizer)
    elif conversion.vocabulary:
        _check_extends(conversion, vocabulary.path, tokenizer)
    notes = []
    if not conversion.vocabulary and not model_dir.read_cleaning(conversion.source):
        notes.append(
            "No file next to the weights states how text is cleaned, so it is "
            "lower-cased and accents are stripped. Otherwise pass --nodo_lower_case, "
            "--nostrip_accents."
        )
    if tokenizer.vocab_size < model_size:
        notes.append(
            f"{vocabulary.path.name} has {tokenizer.vocab_size} tokens, the model "
            f"{model_size} rows."
        )
    return vocabulary, notes


def _check_digest(source: str, file: AnyPath, tokenizer: AlbertTokenizer) -> None:
    """Raises ValueError if the model was trained with another vocabulary."""
    expected = model_dir.read_metadata(source).get(_DIGEST)
    digest = str(tokenizer.metadata()[_DIGEST])
    if expected not in (None, digest):
        raise ValueError(
            f"{file} is not the vocabulary that the model was trained with (its "
            f"digest is {digest[:12]}, expected {expected[:12]}): give that one."
        )


def _check_extends(conversion: Conversion, file: AnyPath, new: AlbertTokenizer) -> None:
    """Checks that every token of the model's vocabulary has the same id in a new one.

    Raises:
      ValueError: one has another id, or the model's vocabulary is not known.
    """
    source = conversion.source
    expected = model_dir.read_metadata(source).get(_DIGEST)
    if new.metadata()[_DIGEST] == expected:
        return
    vocabulary = conversion.old_vocabulary or model_dir.read_vocabulary(source)
    if vocabulary is None:
        raise ValueError(
            f"No vocabulary found next to {source}, so {file} cannot be compared with "
            "the one that the model was trained with: pass that as --old_vocabulary."
        )
    old = vocabulary.tokenizer()
    _check_digest(source, vocabulary.path, old)
    for index in range(old.vocab_size):
        token = old.id_to_token(index)
        if index >= new.vocab_size or new.id_to_token(index) != token:
            raise ValueError(
                f"{file} does not have {token!r} at {index}, as {vocabulary.path} "
                "has: append new tokens to that one."
            )
