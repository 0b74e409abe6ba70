"""The measurements: the optimizer alone, and two graphs on the same rows."""

import itertools

import numpy as np
import tensorflow as tf

from albert_tf.config import TrainConfig
from albert_tf.model.encoder import AlbertEncoder
from dev import training_contestants
from dev.benchmark_train import Case
from dev.training_contestants import GRAPHS, EvaluationCase, evaluation_batches
from helpers.tiny import tiny_config

CONFIG = tiny_config(num_hidden_layers=1)
CASE = EvaluationCase(CONFIG, "float32", rows=5, length=23, batches=3, repeats=1)


def test_an_optimizer_step_is_timed():
    train_config = TrainConfig("unused", train_batch_size=4)
    case = Case("tiny.json", train_config, "lamb", 11, 3, 1, CONFIG)
    step = training_contestants.make_optimizer_step(case)
    seconds, _ = step()
    assert 0 < step()[0] < seconds


def test_rows_of_an_evaluation_have_the_lengths_that_their_name_says():
    batches = evaluation_batches(CASE)
    lengths = {
        name: [batch["input_mask"].sum(axis=1).tolist() for batch in parts]
        for name, parts in batches.items()
    }
    assert lengths["full length"] == [[23] * 5]
    in_order = [*itertools.chain(*lengths["mixed lengths, sorted"])]
    assert in_order == sorted(in_order) and in_order[0] == 4 and in_order[-1] == 23
    shuffled = [*itertools.chain(*lengths["mixed lengths, any order"])]
    assert sorted(shuffled) == in_order != shuffled
    for batch in [batch for parts in batches.values() for batch in parts]:
        width = batch["input_ids"].shape[1]
        assert width % 8 == 0 and 0 <= width - batch["input_mask"].sum(1).max() < 8
        assert ((batch["input_ids"] > 0) == batch["input_mask"]).all()


def test_both_graphs_answer_the_same_and_one_skips_padding(monkeypatch):
    taken, infer = [], AlbertEncoder._infer
    monkeypatch.setattr(
        AlbertEncoder, "_infer", lambda *a: taken.append(a) or infer(*a)
    )
    batch = evaluation_batches(CASE)["mixed lengths, any order"][0]
    answers = [training_contestants._forward(CASE, skips) for skips in (True, False)]
    found, expected = (graph(batch).numpy() for graph in answers)
    assert found.shape == (5, 2) and len(taken) == 1
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_rows_a_second_are_those_of_the_fastest_repeat(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(training_contestants.time, "perf_counter", lambda: clock[0])
    steps = {"inference": [90, 2, 4], "training": [80, 8, 5]}

    def graph(name):
        def call(batch):
            clock[0] += steps[name].pop(0)
            return tf.zeros([])

        return call

    batches = [{"input_ids": np.zeros([20, 3])}]
    graphs = {name: graph(name) for name in GRAPHS}
    found = training_contestants._rows_per_second(graphs, batches, repeats=2)
    assert found == {"inference": 10.0, "training": 4.0}
