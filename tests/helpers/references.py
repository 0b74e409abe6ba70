"""Models and numbers frozen from the original ALBERT."""

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.load import load_tf1_checkpoint, released_name
from albert_tf.config import AlbertConfig
from albert_tf.model.heads import PretrainingModel
from albert_tf.tasks import losses as tasks_losses
from albert_tf.tasks.pretraining import PRETRAINING

REFERENCES = ["encoder_shared", "encoder_groups3_inner2"]


class Case:
    """A reference: the model with its weights, its batch, and the expected numbers."""

    def __init__(self, folder):
        self.expected = np.load(folder / "expected.npz")
        self.config = AlbertConfig.from_json(folder / "albert_config.json")
        self.model = PretrainingModel(self.config, seed=1)
        load_tf1_checkpoint(self.model, folder)
        names = ["input_ids", "input_mask", "segment_ids", "masked_lm_positions"]
        names += ["masked_lm_ids", "masked_lm_weights"]
        self.batch = {name: tf.constant(self.expected[name]) for name in names}
        label = self.expected["next_sentence_labels"][:, 0]
        self.batch["sentence_order_label"] = tf.constant(label)

    def losses(self):
        # The operations that train; nothing is dropped in the frozen runs.
        outputs = self.model(self.batch, training=True)
        return {
            name: tasks_losses.weighted_mean(
                tf.reduce_sum(
                    loss.values(outputs, self.batch) * loss.weights(self.batch)
                ),
                tf.reduce_sum(loss.weights(self.batch)),
            )
            for name, loss in PRETRAINING.losses.items()
        }

    def gradients(self):
        """The loss, dense gradients by released name, and the frozen runs' norm."""
        embeddings = self.model.encoder.embeddings
        plain, seen = embeddings.layer_norm, []
        with tf.GradientTape(persistent=True) as tape:

            def watched(values):
                tape.watch(values)
                seen.append(values)
                return plain(values)

            embeddings.layer_norm = watched
            total = tf.add_n(list(self.losses().values()))
            embeddings.layer_norm = plain
        variables = self.model.trainable_variables
        gradients = dict(
            zip(
                [released_name(v) for v in variables],
                map(tf.convert_to_tensor, tape.gradient(total, variables)),
                strict=True,
            )
        )
        squares = tf.linalg.global_norm(list(gradients.values())) ** 2
        segments = gradients["bert/embeddings/token_type_embeddings"]
        unsummed = tf.reduce_sum(tape.gradient(total, seen[0]) ** 2)
        norm = tf.sqrt(squares - tf.reduce_sum(segments**2) + unsummed)
        return total, gradients, norm
