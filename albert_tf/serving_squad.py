"""What a server runs of a model that answers questions: the best spans of a question's
row, and whether to answer, from ids and from tf.Examples. See `serving.py`.

There is no signature of text: an answer is a range of characters of the text as given,
which TensorFlow's tokenizers cannot tell exactly. Clients make rows, and texts of
positions, with `data_prep/squad_windows.py`, as `run_scripts/ask.py` does.

Letters in shapes: B rows, S pieces, K spans.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from albert_tf.answers import NO_SCORE
from albert_tf.config import AlbertConfig
from albert_tf.serving import ServedModel
from albert_tf.span_tasks import SquadSettings, squad_task


def build_model(config: AlbertConfig, facts: Mapping[str, Any]) -> tf.Module:
    """The model of either version, as `task.json` tells of it."""
    return squad_task(SquadSettings.from_dict(facts)).build_model(config, 0, "none")


class ServedAnswers(ServedModel):
    """Weights and signatures; rows are [CLS] question [SEP] window [SEP], the window
    and what follows it being the second segment.

    All answer, best first, `span_starts` and `span_ends` int32 [B, K], inclusive
    positions in the row, `span_scores` float32 [B, K] and their `probabilities`. Spans
    that may not be answers (too long, not in the window) come last, with a probability
    of 0. Of v2.0 there are `null_scores` float32 [B], the logit that there is no
    answer, and `answered` bool [B], whether it is below the model's threshold. Of a
    paragraph of several windows the best span of all counts, and the lowest null score.
    """

    def __init__(
        self,
        model: tf.Module,
        config: AlbertConfig,
        facts: Mapping[str, Any],
        tokenizer: None = None,
    ):
        """Args: as `ServedModel`, of which there is no tokenizer here."""
        self._settings = SquadSettings.from_dict(facts)
        self._predictions = squad_task(self._settings).predictions
        super().__init__(model, config, facts, tokenizer)

    def answer(self, batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The answers to a batch of ids, int32 [B, S] each."""
        self._check(batch["input_ids"])
        inside = _inside(batch)
        columns = tf.range(tf.shape(inside)[1])
        batch = {
            **batch,
            "token_is_max_context": inside,
            # [CLS] stands for no answer, as in training.
            "p_mask": tf.where(columns == 0, 0, 1 - inside),
        }
        found = self._predictions(self.model(batch, training=False), batch)
        answers = self._valid_first(inside, found)
        if self._settings.version_2:
            null_scores = found["no_answer_logits"]
            answers["null_scores"] = null_scores
            answers["answered"] = null_scores < self._settings.threshold
        return answers

    def _valid_first(self, inside, found) -> dict[str, tf.Tensor]:
        last = tf.shape(inside)[1] - 1
        starts = tf.minimum(found["span_starts"], last)
        ends = tf.minimum(found["span_ends"], last)
        length = ends - starts + 1
        valid = (length >= 1) & (length <= self._settings.max_answer_length)
        for places in (starts, ends):
            valid &= tf.gather(inside, places, batch_dims=1) == 1
        valid &= found["span_scores"] > NO_SCORE
        scores = tf.where(valid, found["span_scores"], NO_SCORE)
        scores, order = tf.math.top_k(scores, scores.shape[1])
        valid = tf.gather(valid, order, batch_dims=1)
        probabilities = tf.nn.softmax(scores) * tf.cast(valid, tf.float32)
        return {
            "span_starts": tf.gather(starts, order, batch_dims=1),
            "span_ends": tf.gather(ends, order, batch_dims=1),
            "span_scores": scores,
            "probabilities": probabilities,
        }


def _inside(batch):
    """1 for pieces of the window: the second segment less the [SEP] that ends it."""
    mask = batch["input_mask"]
    columns = tf.range(tf.shape(mask)[1])
    last = tf.reduce_sum(mask, axis=1, keepdims=True) - 1
    return batch["segment_ids"] * mask * tf.cast(columns < last, tf.int32)
