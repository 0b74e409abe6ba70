"""Records are read back, and damage is found."""

import tensorflow as tf

from albert_tf.records.encoding import split_frames
from albert_tf.records.features import Feature
from albert_tf.records.reader import (
    find_corruption,
    find_miscount,
    parsing_spec,
    read_strings,
)
from albert_tf.records.sidecar import read_record_set
from albert_tf.records.writer import write_records
from helpers import tiny


def test_the_first_damaged_record_is_found(tmp_path):
    paths = [tiny.write_rows(tmp_path / name, 5) for name in "ab"]
    assert find_corruption(paths) is None
    content = bytearray(paths[1].read_bytes())
    frames = split_frames(bytes(content))
    start = len(frames[0]) + len(frames[1])
    for place in (start, start + 9, start + 40, start + len(frames[2]) - 1):
        damaged = content.copy()
        damaged[place] ^= 1
        paths[1].write_bytes(damaged)
        assert find_corruption(paths) == (str(paths[1]), start)
    paths[1].write_bytes(content[: start + 20])
    assert find_corruption(paths) == (str(paths[1]), start)


def test_a_file_with_another_number_of_rows_is_found(tmp_path):
    paths = [str(tiny.write_rows(tmp_path / name, 5)) for name in "ab"]
    assert find_miscount(paths, [5, 5]) is None
    assert find_miscount(paths, [5, 6]) == (paths[1], 6, 5)


def test_strings_of_all_files_are_read_in_order(tmp_path):
    features = {"index": Feature((), "string"), "label": Feature(())}
    paths = [tmp_path / name for name in "ab"]
    for path, names in zip(paths, (["è", ""], ["言"]), strict=True):
        rows = [{"index": name.encode(), "label": 1} for name in names]
        write_records(path, rows, features, {})
    strings = read_strings(read_record_set(paths, {}))
    assert {name: list(values) for name, values in strings.items()} == {
        "index": ["è", "", "言"]
    }


def test_ragged_lists_of_lists_are_parsed(tmp_path):
    features = {"options": Feature((None, None)), "level": Feature(())}
    rows = [
        {"options": [[1, 2], [3]], "level": 0},
        {"options": [[4]], "level": 1},
    ]
    path = tmp_path / "rows"
    write_records(path, rows, features, {})
    [parsed] = (
        tf.data.TFRecordDataset(str(path))
        .batch(2)
        .map(lambda block: tf.io.parse_example(block, parsing_spec(features)))
    )
    assert parsed["options"].to_list() == [[[1, 2], [3]], [[4]]]
    assert parsed["level"].numpy().tolist() == [0, 1]
