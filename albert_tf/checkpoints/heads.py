"""Heads that stored weights may have besides the encoder."""

import functools
from collections.abc import Iterable

import tensorflow as tf

from albert_tf.checkpoints.load import released_name
from albert_tf.config import AlbertConfig
from albert_tf.model.heads import ClassificationModel, PretrainingModel
from albert_tf.model.span_heads import AnswerableSpanModel, SpanModel

MASKED_LM, SENTENCE_ORDER = "masked-LM", "sentence-order"
SPAN, CLASSIFIER = "span", "classifier"
# Head -> first part of its weights' names.
PREFIXES = {
    MASKED_LM: "cls/predictions/",
    SENTENCE_ORDER: "cls/seq_relationship/",
    SPAN: "cls/squad/",
    CLASSIFIER: "output_",
    "span start": "start_logits/",
    "span end": "end_logits/",
    "answerable": "answer_class/",
}
CLASSIFIER_BIAS = "output_bias"
Shapes = dict[str, tuple[int, ...]]


def head_shapes(config: AlbertConfig, num_classes: int) -> dict[str, Shapes]:
    """Asks the models for the weights of their heads, without allocating any.

    Args:
      config: the model's configuration.
      num_classes: number of outputs of the classifier.
    Returns:
      Head -> name of each of its weights -> shape.
    """
    # Heads do not depend on the layers: one is enough.
    config = config.replace(
        num_hidden_layers=1,
        num_hidden_groups=1,
        inner_group_num=1,
        attention_groups=None,
        ffn_groups=None,
    )
    shapes = _weight_shapes(config, num_classes)
    return {
        head: {name: shape for name, shape in shapes.items() if name.startswith(prefix)}
        for head, prefix in PREFIXES.items()
    }


@functools.lru_cache(maxsize=4)
def _weight_shapes(config: AlbertConfig, num_classes: int) -> Shapes:
    with tf.Graph().as_default():
        models = (
            PretrainingModel(config, seed=0),
            ClassificationModel(config, num_outputs=num_classes, seed=0),
            SpanModel(config, seed=0),
            AnswerableSpanModel(config, seed=0),
        )
    return {
        released_name(variable): tuple(variable.shape)
        for model in models
        for variable in model.variables
    }


def heads_of(names: Iterable[str]) -> frozenset[str]:
    """Names the heads that complete weights have: keys of `PREFIXES`."""
    names = tuple(names)
    return frozenset(
        head
        for head, prefix in PREFIXES.items()
        if any(name.startswith(prefix) for name in names)
    )
