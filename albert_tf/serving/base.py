"""What a server runs: a task's outputs from ids, from tf.Examples, and from text.

The module that is saved holds weights, graph and, for text, the vocabulary; no code of
ours, and no Keras, is needed to run it. Every output has the batch first, as a server
that joins requests needs it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.load import released_name
from albert_tf.config import AlbertConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.layers import Projection
from albert_tf.task_config import Classification, Regression, TaskConfig
from albert_tf.tasks import create_task
from albert_tf.text import packing_tf
from albert_tf.text.tokenizer import AlbertTokenizer

IDS = ("input_ids", "input_mask", "segment_ids")
_EXAMPLE_TEXT = "The first request pays for what the others find ready."


class EncoderModel(tf.Module):
    """The encoder alone: embeddings of texts and of their pieces."""

    def __init__(self, config: AlbertConfig):
        super().__init__()
        self.encoder = AlbertEncoder(config, seed=0)

    def __call__(self, inputs, training=False):
        """The encoder's batch -> dict of float32 `pooled_output` [B, H],
        `sequence_output` [B, S, H], and `mean_output` [B, H], the mean of a row's
        pieces, special ones included."""
        encoded = self.encoder(inputs, training=training)
        sequence = tf.cast(encoded["sequence_output"], tf.float32)
        mask = tf.cast(inputs["input_mask"], tf.float32)[..., tf.newaxis]
        counts = tf.maximum(tf.reduce_sum(mask, axis=1), 1.0)
        return {
            "pooled_output": tf.cast(encoded["pooled_output"], tf.float32),
            "sequence_output": sequence,
            "mean_output": tf.reduce_sum(sequence * mask, axis=1) / counts,
        }


def build_model(config: AlbertConfig, task_config: TaskConfig | None) -> tf.Module:
    """Builds the model of a task; None: the encoder alone."""
    if task_config is None:
        return EncoderModel(config)
    return create_task(task_config).build_model(config, seed=0)


def keep_kernels_in(model: tf.Module, dtype: tf.DType) -> None:
    """Stores the kernels of all projections in the dtype that they are multiplied in.

    The products are the same, and no request waits for the conversion of each kernel
    in each layer. Of float32 nothing changes.
    """
    if dtype == tf.float32:
        return
    for layer in model.submodules:
        if isinstance(layer, Projection):
            name = layer.kernel.name.split(":")[0]
            layer.kernel = tf.Variable(tf.cast(layer.kernel, dtype), name=name)


def task_outputs(task_config: TaskConfig | None) -> Callable[[dict, dict], dict]:
    """(the model's outputs, its batch) -> what a server answers, [B, ...] each."""
    if isinstance(task_config, Regression):
        return lambda outputs, batch: {"values": outputs["logits"][:, 0]}
    if not isinstance(task_config, Classification):
        return lambda outputs, batch: outputs
    names, threshold = tf.constant(task_config.labels), task_config.threshold

    def classify(outputs, batch):
        probabilities = tf.nn.softmax(outputs["logits"])
        rows = tf.shape(probabilities)[0]
        answers = {
            "probabilities": probabilities,
            "labels": tf.tile(names[tf.newaxis], [rows, 1]),
            "label": tf.gather(names, tf.argmax(probabilities, axis=-1)),
        }
        if threshold is not None:
            # For the client: what it compares with a probability.
            answers["threshold"] = tf.fill([rows], float(threshold))
        return answers

    return classify


class ServedModel(tf.Module):
    """Weights and signatures."""

    def __init__(
        self,
        model: tf.Module,
        config: AlbertConfig,
        task_config: TaskConfig | None,
        tokenizer: AlbertTokenizer | None,
    ):
        """Args:
        model: from `build_model`, with its weights.
        config: its shape.
        task_config: the task; None: the encoder alone.
        tokenizer: for the `text` signature; None leaves it out, and with it every
          custom operation.
        """
        super().__init__()
        # Its variables are saved under released names, as checkpoints have them, and
        # not the Keras objects around them: TensorFlow does not look behind a method.
        self.weights = {released_name(v): v for v in model.variables}
        self._call_model = model.__call__
        self._config, self._task_config = config, task_config
        self._outputs = task_outputs(task_config)
        longest = task_config.max_seq_length if task_config else None
        self._longest = longest or config.max_position_embeddings
        self._tokenizer = tokenizer
        # TensorFlow saves the vocabulary with what holds it.
        self.graph_tokenizer = tokenizer.graph_tokenizer() if tokenizer else None
        self.served = self._make_signatures()

    def answer(self, batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The task's outputs of a batch of ids, int32 [B, S] each."""
        return self._outputs(self.run(batch), batch)

    def run(self, batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The model's own outputs, of ids that are in the vocabulary."""
        size, ids = self._config.vocab_size, batch["input_ids"]
        # On GPUs a gather of any other id gives zeros and no error.
        checks = [
            tf.debugging.assert_less(
                ids, size, f"input_ids must be below vocab_size, {size}."
            ),
            tf.debugging.assert_non_negative(ids, "input_ids must not be negative."),
        ]
        with tf.control_dependencies([check for check in checks if check is not None]):
            ids = tf.identity(ids)
        return self._call_model({**batch, "input_ids": ids}, training=False)

    def example_inputs(self, size: int, length: int) -> dict[str, dict[str, Any]]:
        """Name of each signature -> inputs that it takes.

        Args:
          size: rows.
          length: pieces in a row, at most.
        """
        length = min(length, self._longest)
        row = {name: np.zeros((size, length), np.int32) for name in IDS}
        row["input_mask"] += 1
        example = tf.train.Example()
        for name, values in row.items():
            example.features.feature[name].int64_list.value.extend(values[0].tolist())
        inputs = {
            "serving_default": row,
            "examples": {"examples": [example.SerializeToString()] * size},
        }
        if self._tokenizer:
            names = self.served["text"].input_signature
            inputs["text"] = {spec.name: [_EXAMPLE_TEXT] * size for spec in names}
        return inputs

    def _make_signatures(self) -> dict[str, Callable]:
        ids = self._of_ids(tf.int32)
        found = {
            "serving_default": ids,
            "ids": ids,
            "ids_int64": self._of_ids(tf.int64),
            "examples": self._of_examples(),
        }
        if self._tokenizer:
            found["text"] = self._of_text()
        return found

    def _of_ids(self, dtype):
        specs = [tf.TensorSpec([None, None], dtype, name=name) for name in IDS]

        @tf.function(input_signature=specs)
        def ids(input_ids, input_mask, segment_ids):
            values = (input_ids, input_mask, segment_ids)
            batch = {n: tf.cast(v, tf.int32) for n, v in zip(IDS, values, strict=True)}
            return self.answer(batch)

        return ids

    def _of_examples(self):
        """Serialized tf.Examples, padded or not; a mask or segments may be left out."""

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
        def examples(examples):
            spec = {name: tf.io.RaggedFeature(tf.int64) for name in IDS}
            parsed = tf.io.parse_example(examples, spec)
            pieces = parsed["input_ids"]
            batch = {"input_ids": pieces.to_tensor()}
            shape = tf.shape(batch["input_ids"])
            lengths = pieces.row_lengths()
            whole = tf.sequence_mask(lengths, shape[1], tf.int64)
            for name, default in (
                ("input_mask", whole),
                ("segment_ids", tf.zeros_like(whole)),
            ):
                given = parsed[name]
                dense = given.to_tensor(shape=tf.cast(shape, tf.int64))
                there = given.row_lengths()[:, tf.newaxis] > 0
                batch[name] = tf.where(there, dense, default)
            return self.answer({n: tf.cast(v, tf.int32) for n, v in batch.items()})

        return examples

    def _of_text(self):
        """Texts, or pairs of them, as the task was trained on."""
        pair = getattr(self._task_config, "has_text_pair", False)
        specs = [tf.TensorSpec([None], tf.string, "text")]
        if pair:
            specs.append(tf.TensorSpec([None], tf.string, "text_pair"))

        @tf.function(input_signature=specs)
        def text(text, text_pair=None):
            second = self.graph_tokenizer(text_pair) if pair else None
            batch, truncated = packing_tf.pack(
                self.graph_tokenizer(text),
                second,
                self._longest,
                cls_id=self._tokenizer.cls_id,
                sep_id=self._tokenizer.sep_id,
            )
            return {**self.answer(batch), "truncated": truncated}

        return text
