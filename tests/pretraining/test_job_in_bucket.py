"""A job whose files are in a bucket: the same bytes, shared by several machines."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from albert_tf.files import json_bytes, read_json
from albert_tf.records.sidecar import read_metadata
from albert_tf.storage import as_path
from data_prep.corpus import files, tokenize
from data_prep.parallel import Workers
from data_prep.pretraining import job as job_module
from data_prep.pretraining import shards, shuffle
from data_prep.pretraining.estimate import estimate
from data_prep.pretraining.inspection import find_problems
from data_prep.pretraining.job import make_pretraining_data
from data_prep.pretraining.output_files import expand_outputs
from helpers.bucket_files import files_of
from helpers.letters import CONFIG, make_documents
from helpers.pretraining_jobs import digests, make, make_job


@pytest.fixture(scope="module")
def documents():
    return make_documents(800, np.random.default_rng(2))


@pytest.fixture
def small_parts(monkeypatch):
    """Divides even short text."""
    monkeypatch.setattr(files, "_SMALLEST_PART", 1 << 14)


def in_bucket(documents, bucket, folder, files, shard_range=""):
    """A job with its text and all its outputs in a bucket."""
    job = make_job(documents, CONFIG, folder, files)
    text = as_path(f"{bucket}/text.txt")
    if not text.exists():
        text.write_bytes(Path(job.input_paths[0]).read_bytes())
    return dataclasses.replace(
        job,
        input_paths=[str(text)],
        outputs=expand_outputs(f"{bucket}/out/rows@{files}", shard_range),
    )


@pytest.fixture
def encoded(monkeypatch):
    """Numbers of the groups that are tokenized."""
    encode, numbers = tokenize.encode_group, []

    def note(encoder, number, parts):
        numbers.append(number)
        encode(encoder, number, parts)

    monkeypatch.setattr(tokenize, "encode_group", note)
    return numbers


@pytest.mark.usefixtures("small_parts")
def test_runs_that_share_a_bucket_make_the_bytes_of_one_disk_and_tokenize_once(
    documents, bucket, tmp_path, encoded
):
    expected, whole = make(documents, CONFIG, tmp_path / "local", files=5)
    count = len(encoded)
    encoded.clear()
    first = make_pretraining_data(in_bucket(documents, bucket, tmp_path, 5, "3:5"))
    assert first["shards"] == 2 and count > 4
    # It begins with its own part of the text, from three fifths on.
    begin = int(3 / 5 * count)
    assert encoded[: count - begin] == list(range(begin, count))
    assert sorted(encoded) == list(range(count))
    # The folder may hold another text as well; it is removed when all is made.
    work = f"{bucket}/out/.rows-00000-of-00005.work"
    as_path(f"{work}/0123456789abcdef/text-00000.json").write_bytes(b"{}")

    job = in_bucket(documents, bucket, tmp_path, 5)
    report = make_pretraining_data(job)
    assert len(encoded) == count
    assert report["shards_kept_from_earlier_runs"] == 2
    assert report["rows"] == whole["rows"]
    assert digests(job.outputs.paths) == digests(expected)
    rows = [f"out/{Path(path).name}" for path in expected]
    assert files_of(bucket).keys() == {
        *("text.txt", "out/report.json", "out/report-00003-00005.json"),
        *(name for row in rows for name in (row, f"{row}.json")),
    }
    stored = read_json(f"{bucket}/out/report.json")
    assert stored == json.loads(json_bytes(report))
    assert list(find_problems(job.outputs.paths[4])) == []
    assert read_metadata(job.outputs.paths[0])["shard"] == 0


def test_an_unfinished_run_is_continued_and_other_text_refused(
    documents, bucket, tmp_path, encoded, monkeypatch
):
    job = in_bucket(documents, bucket, tmp_path, 2)

    def fail(*_):
        raise OSError("connection lost")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="connection"):
        patch.setattr(shards, "publish_shard", fail)
        make_pretraining_data(job)
    assert not {name for name in files_of(bucket) if "/rows-0" in name}
    make_pretraining_data(job)
    assert len(encoded) == 1
    as_path(job.input_paths[0]).write_bytes(b"another text\n" * 90)
    with pytest.raises(ValueError, match="made with input_bytes"):
        make_pretraining_data(job)


@pytest.mark.parametrize(
    ("shard_range", "message"),
    [
        ("0:1", r"Another process is making .*/rows-00000-of-00002 since .* this one"),
        ("0:2", r"/.rows-00000-of-00002.work/\w+ was removed, perhaps by another run"),
    ],
)
def test_of_two_runs_that_make_one_shard_the_first_ends(
    shard_range, message, documents, bucket, tmp_path, monkeypatch
):
    job = in_bucket(documents[:90], bucket, tmp_path, 2)
    second = in_bucket(documents[:90], bucket, tmp_path, 2, shard_range)
    make_run, reports = shards.make_run, []

    def begin_again(*arguments):
        if not reports:
            reports.append({})
            reports.append(make_pretraining_data(second))
        return make_run(*arguments)

    monkeypatch.setattr(shards, "make_run", begin_again)
    with pytest.raises(OSError, match=message):
        make_pretraining_data(job)
    assert reports[1]["shards"] == len(second.outputs.own)
    assert make_pretraining_data(job)["shards"] == 2


class OtherMachine(Workers):
    """Calls that share no local file with the job, of one process nevertheless."""

    is_remote = True


@pytest.mark.parametrize("place", ["bucket", "disk"])
def test_workers_of_other_machines_make_the_same_bytes(
    place, documents, bucket, tmp_path, monkeypatch
):
    expected, _ = make(documents, CONFIG, tmp_path / "local", files=3)
    monkeypatch.setattr(job_module, "start_workers", lambda *_: OtherMachine(1))
    monkeypatch.setattr(shuffle, "open", None, raising=False)
    job = make_job(documents, CONFIG, tmp_path / "shared", files=3)
    if place == "bucket":
        job = in_bucket(documents, bucket, tmp_path, 3)
    make_pretraining_data(job)
    assert digests(job.outputs.paths) == digests(expected)
    folder = as_path(job.outputs.paths[0]).parent
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_files_in_memory_are_for_one_process(documents, bucket, tmp_path):
    job = in_bucket(documents, bucket, tmp_path, 2)
    for change in ({"num_workers": 2}, {"scheduler": "tcp://127.0.0.1:9"}):
        with pytest.raises(ValueError, match=r"text\.txt is seen by one process alone"):
            make_pretraining_data(dataclasses.replace(job, **change))
    assert files_of(bucket).keys() == {"text.txt"}


def test_a_prediction_of_a_bucket_names_no_free_disk(documents, bucket, tmp_path):
    local = make_job(documents, CONFIG, tmp_path, 5)
    one = estimate(in_bucket(documents, bucket, tmp_path, 5))
    two = estimate(local)
    assert two.pop("free_disk_bytes") > 0
    same = [name for name in two if name != "minutes_of_one_processor"]
    assert {name: one[name] for name in same} == {name: two[name] for name in same}
    assert files_of(bucket).keys() == {"text.txt"}


def test_a_job_with_absolute_paths_names_the_same_files(documents, bucket, tmp_path):
    job = in_bucket(documents, bucket, tmp_path, 2)
    assert job.with_absolute_paths() == job
    job = dataclasses.replace(
        job, input_paths=["a/../b.txt"], outputs=expand_outputs("c", check=False)
    ).with_absolute_paths()
    assert job.input_paths == [str(Path.cwd() / "b.txt")]
    assert job.outputs.paths == (str(Path.cwd() / "c"),) and job.work_dir == ""
