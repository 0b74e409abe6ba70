"""The losses and metrics of vectors of texts."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from albert_tf.task_config import Embedding
from albert_tf.tasks.create import create_task
from albert_tf.tasks.embedding import (
    cosine_loss,
    in_batch_loss,
    pair_metrics,
    retrieval_metrics,
)
from helpers.training_jobs import two_devices


def vectors(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def units(values):
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


def batch_of(keys, **more):
    ids = tf.zeros([*keys.shape, 5], tf.int32)
    return {"input_ids": ids, "text_keys": tf.constant(keys), **more}


@pytest.mark.parametrize("texts", [2, 3])
def test_each_text_is_to_find_its_own_partner(texts):
    values = vectors(7, texts, 5)
    keys = np.arange(7 * texts).reshape(7, texts)
    found = in_batch_loss({"vectors": tf.constant(values)}, batch_of(keys), scale=9.0)
    of = units(values)
    # The partners of all rows, then the texts that are not near.
    candidates = np.concatenate([of[:, text] for text in range(1, texts)])
    logits = 9.0 * of[:, 0] @ candidates.T
    expected = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(7), np.arange(7)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_equal_texts_and_rows_that_fill_are_no_negatives():
    values = vectors(4, 2, 5)
    # Rows 0 and 2 have the same partner; row 1's partner is the first text of row 0.
    keys = np.array([[0, 1], [2, 0], [3, 1], [4, 5]])
    weights = tf.constant([1.0, 1.0, 1.0, 0.0])
    found = in_batch_loss(
        {"vectors": tf.constant(values)}, batch_of(keys, row_weight=weights), scale=3.0
    )
    of = units(values)
    logits = 3.0 * of[:, 0] @ of[:, 1].T
    negatives = {0: [], 1: [0, 2], 2: [1]}
    for row, others in negatives.items():
        kept = np.exp(logits[row, [row, *others]])
        assert float(found[row]) == pytest.approx(
            -np.log(kept[0] / kept.sum()), abs=1e-5
        )


def loss_and_gradient(values, keys):
    with tf.GradientTape() as tape:
        tape.watch(values)
        ids = tf.zeros(tf.concat([tf.shape(keys), [5]], axis=0), tf.int32)
        batch = {"input_ids": ids, "text_keys": keys}
        found = in_batch_loss({"vectors": values}, batch, scale=5.0)
        total = tf.reduce_sum(found)
    return found, tape.gradient(total, values)


def test_two_replicas_have_the_loss_and_gradients_of_one():
    values, keys = vectors(6, 3, 5, seed=3), np.arange(18).reshape(6, 3)
    whole, gradient = loss_and_gradient(tf.constant(values), tf.constant(keys))
    strategy = two_devices()

    def part_of(context):
        first = 3 * context.replica_id_in_sync_group
        return tuple(tf.constant(each[first : first + 3]) for each in (values, keys))

    parts = strategy.experimental_distribute_values_from_function(part_of)

    @tf.function(autograph=False)
    def both():
        return strategy.run(lambda pair: loss_and_gradient(*pair), args=(parts,))

    found = [
        tf.concat(strategy.experimental_local_results(each), axis=0) for each in both()
    ]
    np.testing.assert_allclose(found[0], whole, rtol=1e-5)
    np.testing.assert_allclose(found[1], gradient, atol=1e-5)
    assert np.abs(gradient).max() > 0.01


def test_cosines_are_compared_with_scores():
    values, scores = vectors(6, 2, 5), np.linspace(0, 1, 6).astype(np.float32)
    batch = {"label_ids": tf.constant(scores)}
    found = cosine_loss({"vectors": tf.constant(values)}, batch)
    exact = units(values.astype(np.float64))
    cosines = (exact[:, 0] * exact[:, 1]).sum(axis=1)
    np.testing.assert_allclose(found, (cosines - scores) ** 2, atol=1e-6)
    metrics = pair_metrics({"vectors": values, "label_ids": scores})
    assert metrics["pearson"] == pytest.approx(stats.pearsonr(cosines, scores)[0])
    assert metrics["spearman"] == pytest.approx(stats.spearmanr(cosines, scores)[0])


def test_retrieval_is_scored_over_all_different_texts():
    rng = np.random.default_rng(1)
    # Texts repeat: 9 questions, 23 answers.
    keys = np.stack([rng.integers(0, 9, 40), 100 + rng.integers(0, 23, 40)], axis=1)
    points = vectors(200, 6, seed=8)
    predictions = {"vectors": points[keys], "text_keys": keys}
    found = retrieval_metrics(predictions)
    texts = np.unique(keys[:, 1])
    scores = {name: [] for name in found}
    for query in np.unique(keys[:, 0]):
        right = set(keys[keys[:, 0] == query, 1])
        near = units(points[texts]) @ units(points[query])
        ranked = texts[np.argsort(-near)]
        hits = [text in right for text in ranked[:10]]
        scores["accuracy_at_1"].append(hits[0])
        scores["recall_at_10"].append(sum(hits) / len(right))
        scores["mrr_at_10"].append(1 / (1 + hits.index(True)) if any(hits) else 0)
        gains = 1 / np.log2(np.arange(2, 12))
        ideal = gains[: min(len(right), 10)].sum()
        scores["ndcg_at_10"].append((gains * hits).sum() / ideal)
    assert found == pytest.approx({n: np.mean(v) for n, v in scores.items()})
    assert 0 < found["mrr_at_10"] < 1


def test_the_task_is_scored_by_what_its_rows_have():
    scored = Embedding("toy", loss="cosine", has_scores=True)
    assert create_task(scored).best_metric == "spearman"
    assert create_task(Embedding("toy")).best_metric == "mrr_at_10"
    for wrong, match in (
        ({"loss": "cosine"}, "needs pairs with scores"),
        ({"pooling": "max"}, "pooling"),
        ({"scale": 0.0}, "scale"),
        ({"bounds": (1, 1)}, "bounds"),
    ):
        with pytest.raises(ValueError, match=match):
            Embedding("toy", **wrong)
