"""The number of steps of a loop, where no flag says it."""

# What a loop is to take: reports come this often, and SIGTERM is answered as soon.
SECONDS_PER_LOOP = 8.0
# The host of a TPU takes part in nothing but the ends of loops, so these are long.
_STEPS_ON_TPU = 1_000
# A loop has at most so many times the steps of the one before: the first steps of a
# process are slow, and what they cost says little.
_GROWTH = 8


class LoopLength:
    """The number of steps in the next loop.

    Attributes:
      steps: that number.
    """

    def __init__(self, iterations_per_loop: int, is_tpu: bool):
        """Chooses the first loop's.

        Args:
          iterations_per_loop: steps of every loop; 0: as many as take about
            SECONDS_PER_LOOP, from 1 on, and 1,000 on TPUs.
          is_tpu: whether the steps run on a TPU.
        """
        self._adapts = iterations_per_loop == 0 and not is_tpu
        self.steps = iterations_per_loop or (_STEPS_ON_TPU if is_tpu else 1)

    def learn(self, steps: int, seconds: float) -> None:
        """Adapts to what a loop took.

        Args:
          steps: its steps.
          seconds: its time, the same number on all workers.
        """
        if self._adapts:
            fitting = int(SECONDS_PER_LOOP * steps / max(seconds, 1e-9))
            self.steps = max(1, min(fitting, _GROWTH * self.steps))
