"""Compares the vocabulary and text cleaning of rows or text with those of a model."""

from collections.abc import Mapping
from typing import Any

from albert_tf.checkpoints.model_dir import (
    find_vocabulary,
    folder_of,
    read_stated,
)
from albert_tf.files import short_digest
from albert_tf.storage import PathLike
from albert_tf.text.vocabulary_content import vocabulary_digest

_DIGEST = "vocabulary_sha256"


def stated_tokenizer(path: PathLike) -> dict[str, Any]:
    """Reads what files next to weights state of their vocabulary and text cleaning.

    Returns:
      Values of `AlbertTokenizer.metadata()`, as far as they are known. Without a
      `tokenizer.json` the digest is that of the vocabulary next to the weights.
    Raises:
      ValueError: a file is damaged, or there are several vocabularies.
    """
    stated = read_stated(path)
    if _DIGEST not in stated:
        vocabulary = find_vocabulary(path)
        if vocabulary is not None:
            stated[_DIGEST] = vocabulary_digest(vocabulary)
    return stated


def check_tokenizer(path: PathLike, made_with: Mapping[str, Any], name: str) -> None:
    """Checks that rows or texts are those of a model's vocabulary and text cleaning.

    Args:
      path: of the model's weights.
      made_with: values of `AlbertTokenizer.metadata()`; None: unknown.
      name: name of the rows or the vocabulary, for the message.
    Raises:
      ValueError: a value that both sides state differs.
    """
    for key, value in stated_tokenizer(path).items():
        other = made_with.get(key)
        if other not in (None, value):
            raise ValueError(
                f"The model of {folder_of(path)} has {key}={short_digest(value)}, but "
                f"{name} {key}={short_digest(other)}: use the model's own vocabulary "
                "and text cleaning, and records made with these."
            )
