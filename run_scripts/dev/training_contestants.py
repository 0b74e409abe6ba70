"""The contestants of `benchmark.py training`: parts of a step, peers, and evaluation.

Each function builds one thing and returns a function that times it. They run in
processes of their own, so nothing heavy is imported before it is asked for.
"""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from albert_tf.config import AlbertConfig, OptimizerConfig
from dev.benchmark_train import Case, Times, make_step, timed

OURS = "albert-tf"
# Name of `--peers` -> name in tables.
PEERS = {"pytorch": "PyTorch, eager", "tf_models": "tf-models"}


def make_optimizer_step(case: Case) -> Callable[[], Times]:
    """The update of all weights from fixed gradients, clipping included."""
    import tensorflow as tf

    from albert_tf.analysis.step_lowering import build_step
    from albert_tf.tasks.pretraining import PRETRAINING
    from albert_tf.training import optimization

    config = OptimizerConfig(optimizer=case.optimizer)
    model = build_step(PRETRAINING, case.config, config, case.train_config).model
    variables = model.trainable_variables
    optimizer = optimization.create_optimizer(config)
    optimizer.build(variables)
    gradients = [tf.fill(v.shape, 1e-3) for v in variables]

    @tf.function(autograph=False)
    def update(gradients):
        return optimizer.apply_or_skip(gradients, variables)[1]

    return timed(lambda: update(gradients))


def make_tf_models_step(case: Case) -> Callable[[], Times]:
    """The step of tf-models."""
    from dev import training_tf_models

    return training_tf_models.make_tf_models_step(case)


def make_torch_step(case: Case) -> Callable[[], Times]:
    """The step of plain PyTorch; raises ImportError where PyTorch is not installed."""
    import torch  # noqa: F401 (names itself if it is missing)

    from dev import training_torch

    return training_torch.make_torch_step(case)


# -- evaluation

Batches = Sequence[Mapping[str, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class EvaluationCase:
    """An evaluation to time.

    Attributes:
      config: the model's configuration.
      precision: of activations.
      rows: in a batch.
      length: tokens of the longest row.
      batches: batches of rows of mixed lengths; of full rows there is one.
      repeats: times that all batches are computed by each graph.
    """

    config: AlbertConfig
    precision: str
    rows: int
    length: int
    batches: int
    repeats: int


def make_evaluation(case: EvaluationCase) -> Callable[[], dict[str, dict[str, float]]]:
    """A function that returns rows a second: name of the rows -> name of the graph."""
    graphs = {name: _forward(case, name == "inference") for name in GRAPHS}

    def measure():
        return {
            kind: _rows_per_second(graphs, batches, case.repeats)
            for kind, batches in evaluation_batches(case).items()
        }

    return measure


GRAPHS = ("inference", "training")


def _forward(case: EvaluationCase, skips_padding: bool) -> Callable:
    """The forward pass of a classifier as a function of a batch."""
    import tensorflow as tf

    from albert_tf.model.heads import ClassificationModel
    from albert_tf.model.precision import precision_policy

    with precision_policy(case.precision):
        model = ClassificationModel(case.config, num_outputs=2, seed=1)
    model.encoder.skips_padding = skips_padding
    spec = tf.TensorSpec([None, None], tf.int32)
    signature = {name: spec for name in ("input_ids", "input_mask", "segment_ids")}
    return tf.function(
        lambda batch: model(batch, training=False)["logits"],
        input_signature=[signature],
        autograph=False,
    )


def evaluation_batches(case: EvaluationCase) -> dict[str, Batches]:
    """Name -> batches of `input_ids`, `input_mask` and `segment_ids`, int32 [B, S].

    "full length": rows without padding. "mixed lengths, sorted": lengths that lie
    evenly between 4 and the longest, in batches of similar length, as rows of
    fine-tuning are evaluated. "mixed lengths, any order": the same rows, shuffled.
    """
    rng = np.random.default_rng(5)
    lengths = np.linspace(4, case.length, case.batches * case.rows).astype(int)
    orders = {
        "full length": np.full(case.rows, case.length),
        "mixed lengths, sorted": lengths,
        "mixed lengths, any order": rng.permutation(lengths),
    }
    return {
        name: [
            _batch(lengths, case.config.vocab_size, rng)
            for lengths in order.reshape(-1, case.rows)
        ]
        for name, order in orders.items()
    }


def _batch(
    lengths: np.ndarray, vocab_size: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Random tokens, padded to a multiple of 8 as `records.bucketing` does."""
    width = -(-lengths.max() // 8) * 8
    mask = (np.arange(width) < lengths[:, np.newaxis]).astype(np.int32)
    ids = rng.integers(1, vocab_size, mask.shape).astype(np.int32) * mask
    return {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(mask)}


def _rows_per_second(
    graphs: Mapping[str, Callable], batches: Batches, repeats: int
) -> dict[str, float]:
    """Times all batches by each graph in turn, after one call of each."""
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for number in range(repeats + 1):
        for name, graph in graphs.items():
            began = time.perf_counter()
            for batch in batches:
                graph(batch).numpy()
            if number:
                times[name].append(time.perf_counter() - began)
    rows = sum(len(batch["input_ids"]) for batch in batches)
    return {name: rows / min(seconds) for name, seconds in times.items()}


# Name of a contestant -> function that makes its step.
STEPS: dict[str, Callable[[Case], Callable[[], Times]]] = {
    OURS: make_step,
    PEERS["pytorch"]: make_torch_step,
    PEERS["tf_models"]: make_tf_models_step,
}
