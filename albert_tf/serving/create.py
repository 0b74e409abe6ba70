"""Builds the model of a task configuration, and its signatures."""

import tensorflow as tf

from albert_tf.checkpoints.formats import StoredWeights, read_weights
from albert_tf.checkpoints.load import HEADS, LoadReport, assign_weights
from albert_tf.config import AlbertConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.layers import Projection
from albert_tf.model.precision import precision_policy
from albert_tf.serving.base import ServedModel, Signature
from albert_tf.serving.classification import (
    ServedClassifier,
    ServedMultiLabel,
    ServedRegression,
)
from albert_tf.serving.embedding import ServedEmbedding
from albert_tf.serving.encoder import EncoderModel, ServedEncoder
from albert_tf.serving.fill_mask import (
    FillMaskModel,
    ServedFillMask,
    load_head,
)
from albert_tf.serving.multiple_choice import ServedMultipleChoice
from albert_tf.serving.squad import ServedSquad
from albert_tf.serving.tagging import ServedTagger
from albert_tf.task_config import (
    Classification,
    Embedding,
    MultiLabel,
    MultipleChoice,
    Regression,
    Squad,
    Tagging,
    TaskConfig,
)
from albert_tf.tasks import create_task
from albert_tf.text.tokenizer import AlbertTokenizer

# Signatures beside the task's.
EMBEDDINGS, FILL_MASK = "embeddings", "fill_mask"


def create_served_model(
    model: tf.Module,
    config: AlbertConfig,
    task_config: TaskConfig | None,
    tokenizer: AlbertTokenizer | None = None,
) -> ServedModel:
    """Adds a task's signatures to a model.

    Args:
      model: model of the task, with its weights.
      config: its configuration.
      task_config: its task; None: the model is from `EncoderModel`.
      tokenizer: tokenizer of the signature `text`; None: leaves this signature out, and
        with it every custom operation.
    """
    match task_config:
        case None:
            return ServedEncoder(model, config, tokenizer=tokenizer)
        case Classification():
            return ServedClassifier(model, config, task_config, tokenizer)
        case MultiLabel():
            return ServedMultiLabel(model, config, task_config, tokenizer)
        case Embedding():
            return ServedEmbedding(model, config, task_config, tokenizer)
        case Regression():
            return ServedRegression(model, config, task_config, tokenizer)
        case MultipleChoice():
            return ServedMultipleChoice(model, config, task_config, tokenizer)
        case Squad():
            return ServedSquad(model, config, task_config, tokenizer)
        case Tagging():
            return ServedTagger(model, config, task_config, tokenizer)
    raise TypeError(
        f"A model is served by its task configuration. Received {task_config!r}: pass "
        "a value of albert_tf.task_config, or None."
    )


def embedding_signatures(
    model: tf.Module,
    config: AlbertConfig,
    task_config: TaskConfig | None,
    tokenizer: AlbertTokenizer | None = None,
) -> dict[str, Signature]:
    """Makes signatures that give the embeddings of a task's model.

    Args:
      model: model of the task, with its weights.
      config: its configuration.
      task_config: its task, which has the longest row.
      tokenizer: as of `create_served_model`.
    Returns:
      `embeddings`, which takes ids as an encoder's `ids` does, and with a tokenizer
      `embeddings_text`, which takes single texts.
    """
    served = ServedEncoder(
        EncoderModel(config, model.encoder),
        config,
        task_config.max_seq_length if task_config else None,
        tokenizer,
    )
    names = {"ids": EMBEDDINGS, "text": f"{EMBEDDINGS}_text"}
    return {
        name: served.signatures[source]
        for source, name in names.items()
        if source in served.signatures
    }


def create_fill_mask(
    encoder: AlbertEncoder,
    stored: StoredWeights,
    config: AlbertConfig,
    tokenizer: AlbertTokenizer,
    top_k: int,
    precision: str = "float32",
) -> ServedFillMask:
    """Makes what fills in blanks, on the encoder of a model.

    Args:
      encoder: the encoder, with its weights.
      stored: weights with the masked-language-model head.
      config: the model's configuration.
      tokenizer: its tokenizer.
      top_k: tokens that are listed for each mask.
      precision: as of `load_model`.
    Raises:
      ValueError: there is no such head, or as `ServedFillMask`.
    """
    with precision_policy(precision):
        model = FillMaskModel(config, encoder)
    load_head(model, stored)
    _store_kernels(model.masked_lm, tf.as_dtype(precision))
    return ServedFillMask(model, config, tokenizer, top_k)


def load_model(
    config: AlbertConfig,
    checkpoint: str | StoredWeights,
    task_config: TaskConfig | None,
    precision: str = "float32",
    skips_padding: bool = True,
) -> tuple[tf.Module, LoadReport]:
    """Builds the model of a task and loads its weights.

    Args:
      config: the model's configuration.
      checkpoint: path of weights of any format, or weights that are read already.
      task_config: the task; None: the encoder alone.
      precision: of activations, as `TrainConfig.precision`.
      skips_padding: as in `AlbertEncoder`; False for formats of fixed shapes.
    Returns:
      The model, and the load report; heads that the model lacks are in `unused`.
    Raises:
      FileNotFoundError: there is no such checkpoint.
      ValueError: the checkpoint is of another configuration, or lacks the task's head.
    """
    with precision_policy(precision):
        if task_config is None:
            model = EncoderModel(config)
        else:
            build_model = create_task(task_config).build_model
            model = build_model(config, seed=0, rematerialize="none")
    model.encoder.skips_padding = skips_padding
    if not isinstance(checkpoint, StoredWeights):
        checkpoint = read_weights(checkpoint)
    report = assign_weights(model, checkpoint, unused_ok=HEADS)
    _store_kernels(model, tf.as_dtype(precision))
    return model, report


def _store_kernels(model: tf.Module, dtype: tf.DType) -> None:
    """Stores the kernels of all projections in the dtype that they are multiplied in.

    The products are the same, and no request waits for the conversion of each kernel in
    each layer. Models in float32 do not change.
    """
    if dtype == tf.float32:
        return
    for layer in model.submodules:
        if isinstance(layer, Projection):
            name = layer.kernel.name.split(":")[0]
            layer.kernel = tf.Variable(tf.cast(layer.kernel, dtype), name=name)
