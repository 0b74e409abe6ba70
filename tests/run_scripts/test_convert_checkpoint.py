"""Scripts take weights of any checkpoint format."""

import json

import numpy as np
import pytest

from albert_tf.checkpoints import formats, model_dir
from albert_tf.checkpoints.load import HEADS, load_weights
from albert_tf.model.heads import ClassificationModel
from helpers import tiny
from helpers.scripts import assert_one_line, run_script
from helpers.tiny_weights import (
    TOKENS,
    assert_same_weights,
    convert,
    random_model,
    write_model,
)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A model in two formats, both with its vocabulary: `released` and `theirs`."""
    folder = tmp_path_factory.mktemp("models")
    config, weights = random_model(vocab_size=len(TOKENS))
    write_model(folder / "released", weights, config)
    (folder / "released" / "vocab.txt").write_text("\n".join(TOKENS) + "\n")
    convert(folder / "released", folder / "theirs", "hugging_face")
    return folder


def test_the_script_converts_and_says_what_became_of_each_weight(models, tmp_path):
    arguments = ["--layout=own", "--nostrip_accents", "--resize_vocabulary=18"]
    done = run_script(
        "convert_checkpoint.py",
        f"--from={models}/released",
        f"--to={tmp_path}/own",
        *arguments,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "loaded  bert/pooler/dense/kernel" in lines
    assert "NOTE: vocab.txt has 15 tokens, the model 18 rows." in lines
    assert lines[-1].endswith("32 loaded, 0 fresh, 0 unused, 1 ignored.")
    assert model_dir.read_config(tmp_path / "own").vocab_size == 18
    assert model_dir.read_cleaning(tmp_path / "own") == {
        "lower_case": True,
        "strip_accents": False,
    }


@pytest.mark.parametrize("old", [TOKENS, [*TOKENS[:5], "other", *TOKENS[6:]]])
def test_a_grown_vocabulary_is_compared_with_the_old_one_that_is_named(
    old, models, tmp_path
):
    """A pretrained folder holds none of its own."""
    convert(models / "released", tmp_path / "model", "own")
    (tmp_path / "model" / "vocab.txt").unlink()
    (tmp_path / "model" / "tokenizer.json").unlink()
    (tmp_path / "old.txt").write_text("\n".join(old) + "\n")
    (tmp_path / "new.txt").write_text("\n".join([*TOKENS, "x", "y"]) + "\n")
    done = run_script(
        "convert_checkpoint.py",
        "--from=model",
        "--to=grown",
        "--layout=own",
        "--vocab_file=new.txt",
        "--old_vocabulary=old.txt",
        "--resize_vocabulary=17",
        cwd=tmp_path,
    )
    if old == TOKENS:
        assert done.returncode == 0, done.stderr
        assert model_dir.read_config(tmp_path / "grown").vocab_size == 17
        return
    assert_one_line(done, 1, "old.txt")
    assert not (tmp_path / "grown").exists()


SCRIPT_ERRORS = {
    "no flags": ([], 2, "from"),
    "no layout": (["--from=released", "--to=new"], 2, "layout"),
    "odd layout": (["--from=released", "--to=new", "--layout=torch"], 2, "torch"),
    "no weights": (["--from=nowhere", "--to=new", "--layout=own"], 1, "nowhere"),
    "in use": (["--from=released", "--to=theirs", "--layout=own"], 1, "in use"),
}


@pytest.mark.parametrize("case", SCRIPT_ERRORS)
def test_the_script_says_what_is_wrong_in_one_line(case, models):
    arguments, code, part = SCRIPT_ERRORS[case]
    before = sorted(models.iterdir())
    done = run_script("convert_checkpoint.py", *arguments, cwd=models)
    lines = done.stderr.strip().splitlines()
    assert done.returncode == code and len(lines) == 1, done.stderr
    assert lines[0].startswith("ERROR: ") and part in lines[0]
    assert sorted(models.iterdir()) == before


def test_a_hugging_face_folder_is_exported_as_it_is(models, tmp_path):
    done = run_script(
        "export_saved_model.py",
        f"--model={models}/theirs",
        f"--export_dir={tmp_path}",
        "--onnx=toy.onnx",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "\ntoy.onnx: within " in done.stdout and (tmp_path / "toy.onnx").is_file()
    some = formats.read_weights(tmp_path / "1").weights
    others = formats.read_weights(models / "released").weights
    assert_same_weights(some, {n: others[n] for n in others if n.startswith("bert/")})
    extra = tmp_path / "1" / "assets.extra"
    assert json.loads((extra / "tokenizer.json").read_text())["vocab_size"] == 15


def test_pretraining_scores_a_hugging_face_model_as_it_is(tmp_path):
    """Its shape is the one beside the weights."""
    tiny.write_rows(tmp_path / "rows.tfrecord", 5)
    config, weights = random_model()
    write_model(tmp_path / "released", weights, config)
    convert(tmp_path / "released", tmp_path / "theirs", "hugging_face")
    done = run_script(
        "run_pretraining.py",
        "--nodo_train",
        "--do_eval",
        "--eval_input_file=rows.tfrecord",
        f"--max_seq_length={tiny.MAX_SEQ_LENGTH}",
        f"--max_predictions_per_seq={tiny.MAX_PREDICTIONS}",
        "--init_checkpoint=theirs",
        "--output_dir=results",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "theirs of step 7: 32 loaded, 0 missing, 0 unused" in done.stdout
    results = json.loads((tmp_path / "results" / "results.json").read_text())
    assert results["eval_rows"] == 5 and results["global_step"] == 7


@pytest.mark.parametrize("name", ["released", "theirs"])
def test_fine_tuning_starts_from_any_folder(name, models):
    folder = model_dir.ModelDir.read(models / name)
    assert folder.config == tiny.tiny_config(vocab_size=len(TOKENS))
    assert folder.vocabulary.name == "vocab.txt"
    assert folder.tokenizer().vocab_size == len(TOKENS)
    model = ClassificationModel(folder.config, num_outputs=2, seed=1)
    heads = HEADS
    report = load_weights(model, folder.checkpoint, heads, heads)
    assert report.missing == ("output_bias", "output_weights")
    kernel = formats.read_weights(models / "released").weights
    [pooler] = [v for v in model.variables if "pooler/dense/kernel" in v.name]
    assert np.array_equal(pooler, kernel["bert/pooler/dense/kernel"])
