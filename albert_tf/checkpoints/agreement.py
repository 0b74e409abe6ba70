"""The configuration and the vocabulary of weights, where a user may name others.

What a user names must not contradict what lies next to the weights: outputs would be
wrong without any error if, for instance, the number of attention heads differed.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from albert_tf.checkpoints import model_dir
from albert_tf.checkpoints.model_dir import VocabularyFile
from albert_tf.config import AlbertConfig
from albert_tf.storage import AnyPath, PathLike, as_path, comparable
from albert_tf.text.vocabulary_content import vocabulary_digest

# Fields that training alone reads.
_OF_TRAINING = frozenset(
    {"hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range"}
)


def choose_config(
    weights: PathLike,
    file: PathLike | None = None,
    overrides: Sequence[str] = (),
) -> AlbertConfig:
    """Chooses the configuration of weights.

    Args:
      weights: the weights, as `output_folders.locate_best` names them.
      file: a configuration that the user names; it may differ from the one next to the
        weights in what training alone reads, as dropout.
      overrides: values that count before both, as `AlbertConfig.override` takes them.
    Raises:
      FileNotFoundError: there is none next to the weights, and `file` names none.
      ValueError: both exist and contradict each other, or one is damaged.
    """
    found_file = model_dir.find_config(weights, file)
    found = model_dir.read_config(weights, file)
    config = found
    if file and not (found_file and comparable(file) == comparable(found_file)):
        config = model_dir.read_config_file(file)
        if found:
            _require_same_outputs(config, file, found, found_file)
    if config is None:
        raise FileNotFoundError(
            f"No {model_dir.CONFIG_FILE} next to {weights}: pass --albert_config_file."
        )
    return config.override(overrides)


def _require_same_outputs(
    given: AlbertConfig,
    file: PathLike,
    found: AlbertConfig,
    found_file: AnyPath | None,
) -> None:
    """Raises ValueError if two configurations differ in what decides the outputs."""
    values, expected = _of_outputs(given), _of_outputs(found)
    differing = [name for name in values if values[name] != expected[name]]
    if differing:
        said = ", ".join(f"{name}={values[name]}" for name in differing)
        known = ", ".join(f"{name}={expected[name]}" for name in differing)
        raise ValueError(
            f"{file} says {said}, but {found_file}, next to the weights, {known}: "
            "leave --albert_config_file out, or change values with --config_override."
        )


def _of_outputs(config: AlbertConfig) -> dict[str, Any]:
    """The values of a configuration that decide a model's outputs."""
    values = {
        name: value
        for name, value in dataclasses.asdict(config).items()
        if name not in _OF_TRAINING
    }
    values["project_embeddings"] = config.has_embedding_projection
    attention, ffn = config.groups["attention_groups"], config.groups["ffn_groups"]
    del values["attention_groups"], values["ffn_groups"]
    values["num_hidden_groups"] = (
        attention if attention == ffn else f"{attention} of attention, {ffn} of ffn"
    )
    return values


def choose_vocabulary(
    weights: PathLike,
    spm_model_file: str | None = None,
    vocab_file: str | None = None,
    lower_case: bool | None = None,
    strip_accents: bool | None = None,
    may_differ: bool = False,
) -> VocabularyFile | None:
    """Chooses the vocabulary of weights and its text cleaning.

    Args:
      weights: the weights, as `output_folders.locate_best` names them; empty: there are
        none yet.
      spm_model_file: a SentencePiece model that the user names.
      vocab_file: a WordPiece vocabulary that the user names, if not that.
      lower_case: what the user says; None: nothing.
      strip_accents: what the user says; None: nothing.
      may_differ: whether the named vocabulary may be another one, as to add tokens.
    Returns:
      The vocabulary; None: there is none.
    Raises:
      FileNotFoundError: there is no such vocabulary.
      ValueError: the vocabulary or the cleaning contradicts what the files next to the
        weights say; there are several vocabularies, and the user names none; or a file
        is damaged.
    """
    named = spm_model_file or vocab_file
    if named and not as_path(named).is_file():
        raise FileNotFoundError(f"There is no vocabulary file {named}.")
    file = as_path(named) if named else None
    if weights and not file:
        file = model_dir.find_vocabulary(weights)
    if not file:
        return None
    stated = model_dir.read_stated(weights) if weights else {}
    vocabulary = VocabularyFile.with_cleaning(
        file,
        stated,
        lower_case,
        strip_accents,
        is_wordpiece=not spm_model_file if named else None,
    )
    for name in ("lower_case", "strip_accents"):
        asked = getattr(vocabulary, name)
        if stated.get(name, asked) != asked:
            raise ValueError(
                f"{weights} was trained with {name}={stated[name]}, but {name}={asked} "
                "is asked for: clean text as its files say, or leave --do_lower_case "
                "and --strip_accents out."
            )
    digest = stated.get("vocabulary_sha256")
    if weights and (named or digest) and not may_differ:
        _require_same_content(weights, file, digest)
    return vocabulary


def _require_same_content(weights: PathLike, file: AnyPath, digest: str | None) -> None:
    """Raises ValueError if a vocabulary is not that of weights, as far as is known."""
    known = {digest: "its tokenizer.json"} if digest else {}
    if not digest:
        files = model_dir.vocabularies(weights)
        known = {vocabulary_digest(path): str(path) for path in files}
    asked = vocabulary_digest(file)
    if known and asked not in known:
        first, where = next(iter(known.items()))
        raise ValueError(
            f"{file} is not the vocabulary of {weights}: its vocabulary_sha256 is "
            f"{asked[:12]}, that of {where} {first[:12]}. Copy the model's own next to "
            "the weights, and leave --spm_model_file and --vocab_file out."
        )
