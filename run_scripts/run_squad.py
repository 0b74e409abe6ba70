r"""Fine-tunes ALBERT to answer questions on a paragraph: SQuAD v1.1 or v2.0.

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
    results = fine_tuning_flags.run(
        task, model, data.settings.to_dict(), sets, train_rows
    )
    if results.get("status") == "pre-empted":
        return
    folder = Path(FLAGS.output_dir)
    runs = sorted(folder.glob("run_*")) if "best_run" in results else []
    for name, rows in sets.items():
        # The folder itself has the answers of the best run.
        for each in (*runs, folder):
            _write_answers(each, name, rows, questions, data.settings)


def _write_answers(folder, name, rows, questions, settings):
    """Answers of one run; a threshold that is tuned stays with its model."""
    from albert_tf.checkpoints import beside_weights, model_dir
    from albert_tf.files import write_json
    from albert_tf.training import multi_run

    predicted = multi_run.read_predictions(folder, name)
    if predicted["content_sha256"] != rows.metadata["content_sha256"]:
        raise ValueError(f"The predictions in {folder} are of other rows: run again.")
    proposals = questions.proposals(predicted)
    source = "the model's" if FLAGS.null_threshold is None else "given"
    if FLAGS.tune_threshold:
        source = f"tuned on {FLAGS.predict_file}"
        best = questions.score(proposals, settings.threshold)["best_f1_thresh"]
        settings = dataclasses.replace(settings, threshold=best)
        start = folder if FLAGS.do_train else FLAGS.init_checkpoint or folder
        weights = Path(model_dir.read(start).checkpoint).parent
        for place in {weights, weights.parent}:
            if (place / beside_weights.TASK_FILE).is_file():
                write_json(place / beside_weights.TASK_FILE, settings.to_dict())
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
