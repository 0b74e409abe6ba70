"""Scripts as a person runs them: exit codes and one-line errors."""

import subprocess
import sys
from pathlib import Path

import pytest

from tiny import tiny_config, write_rows

ROOT = Path(__file__).resolve().parents[1]


def run_script(name, *arguments, cwd):
    """Runs a script from another folder, as a person may."""
    command = [sys.executable, str(ROOT / "run_scripts" / name), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


def assert_one_line(result, code, *parts):
    lines = result.stderr.strip().splitlines()
    assert result.returncode == code, result.stderr
    assert len(lines) == 1 and lines[0].startswith("ERROR: "), result.stderr
    for part in parts:
        assert part in lines[0]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder of records and configurations, right and wrong."""
    folder = tmp_path_factory.mktemp("files")
    write_rows(folder / "rows.tfrecord", 5)
    tiny_config().to_json(folder / "tiny.json")
    tiny_config(max_position_embeddings=9).to_json(folder / "short.json")
    tiny_config(vocab_size=60).to_json(folder / "other.json")
    text = (folder / "tiny.json").read_text()
    (folder / "heads.json").write_text(text.replace('heads": 3', 'heads": 5'))
    (folder / "misspelt.json").write_text(text.replace("hidden_size", "hiden_size"))
    (folder / "file").write_text("in the way")
    return folder


PRETRAINING_ERRORS = {
    "no flags": ([], 2, ["output_dir"]),
    "unknown flag": (["--learning_rat=1"], 2, ["learning_rat"]),
    "not a number": (["--learning_rate=fast"], 2, ["fast"]),
    "unknown optimizer": (["--optimizer=lamp"], 2, ["lamp"]),
    "stray word": (["train"], 2, ["train"]),
    "nothing to do": (["--nodo_train"], 2, ["--do_eval"]),
    "no evaluation rows": (["--do_eval"], 2, ["--eval_input_file"]),
    "missing records": (["--input_file=no.tfrecord"], 1, ["no.tfrecord"]),
    "empty glob": (["--input_file=no*.tfrecord"], 1, ["no*.tfrecord"]),
    "no sidecar": (["--input_file=file"], 1, ["file.json"]),
    "other length": (["--max_seq_length=12"], 1, ["max_seq_length=10", "=12"]),
    "too long": (["--albert_config_file=short.json"], 1, ["10 and 9"]),
    "other vocabulary": (["--spm_model_file=file"], 1, ["vocabulary_sha256"]),
    "other casing": (["--nodo_lower_case"], 1, ["lower_case=True", "=False"]),
    "other size": (["--albert_config_file=other.json"], 1, ["=61", "=60"]),
    "missing config": (["--albert_config_file=no.json"], 1, ["no.json"]),
    "heads": (["--albert_config_file=heads.json"], 1, ["12 and 5"]),
    "misspelt key": (["--albert_config_file=misspelt.json"], 1, ["hiden_size"]),
    "unwritable": (["--output_dir=file/model"], 1, ["file"]),
    "no checkpoint": (["--nodo_train", "--do_eval"], 1, ["holds no checkpoint"]),
    "missing weights": (["--init_checkpoint=no/model"], 1, ["no/model"]),
    "bad seed": (["--num_train_steps=0"], 1, ["num_train_steps"]),
}


@pytest.mark.parametrize("case", PRETRAINING_ERRORS)
def test_pretraining_says_what_is_wrong_in_one_line(case, files):
    wrong, code, parts = PRETRAINING_ERRORS[case]
    right = [
        "--input_file=rows.tfrecord",
        "--albert_config_file=tiny.json",
        "--output_dir=out",
        "--max_seq_length=10",
        "--max_predictions_per_seq=3",
    ]
    arguments = [*right, *wrong] if wrong else []
    before = set(files.iterdir())
    result = run_script("run_pretraining.py", *arguments, cwd=files)
    assert_one_line(result, code, *parts)
    left = set(files.iterdir()) - before - {files / "out"}
    assert not left
