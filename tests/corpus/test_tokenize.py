"""Input files become a tokenized text, in any number of parts and processes."""

import contextlib
import os
import threading

import numpy as np
import pytest

from data_prep.corpus import files
from data_prep.corpus.files import divide, stat_files
from data_prep.corpus.tokenize import Encoder, TextConfig, prepare_text
from data_prep.parallel import Workers
from helpers.letters import TOKENIZER, make_documents


def prepare(paths, input_format, folder, workers=1):
    folder.mkdir(exist_ok=True)
    encoder = Encoder(TOKENIZER, TextConfig(input_format), 64, str(folder))
    read = []
    with Workers(workers) as processes:
        text = prepare_text(
            stat_files(paths), encoder, processes, read.append, (0.4, 0.7)
        )
    return text, read


def ids_of(text):
    return np.concatenate([text.load(n).ids for n in range(len(text.names))])


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_SMALLEST_PART", 3000)
    documents = make_documents(300, np.random.default_rng(1))
    (tmp_path / "text.txt").write_text("\n\n".join(map("\n".join, documents)))
    return str(tmp_path / "text.txt")


def test_parts_and_processes_change_nothing(path, tmp_path, monkeypatch):
    one, read = prepare([path], "lines", tmp_path / "a")
    two, _ = prepare([path], "lines", tmp_path / "b", workers=2)
    assert len(one.names) > 5 and one.sha256 == two.sha256
    assert sum(read) == os.path.getsize(path)
    monkeypatch.setattr(files, "_SMALLEST_PART", 1 << 20)
    whole, _ = prepare([path], "lines", tmp_path / "c")
    assert len(whole.names) == 1
    assert np.array_equal(ids_of(one), ids_of(whole))
    assert one.statistics == whole.statistics
    assert one.first_documents[-1] == 300 and not one.continues.any()
    assert one.tokens.sum() == len(ids_of(one))


def test_a_raw_file_is_one_document_in_however_many_parts(path, tmp_path):
    text, _ = prepare([path], "raw", tmp_path / "a")
    assert len(text.names) > 5 and text.statistics.documents == 1
    assert text.continues.tolist() == [True] * (len(text.names) - 1) + [False]
    assert text.first_documents.tolist() == [0] * len(text.names) + [1]


def test_complete_groups_are_kept_and_damaged_ones_made_again(path, tmp_path):
    text, _ = prepare([path], "lines", tmp_path / "a")
    kept, damaged = text.path(0), text.path(1)
    os.utime(kept, (1, 1))
    with open(damaged, "ab") as file:
        file.write(b"x")
    again, read = prepare([path], "lines", tmp_path / "a")
    assert again.sha256 == text.sha256 and sum(read) == os.path.getsize(path)
    assert os.path.getmtime(kept) == 1 and os.path.getmtime(damaged) > 1


def test_text_without_a_token_is_an_error(tmp_path):
    path = tmp_path / "blank.txt"
    path.write_text("\n \n")
    with pytest.raises(ValueError, match="No sentence in the input files"):
        prepare([str(path)], "lines", tmp_path / "a")


class Machine(Workers):
    """A machine that makes one group at a time, in step with another one."""

    def __init__(self, turns, late):
        super().__init__(1)
        self._turns, self._late = turns, late
        self.made = []

    def run(self, next_call, done):
        while True:
            self._wait()
            call = None if self._late > 0 else next_call()
            self._late -= 1
            self._wait()
            if call:
                self.made.append(call.arguments[0])
                done(call, call.function(self._shared, *call.arguments))
            elif self._late < 0:
                self._turns.abort()
                return

    def _wait(self):
        with contextlib.suppress(threading.BrokenBarrierError):
            self._turns.wait()


@pytest.mark.parametrize("late", [0, 9])
def test_machines_that_share_a_folder_share_the_text(path, late, bucket, monkeypatch):
    """The one that begins late gets help; no group is made twice but by chance."""
    monkeypatch.setattr(files, "_SMALLEST_PART", 800)
    encoder = Encoder(TOKENIZER, TextConfig("lines"), 64, bucket)
    turns, texts = threading.Barrier(2), {}
    machines = [Machine(turns, 0), Machine(turns, late)]

    def work(machine, *share):
        snapshot = stat_files([path])
        texts[share] = prepare_text(snapshot, encoder, machine, lambda _: None, share)

    second = threading.Thread(target=work, args=(machines[1], 0.4, 1.0))
    second.start()
    work(machines[0], 0.0, 0.4)
    second.join()
    one, two = (machine.made for machine in machines)
    count = len(divide(stat_files([path]), "lines"))
    assert count > 25 and sorted({*one, *two}) == list(range(count))
    assert len(one) + len(two) <= count + 2
    assert max(len(one), len(two)) < count * 0.8
    assert len({text.sha256 for text in texts.values()}) == 1
    # A machine that comes when all is done makes nothing.
    third = Machine(turns, 0)
    work(third, 0.5, 0.6)
    assert third.made == []
