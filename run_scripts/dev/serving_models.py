"""The model that `benchmark.py serving` measures, and the forms of it that are ours.

Letters in shapes: B rows.
"""

import re
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints import model_dir
from albert_tf.checkpoints.load import weights_checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.files import write_json
from albert_tf.model.heads import ClassificationModel
from albert_tf.serving import export
from albert_tf.serving.create import load_model
from albert_tf.serving.server_files import BATCHING_FILE
from albert_tf.task_config import Classification
from albert_tf.text.tokenizer import AlbertTokenizer
from dev.serving_contestant import Contestant
from dev.serving_requests import Batch

_LABELS = ["no", "yes"]
# So large that the probabilities of two texts differ.
_HEAD_SCALE = 10.0


def write_model(
    folder: Path, config: AlbertConfig, tokenizer: AlbertTokenizer, precision: str
) -> export.ExportedModel:
    """Writes the folder of a classifier with random weights.

    Args:
      folder: a new folder.
      config: the model's configuration.
      tokenizer: its tokenizer.
      precision: of activations.
    """
    task_config = Classification(
        "custom", _LABELS, max_seq_length=config.max_position_embeddings
    )
    model = ClassificationModel(config, num_outputs=len(_LABELS), seed=1)
    for variable in model.head.variables:
        variable.assign(_HEAD_SCALE * variable)
    folder.mkdir()
    prefix = str(folder / "model.ckpt-1")
    weights_checkpoint(model).write(prefix)
    write_json(folder / model_dir.CONFIG_FILE, config.to_dict())
    write_json(folder / model_dir.TASK_FILE, task_config.to_dict())
    return export.ExportedModel(
        config, prefix, task_config, tokenizer, precision=precision
    )


class SavedModel:
    """An exported model that is loaded as a server does.

    Attributes:
      contestant: it, by its signatures `ids` and `text`.
    """

    def __init__(self, exported: export.ExportedModel, export_dir: Path):
        """Exports and loads the model."""
        self._folder, _ = export.export_model(exported, export_dir)
        # Its signatures alone would not keep its variables.
        self._module = tf.saved_model.load(str(self._folder))
        self.contestant = Contestant("SavedModel", "", self._ids, self._texts)

    def _ids(self, batch: Batch) -> np.ndarray:
        inputs = {name: tf.constant(values) for name, values in batch.items()}
        return self._module.signatures["ids"](**inputs)["probabilities"].numpy()

    def _texts(self, texts: Sequence[str]) -> np.ndarray:
        answers = self._module.signatures["text"](text=tf.constant(texts))
        return answers["probabilities"].numpy()

    def batched(self) -> Callable[[Sequence[str]], np.ndarray]:
        """Joins requests as TensorFlow Serving does: by the same operation, with the
        parameters of the exported file."""
        text = self._module.signatures["text"]
        parameters = (self._folder / "assets.extra" / BATCHING_FILE).read_text()
        joined = join_requests(
            lambda texts: text(text=texts)["probabilities"], parameters
        )
        return lambda texts: joined(tf.constant(texts)).numpy()


def join_requests(function: Callable[[tf.Tensor], tf.Tensor], parameters: str) -> Any:
    """Makes a function that computes calls of several threads as one batch.

    Args:
      function: string [B] -> rows [B, ...].
      parameters: the text of a file of batching parameters.
    Returns:
      A function of string [B] that waits for others and returns the rows of its own.
    """

    def numbers(name: str) -> list[int]:
        return [
            int(n) for n in re.findall(rf"\b{name}\W+(?:value: )?(\d+)", parameters)
        ]

    join = tf.nondifferentiable_batch_function(
        num_batch_threads=numbers("num_batch_threads")[0],
        max_batch_size=numbers("max_batch_size")[0],
        batch_timeout_micros=numbers("batch_timeout_micros")[0],
        allowed_batch_sizes=numbers("allowed_batch_sizes") or None,
        max_enqueued_batches=numbers("max_enqueued_batches")[0],
        autograph=False,
    )(function)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def joined(texts):
        # The scope names the queue: functions in scopes of one name would share theirs.
        with tf.name_scope(f"queue_{uuid.uuid4().hex}"):
            return join(texts)

    # Traced here, in one thread.
    return joined.get_concrete_function()


def parts(
    exported: export.ExportedModel, batch: Batch
) -> dict[str, Callable[[], np.ndarray]]:
    """Makes what a request is compared with.

    Args:
      exported: the model.
      batch: the request.
    Returns:
      Name -> function: the encoder's products of matrices alone, and the Keras model in
      a `tf.function` and called eagerly.
    """
    model, _ = load_model(
        exported.config, exported.checkpoint, exported.task_config, exported.precision
    )
    graph = tf.function(model, autograph=False)
    inputs = {name: tf.constant(values) for name, values in batch.items()}
    tokens = batch["input_ids"].shape[1]
    return {
        "matrix products": _products(exported.config, tokens, exported.precision),
        "model in a tf.function": lambda: graph(inputs)["logits"].numpy(),
        "model called eagerly": lambda: model(inputs)["logits"].numpy(),
    }


def _products(
    config: AlbertConfig, tokens: int, precision: str
) -> Callable[[], np.ndarray]:
    """A function that computes only the encoder's products of one row, in sequence."""

    def matrix(*shape):
        values = tf.random.stateless_normal(shape, [1, 2], stddev=0.02)
        return tf.Variable(tf.cast(values, precision))

    hidden, inner = config.hidden_size, config.intermediate_size
    heads = config.num_attention_heads
    square, up, down = (
        matrix(hidden, hidden),
        matrix(hidden, inner),
        matrix(inner, hidden),
    )
    row = matrix(tokens, hidden)

    @tf.function
    def products():
        values = tf.identity(row)
        for _ in range(config.num_hidden_layers * config.inner_group_num):
            query, key, value = (tf.matmul(values, square) for _ in range(3))
            shape = [heads, tokens, hidden // heads]
            query, key, value = (tf.reshape(v, shape) for v in (query, key, value))
            pairs = tf.matmul(query, key, transpose_b=True)
            values = tf.reshape(tf.matmul(pairs, value), [tokens, hidden])
            values = tf.matmul(values, square)
            values = tf.matmul(tf.matmul(values, up), down)
        return values

    return lambda: products()[0].numpy()
