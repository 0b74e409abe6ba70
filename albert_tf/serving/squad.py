"""SQuAD as it is served: spans and null scores from ids, and answers from text.

The signature `text` reads one window of a context, the first. `truncated` is true if
the context did not fit that window; splitting longer contexts is up to the client.
`data_prep/fine_tuning/squad_windows.py` makes rows of all windows, as
`run_scripts/ask.py` does.

Letters in shapes: B rows, S tokens, K spans.
"""

from typing import Any, final

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.serving import checks, squad_text
from albert_tf.serving.base import Answers, ServedRows, Signature, Tensors
from albert_tf.task_config import Squad
from albert_tf.tasks import create_task
from albert_tf.tasks.answers import NO_SCORE
from albert_tf.text.tokenizer import AlbertTokenizer


@final
class ServedSquad(ServedRows):
    """Rows [CLS] question [SEP] window [SEP]; the second segment begins at the window.

    Signatures of ids and of examples return, best first, `span_starts` and `span_ends`
    int32 [B, K], inclusive positions in the row, `span_scores` float32 [B, K] and their
    `probabilities`. Spans that cannot be answers (too long, or not in the window) come
    last, with a probability of 0. For v2.0 there are `null_scores` float32 [B], the
    logit that there is no answer, `threshold` float32 [B], the model's, and `answered`
    bool [B], true if the null score is below it. For a context of several windows,
    clients take the best span of all windows and the lowest null score.

    `text` takes `question` and `context`, string [B], and returns

    - `answer` string [B], a part of the context as it is, except that an invalid byte
      of UTF-8 becomes U+FFFD; "": no answer;
    - `answer_start` int32 [B], its first character in the context; -1: no answer;
    - `score` and `probability` float32 [B] of the best span, the latter among spans
      that differ in their text; -1e20 and 0 if there is no span;
    - `truncated` bool [B], true if question or context lost its end;
    - for v2.0, `null_scores`, `threshold` and `answered` as above, the last being false
      if there is no span, and `best_answer` and `best_answer_start`, the answer under
      an infinite threshold.
    """

    def __init__(
        self,
        model: tf.Module,
        config: AlbertConfig,
        task_config: Squad,
        tokenizer: AlbertTokenizer | None = None,
    ):
        """Serves a model of SQuAD.

        Args:
          model: model of the version that the task configuration says.
          config: its configuration.
          task_config: version, lengths, beams and threshold.
          tokenizer: as `ServedModel`.
        """
        super().__init__(model, config, task_config.max_seq_length, tokenizer)
        self.task_config = task_config
        self.predictions: Any = create_task(task_config).predictions

    def answer(self, batch: Tensors) -> Answers:
        """Computes spans, and for v2.0 the decision to answer."""
        in_window = _in_window(batch)
        columns = tf.range(tf.shape(in_window)[1])
        batch = {
            **batch,
            "token_is_max_context": in_window,
            # As in training, [CLS] is allowed: it stands for no answer.
            "p_mask": tf.where(columns == 0, 0, 1 - in_window),
        }
        predictions = self.predictions(self.model(batch, training=False), batch)
        answers = self._valid_spans_first(in_window, predictions)
        if self.task_config.version_2:
            null_scores = predictions["no_answer_logits"]
            threshold = tf.constant(self.task_config.threshold, tf.float32)
            answers["null_scores"] = null_scores
            answers["threshold"] = tf.zeros_like(null_scores) + threshold
            answers["answered"] = null_scores < threshold
        return answers

    def text_signature(self) -> Signature:
        """Makes the signature of questions and contexts."""
        specs = [tf.TensorSpec([None], tf.string, n) for n in ("question", "context")]

        @tf.function(input_signature=specs, autograph=False)
        def text(question, context):
            inputs = {"question": question, "context": context}
            return self._answer_texts(*checks.checked_rows(inputs).values())

        return text

    def _answer_texts(self, questions: tf.Tensor, contexts: tf.Tensor) -> Answers:
        # The tokenizer counts an invalid byte as one character; so must `substr`.
        contexts = tf.strings.unicode_transcode(contexts, "UTF-8", "UTF-8")
        all_tokens = self.graph_tokenizer(questions)
        kept_tokens = all_tokens[:, : self.task_config.max_query_length]
        ids, *offsets = self.graph_tokenizer.encode_with_offsets(contexts)
        batch, truncated = self.pack(kept_tokens, ids, shorten="second")
        truncated |= kept_tokens.row_lengths() < all_tokens.row_lengths()
        starts, ends = squad_text.increasing_ranges(
            *(values[:, : self.max_seq_length] for values in offsets)
        )
        answers = self.checked_answer(batch)
        # The window begins after [CLS], question and [SEP].
        window_start = tf.cast(kept_tokens.row_lengths()[:, tf.newaxis] + 2, tf.int32)
        first_tokens = tf.maximum(answers["span_starts"] - window_start, 0)
        last_tokens = tf.maximum(answers["span_ends"] - window_start, 0)
        best = squad_text.best_answer(
            contexts,
            tf.gather(starts, first_tokens, batch_dims=1),
            tf.gather(ends, last_tokens, batch_dims=1),
            answers["span_scores"],
            self.task_config.n_best_size,
        )
        return {**self._decide(best, answers), "truncated": truncated}

    def _decide(self, best: Tensors, answers: Tensors) -> Answers:
        """Applies the threshold of v2.0 to the best text."""
        if not self.task_config.version_2:
            return dict(best)
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

    def _valid_spans_first(self, in_window: tf.Tensor, predictions: Tensors) -> Answers:
        """Moves spans that cannot be answers behind all others.

        The model gives every row the same number of spans, so a short row has some
        that reach beyond its window; these get `NO_SCORE` and a probability of 0.
        """
        last = tf.shape(in_window)[1] - 1
        starts = tf.minimum(predictions["span_starts"], last)
        ends = tf.minimum(predictions["span_ends"], last)
        length = ends - starts + 1
        valid = (length >= 1) & (length <= self.task_config.max_answer_length)
        for positions in (starts, ends):
            valid &= tf.gather(in_window, positions, batch_dims=1) == 1
        valid &= predictions["span_scores"] > NO_SCORE
        scores = tf.where(valid, predictions["span_scores"], NO_SCORE)
        scores, order = tf.math.top_k(scores, scores.shape[1])
        valid = tf.gather(valid, order, batch_dims=1)
        probabilities = tf.nn.softmax(scores) * tf.cast(valid, tf.float32)
        return {
            "span_starts": tf.gather(starts, order, batch_dims=1),
            "span_ends": tf.gather(ends, order, batch_dims=1),
            "span_scores": scores,
            "probabilities": probabilities,
        }


def _in_window(batch: Tensors) -> tf.Tensor:
    """1 for the window's tokens, else 0: the second segment without its [SEP]."""
    mask = batch["input_mask"]
    columns = tf.range(tf.shape(mask)[1])
    last = tf.reduce_sum(mask, axis=1, keepdims=True) - 1
    return batch["segment_ids"] * mask * tf.cast(columns < last, tf.int32)
