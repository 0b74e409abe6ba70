"""A training step of the ALBERT of tf-models: its encoder, head and optimizers."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras
from official.modeling import tf_utils
from official.modeling.optimization import lamb, legacy_adamw
from official.nlp.modeling import layers

from albert_tf.checkpoints.model_garden import build_encoder
from albert_tf.config import AlbertConfig, OptimizerConfig
from albert_tf.model.precision import precision_policy
from dev.benchmark_train import Case, Times, random_batch, timed


def make_tf_models_step(case: Case) -> Callable[[], Times]:
    """The step of tf-models' ALBERT, its masked-LM head and its optimizer."""
    batch = {name: tf.constant(rows) for name, rows in random_batch(case).items()}
    with precision_policy(case.train_config.precision):
        model = _tf_models_pretrainer(case.config, tf_utils.get_activation("gelu"))
    optimizer, clip_norm = _tf_models_optimizer(case.optimizer)
    inputs = {
        "input_word_ids": batch["input_ids"],
        "input_mask": batch["input_mask"],
        "input_type_ids": batch["segment_ids"],
        "masked_lm_positions": batch["masked_lm_positions"],
    }

    @tf.function(autograph=False)
    def step():
        with tf.GradientTape() as tape:
            outputs = model(inputs, training=True)
            pairs = (
                (outputs["masked_lm"], batch["masked_lm_ids"]),
                (outputs["sentence_order"], batch["next_sentence_labels"][:, 0]),
            )
            loss = tf.add_n(
                [
                    tf.reduce_mean(
                        tf.nn.sparse_softmax_cross_entropy_with_logits(
                            labels, tf.cast(logits, tf.float32)
                        )
                    )
                    for logits, labels in pairs
                ]
            )
        variables = model.trainable_variables
        gradients = tape.gradient(loss, variables)
        gradients, norm = tf.clip_by_global_norm(gradients, clip_norm)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return norm

    return timed(step)


def _tf_models_pretrainer(config: AlbertConfig, activation: Callable) -> Any:
    encoder = build_encoder(config)
    order = tf_keras.layers.Dense(2, name="sentence_order")
    masked = layers.MaskedLM(encoder.get_embedding_table(), activation)
    positions = tf_keras.Input([None], dtype="int32", name="masked_lm_positions")
    encoded = encoder(encoder.inputs)
    return tf_keras.Model(
        [*encoder.inputs, positions],
        {
            "masked_lm": masked(encoded["sequence_output"], positions),
            "sentence_order": order(encoded["pooled_output"]),
        },
    )


def _tf_models_optimizer(name: str) -> tuple[Any, float]:
    """The optimizer of tf-models with our settings, and the norm to clip to."""
    config = OptimizerConfig(optimizer=name)
    settings = {
        "learning_rate": config.learning_rate,
        "beta_1": config.beta_1,
        "beta_2": config.beta_2,
        "epsilon": config.epsilon,
        "weight_decay_rate": config.weight_decay,
    }
    if name == "lamb":
        return lamb.LAMB(**settings), config.clip_norm
    # It would clip the gradients itself, in a second pass.
    settings["gradient_clip_norm"] = 0.0
    return legacy_adamw.AdamWeightDecay(**settings), config.clip_norm
