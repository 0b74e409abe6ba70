"""train_sentencepiece.py as a user runs it: the same bytes, errors in one line."""

import os
import subprocess
import sys

import pytest

from albert_tf.files import sha256
from helpers.letters import made_up_text
from helpers.paths import ROOT

SCRIPT = ROOT / "run_scripts" / "train_sentencepiece.py"


def run_script(*arguments, **environment):
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        env=os.environ | {"PYTHONPATH": ROOT} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_two_processes_write_the_same_bytes(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(made_up_text(900)), encoding="utf-8")
    digests = []
    for name, seed in [("a", 7), ("b", 7), ("c", 8)]:
        done = run_script(
            f"--input_file={text}",
            f"--model_prefix={tmp_path}/{name}/v",
            f"--random_seed={seed}",
            "--vocab_size=110",
            "--sample_sentences=400",
            PYTHONHASHSEED=name.encode().hex(),
            OMP_NUM_THREADS="1" if name == "b" else "3",
        )
        assert done.returncode == 0, done.stderr
        assert "110 tokens, of 400 sentences" in done.stdout
        assert sorted(os.listdir(tmp_path / name)) == ["v.model", "v.vocab"]
        digests.append(
            [sha256(tmp_path / name / file) for file in ("v.model", "v.vocab")]
        )
    assert digests[0] == digests[1]
    assert digests[0][0] != digests[2][0]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--vocab_size=9000"], 1, "vocab_size must be at most"),
        (["--vocab_size=many"], 2, "--vocab_size=many"),
        (["--input_file=nowhere.txt"], 1, "nowhere.txt does not exist"),
        (["--model_prefix={text}/v"], 1, "text.txt cannot be made or written"),
        (["--model_prefix={folder}/"], 1, "must end in a file name"),
    ],
)
def test_wrong_use_is_one_line_and_writes_nothing(tmp_path, arguments, code, message):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(made_up_text(300)), encoding="utf-8")
    out = tmp_path / "out"
    out.mkdir()
    arguments = [a.format(text=text, folder=out) for a in arguments]
    done = run_script(f"--input_file={text}", f"--model_prefix={out}/v", *arguments)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    assert os.listdir(out) == []
