"""Figure 1's numbers, against numpy; the script, against its own files."""

import csv

import numpy as np
import pytest

from albert_tf.analysis.layer_similarity import layer_similarity
from albert_tf.checkpoints.load import weights_checkpoint
from albert_tf.model.encoder import AlbertEncoder
from helpers import tiny
from helpers.scripts import run_script


def random_batches(rng):
    for rows in (3, 2):
        yield {
            "input_ids": rng.integers(5, tiny.VOCAB_SIZE, (rows, 7)),
            "input_mask": np.tri(rows, 7, 3, dtype=int),
            "segment_ids": rng.integers(0, 2, (rows, 7)),
        }


@pytest.mark.parametrize(
    "changes", [{}, {"inner_group_num": 2}, {"embedding_size": 12}]
)
def test_means_are_those_of_numpy_over_visible_tokens(changes):
    encoder = AlbertEncoder(tiny.tiny_config(initializer_range=0.5, **changes), seed=1)
    batches = list(random_batches(np.random.default_rng(2)))
    found = layer_similarity(encoder, batches)
    distances, degrees = [], []
    for batch in batches:
        outputs = encoder(batch)
        first = outputs["embedding_output"]
        if encoder.embedding_projection is not None:
            first = encoder.embedding_projection(first)
        step = changes.get("inner_group_num", 1)
        states = [first, *outputs["encoder_outputs"][step - 1 :: step]]
        visible = batch["input_mask"] == 1
        states = np.stack([np.asarray(s, np.float64)[visible] for s in states])
        before, after = states[:-1], states[1:]
        distances.append(np.linalg.norm(after - before, axis=-1))
        lengths = np.linalg.norm(before, axis=-1) * np.linalg.norm(after, axis=-1)
        degrees.append(np.degrees(np.arccos((before * after).sum(-1) / lengths)))
    expected = [np.concatenate(values, 1).mean(1) for values in (distances, degrees)]
    np.testing.assert_allclose(found.l2_distance, expected[0], rtol=1e-5)
    np.testing.assert_allclose(found.cosine_degrees, expected[1], rtol=1e-4)
    assert found.l2_distance.shape == (4,)


def test_nothing_to_measure_is_refused():
    encoder = AlbertEncoder(tiny.tiny_config(), seed=1)
    with pytest.raises(ValueError, match="no token to measure"):
        layer_similarity(encoder, [])


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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--checkpoints=nowhere"], "nowhere"),
        (["--checkpoints=shallow", "--input_file=no.txt"], "no.txt"),
    ],
)
def test_what_is_missing_is_one_line(arguments, words, files):
    done = compare_layers(files, *arguments)
    assert done.returncode == 1 and words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
