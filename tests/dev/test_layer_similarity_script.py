"""The script of Figure 1 writes its table and picture, and names what is missing."""

import csv
import json
import shutil

import pytest

from albert_tf.checkpoints.load import weights_checkpoint
from albert_tf.model.encoder import AlbertEncoder
from helpers import tiny
from helpers.scripts import assert_one_line, run_script


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two checkpoints of different depth, a vocabulary and a text."""
    folder = tmp_path_factory.mktemp("files")
    for name, layers in {"shallow": 2, "deep": 5}.items():
        config = tiny.tiny_config(num_hidden_layers=layers)
        (folder / name).mkdir()
        config.to_json(folder / name / "albert_config.json")
        checkpoint = weights_checkpoint(AlbertEncoder(config, seed=layers))
        checkpoint.write(str(folder / name / "model.ckpt"))
    shutil.copytree(folder / "shallow", folder / "other")
    stated = {"lower_case": True, "strip_accents": True, "vocab_size": tiny.VOCAB_SIZE}
    stated["vocabulary_sha256"] = "0f" * 32
    (folder / "other" / "tokenizer.json").write_text(json.dumps(stated))
    letters = [chr(97 + i) for i in range(26)]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", *letters]
    pieces += [f"##{letter}" for letter in letters] + ["the", "of"]
    assert len(pieces) == tiny.VOCAB_SIZE
    (folder / "vocabulary.txt").write_text("\n".join(pieces) + "\n")
    (folder / "text.txt").write_text(
        "The sea, the sea of it.\nA word.\n\nMore words.\n"
    )
    return folder


def compare_layers(files, *arguments):
    return run_script(
        "layer_similarity.py",
        "--input_file=text.txt",
        "--vocab_file=vocabulary.txt",
        "--output_file=similarity.csv",
        "--max_seq_length=20",
        *arguments,
        cwd=files,
    )


def test_the_script_writes_a_line_a_layer_and_a_picture(files):
    done = compare_layers(files, "--checkpoints=shallow,deep/model.ckpt")
    assert done.returncode == 0, done.stderr
    with (files / "similarity.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    names = [(line["checkpoint"], int(line["layer"])) for line in lines]
    shallow = [("shallow", n) for n in (1, 2)]
    assert names == shallow + [("deep/model.ckpt", n) for n in range(1, 6)]
    assert all(float(line["l2_distance"]) > 0 for line in lines)
    assert all(0 < float(line["cosine_degrees"]) < 180 for line in lines)
    assert (files / "similarity.png").read_bytes().startswith(b"\x89PNG")


def test_a_figure_of_others_is_kept(files):
    figure = files / "mine.png"
    figure.write_bytes(b"\x89PNG\r\n\x1a\nmine")
    arguments = ("--checkpoints=shallow", "--output_file=mine.tsv")
    done = compare_layers(files, *arguments)
    assert_one_line(done, 1, "mine.png is there already")
    assert figure.read_bytes().endswith(b"mine")
    assert not (files / "mine.tsv").exists()
    figure.unlink()
    for _ in range(2):  # its own figure is replaced
        assert compare_layers(files, *arguments).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--checkpoints=nowhere"], "nowhere"),
        (["--checkpoints=shallow", "--input_file=no.txt"], "no.txt"),
        (["--checkpoints=other"], "tokenizer.json 0f0f0f0f0f0f"),
        (["--checkpoints=shallow", "--max_seq_length=25"], "at most 24 tokens"),
    ],
)
def test_what_is_missing_is_one_line(arguments, words, files):
    done = compare_layers(files, *arguments)
    assert done.returncode == 1 and words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
