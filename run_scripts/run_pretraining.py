r"""Pretrains ALBERT on records, resumes, and evaluates.

    python run_scripts/run_pretraining.py --input_file='data/train-*.tfrecord' \
        --eval_input_file=data/eval.tfrecord --do_eval --output_dir=model \
        --albert_config_file=configs/albert_base.json [--tpu=local]
"""

from absl import flags

from albert_tf.storage import as_path, comparable, entries
from albert_tf.text.vocabulary_content import vocabulary_digest
from flags import (
    closing_report,
    common_flags,
    device_flags,
    mask_flags,
    optimizer_flags,
    phase_flags,
)

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
    model_config = common_flags.model_config(weights or _evaluated_run())
    expected = {
        **_given("max_seq_length"),
        "vocab_size": model_config.vocab_size,
        "lower_case": FLAGS.do_lower_case,
        "strip_accents": FLAGS.strip_accents,
        "vocabulary_sha256": common_flags.vocabulary_sha256(),
    }
    eval_rows = None
    train_sets = phase_flags.read_rows(expected) if FLAGS.do_train else []
    if FLAGS.do_eval:
        eval_file = FLAGS.eval_input_file or FLAGS.input_file
        eval_rows = common_flags.read_records(eval_file, expected)
    train_sets, eval_rows = mask_flags.with_masks(train_sets, eval_rows)
    if train_sets and eval_rows:
        trained = {comparable(path) for rows in train_sets for path in rows.paths}
        for path in eval_rows.paths:
            if comparable(path) in trained:
                raise ValueError(
                    f"{path} is trained on: name other rows as --eval_input_file."
                )
    optimizer_config = optimizer_flags.config(**phase_flags.train_steps())
    train_config = common_flags.train_config()
    phases = phase_flags.phases()

    # TensorFlow loads for seconds: not before the flags are known to be right.
    from albert_tf.tasks.pretraining import pretraining_task
    from albert_tf.training.devices import is_chief
    from albert_tf.training.run import Job, run

    objective = (train_sets[0] if train_sets else eval_rows).pair_objective
    job = Job(
        task=pretraining_task(objective, FLAGS.sentence_order_loss),
        model_config=model_config,
        optimizer_config=optimizer_config,
        train_config=train_config,
        train_rows=train_sets[0] if train_sets else None,
        eval_rows=eval_rows,
        phases=phases,
        other_train_rows=train_sets[1:],
        init_checkpoint=weights,
        unshare=FLAGS.unshare,
        depth_schedule=FLAGS.depth_schedule,
        files=_vocabulary_files(train_sets, weights),
    )
    strategy = device_flags.create_strategy()
    results = run(job, strategy)
    if is_chief(strategy):
        closing_report.print_pretraining(results, FLAGS.output_dir)


def _vocabulary_files(train_sets, weights):
    """The vocabulary that the rows were made with, for the model's folder: the flags',
    the one next to the weights that training starts from, or one beside the rows or in
    the folder above; empty: not found."""
    from albert_tf.checkpoints.model_dir import ModelDir, vocabulary_files

    if not train_sets:
        return {}
    if named := FLAGS.spm_model_file or FLAGS.vocab_file:
        # It was compared with the rows when they were read.
        return vocabulary_files(as_path(named))
    found = [ModelDir.read(weights).vocabulary] if weights else []
    folder = as_path(train_sets[0].paths[0]).parent
    for place in (folder, folder.parent):
        names = sorted(entries(place).files)
        found += [place / n for n in names if n.endswith(".model") or _is_list(n)]
    made_with = train_sets[0].tokenizer_settings.get("vocabulary_sha256")
    for file in found:
        if file is not None and vocabulary_digest(file) == made_with:
            return vocabulary_files(file)
    print(
        "The vocabulary is not copied to --output_dir: it is not beside the records, "
        "and no flag names it, --spm_model_file or --vocab_file.",
        flush=True,
    )
    return {}


def _is_list(name):
    """True for names of WordPiece vocabularies."""
    return "vocab" in name and name.endswith(".txt")


def _evaluated_run():
    """The folder of a run that is evaluated as it is; empty: a file says its shape."""
    is_alone = not (FLAGS.do_train or FLAGS.albert_config_file)
    return FLAGS.output_dir if is_alone and as_path(FLAGS.output_dir).is_dir() else ""


def _given(*names):
    """The values of the flags that are given; the records say those of the others."""
    return {name: FLAGS[name].value for name in names if FLAGS[name].present}


if __name__ == "__main__":
    common_flags.define_record_flags()
    common_flags.define_config_file_flag(required=False)
    common_flags.define_init_checkpoint_flag()
    common_flags.define_sharing_flags()
    flags.DEFINE_bool(
        "sentence_order_loss",
        True,
        "Train the sentence-order head too (next-sentence prediction on rows made for "
        "that). If false, train the masked-LM objective alone; rows of "
        "--pair_objective=none need that.",
    )
    flags.DEFINE_string(
        "depth_schedule",
        "",
        "STEPS:LAYERS,STEPS:LAYERS: apply fewer layers in the first steps, as 50000:6, "
        "which makes them cheaper. The steps after them, evaluation and exports apply "
        "all layers. For models whose layers share weights. Default: always all.",
    )
    common_flags.define_tokenizer_flags(cleaning=None, checked_only=True)
    common_flags.define_max_seq_length_flag()
    mask_flags.define_mask_flags()
    common_flags.define_run_flags()
    optimizer_flags.define()
    phase_flags.define()
    common_flags.run(main)
