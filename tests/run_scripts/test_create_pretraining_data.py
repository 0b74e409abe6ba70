"""create_pretraining_data.py as a person runs it: flags, exit codes, bad input."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from albert_tf.files import sha256
from data_prep.parallel import default_count
from helpers import scripts
from helpers.paths import ROOT
from helpers.scripts import succeed


@pytest.fixture
def spm_model_file(shared_data):
    return shared_data / "vocabulary" / "30k-clean.model"


def command(*arguments, script="create_pretraining_data"):
    return [sys.executable, str(ROOT / "run_scripts" / f"{script}.py"), *arguments]


def run_script(*arguments, hash_seed="0", script="create_pretraining_data"):
    return subprocess.run(
        command(*map(str, arguments), script=script),
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def make(spm_model_file, text, folder, *more):
    """Makes rows of a text in `folder` by the script."""
    path = folder / "text.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return run_script(
        f"--input_file={path}",
        f"--spm_model_file={spm_model_file}",
        f"--output_file={folder}/out/rows.tfrecord",
        "--max_seq_length=64",
        "--dupe_factor=3",
        *more,
    )


def report_of(folder):
    return json.loads((folder / "out" / "report.json").read_text())


def assert_one_line(done, code, *messages):
    assert done.returncode == code, done.stderr
    (line,) = done.stderr.strip().splitlines()
    for message in messages:
        assert message in line


def test_the_script_writes_the_same_bytes_in_any_process(
    shared_data, spm_model_file, tmp_path
):
    digests = []
    for hash_seed in ("1", "2"):
        output = tmp_path / hash_seed / "rows.tfrecord"
        done = run_script(
            f"--input_file={shared_data}/text/zh_news.txt,"
            f"{shared_data}/text/xquad_contexts_en.txt",
            "--input_format=raw",
            f"--spm_model_file={spm_model_file}",
            f"--output_file={output}",
            "--max_seq_length=64",
            "--dupe_factor=2",
            f"--num_workers={hash_seed}",
            hash_seed=hash_seed,
        )
        assert done.returncode == 0, done.stderr
        assert "ngrams placed" in done.stdout
        assert "of the tokens are unknown" in done.stderr
        rows = output.parent.glob("rows*")
        digests.append([sha256(path) for path in sorted(rows)])
    assert digests[0] == digests[1]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--input_file=missing.txt", "--output_file=x"], 1, "missing.txt"),
        ([f"--input_file={__file__}", "--output_file=x"], 2, "--spm_model_file"),
        (["--input_file=a.txt"], 2, "output_file"),
        (
            ["--vocab_file=missing", "--output_file={}/x", f"--input_file={__file__}"],
            1,
            "missing",
        ),
        (
            ["--dupe_factor=0", "--vocab_file=v", "--output_file=x", "--input_file=a"],
            1,
            "dupe_factor must be from 1",
        ),
        (
            ["--num_workers=0", "--vocab_file=v", "--output_file=x", "--input_file=a"],
            2,
            "num_workers",
        ),
        (
            [
                "--random_next_sentence",
                "--pair_objective=sop",
                "--vocab_file=v",
                "--output_file=x",
                "--input_file=a",
            ],
            2,
            "give one of them",
        ),
    ],
)
def test_the_script_says_errors_in_one_line(arguments, code, message, tmp_path):
    done = run_script(*(argument.format(tmp_path) for argument in arguments))
    assert_one_line(done, code, message)
    assert not list(tmp_path.iterdir())


# Bad input.

STORY = "the cat sat on the mat .\nit was warm there .\nthe dog came .\n\n" * 40


def test_random_next_sentence_is_nsp(spm_model_file, tmp_path):
    done = make(spm_model_file, STORY, tmp_path, "--random_next_sentence")
    assert done.returncode == 0, done.stderr
    assert set(report_of(tmp_path)["pair_labels"]) == {"next", "random"}


def test_no_more_workers_than_processors_are_started(tmp_path, spm_model_file, caplog):
    (tmp_path / "text.txt").write_text(STORY)
    arguments = [
        "--input_file=text.txt",
        f"--spm_model_file={spm_model_file}",
        "--output_file=rows.tfrecord",
        "--dry_run",
    ]
    name, count = "create_pretraining_data.py", default_count()
    succeed(name, *arguments, f"--num_workers={count}", cwd=tmp_path)
    assert "processes are started" not in caplog.text
    succeed(name, *arguments, f"--num_workers={count + 300}", cwd=tmp_path)
    assert (
        f"--num_workers={count + 300}: this process may use {count} processors, so "
        f"{count} processes are started." in caplog.text
    )


def test_a_scheduler_is_instead_of_processes_and_must_answer(
    tmp_path, spm_model_file, monkeypatch
):
    monkeypatch.setattr("data_prep.cluster._SECONDS_TO_CONNECT", 0.2)
    (tmp_path / "text.txt").write_text("one two\n")
    arguments = [
        f"--input_file={tmp_path}/text.txt",
        f"--spm_model_file={spm_model_file}",
        f"--output_file={tmp_path}/rows.tfrecord",
        "--scheduler=tcp://127.0.0.1:9",
    ]

    def run(*more):
        script = "create_pretraining_data.py"
        return scripts.run_script(script, *arguments, *more, cwd=tmp_path)

    scripts.assert_one_line(run(), 1, "No Dask scheduler answers at 'tcp://127.0.0.1:9")
    scripts.assert_one_line(run("--dry_run"), 1, "No Dask scheduler answers")
    scripts.assert_one_line(run("--num_workers=2"), 2, "give one of them")
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_a_line_of_50_mb_is_read(spm_model_file, tmp_path):
    word = "ж" * 24 + " "  # two pieces: the vocabulary does not know it
    text = word.encode() * 1_050_000 + b"\nanother line here\n"
    done = make(
        spm_model_file,
        text,
        tmp_path,
        "--dupe_factor=1",
        "--max_seq_length=512",
        "--num_workers=2",
    )
    assert done.returncode == 0, done.stderr
    report = report_of(tmp_path)
    assert report["pieces"] == 2_100_003
    text_pieces = report["row_pieces"] - 3 * report["rows"]
    assert text_pieces + report["truncated_pieces"] == report["pieces"]
    assert report["peak_memory_megabytes"] < 800


def test_documents_of_a_word_are_counted_and_skipped(spm_model_file, tmp_path):
    done = make(spm_model_file, "cat\n\n" + STORY, tmp_path)
    assert done.returncode == 0, done.stderr
    assert report_of(tmp_path)["skipped"] == {"chunks of one word": 3}
    assert "chunks of one word: 3" in done.stdout
    (tmp_path / "b").mkdir()
    done = make(spm_model_file, "cat\n", tmp_path / "b")
    assert_one_line(done, 1, "No row for")


@pytest.mark.parametrize("objective", ["sop", "nsp"])
def test_documents_of_one_sentence_have_no_order_but_a_next_one(
    objective, spm_model_file, tmp_path
):
    text = "the cat sat on the mat .\n\nit was warm there .\n\n" * 300
    done = make(spm_model_file, text, tmp_path, f"--pair_objective={objective}")
    assert done.returncode == 0, done.stderr
    report = report_of(tmp_path)
    assert report["documents"] == 600 and report["rows"] == 1800
    if objective == "nsp":
        assert min(report["shares"]["pair_labels"].values()) > 0.45
        return
    assert report["pair_labels"] == {"inside a sentence, no order label": 1800}
    assert "1,800 of 1,800 rows are of one sentence" in done.stderr


def test_one_document_is_refused_under_nsp(spm_model_file, tmp_path):
    text = STORY.replace("\n\n", "\n")
    done = make(spm_model_file, text, tmp_path, "--pair_objective=nsp")
    assert_one_line(done, 1, "pair_objective=nsp", "give more text")


def test_more_shards_than_rows_are_refused(spm_model_file, tmp_path):
    output = f"--output_file={tmp_path}/out/rows@500"
    done = make(spm_model_file, "the cat sat .\nit was warm .\n", tmp_path, output)
    assert_one_line(done, 1, "too short for 500 output files")


def test_bad_bytes_are_named_by_line_by_a_worker_too(spm_model_file, tmp_path):
    text = STORY.encode() * 50 + b"\xff\n"
    done = make(spm_model_file, text, tmp_path, "--num_workers=2")
    assert_one_line(done, 1, "text.txt, line 8001: not UTF-8", "--on_bad_text=skip")
    assert not list((tmp_path / "out").iterdir())
    done = make(spm_model_file, text, tmp_path, "--on_bad_text=skip")
    assert done.returncode == 0
    assert report_of(tmp_path)["skipped"] == {"lines that are not UTF-8": 1}


def busy_run(spm_model_file, path, folder):
    """A run of some seconds, with two workers, once its first file is written."""
    process = subprocess.Popen(
        command(
            f"--input_file={path}",
            f"--spm_model_file={spm_model_file}",
            f"--output_file={folder}/out/rows.tfrecord@99",
            "--dupe_factor=40",
            "--num_workers=2",
        ),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return process


def wait_for(folder, pattern, process):
    deadline = time.monotonic() + 60
    while not list(folder.glob(pattern)):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_worker_that_dies_ends_the_run_with_one_line(spm_model_file, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(STORY * 400)
    process = busy_run(spm_model_file, path, tmp_path)
    wait_for(tmp_path, "out/rows*", process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    os.kill(int(children.split()[-1]), signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    (line,) = errors.strip().splitlines()
    assert "A worker process died (exit code -9)" in line


@pytest.mark.parametrize("change", ["vanishes", "shrinks"])
def test_input_that_changes_while_read_ends_the_run(change, spm_model_file, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(STORY * 1500)
    process = busy_run(spm_model_file, path, tmp_path)
    wait_for(tmp_path, "out/.*/text-*.json", process)
    if change == "vanishes":
        path.unlink()
    else:
        os.truncate(path, 1000)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1, errors
    (line,) = errors.strip().splitlines()
    assert str(path) in line and "Traceback" not in line
    assert not list(tmp_path.glob("out/rows*"))


# Other scripts.


def test_a_dry_run_predicts_and_writes_nothing(spm_model_file, tmp_path):
    done = make(spm_model_file, STORY, tmp_path, "--dry_run")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "out").exists()
    predicted = {
        name: int(re.search(rf"{name} +([\d,]+)", done.stdout)[1].replace(",", ""))
        for name in ("rows", "record bytes")
    }
    make(spm_model_file, STORY, tmp_path)
    report = report_of(tmp_path)
    assert predicted["rows"] == pytest.approx(report["rows"], rel=0.05)
    assert predicted["record bytes"] == pytest.approx(report["record_bytes"], rel=0.05)


def test_the_benchmark_tells_speed_beside_the_yardstick(spm_model_file, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(STORY)
    done = run_script(
        "data",
        f"--input_file={path}",
        f"--spm_model_file={spm_model_file}",
        "--repeats=1",
        script="benchmark",
    )
    assert done.returncode == 0, done.stderr
    numbers = json.loads(done.stdout.splitlines()[-1])
    assert numbers["rows"] > 0 and set(numbers["workers"]) == {"1", "2"}
    assert numbers["times_the_original"] == pytest.approx(
        25
        * numbers["workers"]["1"]["rows_per_second"]
        / numbers["wanted_rows_per_second"]
    )
    assert_one_line(run_script("date", script="benchmark"), 2, "Name one of data")
