"""Heads that stored weights may have besides the encoder."""

import functools
from collections.abc import Iterable

from albert_tf.checkpoints.load import released_name
from albert_tf.config import AlbertConfig
from albert_tf.model.heads import (
    MaskedLanguageModelHead,
    PooledHead,
    SentenceOrderHead,
    TokenHead,
)
from albert_tf.model.layers import Initializer
from albert_tf.model.span_heads import AnswerableSpanModel, SpanModel

MASKED_LM, SENTENCE_ORDER = "masked-LM", "sentence-order"
SPAN, CLASSIFIER, TAGGER = "span", "classifier", "tagger"
# Head -> first part of its weights' names.
PREFIXES = {
    MASKED_LM: "cls/predictions/",
    SENTENCE_ORDER: "cls/seq_relationship/",
    SPAN: "cls/squad/",
    CLASSIFIER: "output_",
    TAGGER: "cls/tagging/",
    "span start": "start_logits/",
    "span end": "end_logits/",
    "answerable": "answer_class/",
}
CLASSIFIER_BIAS = "output_bias"
TAGGER_BIAS = PREFIXES[TAGGER] + CLASSIFIER_BIAS
Shapes = dict[str, tuple[int, ...]]


def head_shapes(
    config: AlbertConfig, num_classes: int, num_tags: int = 1
) -> dict[str, Shapes]:
    """Asks the models for the weights of their heads.

    Args:
      config: the model's configuration.
      num_classes: number of outputs of the classifier.
      num_tags: number of outputs of the tagger.
    Returns:
      Head -> name of each of its weights -> shape.
    """
    shapes = _weight_shapes(config, num_classes, num_tags)
    return {
        head: {name: shape for name, shape in shapes.items() if name.startswith(prefix)}
        for head, prefix in PREFIXES.items()
    }


@functools.lru_cache(maxsize=4)
def _weight_shapes(config: AlbertConfig, num_classes: int, num_tags: int) -> Shapes:
    initializer = Initializer(config.initializer_range, seed=0)
    # Heads on the encoder depend on its width alone. (No tf.Graph is used to save the
    # memory of all weights: it would invalidate models of Keras that exist already.)
    narrow = config.replace(
        vocab_size=1,
        max_position_embeddings=1,
        type_vocab_size=1,
        num_hidden_layers=1,
        num_hidden_groups=1,
        attention_groups=None,
        ffn_groups=None,
        attention_window=None,
        global_attention_tokens=None,
        inner_group_num=1,
        intermediate_size=1,
    )
    owners = (
        MaskedLanguageModelHead(config, initializer),
        SentenceOrderHead(config, initializer),
        PooledHead(config, initializer, num_classes, dropout=0.0),
        TokenHead(config, initializer, num_tags, dropout=0.0),
        SpanModel(narrow, seed=0),
        AnswerableSpanModel(narrow, seed=0),
    )
    return {
        released_name(variable): tuple(variable.shape)
        for owner in owners
        for variable in owner.variables
    }


def heads_of(names: Iterable[str]) -> frozenset[str]:
    """Names the heads that complete weights have: keys of `PREFIXES`."""
    names = tuple(names)
    return frozenset(
        head
        for head, prefix in PREFIXES.items()
        if any(name.startswith(prefix) for name in names)
    )
