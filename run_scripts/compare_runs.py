r"""Draws the learning curves of several runs over each other, as the paper's Figure 2.

    python run_scripts/compare_runs.py models/a models/b --output_file=curves.html

A run is the output folder of a training, finished or not. Its losses, metrics, learning
rate, norm of gradients and throughput come from its TensorBoard events.
"""

from absl import flags

from albert_tf.checkpoints.output_names import is_run
from albert_tf.storage import as_path, comparable, entries
from flags import common_flags

FLAGS = flags.FLAGS


def main(runs: list[str]) -> None:
    """Writes the figure or the page."""
    places = [comparable(run) for run in runs]
    for run, place in zip(runs, places, strict=True):
        if places.count(place) > 1:
            raise flags.Error(f"{run} is named twice: name each run once.")
        if not as_path(run).is_dir():
            raise FileNotFoundError(f"There is no folder {run}: check the path.")

    # TensorFlow loads for seconds: not before the names are known to be right.
    from albert_tf.training import curves

    curves.check_output(FLAGS.output_file)
    found = {}
    for run in runs:
        found[run] = curves.read_curves(run)
        if not found[run]:
            several = sorted(filter(is_run, entries(run).folders))
            raise ValueError(
                f"{run} holds no TensorBoard events in train/ or eval/: name the "
                "output folder of a run"
                + (f", as {as_path(run) / several[0]}." if several else ".")
            )
    curves.write_comparison(found, FLAGS.output_file)
    print(f"Wrote {FLAGS.output_file}.")


if __name__ == "__main__":
    common_flags.define_output_file_flag(
        "Figure (.png) or page (.html) to write. The page holds the figure and a table "
        "of the last values."
    )
    common_flags.run(main, words="RUN ... --output_file=FILE")
