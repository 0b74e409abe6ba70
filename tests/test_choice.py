"""The multiple-choice model, against the original's numbers and by its properties."""

import numpy as np
import pytest
import tensorflow as tf

import tiny
from albert_tf import checkpoints, losses, metrics
from albert_tf.choice import MultipleChoiceModel
from albert_tf.config import AlbertConfig

INPUTS = ("input_ids", "input_mask", "segment_ids")
QUESTIONS, OPTIONS, LENGTH = 2, 5, 7


@pytest.fixture(scope="module")
def case(reference):
    """The original's numbers and a model with its weights."""
    folder = reference / "head_multiple_choice"
    config = AlbertConfig.from_json(folder / "albert_config.json")
    model = MultipleChoiceModel(config, seed=1)
    report = checkpoints.load_tf1_checkpoint(model, folder)
    assert report.missing == report.unused == ()
    return model, np.load(folder / "expected.npz")


def test_outputs_and_losses_equal_the_originals(case):
    model, expected = case
    batch = {name: tf.constant(expected[name]) for name in INPUTS}
    batch["label"] = tf.constant(expected["label_ids"])
    outputs = model(batch)
    logits = outputs["choice_logits"]
    found = {
        "logits": logits,
        "probabilities": tf.nn.softmax(logits),
        "per_example_loss": losses.choice(outputs, batch),
        "loss": tf.reduce_mean(losses.choice(outputs, batch)),
    }
    for name, value in found.items():
        np.testing.assert_allclose(
            value, expected[name], rtol=0, atol=1e-5, err_msg=name
        )
    correct = metrics.choice_correct(outputs, batch).numpy()
    best = expected["logits"].argmax(axis=-1)
    assert correct.tolist() == (best == expected["label_ids"]).tolist()


@pytest.fixture(scope="module")
def toy():
    """A model whose weights are large enough that every input matters."""
    return MultipleChoiceModel(tiny.tiny_config(initializer_range=0.5), seed=3)


def random_batch(rng):
    """Questions whose options have lengths of their own."""
    shape = (QUESTIONS, OPTIONS, LENGTH)
    lengths = rng.integers(3, LENGTH + 1, shape[:2])
    mask = (np.arange(LENGTH) < lengths[..., None]).astype(np.int32)
    return {
        "input_ids": rng.integers(5, tiny.VOCAB_SIZE, shape).astype(np.int32) * mask,
        "input_mask": mask,
        "segment_ids": rng.integers(0, 2, shape).astype(np.int32) * mask,
    }


def scores(model, batch):
    return model({n: tf.constant(v) for n, v in batch.items()})["choice_logits"].numpy()


def test_reordered_options_get_reordered_scores(toy):
    rng = np.random.default_rng(0)
    batch, order = random_batch(rng), rng.permutation(OPTIONS)
    plain = scores(toy, batch)
    assert np.ptp(plain, axis=1).min() > 0.1
    permuted = scores(toy, {n: v[:, order] for n, v in batch.items()})
    np.testing.assert_allclose(permuted, plain[:, order], rtol=0, atol=1e-5)


def test_padding_changes_no_score(toy):
    batch = random_batch(np.random.default_rng(1))
    wider = {n: np.pad(v, [(0, 0), (0, 0), (0, 4)]) for n, v in batch.items()}
    np.testing.assert_allclose(
        scores(toy, wider), scores(toy, batch), rtol=0, atol=1e-5
    )


def test_missing_options_have_no_share_and_change_no_loss(toy):
    rng = np.random.default_rng(2)
    batch = random_batch(rng)
    padded = {n: np.pad(v, [(0, 0), (0, 3), (0, 0)]) for n, v in batch.items()}
    plain, found = scores(toy, batch), scores(toy, padded)
    np.testing.assert_allclose(found[:, :OPTIONS], plain, rtol=0, atol=1e-5)
    shares = tf.nn.softmax(found).numpy()
    assert (shares[:, OPTIONS:] == 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-6)
    labels = {"label": tf.constant(rng.integers(OPTIONS, size=QUESTIONS), tf.int32)}
    values = [
        losses.choice({"choice_logits": tf.constant(logits)}, labels)
        for logits in (plain, found)
    ]
    np.testing.assert_allclose(values[0], values[1], rtol=0, atol=1e-5)


def test_a_row_that_fills_a_batch_has_a_finite_loss_and_gradient(toy):
    batch = {
        n: np.zeros_like(v) for n, v in random_batch(np.random.default_rng(3)).items()
    }
    label = {"label": tf.zeros([QUESTIONS], tf.int32)}
    with tf.GradientTape() as tape:
        outputs = toy({n: tf.constant(v) for n, v in batch.items()})
        loss = tf.reduce_sum(losses.choice(outputs, label))
    np.testing.assert_allclose(loss, QUESTIONS * np.log(OPTIONS), rtol=1e-5)
    for gradient in tape.gradient(loss, toy.trainable_variables):
        gradient = tf.convert_to_tensor(gradient)
        assert np.isfinite(gradient.numpy()).all()


def test_the_head_alone_drops_in_training_and_by_the_seed():
    config = tiny.tiny_config()  # Without dropout of its own, as ALBERT's version 2.
    model = MultipleChoiceModel(config, seed=3, head_dropout=0.5)
    batch = {
        n: tf.constant(v) for n, v in random_batch(np.random.default_rng(4)).items()
    }

    def call(**arguments):
        return model(batch, **arguments)["choice_logits"].numpy()

    one, same, other = (
        call(training=True, dropout_seed=tf.constant(seed))
        for seed in ([1, 2], [1, 2], [1, 3])
    )
    assert (one == same).all() and (one != other).any()
    assert (call() == call(dropout_seed=tf.constant([1, 2]))).all()
    assert (one != call()).any()
    assert (call(training=True) != call(training=True)).any()
