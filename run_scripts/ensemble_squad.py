r"""Answers of several models together (section 4.9 of the paper).

    python run_scripts/ensemble_squad.py --models=squad/run_1,squad/run_2 \
        --predict_file=dev-v2.0.json --output_dir=squad_ensemble --tune_threshold

The log-probabilities of proposed answers are averaged over the models that propose
them, and so are the null scores over all. Each model must have answered the same file
with `run_squad.py`; models may differ in size, lengths and vocabulary. With
--num_models those are taken whose development scores are the best.
"""

import dataclasses

from absl import flags

from albert_tf.storage import as_path
from albert_tf.task_config import SPAN_AVERAGES, Squad
from data_prep.fine_tuning import squad
from flags import common_flags, ensemble_flags, squad_data

FLAGS = flags.FLAGS


def main():
    from albert_tf.checkpoints.model_dir import ModelDir
    from albert_tf.tasks.create import create_task
    from albert_tf.training import ensembles, squad_answers

    output_dir = as_path(FLAGS.output_dir)
    ensembles.check_output(output_dir)
    file = squad.read_squad(FLAGS.predict_file)
    folders = [as_path(folder) for folder in FLAGS.models]
    if FLAGS.num_models:
        task = create_task(ModelDir.read(folders[0]).require_task())
        folders = ensembles.best_models(folders, FLAGS.num_models, task.best_metric)
        print(f"Models: {', '.join(map(str, folders))}", flush=True)
    ensemble = squad_answers.Ensemble.read(
        folders, file, FLAGS.n_best_size, FLAGS.average
    )
    squad_data.check_threshold(ensemble.version_2)
    task_config = Squad(ensemble.version_2, n_best_size=FLAGS.n_best_size)
    questions = squad_answers.question_set(file, task_config)
    source = "mean of the models'"
    if FLAGS.tune_threshold:
        source = f"tuned on {file.path}"
        task_config = squad_answers.tune_threshold(
            ensemble.proposals, questions, task_config
        )
    elif ensemble.version_2:
        threshold = FLAGS.null_threshold
        if threshold is None:
            threshold = ensemble.mean_threshold()
        else:
            source = "given"
        task_config = dataclasses.replace(task_config, threshold=threshold)
    squad_answers.write_answers(
        output_dir, ensemble.proposals, questions, task_config, source
    )


if __name__ == "__main__":
    common_flags.define_models_flag("Output folders of run_squad.py, comma-separated.")
    common_flags.define_predict_file_flag(
        "SQuAD JSON that they have answered.", required=True
    )
    common_flags.define_output_dir_flag("Folder of the ensemble's answers.")
    squad_data.define_answer_flags()
    flags.DEFINE_enum(
        "average",
        SPAN_AVERAGES[0],
        SPAN_AVERAGES,
        "What of an answer is averaged: its log-probability, over the models that "
        "propose it, as the original does; or its probability, which counts as 0 where "
        "a model does not propose it.",
    )
    ensemble_flags.define_num_models_flag()
    common_flags.run(main)
