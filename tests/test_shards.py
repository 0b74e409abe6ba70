"""Record files hold all rows, shuffled, and the same bytes every time."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from letters import CONFIG, TOKENIZER, make_documents, tokenize, unmasked_segments

from albert_tf import records
from data_prep import pretraining, shards
from data_prep.pretraining import PretrainingDataConfig
from data_prep.statistics import Statistics

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def documents():
    return make_documents(700, np.random.default_rng(1))


def test_rows_read_back_are_the_rows_made(documents, tmp_path):
    text = tokenize(documents[:80])
    path = tmp_path / "rows.tfrecord"
    statistics = shards.write_record_files(text, TOKENIZER, CONFIG, [str(path)])
    read = list(records.read_rows(path))
    assert len(read) == statistics.rows > 0
    (block,) = text.cut(1 << 16)
    made = [
        pretraining.make_rows(
            text.block(*block),
            TOKENIZER,
            CONFIG,
            CONFIG.rng(pretraining.ROWS, 0, duplicate),
            Statistics(),
        )
        for duplicate in range(CONFIG.dupe_factor)
    ]

    def fingerprint(row):
        return tuple(np.concatenate([row[name].ravel() for name in sorted(row)]))

    expected = Counter(
        fingerprint({name: values[index] for name, values in rows.items()})
        for rows in made
        for index in range(len(rows["input_ids"]))
    )
    assert Counter(map(fingerprint, read)) == expected


def test_rows_are_shuffled_over_the_whole_file(tmp_path):
    text = tokenize([[chr(97 + place) * 9 + " z"] for place in range(26)])
    config = PretrainingDataConfig(max_seq_length=17, dupe_factor=20)
    path = tmp_path / "rows.tfrecord"
    shards.write_record_files(text, TOKENIZER, config, [str(path)])
    order = []
    for row in records.read_rows(path):
        (segments,) = unmasked_segments({name: v[None] for name, v in row.items()})
        letters = "".join(segments).lower().replace("z", "")
        order.append(ord((letters or "z")[0]) - 97)
    assert len(order) == 520
    assert abs(np.corrcoef(order, np.arange(520) % 26)[0, 1]) < 0.2
    assert abs(np.corrcoef(order, np.arange(520))[0, 1]) < 0.2


def write(documents, config, folder, files=2):
    text = tokenize(documents, config.max_text_pieces)
    paths = [str(folder / f"{index}.tfrecord") for index in range(files)]
    shards.write_record_files(text, TOKENIZER, config, paths)
    return [records.sha256(path) for path in paths]


def test_same_seed_same_bytes_other_seed_other_bytes(documents, tmp_path):
    same = write(documents[:90], CONFIG, tmp_path / "a")
    assert write(documents[:90], CONFIG, tmp_path / "b") == same
    sidecars = [(tmp_path / name / "0.tfrecord.json").read_bytes() for name in "ab"]
    assert sidecars[0] == sidecars[1]
    other = PretrainingDataConfig(**{**vars(CONFIG), "random_seed": 54321})
    assert not set(write(documents[:90], other, tmp_path / "c")) & set(same)


def test_files_share_the_rows(documents, tmp_path):
    write(documents, CONFIG, tmp_path, files=4)
    counts = [
        records.read_metadata(tmp_path / f"{index}.tfrecord")["rows"]
        for index in range(4)
    ]
    assert min(counts) > 0.5 * max(counts) > 0


def test_the_sidecar_tells_vocabulary_settings_and_numbers(documents, tmp_path):
    write(documents[:20], CONFIG, tmp_path, files=1)
    sidecar = json.loads((tmp_path / "0.tfrecord.json").read_text())
    assert sidecar["vocabulary_sha256"] == "letters"
    assert sidecar["max_seq_length"] == 67
    assert sidecar["max_predictions_per_seq"] == 11
    assert sidecar["random_seed"] == 12345
    assert sidecar["statistics"]["rows"] == sidecar["rows"]
    assert "documents" not in sidecar["statistics"]


def test_more_files_than_rows_are_an_error(tmp_path):
    with pytest.raises(ValueError, match="too short for 50 output files"):
        write([["a b c"], ["d e"]], CONFIG, tmp_path, files=50)
    assert not list(tmp_path.iterdir())


def test_text_without_a_row_is_an_error_and_leaves_no_file(tmp_path):
    with pytest.raises(ValueError, match="No row for"):
        write([["a"], ["b"]], CONFIG, tmp_path, files=1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("outputs", ["", " , ", "a,b,./a"])
def test_output_names_that_are_missing_or_double_are_refused(
    outputs, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="each once"):
        shards.expand_outputs(outputs)


def test_output_folders_are_made_and_a_folder_is_no_output(tmp_path):
    paths = f"{tmp_path}/x/a, {tmp_path}/y/b"
    assert shards.expand_outputs(paths) == [f"{tmp_path}/x/a", f"{tmp_path}/y/b"]
    assert (tmp_path / "y").is_dir()
    with pytest.raises(ValueError, match="is a folder"):
        shards.expand_outputs(str(tmp_path))
    with pytest.raises(OSError, match="file/a cannot be made or written"):
        (tmp_path / "file").write_text("")
        shards.expand_outputs(str(tmp_path / "file" / "a" / "b"))


@pytest.fixture
def spm_model_file(shared_data):
    return shared_data / "vocabulary" / "30k-clean.model"


def run_script(*arguments, hash_seed="0"):
    script = ROOT / "run_scripts" / "create_pretraining_data.py"
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


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
            hash_seed=hash_seed,
        )
        assert done.returncode == 0, done.stderr
        assert "ngrams placed" in done.stdout
        assert "of the pieces are unknown" in done.stderr
        digests.append([records.sha256(p) for p in sorted(output.parent.iterdir())])
    assert digests[0] == digests[1]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--input_file=missing.txt", "--output_file=x"], 2, "--spm_model_file"),
        (["--input_file=a.txt"], 2, "output_file"),
        (
            ["--vocab_file=missing", "--output_file={}/x", "--input_file=a"],
            1,
            "missing",
        ),
        (
            ["--dupe_factor=0", "--vocab_file=v", "--output_file=x", "--input_file=a"],
            1,
            "dupe_factor must be at least 1",
        ),
    ],
)
def test_the_script_says_errors_in_one_line(arguments, code, message, tmp_path):
    done = run_script(*(argument.format(tmp_path) for argument in arguments))
    assert done.returncode == code
    assert message in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())
