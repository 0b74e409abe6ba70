"""Rows of training drawn by their last loss, so that hard ones come more often.

The paper names hard examples as future work (section 5). Training goes in rounds of as
many steps as an epoch has. In the first one every row comes once; each place of a later
one takes a row that is drawn with a chance proportional to a power of its last loss.
The losses as they were when the round began are part of a checkpoint, so that a run
that is resumed draws the same rows.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from albert_tf.training.job import Job

# Added to all losses, so that a row of loss 0 is drawn at times and may be hard again.
_LEAST = 0.01
# The loss of a row that was not trained on yet.
_UNKNOWN = -1.0


def steps_of_round(job: Job) -> int:
    """Steps of a round; 0: rows are not drawn by their losses."""
    if not (job.train_config.hard_examples and job.train_rows):
        return 0
    return -(-job.train_rows.total_rows // job.train_config.train_batch_size)


@dataclasses.dataclass
class HardExamples:
    """The losses of all rows of training.

    Attributes:
      power: power of the losses; 0 would draw all rows alike.
      seed: of the draws.
      batch_size: B, rows of a step.
      losses: float32 [R], the last loss of each row; -1: none yet.
      round_losses: the same at the beginning of the round.
    """

    power: float
    seed: int
    batch_size: int
    losses: tf.Variable
    round_losses: tf.Variable

    @classmethod
    def of_job(cls, job: Job) -> "HardExamples | None":
        """Makes the state of a job that starts; None: rows are not drawn so.

        Raises:
          ValueError: its rows, devices or steps do not allow it.
        """
        config, rows = job.train_config, job.train_rows
        if not config.hard_examples or rows is None:
            return None
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        if replicas > 1 or config.gradient_accumulation_steps > 1:
            raise ValueError(
                "hard_examples is for one replica without gradient accumulation. "
                f"Received {replicas} and {config.gradient_accumulation_steps}: leave "
                "it out."
            )
        if not rows.varies or job.phases:
            raise ValueError(
                "hard_examples is for rows that are stored without padding, those of "
                f"fine-tuning. Received {rows.paths[0]}: leave it out."
            )
        unknown = np.full(rows.total_rows, _UNKNOWN, np.float32)
        losses, at_beginning = (tf.Variable(unknown, trainable=False) for _ in range(2))
        return cls(
            config.hard_examples,
            config.random_seed,
            config.train_batch_size,
            losses,
            at_beginning,
        )

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Variables that a checkpoint stores."""
        return {"row_losses": self.losses, "round_losses": self.round_losses}

    @property
    def steps_of_round(self) -> int:
        """Steps of a round."""
        return -(-self.losses.shape[0] // self.batch_size)

    def draw(self, step: int) -> np.ndarray | None:
        """Draws the rows of the round of a step, which begins or is resumed there.

        Returns:
          int64 [steps of a round * B], places of rows; None: every row once, in the
          first round.
        """
        number, done = divmod(step, self.steps_of_round)
        if not done:
            self.round_losses.assign(self.losses)
        if not number:
            return None
        losses = self.round_losses.numpy().astype(np.float64)
        known = losses != _UNKNOWN
        # Rows that no batch had yet count as the mean.
        losses[~known] = losses[known].mean() if known.any() else 1.0
        chances = (losses + _LEAST) ** self.power
        rng = np.random.default_rng([self.seed, number])
        size = self.steps_of_round * self.batch_size
        return rng.choice(len(losses), size, p=chances / chances.sum())

    def keep(self, rows: tf.Tensor, losses: tf.Tensor) -> None:
        """Keeps the losses of a step; runs inside the graph.

        Args:
          rows: int32 [B], places of rows. Of a row that occurs twice the larger loss is
            kept; of one whose loss is not finite the one before.
          losses: float32 [B].
        """
        places, groups = tf.unique(rows)
        largest = tf.math.unsorted_segment_max(losses, groups, tf.size(places))
        before = tf.gather(self.losses, places)
        kept = tf.where(tf.math.is_finite(largest), largest, before)
        self.losses.scatter_nd_update(places[:, tf.newaxis], kept)
