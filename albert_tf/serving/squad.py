"""What a server runs of a model that answers questions: the best spans of a question's
row, and whether to answer, from ids and from tf.Examples; and from text the answer
itself. See `serving.py`.

The signature `text` answers from one window, the first: what a context has beyond it
is not read, and `truncated` says so. For longer texts clients make rows of all windows
with `data_prep/squad_windows.py`, as `run_scripts/ask.py` does, or send parts of them.

Letters in shapes: B rows, S pieces, K spans.
"""

from collections.abc import Callable, Mapping

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.serving.base import ServedModel
from albert_tf.task_config import Squad
from albert_tf.tasks.answers import NO_SCORE
from albert_tf.tasks.squad import squad_task
from albert_tf.text import packing_tf
from albert_tf.text.tokenizer import AlbertTokenizer


class ServedAnswers(ServedModel):
    """Weights and signatures; rows are [CLS] question [SEP] window [SEP], the window
    and what follows it being the second segment.

    Those of ids and of examples answer, best first, `span_starts` and `span_ends` int32
    [B, K], inclusive positions in the row, `span_scores` float32 [B, K] and their
    `probabilities`. Spans that may not be answers (too long, not in the window) come
    last, with a probability of 0. Of v2.0 there are `null_scores` float32 [B], the
    logit that there is no answer, `threshold` float32 [B], the model's, and `answered`
    bool [B], whether the null score is below it. Of a paragraph of several windows the
    best span of all counts, and the lowest null score.

    `text` takes `question` and `context`, string [B], and answers

    - `answer` string [B], letter for letter as the context has it, but that an invalid
      byte of UTF-8 is U+FFFD; "": there is none;
    - `answer_start` int32 [B], its first character in the context; -1: none;
    - `score` and `probability` float32 [B] of the best span, the latter among those
      that differ in their text; without any span -1e20 and 0;
    - `truncated` bool [B], whether question or context lost its end;
    - of v2.0, `null_scores`, `threshold` and `answered` as above, the last being false
      without any span, and `best_answer` and `best_answer_start`, what would be the
      answer were the threshold infinite.
    """

    def __init__(
        self,
        model: tf.Module,
        config: AlbertConfig,
        task_config: Squad,
        tokenizer: AlbertTokenizer | None = None,
    ):
        """Args: as `ServedModel`."""
        self._settings = task_config
        self._predictions = squad_task(task_config).predictions
        super().__init__(model, config, task_config, tokenizer)

    def answer(self, batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The answers to a batch of ids, int32 [B, S] each."""
        inside = _inside(batch)
        columns = tf.range(tf.shape(inside)[1])
        batch = {
            **batch,
            "token_is_max_context": inside,
            # [CLS] stands for no answer, as in training.
            "p_mask": tf.where(columns == 0, 0, 1 - inside),
        }
        found = self._predictions(self.run(batch), batch)
        answers = self._valid_first(inside, found)
        if self._settings.version_2:
            null_scores = found["no_answer_logits"]
            answers["null_scores"] = null_scores
            threshold = tf.constant(self._settings.threshold, tf.float32)
            answers["threshold"] = tf.zeros_like(null_scores) + threshold
            answers["answered"] = null_scores < threshold
        return answers

    def _of_text(self) -> Callable:
        specs = [tf.TensorSpec([None], tf.string, n) for n in ("question", "context")]

        @tf.function(input_signature=specs)
        def text(question, context):
            # As the tokenizer counts characters.
            context = tf.strings.unicode_transcode(context, "UTF-8", "UTF-8")
            whole = self.graph_tokenizer(question)
            asked = whole[:, : self._settings.max_query_length]
            ids, *places = self.graph_tokenizer.encode_with_offsets(context)
            batch, truncated = packing_tf.pack(
                asked,
                ids,
                self._longest,
                cls_id=self._tokenizer.cls_id,
                sep_id=self._tokenizer.sep_id,
                shorten="second",
            )
            truncated |= asked.row_lengths() < whole.row_lengths()
            starts, ends = _sorted_places(*(p[:, : self._longest] for p in places))
            answers = self.answer(batch)
            # The window begins after [CLS], question and [SEP].
            before = tf.cast(asked.row_lengths()[:, tf.newaxis] + 2, tf.int32)
            ranges = [
                tf.gather(sorted_places, tf.maximum(spans - before, 0), batch_dims=1)
                for sorted_places, spans in (
                    (starts, answers["span_starts"]),
                    (ends, answers["span_ends"]),
                )
            ]
            best = _best_text(
                context, *ranges, answers["span_scores"], self._settings.n_best_size
            )
            return {**self._decide(best, answers), "truncated": truncated}

        return text

    def _decide(self, best, answers) -> dict[str, tf.Tensor]:
        """What is answered of the best text."""
        if not self._settings.version_2:
            return best
        answered = answers["answered"] & (best["answer_start"] >= 0)
        return {
            **best,
            "answer": tf.where(answered, best["answer"], ""),
            "answer_start": tf.where(answered, best["answer_start"], -1),
            "best_answer": best["answer"],
            "best_answer_start": best["answer_start"],
            "null_scores": answers["null_scores"],
            "threshold": answers["threshold"],
            "answered": answered,
        }

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


def _sorted_places(starts: tf.RaggedTensor, ends: tf.RaggedTensor):
    """Half-open ranges of pieces, as `TokenizedParagraph` has them: none starts or ends
    before the piece in front of it, and a lone "▁" ends where that does.

    Returns:
      int32 [B, S] each; there is a piece at least, if only padding.
    """
    ends = ends.with_values(tf.where(starts.values == ends.values, 0, ends.values))
    return tuple(
        _running_maximum(tf.pad(each.to_tensor(), [[0, 0], [0, 1]]))
        for each in (starts, ends)
    )


def _running_maximum(values):
    """[B, S] -> the greatest so far; values are not negative."""
    size = tf.shape(values)[1]
    step = tf.constant(1)
    while step < size:
        values = tf.maximum(values, tf.pad(values, [[0, 0], [step, 0]])[:, :size])
        step *= 2
    return values


def _best_text(context, starts, ends, scores, n_best_size: int) -> dict[str, tf.Tensor]:
    """The best text of spans, as `answers.propose` finds it.

    Args:
      context: string [B].
      starts, ends: int32 [B, K], half-open ranges of its characters.
      scores: float32 [B, K], best first.
      n_best_size: most texts that share in the probability.
    Returns:
      `answer` string, `answer_start` int32, `score` and `probability` float32, [B].
    """
    lengths = tf.maximum(ends - starts, 0)
    spread = tf.broadcast_to(context[:, tf.newaxis], tf.shape(starts))
    texts = tf.strings.substr(spread, starts, lengths, unit="UTF8_CHAR")
    valid = (scores > NO_SCORE) & (lengths > 0)
    # Of each text the best span alone.
    same = (texts[:, :, tf.newaxis] == texts[:, tf.newaxis]) & valid[:, tf.newaxis]
    count = tf.shape(scores)[1]
    earlier = tf.range(count)[:, tf.newaxis] > tf.range(count)
    valid &= ~tf.reduce_any(same & earlier, axis=-1)
    valid &= tf.cumsum(tf.cast(valid, tf.int32), axis=1) <= n_best_size
    score = tf.reduce_max(tf.where(valid, scores, NO_SCORE), axis=1, keepdims=True)
    weights = tf.where(valid, tf.exp(scores - score), 0.0)
    is_any = tf.reduce_any(valid, axis=1)
    # Of equally good ones the first in the context.
    is_best = valid & (scores == score)
    order = tf.cast(starts, tf.int64) * (1 << 31) + tf.cast(ends, tf.int64)
    best = tf.argmin(tf.where(is_best, order, tf.int64.max), axis=1)
    return {
        "answer": tf.where(is_any, tf.gather(texts, best, batch_dims=1), ""),
        "answer_start": tf.where(is_any, tf.gather(starts, best, batch_dims=1), -1),
        "score": score[:, 0],
        "probability": tf.math.divide_no_nan(
            tf.cast(is_any, tf.float32), tf.reduce_sum(weights, axis=1)
        ),
    }
