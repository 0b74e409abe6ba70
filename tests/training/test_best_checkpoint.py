"""The best weights: which evaluation counts, and what is stored with it."""

import tensorflow as tf

from albert_tf.checkpoints import formats
from albert_tf.checkpoints.model_dir import ModelDir
from albert_tf.model.heads import ClassificationModel
from albert_tf.training.best_checkpoint import BestWeights
from helpers.fine_tuning_toys import config


def test_a_metric_that_is_not_defined_is_never_the_best(tmp_path, capsys):
    model = ClassificationModel(config(), num_outputs=2, seed=1)
    best = BestWeights(tmp_path, "pearson", {})
    for step, value in enumerate([None, 0.1, None, -0.3]):
        best.offer(model, {"pearson": value}, step)
        assert best.report() == (
            None if step == 0 else {"pearson": 0.1, "global_step": 1}
        )
    assert best.evaluations_since(3, 1) == 2
    warnings = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in warnings] == [
        "WARNING: pearson is undefined at step 0",
        "WARNING: pearson is undefined at step 2",
    ]


def test_the_first_of_equal_evaluations_stays_with_its_files(tmp_path):
    model = ClassificationModel(config(), num_outputs=2, seed=1)
    best = BestWeights(tmp_path, "accuracy", {"note.txt": b"kept"})
    assert best.report() is None and best.evaluations_since(9, 3) == 0
    for step in (3, 6):
        best.offer(model, {"accuracy": 0.5}, step)
    assert best.report() == {"accuracy": 0.5, "global_step": 3}
    assert best.evaluations_since(9, 3) == 2
    found = ModelDir.read(tmp_path)
    assert found.checkpoint == str(tmp_path / "best" / "model.ckpt-3")
    reader = tf.train.load_checkpoint(found.checkpoint)
    assert reader.get_tensor("global_step/.ATTRIBUTES/VARIABLE_VALUE") == 3
    assert formats.read_step(tmp_path) == 3
    assert (tmp_path / "best" / "note.txt").read_bytes() == b"kept"
