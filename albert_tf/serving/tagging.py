"""Taggers as they are served: tags of tokens from ids, and entities of texts.

The signature `text` reads as many words as fit one row. `truncated` is true if a text
has more; splitting longer texts is up to the client.

Letters in shapes: B rows, S tokens, L labels, W words of all texts, K entities.
"""

from collections.abc import Sequence
from typing import final

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.serving.base import Answers, ServedRows, Signature, Tensors
from albert_tf.task_config import Tagging
from albert_tf.text import entities, packing
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.words_tf import Words, split_words


@final
class ServedTagger(ServedRows):
    """Tags of words.

    Signatures of ids and of examples return `probabilities` float32 [B, S, L], 0 for
    padding, `labels` string [B, L], their names, and `tags` string [B, S], the
    likeliest one of each token, "" for padding. Of a word the first token counts.

    `text` takes `text` string [B], which it splits into words as
    `albert_tf.text.words`, and returns the entities of each text in their order; of
    plain tags each word is one:

    - `entity_starts` and `entity_ends` int32 [B, K], a half-open range of characters
      of the text; -1 where a text has fewer entities than others;
    - `entity_labels` string [B, K], their types, and `entity_texts` string [B, K],
      parts of the text as it is, except that an invalid byte of UTF-8 becomes U+FFFD;
      "" where there is none;
    - `entity_scores` float32 [B, K], the mean probability of the tags of its words;
    - `truncated` bool [B], true if words at the end were not read.
    """

    def __init__(
        self,
        model: tf.Module,
        config: AlbertConfig,
        task_config: Tagging,
        tokenizer: AlbertTokenizer | None = None,
    ):
        """Serves a tagger.

        Args:
          model: tagger.
          config: its configuration.
          task_config: its labels and length.
          tokenizer: as `ServedModel`.
        """
        super().__init__(model, config, task_config.max_seq_length, tokenizer)
        self.task_config = task_config

    def answer(self, batch: Tensors) -> Answers:
        """Computes probabilities and the likeliest tags."""
        probabilities = tf.nn.softmax(self.model(batch, training=False)["logits"])
        is_token = batch["input_mask"] > 0
        names = tf.constant(self.task_config.labels)
        best = tf.gather(names, tf.argmax(probabilities, axis=-1))
        weights = tf.cast(is_token, tf.float32)[..., tf.newaxis]
        return {
            "probabilities": probabilities * weights,
            "labels": tf.tile(names[tf.newaxis], [tf.shape(probabilities)[0], 1]),
            "tags": tf.where(is_token, best, ""),
        }

    def text_signature(self) -> Signature:
        """Makes the signature of texts."""
        return self.texts_signature(pair=False)

    def _answer_texts(self, first: tf.Tensor, second: tf.Tensor | None) -> Answers:
        assert self.tokenizer is not None and second is None
        # The words count an invalid byte as one character; so must `substr`.
        texts = tf.strings.unicode_transcode(first, "UTF-8", "UTF-8")
        words = split_words(texts)
        tokens = _or_unknown(self.graph_tokenizer(words.texts), self.tokenizer.unk_id)
        splits = tf.gather(tokens.row_splits, words.starts.row_splits)
        ids = tf.RaggedTensor.from_row_splits(
            tokens.flat_values, splits, validate=False
        )
        batch, truncated = self.pack(ids, None, shorten="longest")
        rows = words.starts.value_rowids()
        places = tokens.row_starts() - tf.gather(ids.row_starts(), rows)
        is_read = places < self.max_seq_length - packing.SPECIAL_TOKENS_OF_SINGLE
        # The row begins with [CLS].
        at = tf.stack([rows, tf.where(is_read, places + 1, 0)], axis=1)
        probabilities = tf.gather_nd(self.checked_answer(batch)["probabilities"], at)
        found = find_entities(probabilities, is_read, words, self.task_config.labels)
        lengths = tf.maximum(found["entity_ends"] - found["entity_starts"], 0)
        repeated = tf.broadcast_to(texts[:, tf.newaxis], tf.shape(lengths))
        starts = tf.maximum(found["entity_starts"], 0)
        parts = tf.strings.substr(repeated, starts, lengths, unit="UTF8_CHAR")
        return {**found, "entity_texts": parts, "truncated": truncated}


def _or_unknown(tokens: tf.RaggedTensor, unknown_id: int) -> tf.RaggedTensor:
    """Makes words without a token unknown ones, as rows of fine-tuning have them.

    Args:
      tokens: int32 ragged [W, (tokens)].
      unknown_id: id of [UNK].
    """
    missing = tf.cast(tokens.row_lengths() == 0, tf.int64)
    unknown = tf.fill([tf.reduce_sum(missing)], unknown_id)
    added = tf.RaggedTensor.from_row_lengths(unknown, missing, validate=False)
    return tf.concat([tokens, added], axis=1)


def find_entities(
    probabilities: tf.Tensor, is_read: tf.Tensor, words: Words, labels: Sequence[str]
) -> Answers:
    """Finds the entities that tags mark, as `entities.entities` does.

    Args:
      probabilities: float32 [W, L], of the tags of each word.
      is_read: bool [W]; words for which it is false are in no entity.
      words: the words.
      labels: names of the labels.
    Returns:
      `entity_starts`, `entity_ends`, `entity_labels` and `entity_scores`, [B, K].
    """
    is_outside = tf.constant([label == entities.OUTSIDE for label in labels])
    types = tf.constant([entities.type_of(label) for label in labels])
    begins = tf.constant(
        np.array([[entities.begins(a, b) for b in labels] for a in labels])
    )
    chosen = tf.argmax(probabilities, axis=-1)
    inside = is_read & ~tf.gather(is_outside, chosen)
    rows = words.starts.value_rowids()
    # An entity begins at the first word of a text and after a word outside of all.
    follows = inside[:-1] & (rows[1:] == rows[:-1])
    goes_on = follows & ~tf.gather_nd(begins, tf.stack([chosen[:-1], chosen[1:]], 1))
    is_first = inside & ~tf.concat([[False], goes_on], axis=0)[: tf.size(inside)]
    number = tf.cumsum(tf.cast(is_first, tf.int32)) - 1
    number = tf.boolean_mask(number, inside)
    count = tf.reduce_sum(tf.cast(is_first, tf.int32))
    ends = tf.boolean_mask(words.ends.flat_values, inside)
    best = tf.boolean_mask(tf.reduce_max(probabilities, axis=-1), inside)
    values = {
        "entity_starts": tf.boolean_mask(words.starts.flat_values, is_first),
        "entity_ends": tf.math.unsorted_segment_max(ends, number, count),
        "entity_labels": tf.boolean_mask(tf.gather(types, chosen), is_first),
        "entity_scores": tf.math.unsorted_segment_mean(best, number, count),
    }
    first_rows = tf.boolean_mask(rows, is_first)
    fill = {"entity_labels": "", "entity_scores": 0.0}
    return {
        name: tf.RaggedTensor.from_value_rowids(
            value, first_rows, words.starts.nrows(), validate=False
        ).to_tensor(fill.get(name, -1))
        for name, value in values.items()
    }
