"""What a server runs of a multiple-choice model: probabilities of a question's options,
from ids, from tf.Examples and from text. See `serving.py`.

Letters in shapes: B questions, C options, S pieces.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.serving.base import ServedModel
from albert_tf.text import packing, packing_tf

_INPUTS = ("input_ids", "input_mask", "segment_ids")
_EXAMPLE_TEXT = "The first request pays for what the others find ready."
_BLANK = "_"


class ServedChoices(ServedModel):
    """Weights and signatures of questions with options.

    - `ids`: int32 [B, C, S] `input_ids`, `input_mask`, `segment_ids`; an option whose
      mask is 0 throughout is missing.
    - `examples`: serialized tf.Examples as the records of fine-tuning have them: the
      pieces of all options in `input_ids` and `segment_ids`, and how many each option
      has in `input_ids_lengths` and `segment_ids_lengths`.
    - `text`: `article` [B], `question` [B] and `options` [B, C]; a question with fewer
      options than others has "" for those that it lacks.

    All answer `probabilities` [B, C], 0 for missing options, and `choice` [B], the
    index of the likeliest one.
    """

    def answer(self, batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The answers to a batch of ids, int32 [B, C, S] each."""
        logits = self.run(batch)["logits"]
        return {
            "probabilities": tf.nn.softmax(logits),
            "choice": tf.argmax(logits, axis=-1, output_type=tf.int32),
        }

    def example_inputs(self, size: int, length: int) -> dict[str, dict[str, Any]]:
        """As `ServedModel.example_inputs`; questions have two options."""
        length = min(length, self._longest)
        row = {name: np.zeros((size, 2, length), np.int32) for name in _INPUTS}
        row["input_mask"] += 1
        example = tf.train.Example()
        values = example.features.feature
        for name in ("input_ids", "segment_ids"):
            values[name].int64_list.value.extend([0] * 2 * length)
            values[f"{name}_lengths"].int64_list.value.extend([length] * 2)
        inputs = {
            "serving_default": row,
            "examples": {"examples": [example.SerializeToString()] * size},
        }
        if self._tokenizer:
            inputs["text"] = {
                "article": [_EXAMPLE_TEXT] * size,
                "question": [_EXAMPLE_TEXT] * size,
                "options": [[_EXAMPLE_TEXT] * 2] * size,
            }
        return inputs

    def _of_ids(self, dtype) -> Callable:
        specs = [
            tf.TensorSpec([None, None, None], dtype, name=name) for name in _INPUTS
        ]

        @tf.function(input_signature=specs)
        def ids(input_ids, input_mask, segment_ids):
            values = (input_ids, input_mask, segment_ids)
            batch = {
                n: tf.cast(v, tf.int32) for n, v in zip(_INPUTS, values, strict=True)
            }
            return self.answer(batch)

        return ids

    def _of_examples(self) -> Callable:
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
        def examples(examples):
            names = ("input_ids", "segment_ids")
            lists = {
                name: tf.io.RaggedFeature(
                    tf.int64,
                    name,
                    [tf.io.RaggedFeature.RowLengths(f"{name}_lengths")],
                    row_splits_dtype=tf.int64,
                )
                for name in names
            }
            parsed = tf.io.parse_example(examples, lists)
            mask = tf.ones_like(parsed["input_ids"]).to_tensor()
            batch = {name: parsed[name].to_tensor() for name in names}
            batch["input_mask"] = mask
            return self.answer({n: tf.cast(v, tf.int32) for n, v in batch.items()})

        return examples

    def _of_text(self) -> Callable:
        specs = [
            tf.TensorSpec([None], tf.string, "article"),
            tf.TensorSpec([None], tf.string, "question"),
            tf.TensorSpec([None, None], tf.string, "options"),
        ]

        @tf.function(input_signature=specs)
        def text(article, question, options):
            count = tf.shape(options)[1]
            flat = tf.reshape(options, [-1])
            whole_ends = self.graph_tokenizer(join(tf.repeat(question, count), flat))
            ends = self._last(whole_ends)
            passages = tf.gather(
                self.graph_tokenizer(article),
                tf.repeat(tf.range(tf.shape(article)[0]), count),
            )
            batch, truncated = packing_tf.pack(
                passages,
                ends,
                self._longest,
                cls_id=self._tokenizer.cls_id,
                sep_id=self._tokenizer.sep_id,
                shorten="first",
            )
            truncated |= ends.row_lengths() < whole_ends.row_lengths()
            present = flat != ""
            batch["input_mask"] *= tf.cast(present, tf.int32)[:, tf.newaxis]
            sizes = tf.shape(options)
            shape = tf.concat([sizes, tf.shape(batch["input_ids"])[1:]], axis=0)
            batch = {name: tf.reshape(value, shape) for name, value in batch.items()}
            truncated = tf.reshape(truncated & present, sizes)
            return {
                **self.answer(batch),
                "truncated": tf.reduce_any(truncated, axis=1),
            }

        return text

    def _last(self, ids: tf.RaggedTensor) -> tf.RaggedTensor:
        """The pieces of question and option that stay: the last ones."""
        room = self._longest - packing.SPECIAL_TOKENS_OF_PAIR
        longest = min(self._facts["max_qa_length"] or room, room)
        first = tf.maximum(ids.row_lengths() - longest, 0)
        places = tf.ragged.range(first, ids.row_lengths())
        return tf.gather(ids, places, batch_dims=1)


def join(questions: tf.Tensor, options: tf.Tensor) -> tf.Tensor:
    """Questions with their blanks, runs of "_", filled by an option; else both in turn.

    Args:
      questions, options: string [N].
    """
    parts = tf.strings.split(
        tf.strings.regex_replace(questions, f"{_BLANK}+", _BLANK), _BLANK
    )
    rows = parts.value_rowids()
    is_first = tf.range(tf.size(rows)) == tf.cast(
        tf.gather(parts.row_starts(), rows), tf.int32
    )
    before = tf.where(is_first, "", tf.gather(options, rows))
    filled = tf.strings.reduce_join(
        parts.with_values(tf.strings.join([before, parts.values])), axis=1
    )
    in_turn = tf.strings.join([questions, options], " ")
    return tf.where(parts.row_lengths() > 1, filled, in_turn)
