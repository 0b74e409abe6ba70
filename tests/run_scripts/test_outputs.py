"""Outputs replace no files of other kinds, and a full disk leaves no half of one."""

import shutil

import pytest

from helpers.disks import full_disk
from helpers.letters import made_up_text
from helpers.scripts import assert_one_line, run_script, succeed


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    """A text, its vocabulary and a model."""
    folder = tmp_path_factory.mktemp("toys")
    (folder / "text.txt").write_text("\n".join(made_up_text(150)), encoding="utf-8")
    succeed(
        "train_sentencepiece.py",
        "--input_file=text.txt",
        "--model_prefix=v",
        "--vocab_size=80",
        cwd=folder,
    )
    return folder


@pytest.fixture
def place(toys, tmp_path):
    """A copy of the toys."""
    shutil.copytree(toys, tmp_path, dirs_exist_ok=True)
    return tmp_path


def everything(folder):
    """Name -> content, of all files below a folder."""
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def make(place, output, text="text.txt", vocabulary="v.model", *more):
    return run_script(
        "create_pretraining_data.py",
        f"--input_file={text}",
        f"--spm_model_file={vocabulary}",
        f"--output_file={output}",
        "--max_seq_length=32",
        "--num_workers=1",
        "--dupe_factor=1",
        *more,
        cwd=place,
    )


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("text.txt", "would replace text.txt, an input (--input_file)"),
        ("v.model", "would replace v.model, an input (--spm_model_file)"),
        ("r/report.json", "end in .json hold JSON"),
        ("report", "report.json is the name of the report"),
        ("diary", "diary is there already"),
        ("diary2", "diary2.json is there already"),
        ("hdfs://bucket/rows", "--output_file: hdfs://bucket/rows is not a path"),
    ],
)
def test_records_replace_nothing_else(output, words, place):
    (place / "diary").write_text("Dear diary, it rains.")
    (place / "diary2.json").write_text('{"dear": {"diary": 1}}')
    before = everything(place)
    assert_one_line(make(place, output), 2 if "--" in words else 1, words)
    assert everything(place) == before
    assert not (place / "hdfs:").exists()


def test_a_report_of_others_is_kept(place):
    (place / "report.json").write_text('{"title": "mine", "pages": 7}')
    before = everything(place)
    assert_one_line(make(place, "rows"), 1, "report.json is there already")
    assert everything(place) == before


def test_a_linked_work_folder_is_not_emptied(place):
    (place / "home" / "inner").mkdir(parents=True)
    (place / "home" / "gold").write_text("gold")
    (place / "home" / "inner" / "s").write_text("s")
    (place / "out").mkdir()
    (place / "out" / ".x.work").symlink_to("../home")
    before = everything(place)
    assert_one_line(make(place, "out/x"), 1, ".x.work is there and was not made by")
    (place / "out" / ".x.work").unlink()
    (place / "home").rename(place / "out" / ".x.work")
    assert_one_line(make(place, "out/x"), 1, ".x.work is there and was not made by")
    after = everything(place)
    assert sorted(after.values()) == sorted(before.values())


def test_planted_links_of_partial_files_leave_their_target_alone(place):
    (place / "gold").write_text("gold")
    for name in (".rows.partial", ".rows.0123abcd.partial", ".u.model.partial"):
        (place / name).symlink_to("gold")
    assert make(place, "rows").returncode == 0
    train_vocabulary(place, "u")
    assert (place / "gold").read_text() == "gold"
    assert (place / ".rows.0123abcd.partial").is_symlink()


def train_vocabulary(place, prefix, text="text.txt"):
    return run_script(
        "train_sentencepiece.py",
        f"--input_file={text}",
        f"--model_prefix={prefix}",
        "--vocab_size=80",
        cwd=place,
    )


def test_a_vocabulary_replaces_vocabularies_only(place):
    (place / "t.vocab").write_bytes((place / "text.txt").read_bytes())
    (place / "w.vocab").write_text("a list of words\n")
    (place / "m.model").write_bytes(b"weights of a plane")
    before = everything(place)
    done = train_vocabulary(place, "t", "t.vocab")
    assert_one_line(done, 2, "--model_prefix would replace t.vocab, an input")
    done = train_vocabulary(place, "w")
    assert_one_line(done, 1, "w.vocab is there already")
    done = train_vocabulary(place, "m")
    assert_one_line(done, 1, "m.model is there already")
    assert everything(place) == before
    assert train_vocabulary(place, "v").returncode == 0
    assert everything(place) == before


def test_a_full_disk_leaves_no_half_of_a_vocabulary(place):
    before = everything(place)
    with full_disk(2_000):
        done = train_vocabulary(place, "new")
    assert_one_line(done, 1, "new.model cannot be written: File too large")
    assert everything(place) == before


@pytest.mark.parametrize("name", ["fig.png", "table.json", "v.model"])
def test_a_table_is_not_named_like_another_file(name, place):
    before = everything(place)
    done = run_script(
        "layer_similarity.py",
        "--checkpoints=model",
        "--input_file=text.txt",
        "--spm_model_file=v.model",
        f"--output_file={name}",
        cwd=place,
    )
    assert done.returncode in (1, 2) and len(done.stderr.splitlines()) == 1
    assert name in done.stderr
    assert everything(place) == before
