"""fill_mask.py as a user runs it."""

import json
import shutil

import pytest

from albert_tf.model.heads import PretrainingModel
from helpers.fine_tuning_toys import TASK_CONFIG, config
from helpers.scripts import assert_one_line, run_script, succeed
from helpers.served_models import LABELS, write_classifier, write_model


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a pretrained model and a classifier."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("pretrained", "tuned"):
        (folder / name).mkdir()
    shape = config()
    model = PretrainingModel(shape, seed=3)
    write_model(folder / "pretrained", TASK_CONFIG, model, shape)
    (folder / "pretrained/task.json").unlink()
    write_classifier(folder / "tuned", LABELS, pair=False)
    return folder


def fill(place, *arguments):
    return run_script("fill_mask.py", "--model=pretrained", *arguments, cwd=place)


def test_tokens_are_listed_for_each_mask(place):
    done = fill(place, "--top_k=2", "worda [MASK].", "[MASK] [MASK]")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    texts = [line for line in lines if not line.startswith("  ")]
    assert texts == ["worda [MASK].", "[MASK] [MASK]", "[MASK] 1:", "[MASK] 2:"]
    assert len(lines) == 4 + 3 * 2
    assert all(line.endswith("%)") for line in lines if line.startswith("  "))


def test_json_lines_hold_texts_of_a_file_and_of_the_command_line(place):
    (place / "texts.txt").write_text("b ö [MASK]\n[MASK], http://c\n")
    flags = ("--output_format=jsonl", "--top_k=27", "--input_file=texts.txt")
    lines = succeed(
        "fill_mask.py", "--model=pretrained", *flags, "gs://a [MASK]", cwd=place
    )
    rows = [json.loads(line) for line in lines.splitlines()]
    texts = ["gs://a [MASK]", "b ö [MASK]", "[MASK], http://c"]
    assert [row["text"] for row in rows] == texts
    for row in rows:
        [mask] = row["masks"]
        assert sorted(each["token_id"] for each in mask) == list(range(27))
        assert abs(sum(each["probability"] for each in mask) - 1) < 1e-4


def test_a_vocabulary_of_another_place_is_named(place, tmp_path):
    (place / "pretrained/vocab.txt").rename(tmp_path / "v.txt")
    try:
        assert_one_line(fill(place, "[MASK]"), 1, "holds no vocabulary")
        done = fill(place, f"--vocabulary={tmp_path}/v.txt", "[MASK]")
        assert done.returncode == 0, done.stderr
        (tmp_path / "w.txt").write_text((tmp_path / "v.txt").read_text() + "other\n")
        other = fill(place, f"--vocabulary={tmp_path}/w.txt", "[MASK]")
        assert_one_line(other, 1, "is not the vocabulary that")
    finally:
        (tmp_path / "v.txt").rename(place / "pretrained/vocab.txt")


def test_what_cannot_be_done_is_one_line(place):
    assert_one_line(fill(place), 2, "Pass a text")
    assert_one_line(fill(place, "a"), 1, "'a' has no [MASK]")
    assert_one_line(fill(place, "a " * 40 + "[MASK]"), 1, "41 tokens")
    assert_one_line(fill(place, "--top_k=28", "[MASK]"), 1, "size, 27. Received 28")
    assert_one_line(fill(place, "--top_k=0", "[MASK]"), 2, "top_k")
    assert_one_line(fill(place, "--input_file=none"), 1, "--input_file=none cannot be")
    tuned = run_script("fill_mask.py", "--model=tuned", "[MASK]", cwd=place)
    assert_one_line(tuned, 1, "no masked-LM head")


def test_a_vocabulary_without_the_mask_is_one_line(place, tmp_path):
    shutil.copytree(place / "pretrained", tmp_path / "model")
    (tmp_path / "model/tokenizer.json").unlink()
    own = tmp_path / "model/vocab.txt"
    own.write_text(own.read_text().replace("[MASK]", "mask"))
    done = run_script("fill_mask.py", "--model=model", "[MASK]", cwd=tmp_path)
    assert_one_line(done, 1, "[MASK]")
