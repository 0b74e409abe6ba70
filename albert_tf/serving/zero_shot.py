"""Zero-shot classification: labels that no training has seen, by entailment.

A model that was trained on MNLI, or another task of entailment, reads each text with a
hypothesis made of each label ("This example is politics.") and says whether it follows
(Yin et al. 2019). The formulas are those of transformers' pipeline.

Letters in shapes: N texts, L labels.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.model_dir import ModelDir
from albert_tf.config import AlbertConfig
from albert_tf.serving.base import Tensors
from albert_tf.serving.batched_rows import answers, make_row, trace
from albert_tf.serving.create import load_model
from albert_tf.task_config import Classification, TaskConfig
from albert_tf.text import packing
from albert_tf.text.tokenizer import AlbertTokenizer

TEMPLATE = "This example is {}."
# Names of the label of a text that does not follow, in tasks of three labels.
_CONTRADICTION = ("contradiction", "contradictory")


class ZeroShot(NamedTuple):
    """Scores of labels for texts.

    Attributes:
      scores: float32 [N, L]. With one right label a text they are probabilities of all
        labels, which sum to 1; else each label has a probability of its own.
      truncated: how many texts lost tokens at their end for at least one label.
    """

    scores: np.ndarray
    truncated: int


class ZeroShotClassifier:
    """Scores any labels by a model of entailment."""

    def __init__(
        self,
        model: tf.Module,
        config: AlbertConfig,
        task_config: TaskConfig | None,
        tokenizer: AlbertTokenizer,
    ):
        """Takes a model.

        Args:
          model: classifier of pairs, with its weights.
          config: its configuration.
          task_config: its task.
          tokenizer: its tokenizer.
        Raises:
          ValueError: the task is not one of entailment.
        """
        self._model, self._tokenizer = model, tokenizer
        self._entailment, self._contradiction = find_labels(task_config)
        self._function = trace(self._logits)
        longest = task_config.max_seq_length if task_config else None
        self._max_seq_length = longest or config.max_position_embeddings

    @classmethod
    def from_model_dir(cls, folder: ModelDir) -> "ZeroShotClassifier":
        """Loads a model.

        Raises:
          FileNotFoundError: the folder lacks a configuration or a vocabulary.
          ValueError: the model was not trained for entailment.
        """
        # Before the weights are read.
        find_labels(folder.task_config)
        config, tokenizer = folder.require_config(), folder.tokenizer()
        model, _ = load_model(config, folder.checkpoint, folder.task_config)
        return cls(model, config, folder.task_config, tokenizer)

    def classify(
        self,
        texts: Sequence[str],
        labels: Sequence[str],
        template: str = TEMPLATE,
        multi_label: bool = False,
        batch_size: int = 8,
    ) -> ZeroShot:
        """Scores labels for texts.

        With one right label the scores of a text are the softmax, over the labels, of
        the logits of entailment. With several, or a single label to score, that of a
        label is the softmax of its logits of entailment and of contradiction (of two
        classes: of the other one).

        Args:
          texts: the texts. Those that are too long lose tokens at their end, the
            hypotheses never.
          labels: the labels, in words that complete the template.
          template: the hypothesis, with {} in the place of the label.
          multi_label: whether several labels of a text may be right, or none.
          batch_size: pairs of text and hypothesis at a time.
        Raises:
          ValueError: there are no labels, or one is empty or stands twice; the
            template has no {}; a hypothesis leaves no room for a text.
        """
        hypotheses = self._tokenizer.encode_batch(make_hypotheses(labels, template))
        rooms = [
            self._room(label, hypothesis)
            for label, hypothesis in zip(labels, hypotheses, strict=True)
        ]
        rows, truncated = [], 0
        for ids in self._tokenizer.encode_batch(list(texts)):
            truncated += any(len(ids) > room for room in rooms)
            rows += [
                make_row(self._tokenizer, ids[:room], hypothesis)
                for room, hypothesis in zip(rooms, hypotheses, strict=True)
            ]
        logits = np.zeros((len(rows), 2), np.float32)
        pad_id = self._tokenizer.pad_id
        for places, found in answers(self._function, rows, batch_size, pad_id):
            logits[places] = found
        by_text = logits.reshape(len(texts), len(labels), 2)
        if multi_label or len(labels) == 1:
            scores = tf.nn.softmax(by_text, axis=2)[..., 0]
        else:
            scores = tf.nn.softmax(by_text[..., 0], axis=1)
        return ZeroShot(scores.numpy(), truncated)

    def _logits(self, batch: Tensors) -> tf.Tensor:
        """Logits of entailment and contradiction, float32 [B, 2]."""
        logits = self._model(batch, training=False)["logits"]
        return tf.gather(logits, [self._entailment, self._contradiction], axis=1)

    def _room(self, label: str, hypothesis: Sequence[int]) -> int:
        """Most tokens of a text beside a hypothesis."""
        special = packing.SPECIAL_TOKENS_OF_PAIR
        room = self._max_seq_length - special - len(hypothesis)
        if room < 1:
            raise ValueError(
                f"The hypothesis of {label!r:.80} has {len(hypothesis)} tokens, which "
                f"leaves no room for a text in {self._max_seq_length}: shorten label "
                "or template."
            )
        return room


def find_labels(task_config: TaskConfig | None) -> tuple[int, int]:
    """Finds the places of a task's labels of entailment and of contradiction.

    A task of two labels has the other one in the place of contradiction.

    Raises:
      ValueError: it has no label "entailment", in any case, or no contradiction.
    """
    names = []
    if isinstance(task_config, Classification):
        names = [label.lower() for label in task_config.labels]
    if "entailment" in names:
        entailment = names.index("entailment")
        if len(names) == 2:
            return entailment, 1 - entailment
        for name in _CONTRADICTION:
            if name in names:
                return entailment, names.index(name)
    what = f"the labels {names!s:.200}" if names else "no labels"
    raise ValueError(
        "Zero-shot classification needs a model of entailment, as of MNLI, with the "
        f"labels 'entailment' and 'contradiction' or one other. This one has {what}: "
        "fine-tune one with run_classifier.py --task_name=mnli."
    )


def make_hypotheses(labels: Sequence[str], template: str) -> list[str]:
    """Puts each label in the place of {} in a template.

    Raises:
      ValueError: as `ZeroShotClassifier.classify`.
    """
    if template.count("{}") != 1:
        raise ValueError(
            "A template has one {} in the place of the label. Received "
            f"{template!r:.80}."
        )
    if not labels or len(set(labels)) < len(labels) or not all(map(str.strip, labels)):
        raise ValueError(
            "Labels to choose from are texts, each once. Received "
            f"{list(labels)!s:.200}."
        )
    return [template.replace("{}", label) for label in labels]
