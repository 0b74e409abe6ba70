"""Tables of text as people have them."""

import csv
import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_prep.fine_tuning import tables
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


def test_a_csv_value_may_be_longer_than_the_csv_modules_limit(tmp_path):
    limit = csv.field_size_limit()
    long = "word " * 40_000
    path = write(tmp_path / "a.csv", f'text,other,label\n"{long}",b,1\n')
    [example] = tables.read_table(path, COLUMNS).examples
    assert example.text == long and len(long) > limit
    assert csv.field_size_limit() == limit


@pytest.mark.parametrize("blank", ["", "   ", "\t", "\u00a0"])
def test_a_line_of_white_space_is_no_row_of_a_jsonl_file(tmp_path, blank):
    row = '{"text": "a", "other": "b", "label": "x"}'
    path = write(tmp_path / "a.jsonl", f"{row}\n{blank}\n{row}\n{blank}")
    table = tables.read_table(path, COLUMNS)
    assert len(table.examples) == 2 and table.skipped_rows == 0


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
    "text_list.jsonl": (
        '{"text": ["a", "b"], "other": "b", "label": 1}\n'
        '{"text": "a", "other": "b", "label": 1}\n',
        "line 1",
        r"the text column 'text' holds a list, \['a', 'b'\]",
    ),
    "label_object.jsonl": (
        '{"text": "a", "other": "b", "label": 1}\n'
        '{"text": "a", "other": "b", "label": {"name": "x"}}\n',
        "line 2",
        "the label column 'label' holds an object",
    ),
    "pair_list.jsonl": (
        '{"text": "a", "other": [], "label": true}\n'
        '{"text": "a", "other": "b", "label": true}\n',
        "line 1",
        "the second text column 'other' holds a list",
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


def test_what_to_do_with_bad_rows_is_one_of_two(tmp_path):
    path = write(tmp_path / "a.tsv", "text\tother\tlabel\na\tb\t1\n")
    with pytest.raises(ValueError, match=r"error, skip\. Received 'drop'"):
        tables.read_table(path, COLUMNS, "drop")


def test_parquet_is_read_as_json_lines_are(tmp_path):
    rows = [
        {"text": 'say "no', "other": "b", "label": 1, "more": None},
        {"text": "c, d", "other": "", "label": 2, "more": [1]},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    found = tables.read_table(tmp_path / "a.parquet", COLUMNS)
    assert texts(found) == [('say "no', "b", "1"), ("c, d", "", "2")]
    assert [e.place.split(", ")[-1] for e in found.examples] == ["line 1", "line 2"]
    with pytest.raises(
        tables.MissingColumnError, match="no column 'title' for the text"
    ):
        tables.read_table(tmp_path / "a.parquet", Columns("title"))
    with pytest.raises(ValueError, match="line 1: the text column 'more' has no value"):
        tables.read_table(tmp_path / "a.parquet", Columns("more"))
    dates = pa.Table.from_pylist([{"text": datetime.date(2026, 1, 2)}])
    pq.write_table(dates, tmp_path / "b.parquet")
    with pytest.raises(ValueError, match="line 1: the text column 'text' holds date"):
        tables.read_table(tmp_path / "b.parquet", Columns("text"))
    (tmp_path / "c.parquet").write_text("text\nhello\n")
    with pytest.raises(ValueError, match=r"c\.parquet is not Parquet"):
        tables.read_table(tmp_path / "c.parquet", Columns("text"))
