r"""Pretrains ALBERT on records, resumes, and evaluates.

    python run_scripts/run_pretraining.py --input_file='data/train-*.tfrecord' \
        --eval_input_file=data/eval.tfrecord --do_eval --output_dir=model \
        --albert_config_file=configs/albert_base.json [--tpu=local]
"""

import os

from absl import flags

from flags import common_flags

FLAGS = flags.FLAGS


def main():
    if not (FLAGS.do_train or FLAGS.do_eval):
        raise flags.Error("Nothing to do: pass --do_train or --do_eval.")
    if FLAGS.do_train and FLAGS.do_eval and not FLAGS.eval_input_file:
        raise flags.Error(
            "--do_eval beside --do_train needs rows of its own: --eval_input_file."
        )
    if not FLAGS.input_file and (FLAGS.do_train or not FLAGS.eval_input_file):
        raise flags.Error("Name the records: --input_file.")
    weights = common_flags.initial_weights()
    model_config = common_flags.model_config(weights)
    longest = model_config.max_position_embeddings
    if FLAGS.max_seq_length > longest:
        raise ValueError(
            "max_seq_length must be at most max_position_embeddings. Received "
            f"{FLAGS.max_seq_length} and {longest}: lower --max_seq_length or use a "
            "model made for longer input."
        )
    expected = {
        "max_seq_length": FLAGS.max_seq_length,
        "max_predictions_per_seq": FLAGS.max_predictions_per_seq,
        "vocab_size": model_config.vocab_size,
        "lower_case": FLAGS.do_lower_case,
        "strip_accents": FLAGS.strip_accents,
        "vocabulary_sha256": common_flags.vocabulary_sha256(),
    }
    train_rows = eval_rows = None
    if FLAGS.do_train:
        train_rows = common_flags.read_records(FLAGS.input_file, expected)
    if FLAGS.do_eval:
        eval_file = FLAGS.eval_input_file or FLAGS.input_file
        eval_rows = common_flags.read_records(eval_file, expected)
    if train_rows and eval_rows:
        trained = {os.path.realpath(path) for path in train_rows.paths}
        for path in eval_rows.paths:
            if os.path.realpath(path) in trained:
                raise ValueError(
                    f"{path} is trained on: name other rows as --eval_input_file."
                )
    optimizer_config = common_flags.optimizer_config()
    train_config = common_flags.train_config()

    # TensorFlow loads for seconds: not before the flags are known to be right.
    from albert_tf.tasks.pretraining import MASKED_LM, PRETRAINING
    from albert_tf.training import devices
    from albert_tf.training.run import Job, run

    job = Job(
        task=PRETRAINING if FLAGS.sentence_order_loss else MASKED_LM,
        model_config=model_config,
        optimizer_config=optimizer_config,
        train_config=train_config,
        train_rows=train_rows,
        eval_rows=eval_rows,
        init_checkpoint=weights,
        unshare=FLAGS.unshare,
    )
    strategy = devices.create_strategy(FLAGS.tpu, FLAGS.tpu_zone, FLAGS.gcp_project)
    run(job, strategy)


if __name__ == "__main__":
    common_flags.define_record_flags()
    common_flags.define_config_file_flag(required=False)
    common_flags.define_init_checkpoint_flag()
    common_flags.define_sharing_flags()
    flags.DEFINE_bool(
        "sentence_order_loss",
        True,
        "Train the sentence-order head too (next-sentence prediction on rows made for "
        "that). If false, train the masked-LM objective alone.",
    )
    common_flags.define_tokenizer_flags(cleaning=None, checked_only=True)
    common_flags.define_max_seq_length_flag()
    common_flags.define_max_predictions_flag()
    common_flags.define_run_flags()
    common_flags.define_optimizer_flags()
    common_flags.run(main)
