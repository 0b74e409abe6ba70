"""Heads of question answering against the original's numbers, and by properties."""

import re

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.load import load_tf1_checkpoint, released_name
from albert_tf.config import AlbertConfig
from albert_tf.model.span_heads import AnswerableSpanModel, SpanModel
from albert_tf.tasks import span_losses
from helpers.span_batches import MASKED, random_batch
from helpers.tiny import tiny_config

TOLERANCE = {"rtol": 0, "atol": 1e-5}


def load(model, folder, encoder_scope):
    """Fills a model from a frozen checkpoint that may have two encoders."""
    reader = tf.train.load_checkpoint(str(folder / "model.ckpt-best"))
    for variable in model.variables:
        name = released_name(variable)
        name = re.sub("^bert/", f"{encoder_scope}/", name)
        variable.assign(reader.get_tensor(name))


def frozen(folder):
    expected = np.load(folder / "expected.npz")
    inputs = {"input_ids", "input_mask", "segment_ids", "p_mask", "is_impossible"}
    inputs |= {"start_positions", "end_positions"}
    batch = {n: tf.constant(expected[n]) for n in inputs & set(expected.files)}
    return expected, batch, AlbertConfig.from_json(folder / "albert_config.json")


def test_start_and_end_logits_equal_the_originals(reference):
    expected, batch, config = frozen(reference / "head_span_v1")
    model = SpanModel(config, seed=1)
    load_tf1_checkpoint(model, reference / "head_span_v1")
    outputs = model(batch)
    # Nothing is computed for padding.
    tokens = batch["input_mask"].numpy() == 1
    for name in ("start_logits", "end_logits"):
        found = outputs[name].numpy()
        np.testing.assert_allclose(found[tokens], expected[name][tokens], **TOLERANCE)


@pytest.fixture(scope="module")
def answerable(reference):
    """(encoder scope) -> outputs with beams, the expected numbers, the batch."""
    folder = reference / "head_span_v2"
    expected, batch, config = frozen(folder)
    model = AnswerableSpanModel(config, seed=1, start_n_top=2, end_n_top=3)

    def outputs(scope):
        load(model, folder, scope)
        return {name: value.numpy() for name, value in model(batch).items()}

    return outputs, expected, batch


def test_ends_given_the_true_start_and_answerability_equal_the_originals(answerable):
    outputs, expected, _ = answerable
    outputs = outputs("bert")
    for name in ("start_log_probs", "end_log_probs"):
        wanted = expected[f"train_{name}"]
        chosen = wanted > MASKED
        np.testing.assert_allclose(outputs[name][chosen], wanted[chosen], **TOLERANCE)
        assert np.all(outputs[name][~chosen] < MASKED)
    np.testing.assert_allclose(
        outputs["no_answer_logits"], expected["train_cls_logits"], **TOLERANCE
    )


def test_the_loss_of_v2_is_the_originals(answerable):
    """One of the frozen rows trains on a position that it masks: its loss is 1e30."""
    outputs, expected, batch = answerable
    outputs = outputs("bert")
    per_row = span_losses.conditional_span_loss(outputs, batch)
    per_row += span_losses.half_answerability_loss(outputs, batch)
    np.testing.assert_allclose(np.mean(per_row), expected["train_loss"], rtol=1e-6)
    for row in (0, 2):
        start, end = (int(batch[f"{n}_positions"][row]) for n in ("start", "end"))
        logit = float(expected["train_cls_logits"][row])
        assert not batch["is_impossible"][row]
        wanted = -expected["train_start_log_probs"][row, start] / 2
        wanted -= expected["train_end_log_probs"][row, end] / 2
        wanted += np.log1p(np.exp(logit)) / 2
        np.testing.assert_allclose(per_row[row], wanted, **TOLERANCE)


def test_beams_equal_the_originals(answerable):
    outputs, expected, _ = answerable
    outputs = outputs("bert_1")
    starts = np.repeat(expected["predict_start_top_index"], 3, axis=1)
    np.testing.assert_array_equal(outputs["span_starts"], starts)
    np.testing.assert_array_equal(
        outputs["span_ends"], expected["predict_end_top_index"]
    )
    scores = np.repeat(expected["predict_start_top_log_probs"], 3, axis=1)
    scores = scores + expected["predict_end_top_log_probs"]
    np.testing.assert_allclose(outputs["span_scores"], scores, **TOLERANCE)
    np.testing.assert_allclose(
        outputs["no_answer_logits"], expected["predict_cls_logits"], **TOLERANCE
    )


def without_padding(batch, length):
    return {n: v[:, :length] if v.shape.rank == 2 else v for n, v in batch.items()}


MODELS = {
    "v1.1": (SpanModel, span_losses.span_loss),
    "v2.0": (AnswerableSpanModel, span_losses.conditional_span_loss),
}


@pytest.mark.parametrize("version", MODELS)
def test_padding_changes_neither_loss_nor_spans(version):
    model_class, loss = MODELS[version]
    model = model_class(tiny_config(initializer_range=0.5), seed=3)
    padded = random_batch(rows=4, length=19, seed=1, paddings=6)
    plain = without_padding(padded, 13)
    find = span_losses.best_spans(n_best_size=5, max_answer_length=7)
    results = []
    for batch in (padded, plain):
        outputs = model(batch)
        found = find(outputs, batch) if version == "v1.1" else outputs
        names = ("span_starts", "span_ends", "span_scores")
        results.append([loss(outputs, batch), *(found[name] for name in names)])
    for with_padding, without in zip(*results, strict=True):
        np.testing.assert_allclose(with_padding, without, rtol=1e-4, atol=1e-5)


def test_more_beams_than_positions_are_filled_up_with_impossible_ones():
    model = AnswerableSpanModel(tiny_config(), seed=3, start_n_top=9, end_n_top=11)
    batch = random_batch(rows=2, length=7, seed=5)
    outputs = model(batch)
    assert outputs["span_starts"].shape == (2, 99)
    allowed = np.sum(batch["p_mask"] == 0, axis=1)
    for row in range(2):
        real = outputs["span_scores"][row] > MASKED
        assert np.sum(real) == allowed[row] ** 2
        assert set(outputs["span_starts"][row].numpy()[real]) == set(
            np.flatnonzero(batch["p_mask"][row] == 0)
        )


@pytest.mark.parametrize("version", MODELS)
def test_xla_compiles_losses_and_spans_for_one_shape(version):
    """As TPUs need them; the results stay the same."""
    model_class, loss = MODELS[version]
    model = model_class(tiny_config(initializer_range=0.5), seed=3)
    batch = random_batch(rows=2, length=13, seed=4, paddings=2)
    find = span_losses.best_spans(n_best_size=5, max_answer_length=7)

    def compute():
        outputs = model(batch)
        found = find(outputs, batch) if version == "v1.1" else outputs
        names = ("span_starts", "span_ends", "span_scores")
        return [loss(outputs, batch), *(found[name] for name in names)]

    compiled = tf.function(compute, jit_compile=True)()
    for ours, eager in zip(compiled, compute(), strict=True):
        np.testing.assert_allclose(ours, eager, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("version", MODELS)
def test_every_weight_but_the_poolers_learns(version):
    model_class, loss = MODELS[version]
    model = model_class(tiny_config(), seed=3)
    batch = random_batch(rows=3, length=11, seed=2)
    with tf.GradientTape() as tape:
        outputs = model(batch, training=True, dropout_seed=tf.constant([1, 2]))
        total = tf.reduce_sum(loss(outputs, batch))
        if version == "v2.0":
            total += tf.reduce_sum(span_losses.half_answerability_loss(outputs, batch))
    gradients = tape.gradient(total, model.trainable_variables)
    assert all(gradient is not None for gradient in gradients)
    trained = {released_name(v) for v in model.trainable_variables}
    others = {released_name(v) for v in model.variables} - trained
    assert others == {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}


def test_head_dropout_depends_on_its_seed_alone_and_is_off_in_prediction():
    config = tiny_config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    batch = random_batch(rows=3, length=11, seed=2)
    model = AnswerableSpanModel(config, seed=3, head_dropout=0.5)

    def logits(**options):
        return model(batch, **options)["no_answer_logits"].numpy()

    first = logits(training=True, dropout_seed=tf.constant([1, 2]))
    again = logits(training=True, dropout_seed=tf.constant([1, 2]))
    other = logits(training=True, dropout_seed=tf.constant([1, 3]))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)
    model_without = AnswerableSpanModel(config, seed=3, head_dropout=0.0)
    plain = model_without(batch)["no_answer_logits"]
    np.testing.assert_allclose(logits(), plain, **TOLERANCE)
