"""WordPiece's splitter counts places in characters."""

from albert_tf.text.wordpiece_tf import WordPieceSplitter

TOKENS = ["[UNK]", "a", "##b", "中"]


def test_ids_are_places_in_the_vocabulary():
    splitter = WordPieceSplitter(TOKENS)
    assert splitter.encode_batch(["ab 中a", "", "x"]) == [[1, 2, 3, 1], [], [0]]
    assert splitter.encode_batch([]) == []


def test_spans_count_characters_and_not_bytes():
    ids, spans = WordPieceSplitter(TOKENS).encode_with_spans("中 ab")
    assert ids == [3, 1, 2]
    assert spans == [(0, 1), (2, 3), (3, 4)]


def test_a_word_above_the_limit_is_one_unknown_token_over_all_of_it():
    splitter = WordPieceSplitter(TOKENS)
    longest, longer = "a" + "b" * 199, "a" + "b" * 200
    ids, spans = splitter.encode_with_spans(f"中{longer} a {longest}")
    assert ids == [3, 0, 1, 1] + [2] * 199
    assert spans[:3] == [(0, 1), (1, 202), (203, 204)]
    assert splitter.encode_batch(["", longer, "", longest[1:]]) == [[], [0], [], [0]]
