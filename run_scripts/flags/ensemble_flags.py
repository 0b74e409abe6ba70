"""Flags of both scripts of ensembles."""

from absl import flags


def define_num_models_flag() -> None:
    """Defines `--num_models`."""
    flags.DEFINE_integer(
        "num_models",
        0,
        "Take so many of --models, those with the best scores on their development "
        "sets. The paper chooses among 6 to 17. 0: all.",
        lower_bound=0,
    )
