"""Fine-tunes ALBERT to answer questions on a paragraph: SQuAD v1.1 or v2.0.

    python run_scripts/run_squad.py --flagfile=configs/recipes/squad-v2.flags \
        --train_file=train-v2.0.json --predict_file=dev-v2.0.json \
        --init_checkpoint=albert_base --output_dir=squad --do_eval --tune_threshold
    python run_scripts/run_squad.py --nodo_train --do_predict \
        --output_dir=squad --predict_file=new.json
"""

import dataclasses
from pathlib import Path

from absl import flags

from flags import common_flags, fine_tuning_flags, squad_data

FLAGS = flags.FLAGS


def main():
    model = fine_tuning_flags.read_model()
    data = squad_data.from_flags(model)

    from albert_tf.tasks import squad

    train_rows = data.train_rows()
    sets = data.asked_rows()
    questions = None
    for rows in sets.values():
        questions = data.questions(rows)
    task = squad.squad_task(data.settings, questions, FLAGS.classifier_dropout)
    outcome = fine_tuning_flags.run(
        task, model, data.settings.to_dict(), sets, train_rows
    )
    if outcome.preempted:
        return
    folder = Path(FLAGS.output_dir)
    for name in sets:
        for run_name, run in outcome.runs.items():
            predicted = run.predictions[name]
            _write_answers(folder / run_name, predicted, questions, data.settings)
        # The folder itself has the answers of the best run.
        _write_answers(folder, outcome.predictions[name], questions, data.settings)


def _write_answers(folder, predicted, questions, settings):
    """Answers of one run; a threshold that is tuned stays with its model."""
    from albert_tf.checkpoints import model_dir

    proposals = questions.proposals(predicted)
    source = "the model's" if FLAGS.null_threshold is None else "given"
    if FLAGS.tune_threshold:
        source = f"tuned on {FLAGS.predict_file}"
        best = questions.score(proposals, settings.threshold)["best_f1_thresh"]
        settings = dataclasses.replace(settings, threshold=best)
        start = folder if FLAGS.do_train else FLAGS.init_checkpoint or folder
        model_dir.replace_task(start, settings.to_dict())
    squad_data.write_answers(folder, proposals, questions, settings, source)


if __name__ == "__main__":
    squad_data.define_flags()
    fine_tuning_flags.define_fine_tuning_flags(
        max_seq_length=384,
        train_batch_size=48,
        num_train_steps=3649,
        num_warmup_steps=365,
    )
    common_flags.run(main)
