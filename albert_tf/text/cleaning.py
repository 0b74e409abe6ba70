"""Text cleaning, before a vocabulary splits the text.

    text -> each character cleaned -> lower case -> white space collapsed

Characters are cleaned one at a time, so a cleaned character's place in the original
text is known, and the same rule can run as a table in a TensorFlow graph.

White space is collapsed after cleaning; the original does it before, which leaves two
spaces where cleaning made a space (of an accent between spaces, for instance).
SentencePiece's own normalization drops these, so the tokens are the same.
"""

import functools
import re
import unicodedata
from array import array
from collections.abc import Callable, Mapping

import numpy as np

# Stretches of text with characters that cleaning may change. Dashes and curly quotes,
# common in English, are left out, since no rule changes them. Single spaces between
# words of other scripts are included: few long stretches are faster than many.
_NOT_ASCII = re.compile(r"[^\x00-\x7f–—‘’“”]+(?: [^\x00-\x7f]+)*")
_NOT_PRINTABLE_ASCII = re.compile(r"[^\t\n\r\x20-\x7e–—‘’“”]+")
_WORD = re.compile(r"\S+")


class TextCleaner:
    """Cleans texts by one rule.

    Attributes:
      lower_case: true if letters are lower-cased.
    """

    def __init__(
        self,
        clean_character: Callable[[str], str],
        needs_cleaning: re.Pattern[str],
        lower_case: bool,
    ):
        """Makes a cleaner; `for_sentencepiece` and `for_wordpiece` know the rules.

        Args:
          clean_character: the rule for one character, without lower-casing.
          needs_cleaning: matches all stretches of text that the rule may change.
          lower_case: true to lower-case letters.
        """
        self._characters = _CharacterTable(clean_character, lower_case)
        self._needs_cleaning = needs_cleaning
        self.lower_case = lower_case

    @classmethod
    def for_sentencepiece(cls, lower_case: bool, strip_accents: bool) -> "TextCleaner":
        """Returns a cleaner that works as the original ALBERT before SentencePiece."""
        clean = functools.partial(_clean_for_sentencepiece, strip_accents=strip_accents)
        return cls(clean, _NOT_ASCII, lower_case)

    @classmethod
    def for_wordpiece(cls, lower_case: bool, strip_accents: bool) -> "TextCleaner":
        """Returns a cleaner that works as BERT before WordPiece."""
        clean = functools.partial(_clean_for_wordpiece, strip_accents=strip_accents)
        return cls(clean, _NOT_PRINTABLE_ASCII, lower_case)

    def clean_character(self, character: str) -> str:
        """Cleans and lower-cases one character; a capital sigma keeps its case.

        The lower case of a capital sigma depends on its neighbors.
        """
        return self._characters.clean(character)

    def normalize(self, text: str) -> str:
        """Cleans and lower-cases a text and collapses its white space."""
        return " ".join(self._clean(text).split())

    def origins(self, text: str) -> "array[int]":
        """Returns, for each character of `normalize(text)`, its index in `text`."""
        indices = array("q", range(len(text)))
        if self._needs_cleaning.search(text):
            lengths = np.fromiter((len(self._characters[ord(c)]) for c in text), int)
            indices = array("q", np.repeat(indices, lengths).tobytes())
        origins = array("q")
        for word in _WORD.finditer(self._clean(text)):
            if len(origins):
                origins.append(indices[word.start() - 1])  # the space before the word
            origins.extend(indices[word.start() : word.end()])
        return origins

    def _clean(self, text: str) -> str:
        """Cleans and lower-cases a text; white space stays as it comes."""
        cleaned = self._needs_cleaning.sub(
            lambda match: match.group().translate(self._characters), text
        )
        return cleaned.lower() if self.lower_case else cleaned


def is_visible(character: str) -> bool:
    """True if a character is neither white space nor a control or format character."""
    return not (character.isspace() or unicodedata.category(character)[0] == "C")


def whole_letters(
    text: str, first: int, last: int, silent: Mapping[str, bool]
) -> tuple[int, int]:
    """Widens a token's range of characters to all that belong to it.

    Combining marks stay with their letter. Silent characters, as "΄" in "ΙΔ΄", belong
    to the token that they follow, and at the beginning of a word to the next one.

    Args:
      text: the text.
      first, last: indices, both inclusive.
      silent: character -> true if it is visible, but never a part of a token.
    Returns:
      The half-open range.
    """

    def is_mark(index: int) -> bool:
        return unicodedata.category(text[index]).startswith("M")

    while first > 0 and is_mark(first) and not text[first - 1].isspace():
        first -= 1
    end = last + 1
    while end < len(text) and (is_mark(end) or silent[text[end]]):
        end += 1
    word = first
    while word > 0 and silent[text[word - 1]]:
        word -= 1
    if word == 0 or text[word - 1].isspace():
        first = word
    return first, end


class _CharacterTable(dict[int, str]):
    """Code point -> the cleaned character; filled when characters are first met."""

    def __init__(self, clean: Callable[[str], str], lower_case: bool):
        super().__init__()
        self._clean = clean
        self._lower_case = lower_case

    def clean(self, character: str) -> str:
        cleaned = self._clean(character)
        if self._lower_case:
            cleaned = "".join(c if c == "Σ" else c.lower() for c in cleaned)
        return cleaned

    def __missing__(self, code_point: int) -> str:
        self[code_point] = cleaned = self.clean(chr(code_point))
        return cleaned


def _clean_for_sentencepiece(character: str, strip_accents: bool) -> str:
    """Cleans one character as the original ALBERT does before SentencePiece.

    With `strip_accents`: compatibility decomposition (NFKD) without the combining
    marks. Without: NFKC of the character alone, so "ö" and "が" stay, full-width
    letters become ordinary ones, and no combining mark is lost. A letter and a mark
    that are two characters stay so; SentencePiece's default normalization (nmt_nfkc)
    composes them.
    """
    if "\ud800" <= character <= "\udfff":  # half of a broken surrogate pair
        return "\ufffd"
    if strip_accents:
        decomposed = unicodedata.normalize("NFKD", character)
        cleaned = "".join(c for c in decomposed if not unicodedata.combining(c))
    else:
        cleaned = unicodedata.normalize("NFKC", character)
    return "".join(" " if c.isspace() else c for c in cleaned)


def _clean_for_wordpiece(character: str, strip_accents: bool) -> str:
    """Cleans one character as BERT does before WordPiece.

    Control and format characters are dropped; white space becomes a space. With
    `strip_accents`: canonical decomposition (NFD) without non-spacing marks.
    Without: other characters are unchanged.
    """
    if character in "\t\n\r":
        return " "
    if unicodedata.category(character) in ("Cc", "Cf", "Cs") or character == "\ufffd":
        return ""
    if character.isspace():
        return " "
    if not strip_accents:
        return character
    decomposed = unicodedata.normalize("NFD", character)
    return "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
