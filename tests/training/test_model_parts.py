"""Frozen parts, and rates of layers and heads."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.analysis.step_lowering import build_step
from albert_tf.checkpoints.load import released_name
from albert_tf.config import OptimizerConfig, TrainConfig
from albert_tf.model.heads import PretrainingModel
from albert_tf.tasks.pretraining import PRETRAINING
from albert_tf.training import model_parts, optimization
from albert_tf.training import run as training_run
from albert_tf.training.run_folder import RunFolder
from albert_tf.training.session import Session
from helpers.tiny import tiny_config
from helpers.training_jobs import (
    assert_equal_weights,
    make_job,
    one_device,
    train_until,
    two_devices,
    weights,
)

UNSHARED = {"num_hidden_layers": 3, "num_hidden_groups": 3}
BLOCK = "bert/encoder/transformer/group_{}/inner_group_0/"


@pytest.fixture(scope="module")
def model():
    return PretrainingModel(tiny_config(**UNSHARED), seed=3)


def test_every_variable_belongs_to_one_part(model):
    parts = {}
    for variable in model.trainable_variables:
        name = released_name(variable)
        parts.setdefault(model_parts.part_of(name), set()).add(name)
    assert parts.keys() == {"embeddings", "block", "pooler", "head"}
    projection = "bert/encoder/embedding_hidden_mapping_in/"
    assert parts["embeddings"] == {
        "bert/embeddings/word_embeddings",
        "bert/embeddings/position_embeddings",
        "bert/embeddings/token_type_embeddings",
        "bert/embeddings/LayerNorm/gamma",
        "bert/embeddings/LayerNorm/beta",
        f"{projection}kernel",
        f"{projection}bias",
    }
    assert len(parts["block"]) == 3 * 16 and len(parts["pooler"]) == 2
    assert all(name.startswith("cls/") for name in parts["head"])


def test_each_variable_moves_as_under_an_optimizer_of_its_own_rate(model):
    """The parameter groups of other libraries, with the factors written out."""
    peak, head = 0.02, 0.05
    config = OptimizerConfig(
        "adamw",
        learning_rate=peak,
        num_warmup_steps=0,
        layer_decay=0.5,
        head_learning_rate=head,
    )
    rates = {
        "bert/embeddings/word_embeddings": peak / 16,
        "bert/encoder/embedding_hidden_mapping_in/kernel": peak / 16,
        f"{BLOCK.format(0)}attention_1/self/query/kernel": peak / 8,
        f"{BLOCK.format(1)}ffn_1/intermediate/dense/bias": peak / 4,
        f"{BLOCK.format(2)}LayerNorm_1/gamma": peak / 2,
        "bert/pooler/dense/kernel": peak,
        "cls/predictions/output_bias": head,
    }
    shapes = {released_name(v): v.shape for v in model.trainable_variables}
    rng = np.random.default_rng(5)
    starts = {name: rng.normal(size=shapes[name]) for name in rates}
    gradients = {name: rng.normal(size=(2, *shapes[name])) for name in rates}

    def move(config, names):
        variables = [
            tf.Variable(starts[name], name=name, dtype=tf.float32) for name in names
        ]
        optimizer = optimization.create_optimizer(config)
        optimizer.build(variables)
        for step in range(2):
            each = [tf.constant(gradients[n][step], tf.float32) for n in names]
            optimizer.apply_gradients(zip(each, variables, strict=True))
        return [variable.numpy() for variable in variables]

    for (name, rate), moved in zip(rates.items(), move(config, rates), strict=True):
        alone = OptimizerConfig("adamw", learning_rate=rate, num_warmup_steps=0)
        [expected] = move(alone, [name])
        np.testing.assert_allclose(moved, expected, rtol=2e-6, atol=1e-7)
        assert not np.array_equal(moved, np.float32(starts[name]))


def test_rates_are_those_of_the_schedule_by_default(model):
    names = [released_name(v) for v in model.trainable_variables]
    assert model_parts.rate_factors(names, OptimizerConfig()) == {}


@pytest.mark.parametrize("shared", ["attention_groups", "ffn_groups"])
def test_layers_that_share_parameters_have_no_rates_of_their_own(shared):
    config = OptimizerConfig(layer_decay=0.9)
    model_parts.check_layers(config, tiny_config(**UNSHARED))
    wrong = tiny_config(**UNSHARED, **{shared: 1})
    with pytest.raises(ValueError, match=f"Received {shared}=1 for 3 layers: leave"):
        model_parts.check_layers(config, wrong)
    with pytest.raises(ValueError, match="Received num_hidden_groups=1 for 4 layers"):
        model_parts.check_layers(config, tiny_config())
    model_parts.check_layers(OptimizerConfig(), wrong)


def test_parts_that_the_model_does_not_train_are_refused(model):
    model.encoder.pooler.trainable = False
    try:
        with pytest.raises(ValueError, match="freeze=pooler: this model trains no poo"):
            model_parts.trained_variables(model, OptimizerConfig(freeze="pooler"))
        config = OptimizerConfig(freeze="encoder")
        trained = model_parts.trained_variables(model, config)
        assert {model_parts.part_of(released_name(v)) for v in trained} == {"head"}
    finally:
        model.encoder.pooler.trainable = True


@pytest.fixture(scope="module")
def start(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    job = make_job(rows, folder, steps=1, model_config=tiny_config(**UNSHARED))
    training_run.run(job, one_device())
    return str(folder)


def frozen_job(rows, output_dir, start, **changes):
    settings = {"freeze": "embeddings,block", "init_checkpoint": start, "steps": 6}
    settings |= {"model_config": tiny_config(**UNSHARED), "iterations_per_loop": 2}
    return make_job(rows, output_dir, **(settings | changes))


def test_frozen_parts_keep_their_bits_and_have_no_moments(rows, start, tmp_path):
    parts = {"gradient_accumulation_steps": 2, "precision": "float16"}
    training_run.run(frozen_job(rows, tmp_path, start, **parts), one_device())
    before, after = weights(start), weights(tmp_path)
    kept = 0
    for name, value in after.items():
        if not name.startswith("weights/"):
            continue
        parameter = name.removeprefix("weights/").split("/.ATTR")[0].replace(".S", "/")
        is_frozen = model_parts.part_of(parameter) in ("embeddings", "block")
        assert np.array_equal(value, before[name]) == is_frozen, name
        moment = name.replace("weights/", "first_moment/", 1)
        assert (moment in after) != is_frozen
        kept += is_frozen
    assert kept == 7 + 3 * 16


def test_the_norm_of_gradients_is_that_of_the_trained_parts(features):
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = tiny_config(num_hidden_layers=1, **no_dropout)

    def norm(freeze):
        optimizer = OptimizerConfig(freeze=freeze, num_warmup_steps=0)
        step = build_step(PRETRAINING, config, optimizer, TrainConfig("unused"))
        return float(step(features, tf.constant([1, 2]))["gradient_norm"][0])

    whole, head, encoder = norm(""), norm("encoder"), norm("head")
    assert whole == pytest.approx(np.hypot(head, encoder), rel=1e-5)
    assert 0 < head < whole


def test_a_frozen_run_is_resumed_exactly_on_any_devices(rows, start, tmp_path):
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    rates = {"head_learning_rate": 0.1}
    training_run.run(frozen_job(rows, whole, start, **rates), one_device())
    # The order of names does not matter.
    job = frozen_job(rows, halves, start, freeze="block,embeddings", **rates)
    train_until(job, 2)
    # The weights that it began with are not needed any more.
    again = frozen_job(rows, halves, "", **rates)
    training_run.run(again, one_device())
    assert_equal_weights(weights(halves), weights(whole))
    for name, value in (("freeze", "block"), ("head_learning_rate", 0.2)):
        with pytest.raises(ValueError, match=f"but {name}=.* is asked for"):
            again = frozen_job(rows, halves, start, **(rates | {name: value}))
            training_run.run(again, one_device())
    losses = []
    for name, strategy in (("one", one_device()), ("two", two_devices())):
        job = frozen_job(rows, tmp_path / name, start, steps=2, **rates)
        report = training_run.run(job, strategy)["train"]
        losses.append([report["masked_lm_loss"], report["gradient_norm"]])
        key = "weights/bert.Sembeddings.Sword_embeddings/.ATTRIBUTES/VARIABLE_VALUE"
        np.testing.assert_array_equal(
            weights(tmp_path / name)[key], weights(start)[key]
        )
    np.testing.assert_allclose(*losses, rtol=1e-4)


def test_random_weights_are_not_frozen(rows, start, tmp_path):
    job = frozen_job(rows, tmp_path, start, init_checkpoint="")
    with (
        one_device().scope(),
        pytest.raises(ValueError, match="would keep random weights, as bert/embedd"),
    ):
        Session(job, RunFolder(tmp_path, tmp_path))


def test_layers_of_a_run_that_shares_them_are_refused(rows, tmp_path):
    with pytest.raises(ValueError, match=r"layer_decay=0\.9 needs layers that share"):
        make_job(rows, tmp_path, layer_decay=0.9)
