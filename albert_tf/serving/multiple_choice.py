"""Multiple choice as it is served: probabilities of a question's options.

Letters in shapes: B questions, C options, S tokens.
"""

from typing import final

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.serving import checks
from albert_tf.serving.base import Answers, ServedModel, Signature, Tensors
from albert_tf.task_config import MultipleChoice
from albert_tf.text import packing
from albert_tf.text.tokenizer import AlbertTokenizer

_BLANK = "_"
_OPTIONS_OF_EXAMPLE = 2


@final
class ServedMultipleChoice(ServedModel):
    """Questions with options.

    - `ids`: int32 [B, C, S] `input_ids`, `input_mask`, `segment_ids`; an option whose
      mask is 0 throughout is missing.
    - `examples`: serialized tf.Examples as the records of fine-tuning: the tokens of
      all options in `input_ids` and `segment_ids`, and the number of tokens of each
      option in `input_ids_lengths` and `segment_ids_lengths`.
    - `text`: `article` [B], `question` [B] and `options` [B, C]; a question with fewer
      options than others has "" in place of the missing ones.

    The outputs are `probabilities` float32 [B, C], 0 for missing options, and `choice`
    int32 [B], the index of the likeliest option.
    """

    ids_rank = 3

    def __init__(
        self,
        model: tf.Module,
        config: AlbertConfig,
        task_config: MultipleChoice,
        tokenizer: AlbertTokenizer | None = None,
    ):
        """Serves a multiple-choice model.

        Args:
          model: multiple-choice model.
          config: its configuration.
          task_config: its lengths.
          tokenizer: as `ServedModel`.
        """
        super().__init__(model, config, task_config.max_seq_length, tokenizer)
        self.task_config = task_config

    def answer(self, batch: Tensors) -> Answers:
        """Computes probabilities and the likeliest option."""
        has_option = tf.reduce_any(batch["input_mask"] > 0, axis=[1, 2])
        options = tf.shape(batch["input_mask"])[1]
        batch = checks.refuse_unless(
            tf.reduce_all(has_option) & (options > 0),
            "A question must have an option, with a token that its mask shows.",
            batch,
        )
        logits = self.model(batch, training=False)["logits"]
        return {
            "probabilities": tf.nn.softmax(logits),
            "choice": tf.argmax(logits, axis=-1, output_type=tf.int32),
        }

    def parse_examples(self, examples: tf.Tensor) -> Answers:
        """Reads rows of options as the records have them; all tokens are visible."""
        features = {
            name: tf.io.RaggedFeature(
                tf.int64,
                name,
                [tf.io.RaggedFeature.RowLengths(f"{name}_lengths")],
                row_splits_dtype=tf.int64,
                validate=True,
            )
            for name in ("input_ids", "segment_ids")
        }
        parsed = tf.io.parse_example(examples, features)
        lengths = [values.row_lengths(axis=2) for values in parsed.values()]
        options = tf.maximum(*(each.bounding_shape(axis=1) for each in lengths))
        shape = tf.stack([-1, options])
        ids, segments = (each.to_tensor(-1, shape=shape) for each in lengths)
        parsed = checks.refuse_unless(
            tf.reduce_all(ids == segments),
            "An example must have input_ids, segment_ids, and for both the numbers of "
            "tokens of each option, which must be equal.",
            parsed,
        )
        parsed["input_mask"] = tf.ones_like(parsed["input_ids"])
        # One option of one token at least, so that an empty batch has a first token.
        shape = tf.maximum(parsed["input_ids"].bounding_shape(), [0, 1, 1])
        return {name: values.to_tensor(shape=shape) for name, values in parsed.items()}

    def make_example(self, length: int) -> tf.train.Example:
        """Makes a question of two options of padding tokens."""
        example = tf.train.Example()
        features = example.features.feature
        for name in ("input_ids", "segment_ids"):
            tokens = [0] * _OPTIONS_OF_EXAMPLE * length
            features[name].int64_list.value.extend(tokens)
            lengths = [length] * _OPTIONS_OF_EXAMPLE
            features[f"{name}_lengths"].int64_list.value.extend(lengths)
        return example

    def text_signature(self) -> Signature:
        """Makes the signature of articles, questions and options."""
        specs = [
            tf.TensorSpec([None], tf.string, "article"),
            tf.TensorSpec([None], tf.string, "question"),
            tf.TensorSpec([None, None], tf.string, "options"),
        ]

        @tf.function(input_signature=specs, autograph=False)
        def text(article, question, options):
            inputs = {"article": article, "question": question, "options": options}
            return self._answer_texts(*checks.checked_rows(inputs).values())

        return text

    def _answer_texts(
        self, articles: tf.Tensor, questions: tf.Tensor, options: tf.Tensor
    ) -> Answers:
        """Adds `truncated`, bool [B], true for questions with an option that lost
        tokens. Every option becomes a row of its own, [B * C, S], to be packed."""
        count = tf.shape(options)[1]
        flat_options = tf.reshape(options, [-1])
        endings = self.graph_tokenizer(join(tf.repeat(questions, count), flat_options))
        kept_endings = self._last_tokens(endings)
        passages = tf.gather(
            self.graph_tokenizer(articles),
            tf.repeat(tf.range(tf.shape(articles)[0]), count),
        )
        batch, truncated = self.pack(passages, kept_endings, shorten="first")
        truncated |= kept_endings.row_lengths() < endings.row_lengths()
        present = flat_options != ""
        batch["input_mask"] *= tf.cast(present, tf.int32)[:, tf.newaxis]
        sizes = tf.shape(options)
        shape = tf.concat([sizes, tf.shape(batch["input_ids"])[1:]], axis=0)
        batch = {name: tf.reshape(values, shape) for name, values in batch.items()}
        truncated = tf.reshape(truncated & present, sizes)
        return {
            **self.checked_answer(batch),
            "truncated": tf.reduce_any(truncated, axis=1),
        }

    def _last_tokens(self, ids: tf.RaggedTensor) -> tf.RaggedTensor:
        """Keeps the last `max_qa_length` tokens of question and option."""
        room = self.max_seq_length - packing.SPECIAL_TOKENS_OF_PAIR
        longest = min(self.task_config.max_qa_length or room, room)
        first = tf.maximum(ids.row_lengths() - longest, 0)
        positions = tf.ragged.range(first, ids.row_lengths())
        return tf.gather(ids, positions, batch_dims=1)


def join(questions: tf.Tensor, options: tf.Tensor) -> tf.Tensor:
    """Fills the blanks of questions, runs of "_", with options.

    A question without a blank is followed by its option.

    Args:
      questions: string [N].
      options: string [N].
    Returns:
      string [N].
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
    followed = tf.strings.join([questions, options], " ")
    return tf.where(parts.row_lengths() > 1, filled, followed)
