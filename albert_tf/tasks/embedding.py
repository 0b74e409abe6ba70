"""The task of vectors of texts whose cosines say how near the texts are.

Letters in shapes: B rows of a replica, G of all replicas, C texts of a row (a text, one
that is near to it, and perhaps one that is not), H hidden.
"""

import functools
from typing import Any

import numpy as np
import tensorflow as tf
from sklearn.metrics import ndcg_score
from sklearn.metrics.pairwise import cosine_similarity, paired_cosine_distances

from albert_tf.model.sentence_vectors import EmbeddingModel
from albert_tf.records.features import embedding_features
from albert_tf.task_config import Embedding
from albert_tf.tasks import losses
from albert_tf.tasks.base import Arrays, Task, Tensors, WeightedMean
from albert_tf.tasks.metrics import METRICS

# Results that retrieval is scored by.
_TOP = 10
# Queries at a time, so that their scores of all texts take little memory.
_QUERIES = 256
# Added to the logit of a text that is no negative: its probability is exactly 0.
_NO_NEGATIVE = -1e9


def embedding_task(task_config: Embedding, dropout: float) -> Task:
    """Builds the task.

    Its predictions are `vectors` float32 [R, C, H], `text_keys` int64 [R, C], and
    `label_ids` float32 [R], the scores of pairs.

    Args:
      task_config: pooling and loss.
      dropout: not used, since there is no head.
    """
    loss: Any = cosine_loss
    evaluated: Any = cosine_loss
    if task_config.loss == "in_batch_negatives":
        loss = functools.partial(in_batch_loss, scale=task_config.scale)
        evaluated = functools.partial(loss, all_replicas=False)
    metrics = pair_metrics if task_config.has_scores else retrieval_metrics
    return Task(
        name=task_config.task_name,
        build_model=functools.partial(
            EmbeddingModel,
            pooling=task_config.pooling,
            normalize=task_config.normalize,
        ),
        losses={"loss": WeightedMean(loss, losses.row_weights)},
        evaluation_losses={"loss": WeightedMean(evaluated, losses.row_weights)},
        best_metric="spearman" if task_config.has_scores else "mrr_at_10",
        features=lambda metadata: embedding_features(
            metadata["features"]["text_keys"].size
        ),
        predictions=_predictions,
        host_metrics=metrics,
    )


def _predictions(outputs: Tensors, batch: Tensors) -> dict[str, tf.Tensor]:
    return {
        "vectors": outputs["vectors"],
        "text_keys": batch["text_keys"],
        "label_ids": batch["label_ids"],
    }


def cosine_loss(outputs: Tensors, batch: Tensors) -> tf.Tensor:
    """Squared difference between the cosine of the first two texts and their score.

    Args:
      outputs: `vectors` float32 [B, C, H].
      batch: `label_ids` float32 [B], from 0 to 1.
    Returns:
      float32 [B].
    """
    vectors = tf.math.l2_normalize(outputs["vectors"], axis=-1)
    cosines = tf.reduce_sum(vectors[:, 0] * vectors[:, 1], axis=-1)
    return tf.square(cosines - batch["label_ids"])


def in_batch_loss(
    outputs: Tensors, batch: Tensors, scale: float, all_replicas: bool = True
) -> tf.Tensor:
    """Cross-entropy of each text's own second text among those of the whole batch.

    The logits are cosines times `scale` (Henderson et al. 2017, with cosines). The
    second and third texts of all other rows are negatives, and so is a row's own third
    text, but for texts that are equal to the row's first or second one.

    Args:
      outputs: `vectors` float32 [B, C, H].
      batch: `text_keys` int64 [B, C], equal for equal texts.
      scale: factor of the cosines.
      all_replicas: whether texts of other replicas are negatives, too.
    Returns:
      float32 [B].
    """
    vectors = tf.math.l2_normalize(outputs["vectors"], axis=-1)
    keys, weights = batch["text_keys"], losses.row_weights(batch)
    rows = tf.shape(keys)[0]
    first_row, everyone, all_keys, all_weights = 0, vectors, keys, weights
    context = tf.distribute.get_replica_context()
    if all_replicas and context is not None and context.num_replicas_in_sync > 1:
        everyone = _gathered(vectors, context)
        all_keys = context.all_gather(keys, axis=0)
        all_weights = context.all_gather(weights, axis=0)
        first_row = context.replica_id_in_sync_group * rows
    others = tf.shape(all_keys)[1] - 1
    texts = tf.transpose(everyone[:, 1:], [1, 0, 2])
    texts = tf.reshape(texts, [-1, vectors.shape[-1]])
    text_keys = tf.reshape(tf.transpose(all_keys[:, 1:]), [-1])
    is_row = tf.tile(all_weights > 0, [others])
    own = first_row + tf.range(rows)
    is_own = tf.range(tf.size(text_keys))[tf.newaxis] == own[:, tf.newaxis]
    is_same = text_keys[tf.newaxis] == keys[:, :1]
    is_same |= text_keys[tf.newaxis] == keys[:, 1:2]
    is_left_out = (is_same | ~is_row[tf.newaxis]) & ~is_own
    logits = scale * tf.matmul(vectors[:, 0], texts, transpose_b=True)
    logits += tf.where(is_left_out, _NO_NEGATIVE, 0.0)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=own, logits=logits)


def _gathered(values: tf.Tensor, context: Any) -> tf.Tensor:
    """The values of all replicas, [B, ...] -> [G, ...].

    The gradient is the sum of what all replicas ask for of this replica's values; that
    of `all_gather` itself is not.
    """

    @tf.custom_gradient
    def gather(own: tf.Tensor):
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            total = context.all_reduce("sum", upstream)
            rows = tf.shape(own)[0]
            first = context.replica_id_in_sync_group * rows
            return total[first : first + rows]

        return context.all_gather(own, axis=0), gradient

    return gather(values)


def pair_metrics(predictions: Arrays) -> dict[str, float]:
    """Computes `pearson` and `spearman` of the cosines and scores of pairs.

    Args:
      predictions: the task's, of all rows.
    """
    cosines = pair_cosines(predictions["vectors"])
    return {
        name: float(METRICS[name](predictions["label_ids"], cosines))
        for name in ("spearman", "pearson")
    }


def pair_cosines(vectors: np.ndarray) -> np.ndarray:
    """Cosines of the first two texts of each row, [R, C, H] -> [R]."""
    # In float32 the difference from 1 would lose digits.
    vectors = vectors.astype(np.float64)
    return 1 - paired_cosine_distances(vectors[:, 0], vectors[:, 1])


def retrieval_metrics(predictions: Arrays) -> dict[str, float]:
    """Scores how well the first texts find their second ones among all second ones.

    Equal texts count once. All texts that stand beside a query in any row are right.

    Args:
      predictions: the task's, of all rows.
    Returns:
      Means over the queries: `accuracy_at_1`, the share whose nearest text is right;
      `recall_at_10`, the share of the right texts that are among the nearest ten;
      `mrr_at_10`, 1 / the place of the first right one, 0 after the tenth;
      `ndcg_at_10`.
    """
    vectors, keys = predictions["vectors"], predictions["text_keys"]
    _, queries, query_of = np.unique(keys[:, 0], return_index=True, return_inverse=True)
    _, texts, text_of = np.unique(keys[:, 1], return_index=True, return_inverse=True)
    found: dict[str, list[np.ndarray]] = {}
    for first in range(0, len(queries), _QUERIES):
        block = queries[first : first + _QUERIES]
        scores = cosine_similarity(vectors[block, 0], vectors[texts, 1])
        right = np.zeros(scores.shape, bool)
        inside = (query_of >= first) & (query_of < first + len(block))
        right[query_of[inside] - first, text_of[inside]] = True
        for name, values in _scores_of_queries(scores, right).items():
            found.setdefault(name, []).append(values)
    return {name: float(np.concatenate(v).mean()) for name, v in found.items()}


def _scores_of_queries(scores: np.ndarray, right: np.ndarray) -> dict[str, np.ndarray]:
    """Metrics of each query, from scores and truth of all texts, [Q, texts]."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :_TOP]
    hits = np.take_along_axis(right, order, axis=1)
    first = np.where(hits.any(axis=1), hits.argmax(axis=1) + 1.0, np.inf)
    # A single text has no order to score.
    ndcg = [
        ndcg_score([truth], [row], k=_TOP) if len(row) > 1 else 1.0
        for truth, row in zip(right, scores, strict=True)
    ]
    return {
        "mrr_at_10": 1 / first,
        "accuracy_at_1": hits[:, 0].astype(float),
        "recall_at_10": hits.sum(axis=1) / right.sum(axis=1),
        "ndcg_at_10": np.array(ndcg),
    }
