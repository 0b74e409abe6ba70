r"""Averages the predictions of several fine-tuned models; scores and writes them.

    python run_scripts/ensemble.py --models=rte/run_1,rte/run_2,other_rte \
        --output_dir=rte_ensemble --select_by=dev

Probabilities are averaged, and so are values of a regression (section 4.9 of the
paper); the tags of a tagger's sentences are in SPLIT_tags.jsonl. Each model must have
predicted the same splits: run it with --do_eval and --do_predict first. For SQuAD see
ensemble_squad.py.
"""

import json

from absl import flags

from albert_tf.files import make_folder, write_json, write_whole
from albert_tf.storage import AnyPath, as_path
from albert_tf.task_config import MultipleChoice, Tagging
from data_prep.fine_tuning.predictions import Predictions, write_predictions
from flags import closing_report, common_flags, ensemble_flags

FLAGS = flags.FLAGS


def main():
    from albert_tf.checkpoints.model_dir import ModelDir
    from albert_tf.tasks.create import create_task
    from albert_tf.training import ensembles

    output = as_path(FLAGS.output_dir)
    ensembles.check_output(output)
    folders = [as_path(name) for name in FLAGS.models]
    task_configs = [ModelDir.read(folder).task_config for folder in folders]
    task_config = ensembles.shared_task(FLAGS.models, task_configs)
    task = create_task(task_config)
    folders = ensembles.best_models(folders, FLAGS.num_models, task.best_metric)
    splits = ensembles.read_splits(folders)
    chosen = list(range(len(folders)))
    if FLAGS.select_by:
        if FLAGS.select_by not in splits:
            raise ValueError(
                f"No split {FLAGS.select_by!r} was predicted by all models, only "
                f"{', '.join(splits)}: run them with --do_eval, or leave --select_by "
                "out."
            )
        members = splits[FLAGS.select_by]
        chosen = ensembles.select(members, task.host_metrics, task.best_metric)
    averaged = {
        name: ensembles.average([members[index] for index in chosen])
        for name, members in splits.items()
    }
    results = {
        "models": [str(folders[index]) for index in chosen],
        "sets": {
            name: task.host_metrics(predicted)
            for name, predicted in averaged.items()
            if predicted["labelled"]
        },
    }
    for name, predicted in averaged.items():
        if isinstance(task_config, Tagging):
            _write_tags(output / f"{name}_tags.jsonl", predicted, task_config)
            continue
        answers = output / "GLUE" / f"{name}.tsv"
        if isinstance(task_config, MultipleChoice):
            answers = output / f"{name}_predictions.json"
        table = output / f"{name}_results.tsv"
        write_predictions(predicted, task_config, table, answers)
    write_json(output / "results.json", results)
    print(f"Averaged {', '.join(results['models'])}.")
    print("\n".join(closing_report.score_table(results["sets"])))


def _write_tags(file: AnyPath, predicted: Predictions, task_config: Tagging) -> None:
    """Writes a JSON object a line: the tags of each sentence that has words."""
    from albert_tf.tasks.tagging import sentence_tags

    lines = [
        json.dumps({"sentence": number, "tags": tags, "scores": scores})
        for number, (tags, scores) in sentence_tags(
            predicted, task_config.labels
        ).items()
    ]
    make_folder(file.parent)
    write_whole(file, "".join(f"{line}\n" for line in lines).encode())


if __name__ == "__main__":
    common_flags.define_models_flag("Output folders of runs.")
    ensemble_flags.define_num_models_flag()
    common_flags.define_output_dir_flag("Folder for the results.")
    flags.DEFINE_string(
        "select_by",
        "",
        "Split, as dev, to choose models by: one after the other as long as each makes "
        "the average better. Default: use all models.",
    )
    common_flags.run(main)
