"""Files of tagged sentences: three formats, and what is no such file."""

import json
import re

import pytest

from data_prep.fine_tuning.tagged_files import read_tagged_file
from data_prep.fine_tuning.tagged_sentences import Sentence, TagColumns

CONLL = """\
-DOCSTART- -X- -X- O

EU NNP I-NP I-ORG
rejects VBZ I-VP O
German JJ I-NP I-MISC
call NN I-NP O

Peter NNP I-NP I-PER
Ann NNP I-NP B-PER
Blackburn NNP I-NP I-PER
"""


def write(tmp_path, content, name="train.conll"):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8", newline="")
    return path


def tags_of(file):
    return [list(sentence.tags) for sentence in file.sentences]


def test_conll_is_read_with_any_columns(tmp_path):
    file = read_tagged_file(write(tmp_path, CONLL))
    assert [s.words for s in file.sentences] == [
        ("EU", "rejects", "German", "call"),
        ("Peter", "Ann", "Blackburn"),
    ]
    assert tags_of(file) == [
        ["B-ORG", "O", "B-MISC", "O"],
        ["B-PER", "B-PER", "I-PER"],
    ]
    assert [sentence.line for sentence in file.sentences] == [3, 8]
    assert file.sentences[1].columns[0] == ("Peter", "NNP", "I-NP", "I-PER")
    assert file.scheme == "IOB1" and file.has_tags
    assert file.labels() == [
        *("O", "B-MISC", "I-MISC", "B-ORG", "I-ORG", "B-PER", "I-PER")
    ]
    counts = {"documents": 1, "sentences": 2, "words": 7, "entities": 4}
    assert {k: v for k, v in file.counts.items() if v} == counts


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (TagColumns(tag=2), ["B-NP", "B-VP", "B-NP", "I-NP"]),
        (TagColumns(tag=-3), ["NNP", "VBZ", "JJ", "NN"]),
        (TagColumns(token=1), ["B-ORG", "O", "B-MISC", "O"]),
    ],
)
def test_columns_are_chosen(tmp_path, columns, expected):
    file = read_tagged_file(write(tmp_path, CONLL), columns)
    assert tags_of(file)[0] == expected
    assert file.is_plain() == (expected[0] == "NNP")
    if file.is_plain():
        assert file.labels() == ["JJ", "NN", "NNP", "VBZ"]


def test_comments_are_lines_with_other_columns_than_words(tmp_path):
    germeval = "#\thttp://x\t[2010]\t\n1\tGleich\tO\tO\n2\tJesu\tB-PER\tO\n\n"
    hashes = "#\thttp://y\t[2011]\n1\t#\tO\tO\n#\ta\tB-PER\tO\n"
    path = write(tmp_path, "\ufeff" + (germeval + hashes).replace("\n", "\r\n"))
    file = read_tagged_file(path, TagColumns(1, 2))
    assert [s.words for s in file.sentences] == [("Gleich", "Jesu"), ("#", "a")]
    assert tags_of(file) == [["O", "B-PER"], ["O", "B-PER"]]
    assert file.counts["comment_lines"] == 2
    # A word "#" that starts a sentence is a word.
    file = read_tagged_file(write(tmp_path, "#\tO\na\tB-x\n\t\n# \tO\n\ufeff"))
    assert [s.words for s in file.sentences] == [("#", "a"), ("# ",)]
    assert file.counts["comment_lines"] == 0


def test_json_lines_of_tokens(tmp_path):
    lines = [
        {"tokens": ["New", "York", "!"], "tags": ["B-LOC", "L-LOC", "O"]},
        {"tokens": [], "tags": []},
        {"tokens": ["Rome"], "tags": ["U-LOC"]},
    ]
    content = "\n".join(map(json.dumps, lines))
    file = read_tagged_file(write(tmp_path, content, "x.jsonl"))
    assert tags_of(file) == [["B-LOC", "I-LOC", "O"], [], ["B-LOC"]]
    assert file.scheme == "BILOU" and file.counts["empty_sentences"] == 1
    text, ranges = file.sentences[0].as_text()
    assert [text[start:end] for start, end in ranges] == ["New", "York", "!"]


def test_json_lines_of_spans(tmp_path):
    text = "Dr. Smith-Jones\u00a0met  O’Neil"
    spans = [(16, 19, "verb"), (4, 15, "PER"), (23, 26, "PER"), (26, 27, "ORG")]
    entities = [dict(zip(("start", "end", "label"), s, strict=True)) for s in spans]
    content = json.dumps({"text": text, "entities": entities, "id": 3})
    file = read_tagged_file(write(tmp_path, content, "x.jsonl"))
    [sentence] = file.sentences
    assert dict(zip(sentence.words, sentence.tags, strict=True)) == {
        **{"Dr": "O", ".": "O"},
        **{"Smith": "B-PER", "-": "I-PER", "Jones": "I-PER"},
        **{"met": "B-verb"},
        # The word "Neil" is touched by both: the first one has it.
        **{"O": "O", "’": "O", "Neil": "B-PER"},
    }
    assert file.counts["inexact_entities"] == 1 and file.counts["lost_entities"] == 1
    assert sentence.as_text() == (text, sentence.ranges)


def test_files_without_tags_can_be_predicted(tmp_path):
    one = write(tmp_path, "EU\nrejects\n\nPeter\n")
    other = write(tmp_path, "EU NNP x\n\nrejects VBZ B-x\n", "other.txt")
    spans = write(tmp_path, '{"text": "EU rejects"}', "x.jsonl")
    for path in (one, other, spans):
        file = read_tagged_file(path, need_tags=False)
        assert not file.has_tags and file.scheme == ""
        assert [s.tags for s in file.sentences] == [None] * len(file.sentences)
        with pytest.raises(ValueError, match=re.escape(str(path))):
            read_tagged_file(path)


def test_words_joined_by_spaces_have_ranges():
    text, ranges = Sentence(("a", "bcd", "é"), None, 1).as_text()
    assert (text, list(ranges)) == ("a bcd é", [(0, 1), (2, 5), (6, 7)])


BAD = {
    "a O\nb\n": "line 2: 1 columns, but line 1 has 2",
    "a O\n\nb c O\n": "line 3: 3 columns, but line 1 has 2",
    "a\tO\nb\t\n": "line 2: the tag of 'b' is empty",
    "a\tO\n\tO\n": "line 2: the word in column 0 is empty",
    "a B-x\nb MISC\n": "line 2: the tag 'MISC' has no prefix, but 'B-x' of line 1",
    "a\nb\n": "line 1: there are no tags",
    "\n\n": "holds no words",
    "": "holds no words",
    "-DOCSTART- O\n": "holds no words",
}
BAD_OBJECTS = {
    '{"tokens": ["a"], "tags": []}': "line 1: 1 tokens, but 0 tags",
    '{"tokens": ["a"], "tags": [3]}': "'tags' must be text. Received 3",
    '{"tokens": ["a", ""], "tags": ["O", "O"]}': "a token is empty",
    '{"tokens": "a b"}': "'tokens' must be a list",
    '{"words": ["a"]}': "must have 'tokens' or 'text'. It has ['words']",
    '{"text": ["a"]}': "'text' must be text",
    '\n["a"]': "line 2: not a JSON object",
    '{"text": "abc", "entities": [{"start": 1, "end": 4, "label": "x"}]}': (
        "within the text's 3 characters"
    ),
    '{"text": "abc", "entities": [{"start": 1, "end": 2}]}': "lacks 'label'",
    '{"text": "abc", "entities": [{"start": 1, "end": 2, "label": " "}]}': "no label",
    '{"text": "abc", "entities": [4]}': "an entity must be an object",
    '{"text": "a b", "entities": [{"start": 0, "end": 2, "label": "x"},'
    ' {"start": 1, "end": 3, "label": "x"}]}': "entities at 0 and 1 overlap",
}


@pytest.mark.parametrize("content", [*BAD, *BAD_OBJECTS])
def test_what_is_no_tagged_file_is_one_line(tmp_path, content):
    name = "x.jsonl" if content in BAD_OBJECTS else "x.txt"
    path = write(tmp_path, content, name)
    with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
        read_tagged_file(path)
    assert {**BAD, **BAD_OBJECTS}[content] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_files_columns_and_bytes_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*nowhere"):
        read_tagged_file(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"2 columns, so that --token_column=2 names"):
        read_tagged_file(write(tmp_path, "a O\n"), TagColumns(2))
    (tmp_path / "bad.txt").write_bytes(b"a O\nb\xff O\n")
    with pytest.raises(ValueError, match=r"bad\.txt, line 2: not UTF-8"):
        read_tagged_file(tmp_path / "bad.txt")
    with pytest.raises(ValueError, match="all words are O"):
        read_tagged_file(write(tmp_path, "a O\n")).labels()


@pytest.mark.parametrize(
    ("name", "columns", "counts"),
    [
        ("WNUT17_wnut17train.conll", TagColumns(), (3394, 62730, 1975, 0)),
        ("WNUT17_emerging.dev.conll", TagColumns(), (1009, 15733, 836, 0)),
        ("GermEval2014_NER-de-dev.tsv", TagColumns(1, 2), (2200, 41653, 2674, 2200)),
    ],
)
def test_published_files_are_read(shared_data, name, columns, counts):
    file = read_tagged_file(shared_data / "ner" / name, columns)
    names = ("sentences", "words", "entities", "comment_lines")
    assert tuple(file.counts[name] for name in names) == counts
    assert file.scheme == "IOB2"
