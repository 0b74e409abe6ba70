"""Scripts that make and show data read and write buckets as they do disks."""

import re

from albert_tf.files import read_json, sha256
from albert_tf.storage import as_path
from helpers.bucket_files import files_of
from helpers.letters import made_up_text
from helpers.scripts import assert_one_line, run_script, succeed


def make_all(folder, cwd):
    """Trains a vocabulary, makes rows with it and shows some; returns what is said."""
    vocabulary = succeed(
        "train_sentencepiece.py",
        f"--input_file={folder}/*.txt",
        f"--model_prefix={folder}/new/v",
        "--vocab_size=110",
        cwd=cwd,
    )
    options = (
        f"--input_file={folder}/*.txt",
        f"--spm_model_file={folder}/new/v.model",
        f"--output_file={folder}/out/rows@2",
        "--max_seq_length=64",
        "--dupe_factor=2",
        "--num_workers=1",
    )
    predicted = succeed("create_pretraining_data.py", *options, "--dry_run", cwd=cwd)
    made = succeed("create_pretraining_data.py", *options, cwd=cwd)
    shown = succeed(
        "inspect_records.py",
        f"{folder}/out/rows@2",
        f"--vocabulary={folder}/new/v.model",
        "--rows=1",
        cwd=cwd,
    )
    said = vocabulary + predicted + made + shown
    lines = said.replace(str(folder), "FOLDER").splitlines()
    changing = r"NOTE|(text )?seconds|.*(memory|per second|processor|free disk)"
    return [line for line in lines if not re.match(changing, line)]


def test_a_bucket_holds_what_a_disk_does(bucket, tmp_path):
    folders = (tmp_path / "local", as_path(bucket))
    (tmp_path / "local").mkdir()
    said = []
    for folder in folders:
        text = "\n".join(made_up_text(300)).encode()
        (folder / "a.txt").write_bytes(text)
        said.append(make_all(folder, tmp_path))
    assert said[0] == said[1]
    assert "checked: all rows keep the record contract" in said[0]
    names = files_of(bucket).keys()
    assert names == {
        path.relative_to(folders[0]).as_posix()
        for path in folders[0].rglob("*")
        if path.is_file()
    }
    for name in names - {"out/report.json"}:
        assert sha256(f"{bucket}/{name}") == sha256(folders[0] / name), name
    one, two = (read_json(f"{folder}/out/report.json") for folder in folders)
    assert one["rows"] == two["rows"] > 0
    assert not (tmp_path / "memory:").exists()


def test_what_a_bucket_lacks_or_refuses_is_one_line(bucket, tmp_path, monkeypatch):
    as_path(f"{bucket}/a.txt").write_bytes(b"one two\n")
    vocabulary = f"--spm_model_file={bucket}/v.model"
    files = f"--input_file={bucket}/a.txt", f"--output_file={bucket}/rows"
    done = run_script("create_pretraining_data.py", *files, vocabulary, cwd=tmp_path)
    assert_one_line(done, 1, f"no vocabulary file {bucket}/v.model")
    none = f"--input_file={bucket}/b.txt"
    prefix = f"--model_prefix={bucket}/v"
    done = run_script("train_sentencepiece.py", none, prefix, cwd=tmp_path)
    assert_one_line(done, 1, f"Input file {bucket}/b.txt does not exist")
    done = run_script("inspect_records.py", f"{bucket}/rows", cwd=tmp_path)
    assert_one_line(done, 1, f"No record file matches '{bucket}/rows'")
    done = run_script(
        "train_sentencepiece.py", files[0], "--model_prefix=hdfs://a/v", cwd=tmp_path
    )
    assert_one_line(done, 2, "--model_prefix: hdfs://a/v is not a path")
    assert files_of(bucket).keys() == {"a.txt"}
