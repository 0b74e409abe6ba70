"""A whole job: any number of processes, restarts, machines, reports, bad input."""

import dataclasses
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from albert_tf.records import encoding
from albert_tf.records.reader import read_rows
from albert_tf.records.sidecar import sidecar_path
from data_prep.corpus.files import stat_files
from data_prep.corpus.statistics import Statistics
from data_prep.corpus.work_folder import hold_folder
from data_prep.pretraining.config import PretrainingDataConfig
from data_prep.pretraining.rows import make_rows
from helpers.letters import CONFIG, TOKENIZER, make_documents, tokenize
from helpers.paths import ROOT
from helpers.pretraining_jobs import digests, make, make_job

# The long form: KILLS=10 pytest -s tests/test_job.py -k killed
KILLS = int(os.environ.get("KILLS", "3"))
SCRIPT = ROOT / "run_scripts" / "create_pretraining_data.py"


@pytest.fixture(scope="module")
def documents():
    return make_documents(2500, np.random.default_rng(2))


@pytest.fixture(scope="module")
def expected(documents, tmp_path_factory):
    """Digests of five shards that one process made at once."""
    paths, _ = make(documents, CONFIG, tmp_path_factory.mktemp("expected"), files=5)
    return digests(paths)


# The same bytes.


@pytest.mark.parametrize("workers", [2, 3])
def test_any_number_of_workers_makes_the_same_bytes(
    workers, documents, expected, tmp_path
):
    paths, _ = make(documents, CONFIG, tmp_path, files=5, workers=workers)
    assert digests(paths) == expected
    left = [path.name for path in (tmp_path / "out").iterdir()]
    sidecars = [f"{Path(path).name}.json" for path in paths]
    assert sorted(left) == sorted(
        [*(Path(path).name for path in paths), *sidecars, "report.json"]
    )


def test_machines_that_share_the_shards_make_the_same_bytes(
    documents, expected, tmp_path
):
    for shard_range in ("3:5", "0:2"):
        make(documents, CONFIG, tmp_path, files=5, shard_range=shard_range)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"report-00003-00005.json", "report-00000-00002.json"} <= names
    assert not any("00002-of" in name for name in names)
    # The text is kept for the others until the last shard is there.
    work = ".rows-00000-of-00005.work"
    assert work in names
    paths, _ = make(documents, CONFIG, tmp_path, files=5, shard_range="2:3")
    assert digests(paths) == expected
    assert not (tmp_path / "out" / work).exists()
    report = make(documents, CONFIG, tmp_path, files=5)[1]
    assert report["shards"] == report["shards_kept_from_earlier_runs"] == 5


def test_finished_shards_are_kept_and_missing_ones_made(documents, expected, tmp_path):
    paths, first = make(documents, CONFIG, tmp_path, files=5)
    kept = os.stat(paths[0]).st_mtime_ns
    os.unlink(paths[3])
    os.unlink(sidecar_path(paths[1]))
    _, report = make(documents, CONFIG, tmp_path, files=5)
    assert digests(paths) == expected
    assert os.stat(paths[0]).st_mtime_ns == kept
    assert report["shards_kept_from_earlier_runs"] == 3
    same = [name for name in first if not name.startswith(("seconds", "text_seconds"))]
    changes = {"input_megabytes_per_second", "peak_memory_megabytes"}
    changes.add("shards_kept_from_earlier_runs")
    for name in set(same) - changes:
        assert report[name] == first[name], name


@pytest.mark.parametrize(
    ("key", "value"),
    [("dupe_factor", 4), ("random_seed", 7), ("pair_objective", "none")],
)
def test_shards_of_other_settings_are_refused(key, value, documents, tmp_path):
    paths, _ = make(documents[:50], CONFIG, tmp_path, files=2)
    before = digests(paths)
    os.unlink(paths[1])
    other = PretrainingDataConfig(**{**vars(CONFIG), key: value})
    with pytest.raises(
        ValueError, match=f"{key}={getattr(CONFIG, key)}.*{key}={value}"
    ):
        make(documents[:50], other, tmp_path, files=2)
    assert digests(paths[:1]) == before[:1]


def test_packed_and_unpacked_shards_are_not_mixed(documents, tmp_path):
    packed = dataclasses.replace(CONFIG, pack_documents=True, max_documents_per_row=3)
    for first, other, message in ((CONFIG, packed, "None"), (packed, CONFIG, "3")):
        folder = tmp_path / message
        make(documents[:50], first, folder)
        with pytest.raises(ValueError, match=f"max_documents_per_row={message}, but"):
            make(documents[:50], other, folder)


def test_shards_of_other_text_are_refused(documents, tmp_path):
    make(documents[:50], CONFIG, tmp_path, files=2)
    with pytest.raises(ValueError, match="input_bytes"):
        make(documents[:51], CONFIG, tmp_path, files=2)
    # As many bytes, but other ones.
    changed = [*documents[:49], [text[::-1] for text in documents[49]]]
    with pytest.raises(ValueError, match="text_sha256"):
        make(changed, CONFIG, tmp_path, files=2)
    with pytest.raises(ValueError, match=r"shards=2.*shards=3"):
        paths, _ = make(documents[:50], CONFIG, tmp_path / "b", files=2)
        os.rename(paths[0], paths[0].replace("of-00002", "of-00003"))
        sidecar = sidecar_path(paths[0])
        os.rename(sidecar, str(sidecar).replace("of-00002", "of-00003"))
        make(documents[:50], CONFIG, tmp_path / "b", files=3)


def test_a_damaged_shard_is_refused(documents, tmp_path):
    paths, _ = make(documents[:50], CONFIG, tmp_path, files=2)
    with open(paths[1], "ab") as file:
        file.write(b"x")
    with pytest.raises(ValueError, match="bytes, but its sidecar says"):
        make(documents[:50], CONFIG, tmp_path, files=2)


def test_what_an_unfinished_run_of_other_text_left_is_not_used(documents, tmp_path):
    make(documents[:300], CONFIG, tmp_path, files=4, shard_range="0:1")
    for path in (tmp_path / "out").glob("rows*"):
        path.unlink()
    paths, _ = make(documents[:301], CONFIG, tmp_path, files=4)
    elsewhere, _ = make(documents[:301], CONFIG, tmp_path / "b", files=4)
    assert digests(paths) == digests(elsewhere)


def test_a_folder_in_use_for_another_text_is_refused(documents, tmp_path):
    job = make_job(documents[:9], CONFIG, tmp_path)
    folder = job.work_folder()
    os.makedirs(folder)
    files, encoder = stat_files(job.input_paths), job.encoder(folder)
    identity = encoder.text_identity(files)
    other = dataclasses.replace(encoder, max_sentence_tokens=7).text_identity(files)
    with hold_folder(folder, identity), hold_folder(folder, identity):
        Path(folder, "kept").touch()
        with (
            pytest.raises(OSError, match="in use by a run whose max_sentence_pieces"),
            hold_folder(folder, other),
        ):
            pass
        assert Path(folder, "kept").exists()
    with hold_folder(folder, other):
        assert not Path(folder, "kept").exists()


# Distribution.


def test_rows_are_like_those_of_one_block(documents, tmp_path):
    """Labels, lengths, n-grams, mask split and pieces as `make_rows` alone gives."""
    config = PretrainingDataConfig(**{**vars(CONFIG), "dupe_factor": 8})
    paths, _ = make(documents, config, tmp_path, files=3)
    made = [row for path in paths for row in read_rows(path)]
    made = {name: np.stack([row[name] for row in made]) for name in made[0]}
    text = tokenize(documents, config.max_text_tokens)
    rng = np.random.default_rng(6)
    alone = [make_rows(text, TOKENIZER, config, rng, Statistics()) for _ in range(8)]
    alone = {name: np.concatenate([rows[name] for rows in alone]) for name in alone[0]}

    count = len(made["input_ids"])
    assert count == pytest.approx(len(alone["input_ids"]), rel=0.01)
    for measure in (labels, lengths, ngrams, splits, pieces):
        one, other = measure(made), measure(alone)
        # Two draws of n counts differ by some standard deviations of both.
        margin = 5 * np.sqrt(np.maximum(one, other) * 2 + 4)
        assert np.all(np.abs(one - other * (one.sum() / other.sum())) < margin), measure


def labels(rows):
    return np.bincount(1 + rows["next_sentence_labels"][:, 0], minlength=3)


def lengths(rows):
    return np.bincount(rows["input_mask"].sum(axis=1), minlength=68)


def ngrams(rows):
    """Numbers of runs of 1, 2, ... adjacent masked tokens."""
    masked = np.zeros(rows["input_ids"].shape, bool)
    places = np.nonzero(rows["masked_lm_weights"])
    masked[places[0], rows["masked_lm_positions"][places]] = True
    flat = np.pad(masked, ((0, 0), (1, 1))).ravel().astype(int)
    starts, ends = (
        np.flatnonzero(np.diff(flat) == 1),
        np.flatnonzero(np.diff(flat) == -1),
    )
    return np.bincount(np.minimum(ends - starts, 12), minlength=13)


def splits(rows):
    places = np.nonzero(rows["masked_lm_weights"])
    now = rows["input_ids"][places[0], rows["masked_lm_positions"][places]]
    mask, kept = now == 4, now == rows["masked_lm_ids"][places]
    return np.array([mask.sum(), kept.sum(), (~mask & ~kept).sum()])


def pieces(rows):
    return np.bincount(
        rows["masked_lm_ids"][rows["masked_lm_weights"] > 0], minlength=57
    )


# Kills.


def start(shared_data, output, workers, *more, **options):
    return subprocess.Popen(
        [
            sys.executable,
            str(SCRIPT),
            f"--input_file={shared_data}/text/ENG18652_Carroll.txt,"
            f"{shared_data}/text/xquad_contexts_en.txt",
            "--input_format=raw",
            f"--spm_model_file={shared_data}/vocabulary/30k-clean.model",
            f"--output_file={output}/rows@5",
            "--max_seq_length=128",
            "--dupe_factor=10",
            f"--num_workers={workers}",
            *more,
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


def assert_whole(folder):
    """Every file under a final name can be read to its end."""
    for path in folder.glob("[!.]*"):
        if path.suffix == ".json":
            json.loads(path.read_text())
            continue
        with open(path, "rb") as file:
            assert sum(1 for _ in encoding.read_examples(file)) > 0


def kill_and_restart(shared_data, folder, kills):
    """Kills runs at random moments and lets one finish; returns the digests."""
    rng = np.random.default_rng(3)
    process = start(shared_data, folder / "whole", 2)
    began = time.monotonic()
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    duration = time.monotonic() - began
    expected = digests(sorted((folder / "whole").glob("rows*[0-9]")))

    cut = folder / "cut"
    killed = 0
    while killed < kills:
        process = start(shared_data, cut, 1 + killed % 3)
        try:
            process.wait(timeout=rng.uniform(0.2, 0.9) * duration)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert_whole(cut)
        finished = sorted(cut.glob("rows*[0-9]"))
        if process.returncode == 0:
            # It had little left to do: begin anew, so that there is something to kill.
            for path in finished:
                path.unlink()
            continue
        killed += 1
        print(f"kill {killed}: exit code {process.returncode}, {len(finished)} shards")
    process = start(shared_data, cut, 2)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert_whole(cut)
    assert not list(cut.glob(".*"))
    return digests(sorted(cut.glob("rows*[0-9]"))), expected


def test_killed_runs_go_on_and_end_with_the_same_bytes(shared_data, tmp_path):
    found, expected = kill_and_restart(shared_data, tmp_path, KILLS)
    assert found == expected and len(found) == 5


def limit_file_size():
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk_is_one_line_and_no_file(workers, shared_data, tmp_path):
    process = start(shared_data, tmp_path, workers, preexec_fn=limit_file_size)
    _, errors = process.communicate()
    assert process.returncode == 1, errors
    (line,) = errors.strip().splitlines()
    assert "cannot be written: File too large" in line
    assert not list(tmp_path.glob("rows*"))


def test_progress_is_told_in_lines_without_a_terminal(
    documents, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("albert_tf.progress.SECONDS_PER_LINE", 0.0)
    make(documents[:300], CONFIG, tmp_path, files=2)
    lines = capsys.readouterr().err.splitlines()
    assert lines and all(line.startswith(("text: ", "rows: ")) for line in lines)
    assert lines[-1].startswith("rows: 100 %") and lines[-1].endswith("left")
