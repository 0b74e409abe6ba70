"""Labels as tables hold them."""

import pytest

from data_prep.fine_tuning import row_labels, tables
from data_prep.fine_tuning.tables import Columns

COLUMNS = Columns("text", "other", "label")


def write(path, content):
    path.write_text(content)
    return path


def test_unknown_labels_and_words_for_numbers_are_named(tmp_path):
    content = "text\tother\tlabel\na\tb\t1.5\na\tb\tx\n"
    examples = tables.read_table(write(tmp_path / "a.tsv", content), COLUMNS).examples
    with pytest.raises(ValueError, match=r"line 3: the label 'x' is none of '1.5'"):
        row_labels.label_values(examples, ["1.5"])
    with pytest.raises(ValueError, match="line 3: the label 'x' is not a number"):
        row_labels.label_values(examples, None)
    assert row_labels.label_values(examples, ["x", "1.5"]) == [1, 0]
    # A model that was trained on " x" as a class of its own keeps it.
    spaced = [tables.Example("", "", None, label, "") for label in ("x", " x", "x ")]
    assert row_labels.label_values(spaced, [" x", "x"]) == [1, 0, 1]
    assert row_labels.count_respelled(spaced) == 2
    assert row_labels.label_values(examples[:1], None) == [1.5]


def test_labels_to_learn_are_sorted_and_at_least_two(tmp_path):
    path = write(tmp_path / "a.tsv", "text\tother\tlabel\na\t\tz\na\t\tb\na\t\tz\n")
    assert row_labels.read_labels(path, COLUMNS) == ["b", "z"]
    path = write(tmp_path / "b.tsv", "text\tother\tlabel\na\t\tz\n")
    with pytest.raises(ValueError, match="one label only, 'z'"):
        row_labels.read_labels(path, COLUMNS)
    # Of labels that differ in white space alone one is left.
    path = write(tmp_path / "d.tsv", "text\tother\tlabel\na\t\tz\na\t\t z \n")
    with pytest.raises(ValueError, match="one label only, 'z'"):
        row_labels.read_labels(path, COLUMNS)
    content = '{"text": "a", "other": "", "label": "x\\ty"}\n' * 1
    content += '{"text": "a", "other": "", "label": "z"}\n'
    path = write(tmp_path / "c.jsonl", content)
    with pytest.raises(ValueError, match="holds a tab, line end"):
        row_labels.read_labels(path, COLUMNS)


def test_whole_numbers_of_json_are_one_class_with_and_without_a_point(tmp_path):
    labels = ["1", "1.0", '"1"', '"2.0"', "1.5", "0.0", "-3e0", "true"]
    lines = [f'{{"text": "a", "other": "b", "label": {label}}}' for label in labels]
    path = write(tmp_path / "a.jsonl", "\n".join(lines))
    names = ["-3", "0", "1", "1.5", "2.0", "true"]
    assert row_labels.read_labels(path, COLUMNS) == names
    examples = tables.read_table(path, COLUMNS).examples
    assert row_labels.label_values(examples, names) == [2, 2, 2, 4, 3, 1, 0, 5]
    assert row_labels.count_respelled(examples) == 3
    # A model that was trained on both as classes of their own keeps them.
    assert row_labels.label_values(examples[:3], ["1", "1.0"]) == [0, 1, 0]
    assert row_labels.label_values(examples[1:2], None) == [1.0]
    # In other tables labels are text.
    path = write(tmp_path / "a.tsv", "text\tother\tlabel\na\t\t1\na\t\t1.0\n")
    assert row_labels.read_labels(path, COLUMNS) == ["1", "1.0"]
