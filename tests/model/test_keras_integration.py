"""The encoder and the models inside a user's own Keras code: fit, save and load."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from albert_tf.config import OptimizerConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.heads import (
    ClassificationModel,
    MultipleChoiceModel,
    PretrainingModel,
)
from albert_tf.model.precision import policy_scope
from albert_tf.model.span_heads import AnswerableSpanModel, SpanModel
from albert_tf.training.optimization import create_optimizer
from helpers.tiny import VOCAB_SIZE, tiny_config

ROWS, LENGTH = 6, 7
INPUTS = ("input_ids", "input_mask", "segment_ids")
CONFIG = tiny_config(
    num_hidden_layers=3,
    attention_groups=3,
    initializer_range=0.3,
    hidden_dropout_prob=0.1,
)
POLICIES = ("float32", "mixed_bfloat16")
WAYS = ("saved_model", "keras", "h5", "configuration", "weights", "weights.h5")


def make_batch(shape=(ROWS, LENGTH)):
    rng = np.random.default_rng(3)
    return {
        "input_ids": rng.integers(5, VOCAB_SIZE, shape).astype(np.int32),
        "input_mask": np.ones(shape, np.int32),
        "segment_ids": rng.integers(0, 2, shape).astype(np.int32),
    }


LABELS = np.arange(ROWS) % 2


def functional_model(config=CONFIG):
    """A classifier of a user: the encoder, and a layer of Keras on top."""
    inputs = {
        name: tf_keras.Input([None], dtype=tf.int32, name=name) for name in INPUTS
    }
    encoded = AlbertEncoder(config, seed=1, name="albert")(inputs)
    dense = tf_keras.layers.Dense(2, dtype="float32", name="label")
    return tf_keras.Model(inputs, dense(encoded["pooled_output"]))


def fit(model, labels):
    """Losses of a few steps; labels may be a dict of output name -> values."""
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    losses = dict.fromkeys(labels, loss) if isinstance(labels, dict) else loss
    model.compile(tf_keras.optimizers.Adam(0.01), losses)
    history = model.fit(make_batch(), labels, epochs=4, batch_size=ROWS, verbose=0)
    return history.history["loss"]


@pytest.fixture(scope="module", params=POLICIES)
def fitted(request):
    """The name of a policy, a model that was fit under it, and its losses."""
    # The weights of the user's layer, and dropout.
    tf_keras.utils.set_random_seed(1)
    with policy_scope(tf_keras.mixed_precision.Policy(request.param)):
        model = functional_model()
        losses = fit(model, LABELS)
    return request.param, model, losses


def test_a_functional_model_learns(fitted):
    _, model, losses = fitted
    assert losses[-1] < losses[0]
    encoder = model.get_layer("albert")
    assert len(encoder.trainable_variables) == len(encoder.variables) > 30


def load_again(model, way, path):
    if way == "configuration":
        again = tf_keras.Model.from_config(model.get_config())
        again.set_weights(model.get_weights())
    elif way.startswith("weights"):
        model.save_weights(str(path / f"model.{way}"))
        again = tf_keras.Model.from_config(model.get_config())
        again.load_weights(str(path / f"model.{way}"))
    else:
        suffix = {"saved_model": ""}.get(way, f".{way}")
        model.save(str(path / f"model{suffix}"))
        again = tf_keras.models.load_model(str(path / f"model{suffix}"))
    return again


@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")
@pytest.mark.parametrize("way", WAYS)
def test_a_saved_model_gives_the_same_outputs(fitted, way, tmp_path):
    policy, model, _ = fitted
    # The global policy is float32 here; the layers keep their own.
    again = load_again(model, way, tmp_path)
    encoder = again.get_layer("albert")
    assert isinstance(encoder, AlbertEncoder) and encoder.config == CONFIG
    assert encoder.dtype_policy.name == encoder.pooler.dtype_policy.name == policy
    batch = make_batch()
    expected = model.predict(batch, verbose=0)
    np.testing.assert_array_equal(again.predict(batch, verbose=0), expected)


def test_dropout_is_applied_in_training_alone(fitted):
    _, model, _ = fitted
    batch = make_batch()
    plain, trained = (np.asarray(model(batch, training=t)) for t in (False, True))
    assert np.array_equal(plain, model(batch)) and not np.array_equal(plain, trained)


def test_the_encoder_takes_a_configuration_as_a_dict():
    one, other = AlbertEncoder(CONFIG, seed=2), AlbertEncoder(CONFIG.to_dict(), seed=2)
    assert one.config == other.config
    for a, b in zip(one.variables, other.variables, strict=True):
        assert np.array_equal(a, b)


def test_a_policy_given_to_the_encoder_is_that_of_its_parts():
    encoder = AlbertEncoder(CONFIG, seed=2, dtype="mixed_bfloat16")
    assert tf_keras.mixed_precision.global_policy().name == "float32"
    assert encoder(make_batch())["sequence_output"].dtype == tf.bfloat16
    assert {v.dtype for v in encoder.variables} == {tf.float32}


MODELS = {
    "pretraining": lambda: PretrainingModel(CONFIG, seed=4),
    "classification": lambda: ClassificationModel(CONFIG, num_outputs=3, seed=4),
    "multiple choice": lambda: MultipleChoiceModel(CONFIG, head_dropout=0.2, seed=4),
    "span": lambda: SpanModel(CONFIG, seed=4),
    "answerable": lambda: AnswerableSpanModel(
        CONFIG, seed=4, start_n_top=2, end_n_top=3, dtype="mixed_bfloat16"
    ),
}


def batch_for(name):
    shape = (2, 3, LENGTH) if name == "multiple choice" else (ROWS, LENGTH)
    batch = make_batch(shape)
    if name == "pretraining":
        batch["masked_lm_positions"] = np.full((ROWS, 2), 3, np.int32)
    if name == "answerable":
        batch["p_mask"] = batch["segment_ids"]
    return batch


@pytest.mark.parametrize("name", MODELS)
def test_every_model_survives_its_configuration_and_the_format_of_keras(name, tmp_path):
    model, batch = MODELS[name](), batch_for(name)
    expected = model(batch)
    twin = type(model).from_config(model.get_config())
    model.save(tmp_path / "model.keras")
    again = tf_keras.models.load_model(tmp_path / "model.keras")
    assert type(again) is type(model) and again.get_config() == model.get_config()
    for other in (twin, again):
        outputs = other(batch)
        assert outputs.keys() == expected.keys()
        for key, value in expected.items():
            assert outputs[key].dtype == value.dtype
            np.testing.assert_array_equal(outputs[key], value, err_msg=key)
        trained = [variable.name for variable in other.trainable_variables]
        assert trained == [variable.name for variable in model.trainable_variables]


def test_a_model_with_a_head_learns_and_is_saved_as_a_saved_model(tmp_path):
    model = MODELS["classification"]()
    losses = fit(model, {"logits": LABELS})
    assert losses[-1] < losses[0]
    model.save(tmp_path / "saved")
    again = tf_keras.models.load_model(tmp_path / "saved")
    assert isinstance(again, ClassificationModel)
    batch = make_batch()
    np.testing.assert_array_equal(
        again.predict(batch, verbose=0)["logits"],
        model.predict(batch, verbose=0)["logits"],
    )


@pytest.mark.parametrize("keras_norm", [None, 1e-9])
def test_fit_clips_by_the_norm_that_keras_has(keras_norm):
    optimizer = create_optimizer(
        OptimizerConfig("adamw", 1e-3, num_warmup_steps=0, clip_norm=1e-9)
    )
    optimizer.global_clipnorm = keras_norm
    model = tf_keras.Sequential([tf_keras.layers.Dense(3, input_shape=(4,))])
    model.compile(optimizer, "mse", run_eagerly=True)
    before = model.get_weights()[1]
    model.fit(np.ones([5, 4]), np.full([5, 3], 9.0), batch_size=5, verbose=0)
    moved = np.abs(model.get_weights()[1] - before).max()
    assert moved < 1e-4 if keras_norm else moved > 1e-3
