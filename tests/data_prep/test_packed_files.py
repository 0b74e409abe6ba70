"""Packed files are read as if they were not packed."""

import gzip

import numpy as np
import pyarrow as pa
import pytest

from data_prep import packed_files
from data_prep.corpus.files import read_content


def pack(content, suffix):
    if suffix == ".gz":
        return gzip.compress(content)
    return pa.compress(content, codec="zstd", asbytes=True) if suffix else content


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst", ".ZST"])
@pytest.mark.parametrize("size", [0, 1, 70_001, 1_234_567])
def test_content_is_that_of_the_unpacked_file(suffix, size, tmp_path):
    content = np.random.default_rng(size).bytes(size)
    path = tmp_path / f"x.bin{suffix}"
    path.write_bytes(pack(content, suffix.lower()))
    assert read_content(path) == content


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_several_streams_follow_each_other(suffix, tmp_path):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(pack(b"one\n", suffix) + pack(b"two\n", suffix))
    assert read_content(path) == b"one\ntwo\n"


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("damage", ["cut", "text"])
def test_damage_is_told_with_the_file(suffix, damage, tmp_path):
    path = tmp_path / f"x{suffix}"
    packed = pack(np.random.default_rng(1).bytes(200_000), suffix)
    path.write_bytes(packed[:-999] if damage == "cut" else b"not packed at all\n")
    with pytest.raises(OSError, match=f"x{suffix} cannot be unpacked .*copy it again"):
        read_content(path)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.csv", ".csv"),
        ("a.CSV.gz", ".csv"),
        ("a.b.jsonl.zst", ".jsonl"),
        ("s3://bucket/a.tsv.gz", ".tsv"),
        ("a.gz", ""),
    ],
)
def test_kinds(name, kind):
    assert packed_files.kind(name) == kind
