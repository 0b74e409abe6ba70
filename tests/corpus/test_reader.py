"""Files become documents and sentences; bad text is named or counted."""

import gzip
import json
import os
import tracemalloc
from collections import Counter

import numpy as np
import pytest

from albert_tf.storage import as_path
from data_prep.corpus.inputs import expand_inputs
from data_prep.corpus.reader import (
    BAD_JSON,
    BAD_UTF8,
    CUT,
    EMPTY_DOCUMENT,
    EMPTY_FILE,
    INVISIBLE,
    MAX_SENTENCE_LENGTH,
    ReadingConfig,
    read_documents,
    read_sentences,
)


def write(path, content):
    content = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


def documents(path, input_format, on_bad_text="error", **options):
    """The sentences of each document of a file."""
    config = ReadingConfig(input_format, on_bad_text)
    return [d.sentences for d in read_documents([path], config, **options)]


def sentences(tmp_path, text, language="en"):
    """The sentences of a raw text."""
    path = write(tmp_path / "raw.txt", text)
    config = ReadingConfig("raw", language=language)
    return [s.text for s in read_sentences([path], config)]


# Naming files.


def test_inputs_are_sorted_files_each_once(tmp_path):
    names = ["b.txt", "a.txt", "c/d.txt.gz", "c/[x].txt"]
    (tmp_path / "c").mkdir()
    b, a, packed, bracketed = [write(tmp_path / name, "x") for name in names]
    inputs = f"{b}, {tmp_path}/*.txt,{tmp_path}/**/*.gz,{tmp_path}/./b.txt,,{bracketed}"
    assert expand_inputs(inputs) == [a, b, bracketed, packed]


def test_inputs_of_a_bucket_are_files_too(bucket, tmp_path):
    for name in ("b.txt", "a.txt", "c/d.txt.gz", "c/x.txt", "e.txt/f"):
        as_path(f"{bucket}/{name}").write_bytes(b"x")
    local = write(tmp_path / "z.txt", "x")
    inputs = f"{bucket}/b.txt, {bucket}/*.txt,{bucket}/**/*.gz,{local}"
    names = [f"{bucket}/{name}" for name in ("a.txt", "b.txt", "c/d.txt.gz")]
    assert expand_inputs(inputs) == sorted([*names, local])
    for name, error, message in (
        ("none.txt", FileNotFoundError, r"none\.txt does not exist"),
        ("c", ValueError, r"/c is a folder: name its files, as in '.*/c/\*'"),
        ("*.md", ValueError, r"No file matches '.*/\*\.md'"),
    ):
        with pytest.raises(error, match=message):
            expand_inputs(f"{bucket}/{name}")
    with pytest.raises(ValueError, match="hdfs://a/b is not a path of this machine"):
        expand_inputs("hdfs://a/b")


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ("missing.txt", FileNotFoundError, r"missing\.txt does not exist"),
        ("full.txt,*.json", ValueError, r"No file matches '.*\*\.json'"),
        ("empty.txt", ValueError, r"empty\.txt is empty"),
        ("folder", ValueError, "folder is a folder"),
        ("fold*", ValueError, "No file matches"),
    ],
)
def test_wrong_input_is_named(tmp_path, inputs, error, message):
    (tmp_path / "folder").mkdir()
    write(tmp_path / "full.txt", "x")
    write(tmp_path / "empty.txt", "")
    inputs = ",".join(f"{tmp_path}/{name}" for name in inputs.split(","))
    with pytest.raises(error, match=message):
        expand_inputs(inputs)


def test_no_input_at_all_is_an_error():
    with pytest.raises(ValueError, match="No input file is named"):
        expand_inputs(" , ")


# The format `lines`.


def test_lines_are_sentences_and_blank_lines_end_documents(tmp_path):
    path = write(tmp_path / "a.txt", "\n\nOne. Still one.\n Two.\t\n \t\n\nThree.")
    assert documents(path, "lines") == [["One. Still one.", "Two."], ["Three."]]


def test_documents_know_their_file_and_first_line(tmp_path):
    a = write(tmp_path / "a.txt", "\none\ntwo\n\nthree\n")
    b = write(tmp_path / "b.txt", "four\n")
    found = [(d.file, d.line) for d in read_documents([a, b], ReadingConfig("lines"))]
    assert found == [(a, 2), (a, 5), (b, 1)]


def test_the_end_of_a_file_ends_its_document(tmp_path):
    paths = [write(tmp_path / name, f"in {name}") for name in ("a.txt", "b.txt")]
    found = [d.sentences for d in read_documents(paths, ReadingConfig("lines"))]
    assert found == [["in a.txt"], ["in b.txt"]]


@pytest.mark.parametrize("invisible", ["\u00a0", "\u0301\u0308", "\u200b\ufeff", "\0"])
def test_a_line_that_shows_nothing_ends_no_document(tmp_path, invisible):
    path = write(tmp_path / "a.txt", f"one\n{invisible}\ntwo\n\nthree\n")
    counts = Counter()
    assert documents(path, "lines", counts=counts) == [["one", "two"], ["three"]]
    assert counts == {INVISIBLE: 1}


@pytest.mark.parametrize("input_format", ["lines", "raw", "jsonl"])
@pytest.mark.parametrize("name", ["a", "a.gz"])
def test_byte_order_mark_line_ends_and_packing_change_nothing(
    tmp_path, input_format, name
):
    if input_format == "jsonl":
        text = '{"text": "Eins. Zwei ä."}\n\n{"text": "Drei."}\n'
    else:
        text = "Eins. Zwei ä.\n\nDrei.\n"
    plain = write(tmp_path / "plain", text)
    other = write(tmp_path / name, "\ufeff" + text.replace("\n", "\r\n"))
    assert documents(other, input_format) == documents(plain, input_format)
    assert documents(plain, input_format)[-1][-1] == "Drei."


# Sentences of raw text.


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", ["Mr. Smith met Dr. Jones at 5 p.m. in D.C. today.", "It was fine."]),
        ("en", ["J. K. Rowling wrote it.", "No. 5 and St. Paul, e.g. Fig. 3."]),
        ("en", ["“Why?” he asked.", "She left.", "‘They don’t know.’", "Wait…"]),
        ("en", ["He stopped ... and went on.", "It costs $3.50.", "Really?!", "Yes."]),
        ("de", ["Am 3. Oktober traf Dr. Müller z. B. Herrn Prof. Schmidt.", "Gut."]),
        ("zh", ["他来了。", "“你好吗？”", "她问。", "他说……然后走了！"]),
        ("ar", ["ذهب الولد إلى المدرسة.", "هل رأيته؟", "نعم، رأيته!"]),
    ],
)
def test_sentences_of_hard_cases(tmp_path, language, expected):
    space = "" if language == "zh" else " "
    text = space.join(expected)
    assert sentences(tmp_path, text, language=language) == expected


def test_wrapped_lines_are_joined_and_blank_lines_separate_paragraphs(tmp_path):
    text = "A heading\n\nThis was\n  wrapped. And\nthis.\r\n\r\n\r\nNew here"
    expected = ["A heading", "This was wrapped.", "And this.", "New here"]
    assert sentences(tmp_path, text) == expected


def test_wrapped_chinese_gets_no_space_and_korean_does(tmp_path):
    assert sentences(tmp_path, "最后的南京\n老城。") == ["最后的南京老城。"]
    assert sentences(tmp_path, "서울 한강\n다리다.") == ["서울 한강 다리다."]
    assert sentences(tmp_path, "南京 is\n老城。") == ["南京 is 老城。"]


def test_no_character_of_random_text_is_lost(tmp_path):
    rng = np.random.default_rng(7)
    mark = "\u0301"
    parts = [mark, *"aB.!?\"'“”‘’()[]3…。？漢é🙂", *" \n\t\r\u00a0\u2029\u3000"]
    parts += ["Mr. ", "J. K. ", " e.g. ", "\n\n", " U.S. ", "z. B. ", "»", "؟", "¡"]
    for _ in range(400):
        text = "x" + "".join(rng.choice(parts, size=rng.integers(1, 90)))
        found = sentences(tmp_path, text)
        # Where a mark stands alone it shows nothing and is left out.
        kept = "".join("".join(found).split()).replace(mark, "")
        assert kept == "".join(text.split()).replace(mark, "")
        assert all(sentence == sentence.strip() for sentence in found)


def test_no_character_of_real_text_is_lost(shared_data):
    paths = expand_inputs(f"{shared_data}/text/*.txt")
    texts = Counter()
    for sentence in read_sentences(paths, ReadingConfig("raw")):
        texts[sentence.file] += len("".join(sentence.text.split()))
    for path in paths:
        with open(path, encoding="utf-8") as file:
            assert texts[path] == len("".join(file.read().split())), path


# The format `jsonl`.


def test_each_json_line_is_a_document_of_paragraphs(tmp_path):
    texts = ["One. Two\nwrapped.\n\nThree", "Vier ä."]
    lines = [json.dumps({"id": i, "text": text}) for i, text in enumerate(texts)]
    path = write(tmp_path / "a.jsonl", "\n".join(lines))
    assert documents(path, "jsonl") == [["One.", "Two wrapped.", "Three"], ["Vier ä."]]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"text": "cut', "not JSON .* at column"),
        ('{"title": "no text"}', "not an object"),
        ('{"text": ["a"]}', "not an object"),
        ('["text"]', "not an object"),
        ('"text"', "not an object"),
        ("null", "not an object"),
        (r'{"text": "half \ud800"}', "half of a surrogate pair"),
        ("[" * 100_000, "nested too deep"),
        ('{"text": "a", "n": ' + "1" * 5000 + "}", "too long a number"),
    ],
)
def test_a_line_without_a_json_document_is_named_or_counted(tmp_path, line, problem):
    path = write(tmp_path / "a.jsonl", f'{{"text": "Good."}}\n\n{line}\n')
    with pytest.raises(ValueError, match=f"a.jsonl, line 3: .*{problem}"):
        documents(path, "jsonl")
    counts = Counter()
    found = documents(path, "jsonl", on_bad_text="skip", counts=counts)
    assert found == [["Good."]]
    assert counts == {BAD_JSON: 1}


def test_documents_and_files_without_a_sentence_are_counted(tmp_path):
    a = write(tmp_path / "a.jsonl", '{"text": " \\n "}\n{"text": "One."}\n')
    b = write(tmp_path / "b.jsonl", "\n \n")
    counts = Counter()
    assert len(list(read_documents([a, b], ReadingConfig("jsonl"), counts))) == 1
    assert counts == {EMPTY_DOCUMENT: 1, EMPTY_FILE: 1}


# Bad input.


@pytest.mark.parametrize("input_format", ["lines", "raw"])
def test_bad_utf8_is_named_or_skipped_and_counted(tmp_path, input_format):
    path = write(tmp_path / "a.txt", b"One.\nTwo.\nb\xe4d\nThree.\n")
    with pytest.raises(ValueError, match=r"a\.txt, line 3: not UTF-8 \(byte 0xe4\)"):
        documents(path, input_format)
    counts = Counter()
    found = documents(path, input_format, on_bad_text="skip", counts=counts)
    assert found == [["One.", "Two.", "Three."]]
    assert counts == {BAD_UTF8: 1}


def test_text_before_a_bad_line_comes_first(tmp_path):
    path = write(tmp_path / "a.txt", b"One.\n\xff\n")
    stream = read_sentences([path], ReadingConfig("lines"))
    assert next(stream).text == "One."
    with pytest.raises(ValueError, match="line 2"):
        next(stream)


def test_files_without_any_text_are_an_error(tmp_path):
    path = write(tmp_path / "a.txt", "\n \n")
    with pytest.raises(ValueError, match="No sentence in the input files"):
        documents(path, "lines")


@pytest.mark.parametrize("name", ["cut.gz", "plain.gz"])
def test_a_damaged_packed_file_is_named(tmp_path, name):
    packed = gzip.compress(np.random.default_rng(1).bytes(3000).hex().encode())
    (tmp_path / "cut.gz").write_bytes(packed[:-1000])
    (tmp_path / "plain.gz").write_bytes(b"not packed\n")
    with pytest.raises(OSError, match=f"{name} cannot be unpacked"):
        documents(str(tmp_path / name), "lines")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_format": "csv"}, "input_format must be one of .*'csv'"),
        ({"on_bad_text": "ignore"}, "on_bad_text must be one of .*'ignore'"),
        ({"language": "English"}, "language must be .*'English'"),
    ],
)
def test_unknown_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        ReadingConfig(**options)


# Size.


@pytest.mark.parametrize(
    ("input_format", "repeats"), [("lines", 1_560_000), ("raw", 300_000)]
)
def test_a_long_line_needs_little_memory(tmp_path, input_format, repeats):
    line = b"A short sentence, \xc3\xa4 and no more. " * repeats  # up to 50 MB
    path = write(tmp_path / "a.txt", line)
    length = 0
    tracemalloc.start()
    for sentence in read_sentences([path], ReadingConfig(input_format)):
        length += len(sentence.text.replace(" ", ""))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert length == len("Ashortsentence,äandnomore.") * repeats
    assert peak < 4_000_000


def test_lines_are_counted_right_after_a_long_one(tmp_path):
    path = write(tmp_path / "a.txt", b"word " * 50_000 + b"\ngood\nbad \xff\n")
    with pytest.raises(ValueError, match="line 3: not UTF-8"):
        documents(path, "lines")


@pytest.mark.parametrize("character", ["a", "é", "漢", "🙂"])
def test_long_lines_without_spaces_are_cut_between_characters(tmp_path, character):
    text = "b" + character * 70_000
    path = write(tmp_path / "a.txt", text)
    counts = Counter()
    found = documents(path, "lines", counts=counts)[0]
    assert "".join(found) == text
    assert max(map(len, found)) <= MAX_SENTENCE_LENGTH
    assert counts[CUT] >= 1


def test_long_sentences_are_cut_at_spaces(tmp_path):
    text = " ".join(f"word{i}" for i in range(4000))
    path = write(tmp_path / "a.txt", text + "\nshort\n")
    counts = Counter()
    found = documents(path, "lines", counts=counts)[0]
    assert " ".join(found) == f"{text} short"
    assert counts == {CUT: 1}


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_progress_adds_up_to_the_size_of_the_file(tmp_path, name):
    hexadecimal = np.random.default_rng(3).bytes(1_300_000).hex()
    text = "\n".join(hexadecimal[i : i + 61] for i in range(0, len(hexadecimal), 61))
    path = write(tmp_path / name, text)
    calls = []
    documents(path, "lines", progress=calls.append)
    assert sum(calls) == os.path.getsize(path)
    assert len(calls) >= 2
