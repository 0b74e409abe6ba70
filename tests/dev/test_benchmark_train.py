"""`benchmark.py train`: its batch, its yardstick, and a line for each case."""

import json

import numpy as np
import pytest

from albert_tf.config import TrainConfig
from dev import benchmark_train
from dev.benchmark_train import Case, product_repeats, random_batch
from helpers.scripts import succeed
from helpers.tiny import tiny_config


class Here:
    """A `Process` without one."""

    peak_megabytes = 321.0

    def __init__(self, make, *arguments):
        self._function = make(*arguments)

    def __call__(self):
        return self._function()

    def close(self):
        pass


def test_a_batch_has_no_padding_and_ids_of_the_vocabulary():
    config = tiny_config()
    train_config = TrainConfig("unused", train_batch_size=50)
    batch = random_batch(Case("tiny.json", train_config, "lamb", 11, 3, 1, config))
    assert batch["input_ids"].shape == (50, 11)
    assert 0 <= batch["input_ids"].min() < batch["input_ids"].max() < config.vocab_size
    assert set(np.unique(batch["masked_lm_positions"])) == set(range(11))
    assert batch["input_mask"].all() and batch["masked_lm_weights"].all()
    assert batch["masked_lm_weights"].dtype == np.float32


def test_as_many_products_as_take_the_time_of_a_step():
    assert product_repeats(1.0, 0.26) == 4 and product_repeats(0.1, 1.0) == 1


def test_each_case_is_a_line_and_json(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark_train, "Process", Here)
    monkeypatch.setattr(benchmark_train, "_YARDSTICK_SIDE", 32)
    tiny_config(num_hidden_layers=1).to_json(tmp_path / "toy.json")
    printed = succeed(
        "benchmark.py",
        "train",
        "--albert_config_files=toy.json",
        "--precisions=float32",
        "--batch_sizes=3",
        "--benchmark_steps=2",
        "--max_seq_length=11",
        "--max_predictions_per_seq=3",
        cwd=tmp_path,
    )
    head, line, values = printed.splitlines()[-3:]
    assert head.split()[:2] == ["model", "precision"]
    assert line.split()[:4] == ["toy", "float32", "none", "3"]
    [result] = json.loads(values)
    assert result["peak_memory_megabytes"] == 321.0
    speed = result["steps_per_second"]
    assert result["examples_per_second"] == pytest.approx(3 * speed, rel=1e-12)
    assert 0 < result["median_steps_per_second"] <= speed
