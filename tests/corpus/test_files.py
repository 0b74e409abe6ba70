"""Parts of files are together the whole text, however it is divided."""

import gzip
import itertools
import json

import numpy as np
import pytest

from albert_tf.storage import as_path
from data_prep.corpus import files
from data_prep.corpus.files import Part
from data_prep.corpus.reader import ReadingConfig, read_parts, read_sentences


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(files, "_SMALLEST_PART", 700)


def divided(paths, input_format):
    return files.divide(files.stat_files(paths), input_format)


def random_text(rng, size, breaks):
    words = ["One.", "Two ä.", "three", "\n", "漢字。", " ", *breaks]
    return "".join(words[i] + " \n"[i % 2] for i in rng.integers(len(words), size=size))


def read(groups, input_format):
    groups = [read_parts(group, ReadingConfig(input_format)) for group in groups]
    return [sentence.text for group in groups for sentence in group]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("input_format", ["lines", "raw"])
def test_parts_hold_the_sentences_of_the_files(seed, input_format, tmp_path):
    rng = np.random.default_rng(seed)
    paths = []
    for number in range(9):
        path = tmp_path / f"{number}.txt"
        size = int(rng.integers(1, 2000))
        path.write_text(random_text(rng, size, ["\n\n", "\n \t\r\n"]) + "End.")
        paths.append(str(path))
    paths.append(str(tmp_path / "x.txt.gz"))
    with gzip.open(paths[-1], "wt") as file:
        file.write(random_text(rng, 3000, ["\n\n"]))
    groups = divided(paths, input_format)
    assert len(groups) > 10
    whole = [s.text for s in read_sentences(paths, ReadingConfig(input_format))]
    assert read(groups, input_format) == whole
    # A file's parts follow each other without a gap; a packed file is whole.
    flat = [part for group in groups for part in group]
    assert len([part for part in flat if part.path == paths[-1]]) == 1
    for path, own in itertools.groupby(flat, key=lambda part: part.path):
        bounds = [(part.start, part.end) for part in own]
        assert bounds[0][0] == 0 and bounds[-1][1] == (tmp_path / path).stat().st_size
        assert all(a[1] == b[0] for a, b in itertools.pairwise(bounds))


def test_documents_are_not_divided(tmp_path):
    documents = [[f"Document {n}.", "And more."] * (1 + n % 9) for n in range(300)]
    path = tmp_path / "a.txt"
    path.write_text("\n\n".join("\n".join(document) for document in documents))
    groups = divided([str(path)], "lines")
    assert len(groups) > 10
    found = []
    for group in groups:
        sentences = read_parts(group, ReadingConfig("lines"))
        for _, own in itertools.groupby(sentences, key=lambda s: s[1:]):
            found.append([sentence.text for sentence in own])
    assert found == documents


def test_json_lines_are_divided_between_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    lines = [json.dumps({"text": f"Document {n}. It ends."}) for n in range(200)]
    path.write_text("\n".join(lines))
    groups = divided([str(path)], "jsonl")
    assert len(groups) > 5
    expected = [t for n in range(200) for t in (f"Document {n}.", "It ends.")]
    assert read(groups, "jsonl") == expected


def test_a_file_without_a_break_is_one_part(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("word " * 60_000)
    (group,) = divided([str(path)], "raw")
    assert group == [Part(str(path), 0, 300_000)]


def test_small_files_share_a_part(tmp_path):
    paths = []
    for number in range(40):
        path = tmp_path / f"{number:02d}.txt"
        path.write_text("x" * 99 + "\n")
        paths.append(str(path))
    groups = divided(paths, "raw")
    assert [len(group) for group in groups] == [7, 7, 7, 7, 7, 5]
    assert [part.path for group in groups for part in group] == paths


def test_large_parts_do_not_grow_with_the_text():
    packed = [files.FileSnapshot(f"{n}.gz", 10_000_000, 0) for n in range(500)]
    assert len(files.divide(packed, "raw")) == 500


def test_an_error_in_a_part_names_the_line_of_the_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"good line\n\n" * 400 + b"b\xe4d\n")
    groups = divided([str(path)], "lines")
    assert len(groups) > 3
    with pytest.raises(ValueError, match=r"a\.txt, line 801: not UTF-8"):
        read(groups, "lines")


def test_files_that_change_are_noticed(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("One.\nTwo.\n")
    snapshots = files.stat_files([str(path)])
    files.check_unchanged(snapshots)
    path.write_text("One.\nTwo, longer.\n")
    with pytest.raises(OSError, match=r"a\.txt changed or vanished"):
        files.check_unchanged(snapshots)
    path.unlink()
    with pytest.raises(OSError, match=r"a\.txt changed or vanished"):
        files.check_unchanged(snapshots)


def test_a_file_that_shrinks_is_an_error(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("One.\nTwo.\n")
    with pytest.raises(OSError, match=r"a\.txt became shorter"):
        read([[Part(str(path), 0, 11)]], "lines")


def test_half_of_a_surrogate_pair_is_no_unicode():
    assert files.is_unicode("漢🙂")
    assert not files.is_unicode("half \ud800")


def test_a_folder_that_cannot_be_written_is_named_with_its_flag(tmp_path):
    files.make_writable_folder(tmp_path / "a" / "b", "output_file")
    assert not list((tmp_path / "a" / "b").iterdir())
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"file/a cannot be made .* another --work_dir"):
        files.make_writable_folder(tmp_path / "file" / "a", "work_dir")


# Buckets.


@pytest.mark.parametrize("input_format", ["lines", "raw"])
def test_files_of_a_bucket_are_divided_and_read_as_those_of_a_disk(
    input_format, bucket, tmp_path
):
    rng = np.random.default_rng(5)
    pairs = []
    for name, size in (("a.txt", 700), ("b.txt", 3), ("c.txt.gz", 400)):
        content = random_text(rng, size, ["\n\n"]).encode()
        content = gzip.compress(content) if name.endswith(".gz") else content
        (tmp_path / name).write_bytes(content)
        as_path(f"{bucket}/{name}").write_bytes(content)
        pairs.append((str(tmp_path / name), f"{bucket}/{name}"))
    local, stored = (divided(paths, input_format) for paths in zip(*pairs, strict=True))
    assert [len(group) for group in stored] == [len(group) for group in local]
    parts = [[part[1:] for part in group] for group in local]
    assert (
        parts == [[part[1:] for part in group] for group in stored] and len(parts) > 3
    )
    assert read(stored, input_format) == read(local, input_format)


def test_files_of_a_bucket_that_change_or_shrink_are_noticed(bucket):
    path = as_path(f"{bucket}/a.txt")
    path.write_bytes(b"One.\nTwo.\n")
    snapshots = files.stat_files([str(path)])
    assert snapshots[0].size == 10
    files.check_unchanged(snapshots)
    path.write_bytes(b"One.\nSix.\n")  # as long as before
    with pytest.raises(OSError, match=r"a\.txt changed or vanished"):
        files.check_unchanged(snapshots)
    path.unlink()
    with pytest.raises(OSError, match=r"a\.txt changed or vanished"):
        files.check_unchanged(snapshots)
    path.write_bytes(b"One.\n")
    with pytest.raises(OSError, match=r"a\.txt became shorter"):
        read([[Part(str(path), 0, 11)]], "lines")


def test_an_error_in_a_part_of_a_bucket_names_the_line_of_the_file(bucket):
    path = as_path(f"{bucket}/a.txt")
    path.write_bytes(b"good line\n\n" * 400 + b"b\xe4d\n")
    with pytest.raises(ValueError, match=r"/a\.txt, line 801: not UTF-8"):
        read(divided([str(path)], "lines"), "lines")


def test_functions_of_files_are_called_in_order(bucket):
    numbers = list(range(50))
    for paths in (["a"], [f"{bucket}/a", "b"]):
        assert files.map_files(lambda n: n * n, numbers, paths) == [
            n * n for n in numbers
        ]
    with pytest.raises(ZeroDivisionError):
        files.map_files(lambda n: 1 // n, numbers, [bucket])


def test_paths_that_are_absolute_stay(bucket, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert files.absolute("a/../b") == str(tmp_path / "b")
    for path in (f"{tmp_path}/c", f"{bucket}/a"):
        assert files.absolute(path) == path
