"""Prints how far the quick start's training has come: its status and its step.

python run_scripts/quickstart/status.py --output_dir=quickstart_output/model
"""

from pathlib import Path

from absl import flags

from albert_tf.checkpoints.output_names import RESULTS_FILE
from albert_tf.files import read_json
from flags import common_flags

FLAGS = flags.FLAGS


def main():
    results = read_json(Path(FLAGS.output_dir) / RESULTS_FILE)
    print(results["status"].replace(" ", "-"), results["global_step"])


if __name__ == "__main__":
    common_flags.define_output_dir_flag("Output folder of the training.")
    common_flags.run(main)
