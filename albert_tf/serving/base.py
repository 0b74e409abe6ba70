"""`ServedModel`: a model with the signatures that a server calls.

A signature answers ids, serialized tf.Examples, or text. Every output has the batch as
its first dimension, so that a server can join requests. `ServedModel` and `ServedRows`
are abstract: their methods are either final or left to the tasks' classes, which stand
in a file each. `SavedModule` is what is written to disk: running it needs neither this
project nor Keras.

Letters in shapes: B rows, S tokens.
"""

import abc
import functools
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias, final

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.load import released_name
from albert_tf.config import AlbertConfig
from albert_tf.serving import checks
from albert_tf.text import packing, packing_tf, windows_tf
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.windows import WindowRule

IDS = ("input_ids", "input_mask", "segment_ids")
# Any text will do: it fills the requests that warm up a server.
EXAMPLE_TEXT = "The first request pays for what the others find ready."

Tensors: TypeAlias = Mapping[str, tf.Tensor]
Answers: TypeAlias = dict[str, tf.Tensor]
# A `tf.function` with an input signature.
Signature: TypeAlias = Any


class SavedModule(tf.Module):
    """The object that a SavedModel holds.

    Its variables are saved under the names of released checkpoints, without the Keras
    objects around them, and the vocabulary with the tokenizer that reads it. The
    attributes' names are part of the file.

    Attributes:
      weights: released name -> variable.
      graph_tokenizer: tokenizer of the signature `text`; None: there is none.
      served: name -> signature.
      vocabulary: the vocabulary's file, if a signature names it; None: none does.
    """

    def __init__(
        self,
        weights: Mapping[str, tf.Variable],
        graph_tokenizer: tf.Module | None,
        served: Mapping[str, Signature],
    ):
        super().__init__()
        self.weights = dict(weights)
        self.graph_tokenizer = graph_tokenizer
        self.served = dict(served)
        self.vocabulary: tf.saved_model.Asset | None = None


class ServedModel(abc.ABC):
    """A model and the signatures of its task.

    Attributes:
      ids_rank: number of dimensions of `input_ids` and the like.
      model: the model, with its weights.
      config: its configuration.
      max_seq_length: longest row in tokens, special tokens included.
      tokenizer: tokenizer of the signature `text`; None: there is no such signature,
        and no custom operation.
      graph_tokenizer: the same tokenizer as operations of TensorFlow.
    """

    ids_rank: ClassVar[int]

    def __init__(
        self,
        model: tf.Module,
        config: AlbertConfig,
        max_seq_length: int | None = None,
        tokenizer: AlbertTokenizer | None = None,
    ):
        """Serves a model.

        Args:
          model: see the class.
          config: see the class.
          max_seq_length: None: as long as the model reads.
          tokenizer: see the class.
        """
        self.model = model
        self.config = config
        self.max_seq_length = max_seq_length or config.max_position_embeddings
        self.tokenizer = tokenizer
        self.graph_tokenizer: Any = tokenizer.graph_tokenizer() if tokenizer else None

    # -- of each task

    @abc.abstractmethod
    def answer(self, batch: Tensors) -> Answers:
        """Computes the task's outputs of a batch of `IDS`, int32."""

    @abc.abstractmethod
    def parse_examples(self, examples: tf.Tensor) -> Answers:
        """Reads serialized tf.Examples, string [B], as a batch of `IDS`, int64."""

    @abc.abstractmethod
    def make_example(self, length: int) -> tf.train.Example:
        """Makes an example that `parse_examples` reads, of rows of `length` tokens."""

    @abc.abstractmethod
    def text_signature(self) -> Signature:
        """Makes the signature `text`; only called with a tokenizer."""

    # -- of all tasks

    @final
    def to_module(self) -> SavedModule:
        """Returns the object to save."""
        weights = {released_name(v): v for v in self.model.variables}
        return SavedModule(weights, self.graph_tokenizer, self.signatures)

    @functools.cached_property
    def signatures(self) -> dict[str, Signature]:
        """Name -> signature."""
        ids = self._ids_signature(tf.int32)
        signatures = {
            "serving_default": ids,
            "ids": ids,
            "ids_int64": self._ids_signature(tf.int64),
            "examples": self._examples_signature(),
        }
        if self.tokenizer:
            signatures["text"] = self.text_signature()
        return signatures

    @final
    def checked_answer(self, batch: Tensors) -> Answers:
        """Computes `answer` of ids, int32 or int64, that may be unfit for the model,
        which is an error; see `checks.checked_ids`."""
        return self.answer(checks.checked_ids(batch, self.config))

    @final
    def pack(
        self,
        ids_a: tf.RaggedTensor,
        ids_b: tf.RaggedTensor | None,
        shorten: packing.Shorten,
    ) -> tuple[Answers, tf.Tensor]:
        """Packs tokens of texts into rows: `packing_tf.pack` with the model's length
        and the special tokens of its tokenizer."""
        if self.tokenizer is None:
            raise ValueError("A model without a tokenizer reads no texts: pass one.")
        return packing_tf.pack(
            ids_a,
            ids_b,
            self.max_seq_length,
            cls_id=self.tokenizer.cls_id,
            sep_id=self.tokenizer.sep_id,
            shorten=shorten,
        )

    @final
    def example_requests(self, rows: int, length: int) -> dict[str, dict[str, Any]]:
        """Makes a request to each signature.

        Args:
          rows: number of rows in it.
          length: tokens in a row, at most; less if the model reads less.
        Returns:
          Name of a signature -> name of an input -> its value.
        """
        length = min(length, self.max_seq_length)
        shape = (rows, *[2] * (self.ids_rank - 2), length)
        ids = {name: np.zeros(shape, np.int32) for name in IDS}
        ids["input_mask"] += 1
        example = self.make_example(length).SerializeToString()
        requests: dict[str, dict[str, Any]] = {
            "serving_default": ids,
            "examples": {"examples": [example] * rows},
        }
        if self.tokenizer:
            requests["text"] = {
                spec.name: np.full([rows, 2][: spec.shape.rank], EXAMPLE_TEXT).tolist()
                for spec in self.signatures["text"].input_signature
            }
        return requests

    def _ids_signature(self, dtype: tf.DType) -> Signature:
        shape = [None] * self.ids_rank
        specs = [tf.TensorSpec(shape, dtype, name=name) for name in IDS]

        @tf.function(input_signature=specs, autograph=False)
        def ids(input_ids, input_mask, segment_ids):
            values = (input_ids, input_mask, segment_ids)
            return self.checked_answer(dict(zip(IDS, values, strict=True)))

        return ids

    def _examples_signature(self) -> Signature:
        @tf.function(
            input_signature=[tf.TensorSpec([None], tf.string, "examples")],
            autograph=False,
        )
        def examples(examples):
            inputs = checks.checked_rows({"examples": examples})
            return self.checked_answer(self.parse_examples(**inputs))

        return examples


class ServedRows(ServedModel):
    """A model of rows of tokens, [B, S], which hold one text or a pair of texts."""

    ids_rank = 2

    @final
    def parse_examples(self, examples: tf.Tensor) -> Answers:
        """Reads rows that may be padded, and may lack a mask or segments."""
        spec = {name: tf.io.RaggedFeature(tf.int64) for name in IDS}
        parsed = tf.io.parse_example(examples, spec)
        lengths = {name: values.row_lengths() for name, values in parsed.items()}
        own = lengths["input_ids"]
        is_whole = own > 0
        for name in IDS[1:]:
            is_whole &= (lengths[name] == 0) | (lengths[name] == own)
        parsed = checks.refuse_unless(
            tf.reduce_all(is_whole),
            "An example must have input_ids, and input_mask and segment_ids must be as "
            "long or missing.",
            parsed,
        )
        # One column at least, so that an empty batch has a first token.
        width = tf.maximum(parsed["input_ids"].bounding_shape(axis=1), 1)
        shape = tf.stack([-1, width])
        batch = {name: values.to_tensor(shape=shape) for name, values in parsed.items()}
        # Segments are 0 if they are missing; then all tokens are visible.
        has_mask = lengths["input_mask"][:, tf.newaxis] > 0
        all_tokens = tf.sequence_mask(own, width, tf.int64)
        batch["input_mask"] = tf.where(has_mask, batch["input_mask"], all_tokens)
        return batch

    @final
    def make_example(self, length: int) -> tf.train.Example:
        """Makes a row of padding tokens that are all visible."""
        example = tf.train.Example()
        for name in IDS:
            values = [int(name == "input_mask")] * length
            example.features.feature[name].int64_list.value.extend(values)
        return example

    # How the signature `text` cuts long texts; None: they are shortened.
    window_rule: WindowRule | None = None

    @final
    def texts_signature(self, pair: bool) -> Signature:
        """Makes the signature of `text`, string [B], and of `text_pair` for pairs."""
        names = ("text", "text_pair") if pair else ("text",)

        @tf.function(
            input_signature=[tf.TensorSpec([None], tf.string, n) for n in names],
            autograph=False,
        )
        def text(text, text_pair=None):
            texts = (text, text_pair)[: len(names)]
            inputs = checks.checked_rows(dict(zip(names, texts, strict=True)))
            return self._answer_texts(inputs["text"], inputs.get("text_pair"))

        return text

    def _answer_texts(self, first: tf.Tensor, second: tf.Tensor | None) -> Answers:
        """Adds `truncated`, bool [B], true for rows that lost tokens."""
        ids_a = self.graph_tokenizer(first)
        ids_b = None if second is None else self.graph_tokenizer(second)
        if self.window_rule and self.tokenizer:
            batch, truncated = windows_tf.pack_windows(
                ids_a,
                ids_b,
                self.window_rule,
                cls_id=self.tokenizer.cls_id,
                sep_id=self.tokenizer.sep_id,
            )
        else:
            batch, truncated = self.pack(ids_a, ids_b, shorten="longest")
        return {**self.checked_answer(batch), "truncated": truncated}
