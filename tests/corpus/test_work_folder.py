"""A work folder holds one text; groups in it are complete or missing."""

from pathlib import Path

import numpy as np
import pytest

from albert_tf.storage import as_path
from data_prep.corpus import work_folder
from data_prep.corpus.statistics import Statistics
from data_prep.corpus.tokenized_corpus import Segment, load_corpus, load_offsets
from data_prep.corpus.work_folder import (
    check_folder,
    discard_folder,
    hold_folder,
    read_group,
    read_groups,
    write_group,
)
from helpers.bucket_files import files_of
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
        discard_folder(folder, is_done=True)
        assert kept.exists()
    with hold_folder(folder, identity):
        assert kept.exists()
    with hold_folder(folder, other):
        assert not kept.exists()
    discard_folder(folder, is_done=True)
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


def test_a_bucket_holds_texts_side_by_side_and_is_emptied_when_all_is_made(
    bucket, capsys
):
    folder = f"{bucket}/[a]*.work"
    check_folder(folder)
    with hold_folder(folder, {"language": "en"}) as one:
        with hold_folder(folder, {"language": "de"}) as two:
            as_path(f"{two}/kept").write_bytes(b"")
        assert one != two and as_path(one).parent == as_path(folder)
        with hold_folder(folder, {"language": "en"}) as again:
            assert again == one
    assert capsys.readouterr().out.count("NOTE: ") == 3
    check_folder(folder)
    discard_folder(folder, is_done=False)
    assert as_path(f"{two}/kept").exists()
    # Its name is no pattern.
    as_path(f"{bucket}/a-other.work/lock").write_bytes(b"")
    discard_folder(folder, is_done=True)
    assert files_of(bucket).keys() == {"a-other.work/lock"}
    discard_folder(folder, is_done=True)


def test_a_folder_of_a_bucket_that_is_not_ours_is_kept(bucket):
    as_path(f"{bucket}/text/thesis.txt").write_bytes(b"x")
    with pytest.raises(FileExistsError, match="not made by this command"):
        check_folder(f"{bucket}/text")
    discard_folder(f"{bucket}/text", is_done=True)
    assert files_of(bucket).keys() == {"text/thesis.txt"}


def test_disks_without_locks_are_as_buckets(tmp_path, monkeypatch):
    monkeypatch.setattr(work_folder, "try_lock", lambda _: None)
    with (
        hold_folder(tmp_path, {"language": "en"}) as one,
        hold_folder(tmp_path, {"language": "de"}) as two,
    ):
        assert one != two and Path(one).parent == Path(two).parent == tmp_path
        discard_folder(tmp_path, is_done=False)
        assert Path(one).is_dir()
    discard_folder(tmp_path, is_done=True)
    assert not tmp_path.exists()


def test_groups_of_a_bucket_are_read_back(bucket):
    corpus = tokenize(make_documents(9, np.random.default_rng(1)))
    statistics = Statistics(documents=9)
    for number in (3, 1):
        segments = iter([Segment(corpus, False)])
        write_group(f"{bucket}/text", number, segments, statistics)
    groups = read_groups(f"{bucket}/text", range(4))
    assert [group is None for group in groups] == [True, False, True, False]
    assert groups[3] == read_group(f"{bucket}/text", 3)
    [segment] = groups[1]["segments"]
    loaded = load_corpus(f"{bucket}/text/{segment['name']}")
    assert np.array_equal(loaded.ids, corpus.ids)
    for one, two in zip(
        load_offsets(f"{bucket}/text/{segment['name']}"),
        (corpus.sentence_offsets, corpus.document_offsets),
        strict=True,
    ):
        assert np.array_equal(one, two)
