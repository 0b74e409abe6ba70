r"""Fine-tunes ALBERT for multiple choice: RACE, or your own questions as JSON lines.

    python run_scripts/run_race.py --data_dir=RACE --init_checkpoint=albert_base \
        --output_dir=race --do_eval --do_predict
    python run_scripts/run_race.py --input_format=jsonl --data_dir=quiz \
        --init_checkpoint=albert_base --output_dir=quiz_model --do_eval
    python run_scripts/run_race.py --input_format=copa --data_dir=superglue \
        --init_checkpoint=albert_base --output_dir=copa --do_eval --do_predict
    python run_scripts/run_race.py --nodo_train --do_predict --input_format=jsonl \
        --output_dir=quiz_model --predict_file=new.jsonl
"""

from absl import flags

from albert_tf.storage import as_path
from data_prep.fine_tuning.predictions import check_outputs, write_predictions
from data_prep.fine_tuning.race import COPA
from data_prep.fine_tuning.superglue import SUBMISSIONS
from flags import closing_report, common_flags, fine_tuning_flags, race_data

FLAGS = flags.FLAGS


def main():
    model, tokenizer = fine_tuning_flags.read_model()
    data = race_data.read_data(tokenizer, model.task_config)
    folder = as_path(FLAGS.output_dir)
    table, answers = folder / "test_results.tsv", folder / "predictions.json"
    if FLAGS.input_format == COPA:
        answers = folder / SUBMISSIONS / "COPA.jsonl"
    if "test" in data.test:
        check_outputs(data.task_config, table, answers)
    outcome = fine_tuning_flags.run(model, data)
    if "test" in data.test and not outcome.preempted:
        predicted = outcome.predictions["test"]
        write_predictions(predicted, data.task_config, table, answers)
        print(f"Answers: {answers}; probabilities: {table}", flush=True)
    closing_report.print_fine_tuning(outcome, FLAGS.output_dir)


if __name__ == "__main__":
    race_data.define_flags()
    fine_tuning_flags.define_fine_tuning_flags(
        learning_rate=1e-5, num_train_steps=12_000, num_warmup_steps=1_000
    )
    common_flags.run(main)
