"""A work folder holds one text; groups in it are complete or missing."""

from pathlib import Path

import numpy as np
import pytest

from data_prep.corpus.statistics import Statistics
from data_prep.corpus.tokenized_corpus import Segment, load_corpus
from data_prep.corpus.work_folder import (
    discard_folder,
    hold_folder,
    read_group,
    write_group,
)
from helpers.letters import make_documents, tokenize


def test_runs_of_one_text_share_a_folder_and_those_of_others_are_refused(tmp_path):
    folder, kept = str(tmp_path), tmp_path / "kept"
    identity = {"language": "en", "max_sentence_pieces": 64}
    other = {"language": "en", "max_sentence_pieces": 7}
    with hold_folder(folder, identity), hold_folder(folder, identity):
        kept.touch()
        with (
            pytest.raises(OSError, match="in use by a run whose max_sentence_pieces"),
            hold_folder(folder, other),
        ):
            pass
        assert kept.exists()
        discard_folder(folder)
        assert kept.exists()
    with hold_folder(folder, identity):
        assert kept.exists()
    with hold_folder(folder, other):
        assert not kept.exists()
    discard_folder(folder)
    assert not tmp_path.exists()


def test_a_group_is_read_back_and_an_incomplete_one_is_missing(tmp_path):
    corpus = tokenize(make_documents(9, np.random.default_rng(1)))
    statistics = Statistics(documents=9)
    segments = iter([Segment(corpus, False), Segment(corpus, True)])
    write_group(str(tmp_path), 3, segments, statistics)
    group = read_group(str(tmp_path), 3)
    names = [segment["name"] for segment in group["segments"]]
    assert names == ["text-00003-00000.npy", "text-00003-00001.npy"]
    assert [segment["new_documents"] for segment in group["segments"]] == [9, 8]
    assert Statistics.from_dict(group["statistics"]) == statistics
    assert np.array_equal(load_corpus(str(tmp_path / names[1])).ids, corpus.ids)
    assert read_group(str(tmp_path), 4) is None
    path = Path(tmp_path, names[1])
    path.write_bytes(path.read_bytes()[:-1])
    assert read_group(str(tmp_path), 3) is None
    (tmp_path / "text-00003.json").write_text('{"segm')
    assert read_group(str(tmp_path), 3) is None
