"""doctor.py as a user runs it."""

import pytest

from albert_tf.model.heads import PretrainingModel
from helpers import tiny
from helpers.fine_tuning_toys import TASK_CONFIG, config, write_table
from helpers.scripts import assert_one_line, run_script
from helpers.served_models import LABELS, write_classifier, write_model


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("doctor")
    for name in ("pretrained", "tuned"):
        (folder / name).mkdir()
    shape = config()
    model = PretrainingModel(shape, seed=3)
    write_model(folder / "pretrained", TASK_CONFIG, model, shape)
    for name in ("task.json", "vocab.txt", "tokenizer.json"):
        (folder / "pretrained" / name).unlink()
    write_classifier(folder / "tuned", LABELS, pair=False)
    tiny.write_rows(folder / "rows.tfrecord", 5)
    write_table(folder / "mail.tsv", 7, 1)
    (folder / "book.txt").write_text("Call me Ishmael.\n")
    return folder


def ask(place, *paths):
    return run_script("doctor.py", *paths, cwd=place)


def test_a_machine_is_described(place):
    done = ask(place)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in (
        "Python 3",
        "tensorflow 2",
        "cores: ",
        "memory: ",
        "oneDNN: ",
        "TPU: ",
    ):
        assert name in done.stdout
    assert done.stdout.splitlines()[-1] == "Nothing is wrong."


@pytest.mark.parametrize(
    ("path", "code", "parts"),
    [
        ("tuned", 0, ["Trained for toy, classification", "run_classifier.py --nodo_t"]),
        ("pretrained", 1, ["masked-LM", "fill_mask.py", "There is no vocabulary"]),
        ("rows.tfrecord", 0, ["Records of pretraining: 5 rows", "inspect_records.py"]),
        ("mail.tsv", 0, ["A table of 7 rows; columns text, label"]),
        ("book.txt", 0, ["17 bytes", "train_sentencepiece.py"]),
        (".", 1, ["A folder of 6 entries", "no weights and no records"]),
    ],
)
def test_a_path_is_recognized(place, path, code, parts):
    done = ask(place, path)
    assert done.returncode == code, done.stdout + done.stderr
    for part in parts:
        assert part in done.stdout, done.stdout


def test_damage_is_named(place, tmp_path):
    for name in ("rows.tfrecord", "mail.tsv"):
        (tmp_path / name).write_bytes((place / name).read_bytes())
    (tmp_path / "mail.tsv").write_text("text\tlabel\nonly one\n")
    done = ask(tmp_path, "rows.tfrecord", "mail.tsv")
    assert done.returncode == 1
    assert "wrong:" in done.stdout and "line 2: it has 1 columns" in done.stdout
    assert_one_line(ask(tmp_path, "nowhere"), 1, "There is no nowhere")
