"""A vocabulary of a model: its file, its kind, and the one rule of text cleaning."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from albert_tf.storage import AnyPath, PathLike, as_path
from albert_tf.text.tokenizer import (
    AlbertTokenizer,
    default_strip_accents,
    is_wordpiece_file,
)


@dataclasses.dataclass(frozen=True)
class VocabularyFile:
    """A vocabulary and how text is cleaned for it.

    Attributes:
      path: the file.
      lower_case: whether letters are lower-cased.
      strip_accents: whether combining marks are dropped.
      is_wordpiece: whether it is a WordPiece vocabulary; None: its content tells.
    """

    path: AnyPath
    lower_case: bool
    strip_accents: bool
    is_wordpiece: bool | None = None

    def __post_init__(self):
        if self.is_wordpiece is None:
            object.__setattr__(self, "is_wordpiece", is_wordpiece_file(self.path))

    @classmethod
    def with_cleaning(
        cls,
        path: PathLike,
        stated: Mapping[str, Any],
        lower_case: bool | None = None,
        strip_accents: bool | None = None,
        is_wordpiece: bool | None = None,
    ) -> "VocabularyFile":
        """Applies the one rule of text cleaning.

        An argument counts first, then what the model's files state. If neither says
        it, text is lower-cased, and accents are as `default_strip_accents` says.

        Args:
          path: the vocabulary.
          stated: `lower_case` and `strip_accents`, as far as the model's files state
            them; other keys are allowed.
          lower_case: overrides what is stated.
          strip_accents: overrides what is stated.
          is_wordpiece: as the class.
        """
        path = as_path(path)
        if is_wordpiece is None:
            is_wordpiece = is_wordpiece_file(path)
        if lower_case is None:
            lower_case = bool(stated.get("lower_case", True))
        if strip_accents is None:
            default = default_strip_accents(is_wordpiece, lower_case)
            strip_accents = bool(stated.get("strip_accents", default))
        return cls(path, lower_case, strip_accents, is_wordpiece)

    def tokenizer(self) -> AlbertTokenizer:
        """Builds the tokenizer; errors are those of its constructor."""
        return AlbertTokenizer(
            spm_model_file=None if self.is_wordpiece else self.path,
            vocab_file=self.path if self.is_wordpiece else None,
            lower_case=self.lower_case,
            strip_accents=self.strip_accents,
        )
