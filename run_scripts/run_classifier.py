r"""Fine-tunes ALBERT to classify or score texts or pairs: GLUE, or your own table.

    python run_scripts/run_classifier.py --task_name=rte --data_dir=glue \
        --init_checkpoint=albert_base --output_dir=rte --do_eval --do_predict
    python run_scripts/run_classifier.py --task_name=custom --train_file=mail.csv \
        --dev_file=dev.csv --text_column=body --label_column=folder \
        --init_checkpoint=albert_base --output_dir=mail --do_eval
    python run_scripts/run_classifier.py --nodo_train --do_predict \
        --output_dir=mail --predict_file=new.csv
"""

from pathlib import Path

from absl import flags

from flags import classifier_data, common_flags, fine_tuning_flags

FLAGS = flags.FLAGS


def main():
    model = fine_tuning_flags.read_model()
    data = classifier_data.from_flags(model)
    train_rows = data.train_rows() if FLAGS.do_train else None
    dev_sets = data.dev_sets() if FLAGS.do_eval else {}
    test_sets = data.test_sets() if FLAGS.do_predict else {}
    for name, rows in {"train": train_rows, **dev_sets, **test_sets}.items():
        if rows:
            fine_tuning_flags.print_warnings(classifier_data.warnings_of(name, rows))
    results = fine_tuning_flags.run(
        data.task(FLAGS.classifier_dropout),
        model,
        data.facts(),
        {**dev_sets, **test_sets},
        train_rows,
    )
    if results.get("status") == "pre-empted":
        return
    folder = Path(FLAGS.output_dir)
    for name, rows in test_sets.items():
        for file in data.write_predictions(folder, name, rows):
            print(f"Predictions of {name}: {file}", flush=True)


if __name__ == "__main__":
    classifier_data.define_flags()
    fine_tuning_flags.define_fine_tuning_flags()
    common_flags.run(main)
