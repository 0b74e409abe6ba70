"""Words of raw texts and their places."""

import pytest

from albert_tf.text.words import split_words

CASES = {
    "": [],
    " \t\n\u3000": [],
    "EU rejects German call.": ["EU", "rejects", "German", "call", "."],
    "  in  the U.S.-based\n": ["in", "the", "U", ".", "S", ".", "-", "based"],
    "$5 a^b x_y": ["$", "5", "a", "^", "b", "x", "_", "y"],
    "“Köln”—e\u0301a": ["“", "Köln", "”", "—", "e\u0301a"],
    "ich bin 北京人": ["ich", "bin", "北", "京", "人"],
    "北\u0301京a": ["北\u0301", "京", "a"],
    "😀😀 ok\u200b": ["😀😀", "ok\u200b"],
    "!\u0301a \u0301": ["!\u0301a", "\u0301"],
}


@pytest.mark.parametrize("text", CASES)
def test_words_are_slices_of_the_text(text):
    assert [text[start:end] for start, end in split_words(text)] == CASES[text]
