r"""Classifies texts by labels that no training has seen, with a model of entailment.

    python run_scripts/zero_shot.py --model=mnli --candidate_labels=politics,sports \
        "The minister resigned." "They won in extra time."
    python run_scripts/zero_shot.py --model=mnli --candidate_labels=politics,sports \
        --input_file=news.csv --text_column=title --label_column=topic

The model is one that run_classifier.py trained on MNLI, or a Hugging Face folder of
one. It reads each text with the hypothesis of each label, "This example is politics.".
With --label_column the answers are scored.
"""

import json
from collections.abc import Sequence

from absl import flags

from albert_tf.files import write_whole
from albert_tf.storage import as_path
from data_prep.fine_tuning.text_lists import TextList, read_texts
from flags import common_flags, table_flags

FLAGS = flags.FLAGS


def define_flags() -> None:
    """Defines the model, the texts and the labels."""
    common_flags.define_model_flag(
        "The model: output folder of run_classifier.py --task_name=mnli, or weights of "
        "any format with their configuration next to them."
    )
    common_flags.define_vocabulary_flag("Default: the one next to the weights.")
    flags.DEFINE_list(
        "candidate_labels",
        None,
        "Labels to choose from, in words, separated by commas.",
        required=True,
    )
    flags.DEFINE_string(
        "hypothesis_template",
        "This example is {}.",
        "What follows from a text of a label, with {} in the place of the label.",
    )
    table_flags.define_multi_label_flag(
        "Several labels of a text may be right, or none."
    )
    common_flags.define_input_file_flag(
        "Texts besides those on the command line: a text a line, or a table whose name "
        "ends in .tsv, .csv, .jsonl or .parquet; -: standard input, a text a line.",
        required=False,
    )
    table_flags.define_text_column_flag("Table: ")
    table_flags.define_label_column_flag(
        "", "Table: column of the label; the answers are scored."
    )
    common_flags.define_output_file_flag(
        "File for a JSON object a text, with `text`, `labels` and `scores`, the best "
        "one first. Default: they are printed.",
        default="",
    )
    table_flags.define_batch_size_flag(8, "Pairs of text and label")


def main(texts: list[str]) -> None:
    found = _read(texts)
    labels = [label.strip() for label in FLAGS.candidate_labels]
    _check_labels(found.labels, labels)
    from albert_tf.checkpoints.model_dir import ModelDir
    from albert_tf.serving.zero_shot import ZeroShotClassifier, make_hypotheses

    make_hypotheses(labels, FLAGS.hypothesis_template)
    folder = ModelDir.read(FLAGS.model, FLAGS.vocabulary)
    result = ZeroShotClassifier.from_model_dir(folder).classify(
        found.texts,
        labels,
        FLAGS.hypothesis_template,
        FLAGS.multi_label,
        FLAGS.batch_size,
    )
    _write(found.texts, labels, result.scores)
    if result.truncated:
        print(
            f"WARNING: {result.truncated:,} of {len(found.texts):,} texts were "
            "truncated.",
            flush=True,
        )
    if found.labels is not None:
        _print_metrics(found.labels, labels, result.scores)


def _read(texts: Sequence[str]) -> TextList:
    if texts and FLAGS.label_column:
        raise flags.Error("Texts on the command line have no labels: use --input_file.")
    if FLAGS.multi_label and FLAGS.label_column:
        raise flags.Error(
            "--label_column scores one label a text: leave --multi_label out."
        )
    read = TextList([], None)
    if FLAGS.input_file:
        read = read_texts(FLAGS.input_file, FLAGS.text_column, FLAGS.label_column)
    if not (texts or read.texts):
        raise flags.Error("Pass texts to classify, or --input_file.")
    return TextList([*texts, *read.texts], read.labels)


def _check_labels(gold: Sequence[str] | None, labels: Sequence[str]) -> None:
    if unknown := sorted(set(gold or ()) - set(labels)):
        raise ValueError(
            f"{FLAGS.input_file} has the label {unknown[0]!r}, which is none of "
            f"--candidate_labels={','.join(labels)}: name all of its labels."
        )


def _write(texts: Sequence[str], labels: Sequence[str], scores) -> None:
    lines = []
    for text, row in zip(texts, scores.tolist(), strict=True):
        ranked = sorted(zip(labels, row, strict=True), key=lambda pair: -pair[1])
        if FLAGS.output_file:
            names, values = zip(*ranked, strict=True)
            value = {"text": text, "labels": names, "scores": values}
            lines.append(json.dumps(value, ensure_ascii=False) + "\n")
            continue
        print(text)
        for label, score in ranked:
            print(f"  {label}  ({score:.1%})", flush=True)
    if FLAGS.output_file:
        write_whole(as_path(FLAGS.output_file), "".join(lines).encode())
        print(f"{len(texts):,} texts: {FLAGS.output_file}", flush=True)


def _print_metrics(gold: Sequence[str], labels: Sequence[str], scores) -> None:
    from albert_tf.tasks.classification import class_report
    from albert_tf.tasks.metrics import METRICS, table_lines

    ids = [labels.index(label) for label in gold]
    report = class_report({"label_ids": ids, "probabilities": scores}, labels)
    accuracy = METRICS["eval_accuracy"](ids, scores.argmax(axis=-1))
    print("\n".join(table_lines(report["classes"], "rows")))
    print(f"accuracy {accuracy:.1%}, macro F1 {report['macro_f1']:.1%}", flush=True)


if __name__ == "__main__":
    define_flags()
    common_flags.run(main, texts="TEXT ...")
