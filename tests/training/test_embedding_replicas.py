"""Vectors are trained on two replicas as on one with the whole batch."""

import json

import numpy as np
import pytest

from albert_tf.checkpoints.formats import read_weights
from albert_tf.task_config import Embedding
from albert_tf.training.fine_tune import fine_tune, new_model
from data_prep.fine_tuning import embedding_data
from helpers.fine_tuning_toys import WORDS, config, write_vocabulary
from helpers.training_jobs import one_device, two_devices

# The loss in the results is the mean of the last loop.
SETTINGS = {
    "num_train_steps": 3,
    "num_warmup_steps": 0,
    "train_batch_size": 6,
    "iterations_per_loop": 3,
}


@pytest.mark.parametrize("negative", [None, "c"])
def test_two_replicas_end_with_the_weights_of_one(tmp_path, negative):
    rng = np.random.default_rng(4)
    rows = [
        {name: " ".join(rng.choice(WORDS, rng.integers(1, 7))) for name in "abc"}
        for _ in range(24)
    ]
    file = tmp_path / "train.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    shape = config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    start = new_model(shape, write_vocabulary(tmp_path))
    columns = {"text": "a", "text_pair": "b"} | ({"negative": "c"} if negative else {})
    data = embedding_data.pairs(
        {"train": file},
        start.tokenizer(),
        Embedding("custom", max_seq_length=9, columns=columns),
        cache_dir=tmp_path / "cache",
    )
    found = {}
    for name, strategy in {"one": one_device(), "two": two_devices()}.items():
        folder = tmp_path / name
        outcome = fine_tune(start, data, folder, strategy=strategy, **SETTINGS)
        found[name] = outcome.results["train"]["loss"], read_weights(folder).weights
    assert found["one"][0] == pytest.approx(found["two"][0], rel=1e-4)
    for name, values in found["one"][1].items():
        # The first steps of an optimizer magnify gradients of almost nothing.
        near = np.isclose(values, found["two"][1][name], atol=1e-5)
        assert near.mean() > 0.98, name
