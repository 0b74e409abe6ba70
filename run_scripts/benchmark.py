r"""Measures speed and memory of one part of the pipeline.

    python run_scripts/benchmark.py data --input_file='text/*.txt' --input_format=raw \
        --spm_model_file=vocabulary.model --dupe_factor=10

    python run_scripts/benchmark.py train --precisions=float32,bfloat16 \
        --albert_config_files=configs/albert_base.json --batch_sizes=8

    python run_scripts/benchmark.py classifier --task_name=rte --data_dir=glue \
        --albert_config_file=configs/albert_base.json --spm_model_file=english.model

    python run_scripts/benchmark.py input --work_dir=input_rows

    python run_scripts/benchmark.py training --output_dir=figures \
        --albert_config_file=configs/albert_base.json

`data`: rows and bytes per second of create_pretraining_data.py, whose flags it takes,
with one process and with several, and sentencepiece's speed on the same text.
`input`: rows per second that one worker of 1, 8 and 64 reads, and seconds to its first
batch, on a set of rows that it makes.
`train`: steps and rows per second, share of the machine's speed of matrix products, and
memory, for every combination of configurations, precisions and batch sizes.
`serving`: time of requests to an exported model, beside the same weights in other
runtimes, and what clients wait that send texts at the same time.
`classifier`: time of an epoch of fine-tuning, with batches padded to their longest row
and to --max_seq_length.
`attention`: attention in a window beside full attention, by length of the row.
`training`: steps, epochs and evaluation in one table, beside PyTorch and tf-models, as
JSON and Markdown. `render` puts docs/figures/training.json into docs/performance.md.
"""

import dataclasses
import json
import sys

from absl import flags

from dev import (
    benchmark_attention,
    benchmark_classifier,
    benchmark_input,
    benchmark_serving,
    benchmark_train,
    benchmark_training,
    training_table,
)
from flags import common_flags, data_flags, performance_flags

FLAGS = flags.FLAGS


def benchmark_data() -> None:
    """Measures `create_pretraining_data.py`."""
    import create_pretraining_data

    from dev.benchmark_data import benchmark_data, benchmark_table

    if not FLAGS.spm_model_file:
        raise flags.Error(
            "The yardstick needs a SentencePiece model: --spm_model_file."
        )
    FLAGS.dry_run = True  # The job's own outputs are not touched.
    job = create_pretraining_data.job_from_flags()
    job = dataclasses.replace(job, input_paths=job.input_paths * FLAGS.text_copies)
    summary = benchmark_data(
        job, FLAGS.spm_model_file, FLAGS.max_workers, FLAGS.repeats, FLAGS.work_dir
    )
    print(benchmark_table(summary))
    print(json.dumps(summary))


def define_data_flags() -> None:
    """Defines the flags of the command `data`."""
    common_flags.define_corpus_flags()
    common_flags.define_tokenizer_flags()
    data_flags.define_pretraining_data_flags(output_file="rows.tfrecord@4")
    data_flags.define_data_run_flags()
    data_flags.define_data_benchmark_flags()


# Command -> (function that defines its flags, function that runs it).
COMMANDS = {
    "data": (define_data_flags, benchmark_data),
    "input": (benchmark_input.define_flags, benchmark_input.main),
    "classifier": (benchmark_classifier.define_flags, benchmark_classifier.main),
    "serving": (benchmark_serving.define_flags, benchmark_serving.main),
    "attention": (benchmark_attention.define_flags, benchmark_attention.main),
    "render": (lambda: None, training_table.main),
    "training": (benchmark_training.define_flags, benchmark_training.main),
    "train": (performance_flags.define_train_benchmark_flags, benchmark_train.main),
}


def main(words):
    if words[0] not in COMMANDS or len(words) > 1:
        raise flags.Error(f"Name one of {', '.join(COMMANDS)}. Received {words}.")
    COMMANDS[words[0]][1]()


if __name__ == "__main__":
    # The command decides which flags there are, so it comes first.
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command in COMMANDS:
        COMMANDS[command][0]()
    common_flags.run(main, words=f"{'|'.join(COMMANDS)} [--flags]")
