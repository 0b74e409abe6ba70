r"""Fine-tunes ALBERT for multiple choice: RACE, or questions of yours as JSON lines.

    python run_scripts/run_race.py --data_dir=RACE --init_checkpoint=albert_base \
        --output_dir=race --do_eval --do_predict
    python run_scripts/run_race.py --input_format=jsonl --data_dir=quiz \
        --init_checkpoint=albert_base --output_dir=quiz_model --do_eval
    python run_scripts/run_race.py --nodo_train --do_predict --input_format=jsonl \
        --output_dir=quiz_model --predict_file=new.jsonl
"""

from pathlib import Path

from absl import flags

from data_prep.fine_tuning import classification, multiple_choice, race
from flags import common_flags, fine_tuning_flags, race_data

FLAGS = flags.FLAGS


def main():
    model = fine_tuning_flags.read_model()
    data = race_data.from_flags(model)

    from albert_tf.tasks.multiple_choice import (
        multiple_choice as multiple_choice_multiple_choice,
    )
    from albert_tf.training import multi_run

    task = multiple_choice_multiple_choice(
        race_data.TASK_NAME, race.LEVELS, FLAGS.classifier_dropout
    )
    train_rows = data.rows("train") if FLAGS.do_train else None
    sets = {"dev": data.rows("dev")} if FLAGS.do_eval else {}
    if FLAGS.do_predict:
        sets["test"] = data.rows("test")
    for name, rows in {"train": train_rows, **sets}.items():
        if rows:
            found = classification.warnings_of(name, rows.metadata["statistics"])
            fine_tuning_flags.print_warnings(found)
    results = fine_tuning_flags.run(task, model, data.facts(), sets, train_rows)
    if FLAGS.do_predict and results.get("status") != "pre-empted":
        folder = Path(FLAGS.output_dir)
        files = folder / "predictions.json", folder / "test_results.tsv"
        multiple_choice.write_predictions(
            multi_run.read_predictions(folder, "test"), *files
        )
        print(f"Answers: {files[0]}; probabilities: {files[1]}", flush=True)


if __name__ == "__main__":
    race_data.define_flags()
    fine_tuning_flags.define_fine_tuning_flags()
    common_flags.run(main)
