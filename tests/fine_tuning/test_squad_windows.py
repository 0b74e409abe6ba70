"""Windows of paragraphs; answers through offsets and back."""

import tracemalloc
import unicodedata

import numpy as np
import pytest

from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning import squad, squad_windows
from helpers.questions import answer_of, convert, paragraph
from helpers.tokenization_cases import (
    every_tokenizer,
    nasty_texts,
    train,
    write_wordpieces,
)

WORDS = "the tide rose and the sailor sat still on that old stone there "


@pytest.fixture(scope="module")
def spm_model_file(tmp_path_factory) -> str:
    return train(tmp_path_factory.mktemp("vocabulary") / "small.model")


@pytest.fixture(scope="module")
def tokenizer(spm_model_file) -> AlbertTokenizer:
    return AlbertTokenizer(spm_model_file)


@pytest.fixture(scope="module")
def tokenizers(spm_model_file, tmp_path_factory) -> list[AlbertTokenizer]:
    folder = tmp_path_factory.mktemp("wordpieces")
    return every_tokenizer(spm_model_file, write_wordpieces(folder / "vocab.txt"))


def text_of(tokenized, tokens):
    """The text of a half-open range of tokens, as given."""
    first, end = tokens
    return tokenized.text[tokenized.starts[first] : tokenized.ends[end - 1]]


def ends_inside_a_token(tokenized, place):
    return any(
        start < edge < end
        for edge in place
        for start, end in zip(tokenized.starts, tokenized.ends, strict=True)
    )


@pytest.mark.parametrize(
    ("language", "vocabulary", "exact"),
    [("en", "30k-clean", 1189), ("de", "xquad-16k", 1177), ("zh", "xquad-16k", 1181)],
)
def test_gold_answers_are_found_again_letter_for_letter(
    shared_data, language, vocabulary, exact
):
    """The original's figures, too. Where we miss, the answer ends inside a piece."""
    tokenizer = AlbertTokenizer(shared_data / "vocabulary" / f"{vocabulary}.model")
    read = squad.read_squad(shared_data / "squad" / f"xquad.{language}.json")
    found = 0
    for each in read.paragraphs:
        tokenized = squad_windows.TokenizedParagraph(each.text, tokenizer)
        for question in each.questions:
            [answer] = question.answers
            pieces, is_exact = squad_windows.find_answer(tokenized, question)
            text = text_of(tokenized, pieces)
            assert tokenized.text_of(pieces) == text
            assert is_exact == (text == answer.text)
            found += is_exact
            assert answer.text in text
            place = answer.start, answer.start + len(answer.text)
            assert text == answer.text or ends_inside_a_token(tokenized, place)
    assert found >= exact

    _, report = convert(read.paragraphs, tokenizer)
    assert report.questions == 1190
    assert len(report.inexact_answers) == 1190 - found
    assert not report.lost_answers and not report.moved_answers


def test_answers_of_v2_are_found_and_impossible_questions_kept(shared_data):
    tokenizer = AlbertTokenizer(shared_data / "vocabulary" / "30k-clean.model")
    read = squad.read_squad(shared_data / "squad" / "dev-v2.0-half.json")
    paragraphs = read.paragraphs[:60]
    questions = {q.question_id: q for p in paragraphs for q in p.questions}
    rows, report = convert(paragraphs, tokenizer, max_seq_length=128, doc_stride=50)
    assert not report.lost_answers
    texts = read.contexts()
    held = set()
    for row in rows:
        question_id = row["question_id"].decode()
        if row["is_impossible"]:
            assert row["start_positions"] == row["end_positions"] == 0
            continue
        held.add(question_id)
        gold = questions[question_id].answers[0].text
        assert gold in answer_of(row, texts[question_id])
    assert {row["question_id"].decode() for row in rows} == questions.keys()
    answerable = {q for q, each in questions.items() if not each.is_impossible}
    assert held <= answerable
    # A long answer may fit no window whole.
    assert len(held) > 0.95 * len(answerable) > 0


def test_any_range_of_pieces_is_found_again_from_its_text(tokenizers):
    """Over marks, ligatures, full-width forms, emoji, Hangul, Thai, ..., whole words
    of them: a range's text leads to pieces that have the same text."""
    rng = np.random.default_rng(5)
    checked = 0
    for index, text in enumerate(nasty_texts(1200, seed=3)):
        tokenizer = tokenizers[index % len(tokenizers)]
        tokenized = squad_windows.TokenizedParagraph(text, tokenizer)
        pieces = len(tokenized.ids)
        assert np.all(np.diff(tokenized.starts) >= 0)
        assert np.all(np.diff(tokenized.ends) >= 0)
        if not pieces:
            continue
        first = rng.integers(pieces)
        end = rng.integers(first, pieces) + 1
        answer = text_of(tokenized, (first, end))
        if not answer:
            continue
        start = int(tokenized.starts[first])
        place = squad_windows.locate(text, squad.Answer(answer, start))
        assert place == (start, start + len(answer))
        again = text_of(tokenized, tokenized.tokens_of(place))
        assert answer in again
        # As of "№ʰ", whose pieces are "n" and "oh": no range of pieces is "№" alone.
        exact = not ends_inside_a_token(tokenized, place)
        assert again == answer or not exact
        checked += exact
        following = text[place[1] : place[1] + 1]
        assert not following or not unicodedata.category(following).startswith("M")
        assert answer == answer.strip()
    assert checked > 700


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("at the cafe\u0301 there", "cafe\u0301", "cafe\u0301"),
        ("6½ sacks", "6½", "6½"),
        ("wait… there", "wait…", "wait…"),
        ("the ﬁrst", "ﬁrst", "ﬁrst"),
        ("한국어 문장", "한국어", "한국어"),
        ("\u1112\u1161\u11ab\u1100\u116e\u11a8 tea", "tea", "tea"),
        ("ＦＵＬＬ rain", "ＦＵＬＬ", "ＦＵＬＬ"),
        ("[SEP] the [CLS] tea", "tea", "tea"),
        ("[SEP] the [CLS] tea", "[CLS]", "[CLS]"),
        ("😀😀 tea 😀", "tea", "tea"),
    ],
)
def test_answers_that_the_original_loses_are_exact(tokenizer, text, answer, expected):
    [row], report = convert(
        [paragraph(text, ("what [SEP] is", answer, text.index(answer)))], tokenizer
    )
    assert answer_of(row, text) == expected
    assert not row["is_impossible"]
    assert not report.lost_answers and not report.moved_answers


@pytest.mark.parametrize(
    ("answer", "start", "place"),
    [
        ("tea", 4, (4, 7)),
        ("tea", 9, (12, 15)),
        ("tea", 0, (4, 7)),
        ("tea", -7, (4, 7)),
        ("tea", 400, (12, 15)),
        ("hot TEA  and", 0, (0, 11)),
        ("coffee", 4, None),
        ("", 4, None),
        (" ", 3, None),
        (".*", 0, None),
    ],
)
def test_an_answer_elsewhere_is_searched_nearby(answer, start, place):
    text = "hot tea and tea"
    assert squad_windows.locate(text, squad.Answer(answer, start)) == place


def test_moved_and_lost_answers_are_counted_and_lost_ones_make_no_training_row(
    tokenizer,
):
    questions = [("a", "tide", 4), ("b", "tide", 9), ("c", "ebb", 4), ("d", None, 0)]
    paragraphs = [paragraph(WORDS, *questions)]
    rows, report = convert(paragraphs, tokenizer)
    assert [row["question_id"] for row in rows] == [b"0", b"1", b"3"]
    assert report.moved_answers == ["1"] and report.lost_answers == ["2"]
    assert "1 answers moved (1), 1 answers lost (2)" in str(report)
    rows, report = convert(paragraphs, tokenizer, for_training=False)
    assert [row["question_id"] for row in rows] == [b"0", b"1", b"2", b"3"]
    assert (report.questions, report.windows) == (4, 4)


def test_an_answer_that_the_vocabulary_drops_is_lost_not_a_crash(tokenizer):
    text = "tea \u0301 and rain"
    rows, report = convert([paragraph(text, ("a", "\u0301", 4))], tokenizer)
    tokenized = squad_windows.TokenizedParagraph(text, tokenizer)
    assert tokenized.tokens_of((4, 5)) is None or rows
    assert len(rows) + len(report.lost_answers) == 1


def test_of_several_gold_answers_the_first_that_is_there_is_trained_on(tokenizer):
    answers = (squad.Answer("ebb", 0), squad.Answer("tide", 4), squad.Answer("sat", 0))
    question = squad.Question("a", "who", answers)
    [row], report = convert([squad.Paragraph(WORDS, (question,))], tokenizer)
    assert answer_of(row, WORDS) == "tide"
    assert report.moved_answers == ["a"]


def test_a_question_without_labels_is_answered_and_not_trained_on(tokenizer):
    paragraphs = [squad.Paragraph(WORDS, (squad.Question("q7", "who"),))]
    rows, report = convert(paragraphs, tokenizer)
    assert not rows and not report.lost_answers and report.questions == 1
    [_], report = convert(paragraphs, tokenizer, for_training=False)
    assert report.windows_without_answer == 0


def test_rows_have_the_layout_of_the_original_at_their_own_length(tokenizer):
    text, asked = "the sailor sat", "who sat"
    [row], _ = convert([paragraph(text, (asked, "sailor", 4))], tokenizer)
    question, pieces = tokenizer.encode(asked), tokenizer.encode(text)
    cls_id, sep_id = tokenizer.cls_id, tokenizer.sep_id
    ids = [cls_id, *question, sep_id, *pieces, sep_id]
    assert row["input_ids"].tolist() == ids
    zeros, ones = [0] * len(pieces), [1] * len(question)
    assert row["segment_ids"].tolist() == [0, *(0 * np.array(ones)), 0] + [1] * (
        len(pieces) + 1
    )
    assert row["p_mask"].tolist() == [0, *ones, 1, *zeros, 1]
    inside = [0, *(0 * np.array(ones)), 0, *(1 + np.array(zeros)), 0]
    assert row["token_is_max_context"].tolist() == inside
    assert answer_of(row, text) == "sailor"


def plain_windows(pieces, room, stride):
    """The original's rule, one piece at a time."""
    spans, start = [], 0
    while True:
        length = min(pieces - start, room)
        spans.append((start, length))
        if start + length == pieces:
            break
        start += min(length, stride)
    best = {}
    for piece in range(pieces):
        scores = [
            min(piece - s, s + n - 1 - piece) + 0.01 * n if s <= piece < s + n else -1
            for s, n in spans
        ]
        best[piece] = scores.index(max(scores))
    return spans, best


def test_windows_of_random_sizes_are_the_originals():
    rng = np.random.default_rng(8)
    for _ in range(300):
        room = int(rng.integers(1, 19))
        sizes = int(rng.integers(0, 90)), room, int(rng.integers(1, room + 5))
        test_windows_and_maximum_context_are_the_originals(*sizes)


def test_windows_of_a_book_take_memory_by_its_length():
    tokens, room, stride = 600_000, 448, 128
    tracemalloc.start()
    windows = squad_windows.split_windows(tokens, room, stride)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    squad_windows.split_windows.cache_clear()
    assert sum(is_max.sum() for _, is_max in windows) == tokens
    # The windows hold each token 3.5 times, a byte each; the rest is two scores.
    assert peak < 40 * tokens


def test_rows_of_a_long_text_are_made_in_another_process(tokenizer, monkeypatch):
    asked = paragraph(WORDS * 40, ("who sat", None, 0), ("what", None, 0))
    settings = squad_windows.WindowSettings(61, 17, 9)
    expected = squad_windows.rows_to_answer(asked, tokenizer, settings)
    assert len(expected) > 20
    monkeypatch.setattr(squad_windows, "_LONG_TEXT", 1000)
    rows = squad_windows.rows_to_answer(asked, tokenizer, settings)
    for row, wanted in zip(rows, expected, strict=True):
        assert row.keys() == wanted.keys()
        for name, value in row.items():
            np.testing.assert_array_equal(value, wanted[name])


def test_unknown_tokens_and_answers_off_the_borders_of_tokens_are_counted(tokenizer):
    text = "the tide 漢字漢 rose"
    start = text.index("字")
    asked = [("who", "tide", 4), ("漢", "字", start), ("a", "漢字漢 rose", start - 1)]
    rows, report = convert([paragraph(text, *asked)], tokenizer)
    assert report.inexact_answers == ["1"]
    assert "1 answers off the borders of tokens (1)" in str(report)
    unknown = tokenizer.unk_id
    counted = [tokenizer.encode(each) for each in (text, "who", "漢", "a")]
    assert report.pieces == sum(map(len, counted)) and len(rows) == 3
    assert report.unknown_pieces == sum(ids.count(unknown) for ids in counted) > 1


@pytest.mark.parametrize(
    ("pieces", "room", "stride"),
    [(0, 5, 2), (1, 5, 2), (5, 5, 2), (6, 5, 2), (37, 11, 4), (23, 7, 7), (30, 6, 50)],
)
def test_windows_and_maximum_context_are_the_originals(pieces, room, stride):
    spans, best = plain_windows(pieces, room, stride)
    windows = squad_windows.split_windows(pieces, room, stride)
    assert [r for r, _ in windows] == [(s, s + n) for s, n in spans]
    for index, ((start, end), is_max) in enumerate(windows):
        wanted = [best[piece] == index for piece in range(start, end)]
        assert is_max.tolist() == wanted


def test_every_piece_may_start_an_answer_in_exactly_one_window(tokenizer):
    text = WORDS * 7
    rows, report = convert(
        [paragraph(text, ("who sat", "stone", text.index("stone")))],
        tokenizer,
        max_seq_length=29,
        doc_stride=8,
        max_query_length=5,
    )
    assert report.windows == len(rows) > 5
    starts = np.concatenate(
        [row["piece_starts"][row["token_is_max_context"] == 1] for row in rows]
    )
    tokenized = squad_windows.TokenizedParagraph(text, tokenizer)
    assert sorted(starts) == tokenized.starts.tolist()
    assert max(len(row["input_ids"]) for row in rows) == 29
    held = [row for row in rows if not row["is_impossible"]]
    assert held and all(answer_of(row, text) == "stone" for row in held)
    assert report.windows_without_answer == len(rows) - len(held)


def test_long_questions_are_cut_and_counted(tokenizer):
    paragraphs = [paragraph("the tide", (WORDS, "tide", 4), ("who", "tide", 4))]
    rows, report = convert(paragraphs, tokenizer, max_query_length=6)
    assert report.cut_questions == 1
    assert rows[0]["input_ids"][1:7].tolist() == tokenizer.encode(WORDS)[:6]
    assert rows[0]["input_ids"][7] == tokenizer.sep_id
    assert answer_of(rows[0], "the tide") == "tide"


@pytest.mark.parametrize("text", ["", " ", "\u0301", "😀"])
def test_an_empty_paragraph_or_question_still_makes_a_row(tokenizer, text):
    paragraphs = [paragraph(text, ("who", None, 0), ("", None, 0))]
    rows, report = convert(paragraphs, tokenizer)
    assert [row["question_id"] for row in rows] == [b"0", b"1"]
    pieces = len(tokenizer.encode(text))
    assert [len(row["input_ids"]) for row in rows] == [
        pieces + 3 + len(tokenizer.encode("who")),
        pieces + 3,
    ]
    assert report.empty_paragraphs == (0 if pieces else 2)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ({"max_seq_length": 67}, "raise it to 68 or more"),
        ({"doc_stride": 0}, "doc_stride must be at least 1. Received 0"),
        ({"max_query_length": 0}, "max_query_length must be at least 1. Received 0"),
    ],
)
def test_lengths_that_leave_no_paragraph_are_refused(lengths, message):
    with pytest.raises(ValueError, match=message):
        squad_windows.WindowSettings(**lengths)


def test_a_paragraph_is_tokenized_once_for_all_its_questions(tokenizer, monkeypatch):
    calls = []
    plain = AlbertTokenizer.encode_with_offsets

    def counted(self, text):
        calls.append(text)
        return plain(self, text)

    monkeypatch.setattr(AlbertTokenizer, "encode_with_offsets", counted)
    questions = [("who sat", "sailor", WORDS.index("sailor"))] * 50
    rows, _ = convert([paragraph(WORDS, *questions)], tokenizer)
    assert len(rows) == 50
    assert calls == [WORDS]
