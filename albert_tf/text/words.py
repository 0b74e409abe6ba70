"""Splits a text into words by a simple rule, with their places.

Words are what white space separates. A punctuation mark or symbol of ASCII, any other
punctuation mark of Unicode, and each Chinese character is a word of its own; a
combining mark stays with the character before it. This is the first step of BERT's
tokenizer. `words_tf.py` does the same in a TensorFlow graph.
"""

import functools
import unicodedata

# Kinds of characters.
LETTER, SPACE, ALONE, MARK = range(4)
# Blocks of Chinese characters, as BERT has them.
_CHINESE = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


@functools.lru_cache(maxsize=1 << 16)
def kind(character: str) -> int:
    """The kind of a character: `LETTER`, `SPACE`, `ALONE` or `MARK`."""
    if character.isspace():
        return SPACE
    category = unicodedata.category(character)
    if category.startswith("M"):
        return MARK
    is_symbol = category.startswith("S") and character.isascii()
    if is_symbol or category.startswith("P") or _is_chinese(character):
        return ALONE
    return LETTER


def _is_chinese(character: str) -> bool:
    code_point = ord(character)
    return any(first <= code_point <= last for first, last in _CHINESE)


def split_words(text: str) -> list[tuple[int, int]]:
    """Splits a text; returns the half-open range of characters of each word."""
    starts, ends, before = [], [], SPACE
    for place, character in enumerate(text):
        here = kind(character)
        if before != SPACE and (here == SPACE or _starts(before, here)):
            ends.append(place)
        if here != SPACE and (before == SPACE or _starts(before, here)):
            starts.append(place)
        before = here
    if before != SPACE:
        ends.append(len(text))
    return list(zip(starts, ends, strict=True))


def _starts(before: int, here: int) -> bool:
    """True if a word starts between two characters that are no white space."""
    return here == ALONE or (before == ALONE and here == LETTER)
