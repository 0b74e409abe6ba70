r"""Makes pretraining records of text: pairs of segments with n-gram masks.

    python run_scripts/create_pretraining_data.py --input_file='text/*.txt' \
        --input_format=raw --spm_model_file=vocabulary.model \
        --output_file=data/train.tfrecord@64

Each output file gets a sidecar FILE.json with its settings and numbers. A run that was
killed goes on where it was when it is started again. --dry_run tells rows and bytes.
"""

from absl import flags, logging

from data_prep.corpus.reader import expand_inputs
from data_prep.corpus.tokenize import TextConfig
from data_prep.parallel import default_count
from data_prep.pretraining.config import PretrainingDataConfig
from data_prep.pretraining.estimate import estimate, estimate_table
from data_prep.pretraining.job import Job, make_pretraining_data
from data_prep.pretraining.masking import MaskingConfig
from data_prep.pretraining.output_files import expand_outputs
from data_prep.pretraining.report import report_table, unknown_warning
from flags import common_flags, data_flags

FLAGS = flags.FLAGS


def config_from_flags() -> PretrainingDataConfig:
    return PretrainingDataConfig(
        max_seq_length=FLAGS.max_seq_length,
        short_seq_prob=FLAGS.short_seq_prob,
        dupe_factor=FLAGS.dupe_factor,
        random_seed=FLAGS.random_seed,
        pair_objective=data_flags.pair_objective(),
        masking=MaskingConfig(
            max_predictions_per_seq=FLAGS.max_predictions_per_seq,
            masked_lm_prob=FLAGS.masked_lm_prob,
            ngram=FLAGS.ngram,
            favor_shorter_ngram=FLAGS.favor_shorter_ngram,
            do_whole_word_mask=FLAGS.do_whole_word_mask,
        ),
    )


def job_from_flags() -> Job:
    config = config_from_flags()
    text_config = TextConfig(
        FLAGS.input_format, FLAGS.on_bad_text, FLAGS.language, FLAGS.chinese_segmenter
    )
    return Job(
        input_paths=expand_inputs(FLAGS.input_file),
        text_config=text_config,
        tokenizer=common_flags.make_tokenizer(),
        config=config,
        outputs=expand_outputs(
            FLAGS.output_file, FLAGS.shard_range, check=not FLAGS.dry_run
        ),
        num_workers=FLAGS.num_workers or default_count(),
        work_dir=FLAGS.work_dir,
    )


def main():
    job = job_from_flags()
    if FLAGS.dry_run:
        report = estimate(job)
        print(estimate_table(report))
    else:
        report = make_pretraining_data(job)
        print(report_table(report))
    if warning := unknown_warning(report):
        logging.warning("%s", warning)


if __name__ == "__main__":
    common_flags.define_corpus_flags()
    common_flags.define_tokenizer_flags()
    data_flags.define_pretraining_data_flags()
    data_flags.define_data_run_flags()
    common_flags.run(main)
