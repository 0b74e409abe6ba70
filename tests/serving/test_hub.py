"""The signatures of the original's hub modules."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import heads
from albert_tf.model.heads import PretrainingModel
from albert_tf.serving import hub
from helpers.fine_tuning_toys import TASK_CONFIG, config
from helpers.scripts import assert_one_line, run_script, succeed
from helpers.served_models import export_folder, write_classifier, write_model


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """The folder of a pretrained model, and the model."""
    folder = tmp_path_factory.mktemp("own")
    shape = config(initializer_range=0.4, hidden_dropout_prob=0.4)
    model = PretrainingModel(shape, seed=4)
    write_model(folder, TASK_CONFIG, model, shape)
    (folder / "task.json").unlink()
    return folder, model


def rows():
    rng = np.random.default_rng(6)
    mask = np.arange(9) < np.array([[9], [5], [7]])
    return {
        "input_ids": tf.constant(rng.integers(5, 20, mask.shape) * mask, tf.int32),
        "input_mask": tf.constant(mask, tf.int32),
        "segment_ids": tf.constant(mask & (np.arange(9) > 3), tf.int32),
    }


def test_signatures_have_the_originals_names_and_numbers(pretrained, tmp_path):
    folder, model = pretrained
    version = export_folder(folder, tmp_path / "served", hub=True)
    loaded = tf.saved_model.load(str(version))
    assert set(hub.NAMES) <= set(loaded.signatures)
    assert {"serving_default", "ids", "examples"} <= set(loaded.signatures)
    batch, positions = rows(), tf.constant([[1, 4], [2, 0], [6, 3]])
    expected = model({**batch, "masked_lm_positions": positions}, training=False)
    encoded = model.encoder(batch, training=False)
    found = loaded.signatures["tokens"](**batch)
    assert set(found) == {"sequence_output", "pooled_output"}
    for name, value in found.items():
        np.testing.assert_allclose(value, encoded[name], atol=1e-5)
    found = loaded.signatures["sop"](**batch)
    assert set(found) == {"sequence_output", "pooled_output", "sop_log_probs"}
    logits = expected["sentence_order_logits"]
    np.testing.assert_allclose(
        found["sop_log_probs"], tf.nn.log_softmax(logits), atol=1e-5
    )
    found = loaded.signatures["mlm"](**batch, mlm_positions=positions)
    assert set(found) == {"sequence_output", "pooled_output", "mlm_logits"}
    logits = tf.reshape(expected["masked_lm_logits"], [6, -1])
    np.testing.assert_allclose(found["mlm_logits"], logits, atol=1e-4)
    with pytest.raises(tf.errors.InvalidArgumentError, match="columns of input_ids"):
        loaded.signatures["mlm"](**batch, mlm_positions=positions + 3)


def test_the_vocabulary_moves_with_the_model(pretrained, tmp_path):
    folder, _ = pretrained
    version = export_folder(folder, tmp_path / "served", hub=True)
    moved = version.rename(tmp_path / "elsewhere")
    info = tf.saved_model.load(str(moved)).signatures["tokenization_info"]()
    file = Path(info["vocab_file"].numpy().decode())
    assert file.parent == moved / "assets"
    assert file.read_bytes() == (folder / "vocab.txt").read_bytes()
    assert info["do_lower_case"].numpy()


def test_the_script_adds_them(pretrained, tmp_path):
    folder, _ = pretrained
    command = [f"--model={folder}", "--export_dir=served", "--signatures=hub"]
    assert "Exported" in succeed("export_saved_model.py", *command, cwd=tmp_path)
    loaded = tf.saved_model.load(str(tmp_path / "served" / "1"))
    assert set(hub.NAMES) <= set(loaded.signatures)


def test_other_models_are_refused(pretrained, tmp_path):
    classifier = tmp_path / "classifier"
    classifier.mkdir()
    write_classifier(classifier, ["a", "b"], pair=False)
    command = ["--export_dir=served", "--signatures=hub"]
    done = run_script(
        "export_saved_model.py", f"--model={classifier}", *command, cwd=tmp_path
    )
    assert_one_line(done, 1, f"no {heads.MASKED_LM} and no {heads.SENTENCE_ORDER} head")
    folder, _ = pretrained
    without = tmp_path / "without"
    without.mkdir()
    for file in folder.iterdir():
        if file.name != "vocab.txt":
            (without / file.name).write_bytes(file.read_bytes())
    done = run_script(
        "export_saved_model.py", f"--model={without}", *command, cwd=tmp_path
    )
    assert_one_line(done, 1, "tokenization_info names the vocabulary")
    assert not (tmp_path / "served").exists()
