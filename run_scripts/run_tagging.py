r"""Fine-tunes ALBERT to tag words: named entities, parts of speech.

    python run_scripts/run_tagging.py --data_dir=ner --init_checkpoint=albert_base \
        --output_dir=ner_model --do_eval --do_predict
    python run_scripts/run_tagging.py --train_file=de.train.tsv --dev_file=de.dev.tsv \
        --token_column=1 --tag_column=2 --init_checkpoint=albert_base \
        --output_dir=germeval --do_eval
    python run_scripts/run_tagging.py --nodo_train --do_predict \
        --output_dir=ner_model --predict_file=new.jsonl
"""

from absl import flags

from albert_tf.storage import as_path
from data_prep.fine_tuning import tagged_output
from flags import closing_report, common_flags, fine_tuning_flags, tagging_data

FLAGS = flags.FLAGS


def main():
    model, tokenizer = fine_tuning_flags.read_model()
    data, files = tagging_data.read_data(tokenizer, model.task_config)
    folder = as_path(FLAGS.output_dir)
    outputs = folder / "test_predictions.conll", folder / "test_predictions.jsonl"
    if "test" in data.test:
        tagged_output.check_outputs(*outputs)
    outcome = fine_tuning_flags.run(model, data)
    if not outcome.preempted:
        _write_outputs(outcome, data, files, outputs)
    closing_report.print_fine_tuning(outcome, FLAGS.output_dir)


def _write_outputs(outcome, data, files, outputs):
    from albert_tf.tasks.metrics import table_lines
    from albert_tf.tasks.tagging import sentence_tags

    for name, report in outcome.reports.items():
        print(
            "\n".join([f"{name}:", *table_lines(report["classes"], "entities")]),
            flush=True,
        )
    if "test" in data.test:
        tags = sentence_tags(outcome.predictions["test"], data.task_config.labels)
        tagged_output.write_tags(files["test"], tags, *outputs)
        print(f"Tags: {outputs[0]}; spans: {outputs[1]}", flush=True)


if __name__ == "__main__":
    tagging_data.define_flags()
    fine_tuning_flags.define_fine_tuning_flags(num_train_epochs=3.0)
    common_flags.run(main)
