"""A file is replaced by one of its own kind only."""

import io
import json
import os

import numpy as np
import pytest

from albert_tf import file_kinds
from albert_tf.files import write_whole

PNG = b"\x89PNG\r\n\x1a\n\0\0"
CURVES = PNG + b"tEXtSoftware\0albert-tf learning curves"
PAGE = b"<!DOCTYPE html>\n<!-- albert-tf learning curves -->\n"
TFLITE = b"\x1c\0\0\0TFL3\0"
ONNX = b"\x08\x09\x12\x09albert-tf"
SENTENCEPIECE = b"\n\x0e\n\x05<pad>\x15\0\0\0\0\x18\x03\n\x0e"


def arrays(**values):
    file = io.BytesIO()
    np.savez(file, **values)
    return file.getvalue()


def as_json(value):
    return json.dumps(value).encode()


REPORT = {"rows": 3, "shares": {}}
KINDS = {
    "figure": (PNG + b"1", PNG + b"2"),
    "curves": (CURVES + b"1", CURVES + b"2"),
    "page": (PAGE + b"1", PAGE + b"<html>"),
    "arrays": (arrays(a=[1]), arrays(b=[2, 3])),
    "tflite": (TFLITE + b"1", TFLITE + b"2"),
    "onnx": (ONNX + b"1", b"\x08\x08\x12\x07pytorch2"),
    "vocabulary": (SENTENCEPIECE, SENTENCEPIECE + b"more"),
    "report": (as_json(REPORT), as_json({"rows": 4, "name": "x"})),
    "answers": (as_json({"q1": "Paris"}), as_json({"q2": "", "q3": "x"})),
    "odds": (as_json({"o1": 1.5, "o2": "-inf"}), as_json({"o3": 2, "o4": None})),
    "lists": (as_json({"l1": [{}]}), as_json({"l3": []})),
    "table": (b"index\tprediction\n1\tyes\n", b"index\tprediction\r\n"),
    "csv": (b"checkpoint,layer,l2\na,1,2\n", b"checkpoint,layer,cosine\n"),
    "numbers": (b"bad\tgood\n0.5\t5e-01\n", b"value\n-7.25\n"),
    "text": (b"It rains.\n", b"The cat sat.\n"),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_file_is_replaced_by_its_own_kind_and_by_no_other(name, tmp_path):
    path = tmp_path / "file"
    old, _ = KINDS[name]
    for other, (_, new) in KINDS.items():
        path.write_bytes(old)
        if other == name != "text":
            write_whole(path, new)
            assert path.read_bytes() == new
            continue
        with pytest.raises(FileExistsError, match="file is there already") as caught:
            write_whole(path, new)
        assert "\n" not in str(caught.value)
        assert path.read_bytes() == old
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("name", KINDS)
def test_a_missing_file_an_empty_one_and_the_same_one_are_replaced(name, tmp_path):
    for _ in range(2):
        write_whole(tmp_path / "file", KINDS[name][0])
    (tmp_path / "file").write_bytes(b"")
    write_whole(tmp_path / "file", KINDS[name][0])
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    write_whole(tmp_path / "link", KINDS[name][0])
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"bad\tgood\n1e+10\t-2.5e0\n", b"value\n-inf\n"),
        (b"value\ninf\n", b"bad\tgood\nnan\t1.5e+300\n"),
        (as_json({"q1": "inf"}), as_json({"q2": "Paris"})),
        (as_json({"q1": "Paris", "q2": "-inf"}), as_json({"q3": "inf", "q4": ""})),
        (as_json({"o1": "inf", "o2": None}), as_json({"o3": 2.5})),
    ],
)
def test_infinite_and_large_numbers_are_numbers_and_texts_are_texts(old, new, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(old)
    write_whole(path, new)
    assert path.read_bytes() == new


@pytest.mark.parametrize("old", [{"q1": "inf", "q2": 2}, {"q1": "x", "q2": None}])
def test_a_text_of_infinity_beside_numbers_is_no_answer(old, tmp_path):
    (tmp_path / "file").write_bytes(as_json(old))
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "file", as_json({"q3": "Paris"}))


@pytest.mark.parametrize(
    "old", [b'{"rows": 3', b"[" * 99_999, b'["rows"]', b'{"a": {}}']
)
def test_json_of_others_and_damaged_json_are_kept(old, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(old)
    with pytest.raises(FileExistsError):
        write_whole(path, as_json(REPORT))
    assert path.read_bytes() == old


def test_devices_and_folders_are_no_outputs(tmp_path):
    for path in ("/dev/null", tmp_path):
        with pytest.raises(FileExistsError, match="is a folder or a device"):
            write_whole(path, b"1")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileExistsError, match="pipe is a folder or a device"):
        write_whole(tmp_path / "pipe", b"1")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("d/report.json", "records", "end in .json hold JSON"),
        ("x.png", "a table", "end in .png hold a figure"),
        ("X.MODEL", "records", "end in .model hold a vocabulary"),
        ("x.tfrecord", "a table", "end in .tfrecord hold records"),
    ],
)
def test_a_suffix_of_other_content_is_refused(name, content, words):
    with pytest.raises(ValueError, match=words) as caught:
        file_kinds.check_suffix(name, content)
    assert name in str(caught.value) and content in str(caught.value)


@pytest.mark.parametrize("name", ["x", "x.tfrecord", "x.v2", "x-00001-of-00002"])
def test_other_suffixes_are_free(name):
    file_kinds.check_suffix(name, "records")
