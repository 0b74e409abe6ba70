r"""Makes pretraining records of text: pairs of segments with n-gram masks.

    python run_scripts/create_pretraining_data.py --input_file='text/*.txt' \
        --input_format=raw --spm_model_file=vocabulary.model \
        --output_file=data/train.tfrecord@64

Each output file gets a sidecar FILE.json with its configuration and counts. A run that
was killed continues when it is started again. --dry_run predicts rows and bytes.
--scheduler hands the work to a Dask cluster.
"""

from absl import flags, logging

from data_prep.corpus.inputs import expand_inputs
from data_prep.corpus.tokenize import TextConfig
from data_prep.pretraining.estimate import estimate, estimate_table
from data_prep.pretraining.job import PretrainingDataJob, make_pretraining_data
from data_prep.pretraining.output_files import (
    expand_outputs,
    label_warning,
    report_table,
    unknown_warning,
)
from flags import common_flags, data_flags, fields

FLAGS = flags.FLAGS


def job_from_flags() -> PretrainingDataJob:
    """Returns the job that the flags describe."""
    config = data_flags.pretraining_data_config()
    return PretrainingDataJob(
        input_paths=expand_inputs(FLAGS.input_file),
        text_config=fields.read(TextConfig),
        tokenizer=common_flags.make_tokenizer(),
        config=config,
        outputs=expand_outputs(
            FLAGS.output_file, FLAGS.shard_range, check=not FLAGS.dry_run
        ),
        num_workers=data_flags.num_workers(),
        work_dir=FLAGS.work_dir,
        scheduler=FLAGS.scheduler,
    )


def main() -> None:
    job = job_from_flags()
    if FLAGS.dry_run:
        report = estimate(job)
        print(estimate_table(report))
    else:
        report = make_pretraining_data(job)
        print(report_table(report))
    for warning in (unknown_warning(report), label_warning(report)):
        if warning:
            logging.warning("%s", warning)


if __name__ == "__main__":
    common_flags.define_corpus_flags()
    common_flags.define_tokenizer_flags()
    data_flags.define_pretraining_data_flags()
    data_flags.define_data_run_flags()
    common_flags.run(main)
