"""Converted rows are found again by what they were made of, and by nothing else."""

import threading

import pytest

from albert_tf import files, locks, partial_files
from albert_tf.records.features import classifier_features
from albert_tf.records.reader import read_rows
from albert_tf.records.sidecar import sidecar_path
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning import cache
from helpers.fine_tuning_toys import write_vocabulary


class Maker:
    """Counts how often rows are made."""

    def __init__(self):
        self.made = 0

    def __call__(self, statistics):
        self.made += 1
        row = {"input_ids": [1, 2], "segment_ids": [0, 0], "label_ids": 1}

        def rows():
            yield {**row, "index": b"7"}
            statistics["rows"] = 1

        return classifier_features("int64"), 1, rows()


@pytest.fixture
def tokenizer(tmp_path):
    return AlbertTokenizer(vocab_file=write_vocabulary(tmp_path))


def test_rows_are_made_once_and_anew_when_anything_changes(tmp_path, tokenizer):
    make, file = Maker(), tmp_path / "data.tsv"
    file.write_text("a")
    folder = tmp_path / "cache"

    def rows(name="toy", tokenizer=tokenizer, **settings):
        return cache.cached_rows(folder, name, [file], tokenizer, settings, make)

    first = rows(max_seq_length=9)
    assert first.metadata["statistics"] == {"rows": 1}
    assert first.metadata["max_seq_length"] == 9 and first.total_rows == 1
    assert rows(max_seq_length=9) == first and make.made == 1
    rows(max_seq_length=8)
    cased = AlbertTokenizer(vocab_file=tmp_path / "vocab.txt", lower_case=False)
    rows(max_seq_length=9, tokenizer=cased)
    assert make.made == 3
    file.write_text("b")
    changed = rows(max_seq_length=9)
    assert make.made == 4
    assert changed.metadata["content_sha256"] != first.metadata["content_sha256"]
    # Not the name of the input, but its content.
    file.rename(tmp_path / "moved.tsv")
    file = tmp_path / "moved.tsv"
    assert rows(max_seq_length=9) == changed and make.made == 4


def test_a_damaged_file_is_made_again(tmp_path, tokenizer):
    make, file = Maker(), tmp_path / "data.tsv"
    file.write_text("a")
    arguments = (tmp_path / "c", "toy", [file], tokenizer, {"max_seq_length": 9}, make)
    [path] = cache.cached_rows(*arguments).paths
    with open(path, "ab") as opened:
        opened.write(b"more")
    cache.cached_rows(*arguments)
    sidecar_path(path).unlink()
    cache.cached_rows(*arguments)
    assert make.made == 3


def test_rows_of_an_earlier_conversion_are_made_again(tmp_path, tokenizer, monkeypatch):
    make, file = Maker(), tmp_path / "data.tsv"
    file.write_text("a")
    arguments = (tmp_path / "c", "toy", [file], tokenizer, {"max_seq_length": 9}, make)
    now = cache.cached_rows(*arguments)
    monkeypatch.setattr(cache, "VERSION", cache.VERSION + 1)
    later = cache.cached_rows(*arguments)
    assert make.made == 2
    # A run that was stopped goes on with them: its identity has this digest.
    assert later.metadata["content_sha256"] == now.metadata["content_sha256"]
    assert cache.cached_rows(*arguments) == later and make.made == 2


def test_rows_that_cannot_be_made_leave_nothing(tmp_path, tokenizer):
    file = tmp_path / "data.tsv"
    file.write_text("a")

    def make(statistics):
        def rows():
            yield {"input_ids": [1], "segment_ids": [0], "label_ids": 1, "index": b""}
            raise ValueError("line 2 is bad")

        return classifier_features("int64"), 2, rows()

    with pytest.raises(ValueError, match="line 2"):
        cache.cached_rows(tmp_path / "cache", "toy", [file], tokenizer, {}, make)
    assert not list((tmp_path / "cache").iterdir())


def test_an_input_that_is_missing_is_named(tmp_path, tokenizer):
    with pytest.raises(FileNotFoundError, match=r"no file .*dev\.tsv: check"):
        cache.cached_rows(
            tmp_path, "toy", [tmp_path / "dev.tsv"], tokenizer, {}, Maker()
        )


def test_rows_that_are_fewer_than_the_sidecar_says_are_made_again(tmp_path, tokenizer):
    make, file = Maker(), tmp_path / "data.tsv"
    file.write_text("a")
    arguments = (tmp_path / "c", "toy", [file], tokenizer, {"max_seq_length": 9}, make)
    [path] = cache.cached_rows(*arguments).paths
    sidecar = files.read_json(sidecar_path(path))
    sidecar_path(path).write_bytes(files.json_bytes({**sidecar, "rows": 36_000}))
    assert cache.cached_rows(*arguments).total_rows == 1
    assert make.made == 2


def test_of_two_runs_with_one_cache_one_makes_the_rows(tmp_path, tokenizer):
    make, file, found = Maker(), tmp_path / "data.tsv", []
    file.write_text("a")
    together = threading.Barrier(3)

    def run():
        together.wait()
        found.append(
            cache.cached_rows(tmp_path / "c", "t", [file], tokenizer, {}, make)
        )

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert make.made == 1
    assert found[0] == found[1] == found[2] and found[0].total_rows == 1
    assert len(list((tmp_path / "c").iterdir())) == 2


def test_runs_on_disks_without_locks_leave_whole_rows(tmp_path, tokenizer, monkeypatch):
    """A second run makes the same rows while the first one does."""
    monkeypatch.setattr(locks, "try_lock", lambda _: None)
    monkeypatch.setattr(partial_files, "try_lock", lambda _: None)
    file, sets = tmp_path / "data.tsv", []
    file.write_text("a")

    def make(statistics):
        features, count, rows = Maker()(statistics)

        def slow():
            yield from rows
            if not sets:
                sets.append(None)
                sets.append(read())

        return features, count, slow()

    def read():
        return cache.cached_rows(tmp_path / "c", "toy", [file], tokenizer, {}, make)

    assert read() == sets[1] and sets[1].total_rows == 1
    [path] = sets[1].paths
    assert len(list(read_rows(path))) == 1
    assert len(list((tmp_path / "c").iterdir())) == 2
