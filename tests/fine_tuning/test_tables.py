"""Tables as people have them, and GLUE's."""

import json

import numpy as np
import pytest

from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning import classification, glue, tables
from data_prep.fine_tuning.tables import Columns

COLUMNS = Columns("text", "other", "label")


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def texts(table):
    return [(e.text, e.text_pair, e.label) for e in table.examples]


EXPECTED = [('say "no', "b", "1"), ("c, d", "", "x y")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", 'other\ttext\tlabel\nb\tsay "no\t1\n\tc, d\tx y\n'),
        ("crlf.tsv", 'other\ttext\tlabel\r\nb\tsay "no\t1\r\n\r\n\tc, d\tx y\r\n'),
        ("bom.tsv", '\ufeffother\ttext\tlabel\nb\tsay "no\t1\n\tc, d\tx y'),
        ("a.csv", '\ufeffother,text,label\r\nb,"say ""no",1\r\n,"c, d",x y\r\n'),
        (
            "a.jsonl",
            '{"text": "say \\"no", "other": "b", "label": 1, "more": null}\n\n'
            '{"text": "c, d", "other": "", "label": "x y"}',
        ),
    ],
)
def test_each_kind_of_file_gives_the_same_examples(tmp_path, name, content):
    table = tables.read_table(write(tmp_path / name, content), COLUMNS)
    assert texts(table) == EXPECTED and table.skipped_rows == 0
    assert [example.index for example in table.examples] == ["0", "1"]


def test_a_csv_value_may_hold_line_ends(tmp_path):
    content = 'text,other,label\n"two\nlines",b,1\n'
    [example] = tables.read_table(write(tmp_path / "a.csv", content), COLUMNS).examples
    assert example.text == "two\nlines"


def test_other_characters_that_end_lines_are_text(tmp_path):
    content = "text\tother\tlabel\na\u2028b\x0bc\x85\tq\t1\n"
    [example] = tables.read_table(write(tmp_path / "a.tsv", content), COLUMNS).examples
    assert example.text == "a\u2028b\x0bc\x85"


BAD = {
    "few.tsv": ("text\tother\tlabel\na\tb\t1\nshort\tb\n", "line 3", "2 columns"),
    "many.tsv": ("text\tother\tlabel\na\tb\tc\t1\na\tb\t1\n", "line 2", "4 columns"),
    "utf.tsv": (b"text\tother\tlabel\na\xff\tb\t1\na\tb\t1\n", "line 2", "UTF-8"),
    "few.csv": ("text,other,label\na,b\na,b,1\n", "line 2", "2 columns"),
    "null.jsonl": (
        '{"text": "a", "other": "b", "label": null}\n'
        '{"text": "a", "other": "b", "label": 1}\n',
        "line 1",
        "label column 'label'",
    ),
    "cut.jsonl": ('{"text": "a", "oth\n{"text":"a","other":"","label":1}', "1", "JSON"),
    "deep.jsonl": (
        "[" * 100_000 + '\n{"text":"a","other":"","label":1}',
        "line 1",
        "not JSON",
    ),
    "list.jsonl": ('["a"]\n{"text":"a","other":"","label":1}', "line 1", "object"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_stops_with_its_line_or_is_counted(tmp_path, name):
    content, line, problem = BAD[name]
    path = write(tmp_path / name, content)
    with pytest.raises(ValueError, match=f"{line}.*{problem}") as raised:
        tables.read_table(path, COLUMNS)
    assert name in str(raised.value)
    table = tables.read_table(path, COLUMNS, on_bad_row="skip")
    assert table.skipped_rows == 1 and len(table.examples) == 1


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.tsv", "text\tlabel\na\t1\n", "no column 'other'"),
        ("a.csv", "text,other,labels\na,b,1\n", "no column 'label' for the label"),
        ("a.tsv", "text\tother\tlabel\n", "holds no rows"),
        ("a.jsonl", "", "holds no rows"),
        ("a.csv", 'text,other,label\n"open,b,1\n', "not CSV"),
        ("a.csv", b"text,other,label\na\xff,b,1\n", "not UTF-8"),
        ("A.CSV", "text,other,labels\na,b,1\n", "it has 'text', 'other', 'labels'"),
        ("a.tsv", "text\tother\tother\tlabel\na\tb\tc\t1\n", "2 columns 'other'"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path, name, content, problem):
    path = write(tmp_path / name, content)
    for on_bad_row in tables.ON_BAD_ROW:
        with pytest.raises(ValueError, match=problem):
            tables.read_table(path, COLUMNS, on_bad_row)


def test_a_line_without_end_is_not_listed_whole(tmp_path):
    path = write(tmp_path / "a.tsv", "word " * 100_000)
    with pytest.raises(ValueError, match="no column 'text'") as raised:
        tables.read_table(path, COLUMNS)
    assert len(str(raised.value)) < 600


def test_unknown_labels_and_words_for_numbers_are_named(tmp_path):
    content = "text\tother\tlabel\na\tb\t1.5\na\tb\tx\n"
    examples = tables.read_table(write(tmp_path / "a.tsv", content), COLUMNS).examples
    with pytest.raises(ValueError, match=r"line 3: the label 'x' is none of '1.5'"):
        tables.label_values(examples, ["1.5"])
    with pytest.raises(ValueError, match="line 3: the label 'x' is not a number"):
        tables.label_values(examples, None)
    assert tables.label_values(examples, ["x", "1.5"]) == [1, 0]
    assert tables.label_values(examples[:1], None) == [1.5]


COUNTS = {
    "rte": (2490, 277, 3000),
    "mrpc": (3668, 408, 1725),
    "sts-b": (5749, 1500, 1379),
    "cola": (8551, 1043, 1063),
    "wnli": (635, 71, 146),
}


@pytest.mark.parametrize("name", COUNTS)
def test_every_row_of_the_published_files_is_read(shared_data, name):
    task = glue.GLUE[name]
    folder = glue.task_folder(shared_data / "glue", name)
    assert glue.task_folder(folder, name) == folder
    train = tables.read_table(folder / "train.tsv", task.train)
    dev = tables.read_table(folder / "dev.tsv", task.train)
    test = tables.read_table(folder / "test.tsv", task.test)
    assert tuple(len(t.examples) for t in (train, dev, test)) == COUNTS[name]
    for table in (train, dev):
        values = tables.label_values(table.examples, task.labels)
        assert len(set(values)) > 1
    # The leaderboard's numbers of the rows.
    assert [example.index for example in test.examples] == [
        str(number) for number in range(COUNTS[name][2])
    ]


def test_rows_have_the_layout_and_truncation_of_the_original(tmp_path):
    words = [f"w{number}" for number in range(30)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    path = write(tmp_path / "vocab.txt", "\n".join(vocabulary))
    tokenizer = AlbertTokenizer(vocab_file=path)
    pairs = [
        ("w0 w1", "w2"),
        ("w0 w1 w2 w3 w4", "w5 w6 w7"),
        ("w0", ""),
        ("w9 q", "w8"),
    ]
    examples = [
        tables.Example(str(i), a, b, None, "") for i, (a, b) in enumerate(pairs)
    ]
    statistics = {}
    rows = list(
        classification.classification_rows(
            examples, [0, 1, 1, 0], tokenizer, 8, statistics
        )
    )
    first = tokenizer.token_to_id("w0")
    assert rows[0]["input_ids"] == [2, first, first + 1, 3, first + 2, 3]
    assert rows[0]["segment_ids"] == [0, 0, 0, 0, 1, 1]
    # Eight pieces, three of them special: three of five and two of three.
    kept = [2, *range(first, first + 3), 3, first + 5, first + 6, 3]
    assert rows[1]["input_ids"] == kept
    # An empty second text is a segment still.
    assert rows[2]["input_ids"] == [2, first, 3, 3]
    assert [row["label_ids"] for row in rows] == [0, 1, 1, 0]
    expected = {"rows": 4, "pieces": 12, "unknown_pieces": 1, "truncated_rows": 1}
    assert statistics == expected
    warnings = classification.warnings_of("train", statistics)
    assert len(warnings) == 2
    assert "8.3%" in warnings[0] and "25.0% of the rows of train" in warnings[1]


def test_submissions_are_as_the_leaderboard_reads_them():
    probabilities = np.array([[0.9, 0.1], [0.25, 0.75]])
    lines = glue.submission_lines(
        ["7", "9"], {"probabilities": probabilities}, ["entailment", "not_entailment"]
    )
    assert lines == ["index\tprediction", "7\tentailment", "9\tnot_entailment"]
    values = {"values": np.array([5.4, -0.2, 3.14159])}
    lines = glue.submission_lines("abc", values, None, (0.0, 5.0))
    assert lines[1:] == ["a\t5.000", "b\t0.000", "c\t3.142"]
    assert glue.score_lines({"probabilities": probabilities}, ["x", "y"]) == [
        "x\ty",
        "0.9\t0.1",
        "0.25\t0.75",
    ]
    assert glue.score_lines(values, None)[1:] == ["5.4", "-0.2", "3.14159"]


def test_the_table_of_tasks_is_whole():
    assert len(glue.GLUE) == 9
    for task in glue.GLUE.values():
        assert task.train.label is not None and task.test.label is None
        assert next(iter(task.dev_files)) == "dev"
        json.dumps([task.labels, task.scores, task.bounds])
    assert glue.GLUE["mnli"].test_files.keys() == {"MNLI-m", "MNLI-mm", "AX"}
