r"""Fine-tunes ALBERT to classify or to score one text or two: GLUE, or your own table.

    python run_scripts/run_classifier.py --task_name=rte --data_dir=glue \
        --init_checkpoint=albert_base --output_dir=rte --do_eval --do_predict
    python run_scripts/run_classifier.py --task_name=custom --train_file=mail.csv \
        --dev_file=dev.csv --text_column=body --label_column=folder \
        --init_checkpoint=albert_base --output_dir=mail --do_eval
    python run_scripts/run_classifier.py --nodo_train --do_predict \
        --output_dir=mail --predict_file=new.csv
"""

from collections.abc import Mapping
from typing import Any

from absl import flags

from albert_tf.storage import AnyPath, as_path
from data_prep.fine_tuning.datasets import CUSTOM, TaskData
from data_prep.fine_tuning.predictions import check_outputs, write_predictions
from data_prep.fine_tuning.superglue import SUBMISSIONS, SUPERGLUE
from flags import classifier_data, closing_report, common_flags, fine_tuning_flags

FLAGS = flags.FLAGS


def main():
    model, tokenizer = fine_tuning_flags.read_model()
    data = classifier_data.read_data(tokenizer, model.task_config)
    outputs = _outputs(data)
    for files in outputs.values():
        check_outputs(data.task_config, *files)
    outcome = fine_tuning_flags.run(model, data)
    if not outcome.preempted:
        print_tables(outcome.reports)
        for name, files in outputs.items():
            write_predictions(outcome.predictions[name], outcome.task_config, *files)
            for file in files:
                print(f"Predictions of {name}: {file}", flush=True)
    closing_report.print_fine_tuning(outcome, FLAGS.output_dir)


def print_tables(reports: Mapping[str, dict[str, Any]]) -> None:
    """Prints the table of labels of each split that has one."""
    from albert_tf.tasks.metrics import table_lines

    for name, report in reports.items():
        for title, numbers in {
            name: report,
            f"{name}, tuned": report.get("tuned"),
        }.items():
            if numbers and "classes" in numbers:
                lines = table_lines(numbers["classes"], "rows")
                print("\n".join([f"{title}:", *lines]), flush=True)


def _outputs(data: TaskData) -> dict[str, tuple[AnyPath, AnyPath]]:
    """Split to predict -> its table of probabilities, and its answers."""
    folder, files = as_path(FLAGS.output_dir), {}
    for name in data.test:
        table = "test_results.tsv"
        if len(data.test) > 1:
            table = f"test_results_{name}.tsv"
        answers = folder / "GLUE" / f"{name}.tsv"
        if data.task_config.task_name in SUPERGLUE and name != "predict":
            answers = folder / SUBMISSIONS / f"{name}.jsonl"
        if data.task_config.task_name == CUSTOM:
            answers = folder / f"{name}_predictions.tsv"
        files[name] = (folder / table, answers)
    return files


if __name__ == "__main__":
    classifier_data.define_flags()
    fine_tuning_flags.define_fine_tuning_flags()
    common_flags.run(main)
