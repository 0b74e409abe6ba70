"""The table of costs has a line for each configuration."""

from albert_tf.storage import as_path
from helpers.bucket_files import new_bucket
from helpers.paths import ROOT
from helpers.scripts import run_script

CONFIGS = ROOT / "configs"


def test_the_table_has_a_line_a_configuration(tmp_path):
    bucket = new_bucket()
    base = (CONFIGS / "bert_base.json").read_bytes()
    (as_path(bucket) / "x/bert_base.json").write_bytes(base)
    files = f"{CONFIGS}/albert_tiny.json,{bucket}/*/bert*.json"
    done = run_script(
        "model_table.py", f"--configs={files}", "--max_seq_length=16", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1].split()[0] == "albert_tiny"
    cells = dict(zip(lines[0].split(), lines[2].split(), strict=True))
    assert cells["encoder"] == "109.081"


def test_a_missing_configuration_is_one_line(tmp_path):
    done = run_script("model_table.py", "--configs=nowhere/*.json", cwd=tmp_path)
    assert done.returncode == 1 and "nowhere/*.json" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
