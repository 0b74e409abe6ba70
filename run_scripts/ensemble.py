r"""Averages what several fine-tuned models predict, and scores or writes it.

    python run_scripts/ensemble.py --models=rte/run_1,rte/run_2,other_rte \
        --output_dir=rte_ensemble --select_by=dev

Probabilities are averaged, and so are values of a regression (section 4.9 of the
paper). Each model must have predicted the same sets: run it with --do_eval and
--do_predict first. For SQuAD see ensemble_squad.py.
"""

from pathlib import Path

from absl import flags

from data_prep.fine_tuning import glue, multiple_choice
from flags import common_flags

FLAGS = flags.FLAGS


def main():
    from albert_tf.checkpoints import model_dir
    from albert_tf.files import write_json
    from albert_tf.tasks.registry import from_facts
    from albert_tf.training import ensembles

    output = Path(FLAGS.output_dir)
    ensembles.check_output(output)
    folders = [Path(name) for name in FLAGS.models]
    facts = [model_dir.read(folder).task for folder in folders]
    facts = ensembles.shared_task(FLAGS.models, facts)
    task = from_facts(facts)
    sets = ensembles.read_sets(folders)
    chosen = list(range(len(folders)))
    if FLAGS.select_by:
        if FLAGS.select_by not in sets:
            raise ValueError(
                f"No set {FLAGS.select_by!r} was predicted by all models, only "
                f"{', '.join(sets)}: run them with --do_eval, or leave --select_by out."
            )
        members = sets[FLAGS.select_by]
        chosen = ensembles.select(members, task.score, task.best_metric)
    averaged = {
        name: ensembles.average([members[index] for index in chosen])
        for name, members in sets.items()
    }
    results = {
        "models": [FLAGS.models[index] for index in chosen],
        "sets": {
            name: task.score(predicted)
            for name, predicted in averaged.items()
            if predicted["labelled"]
        },
    }
    write = _write_choices if "levels" in facts else _write_classes
    for name, predicted in averaged.items():
        write(output, name, predicted, facts)
    write_json(output / "results.json", results)
    print(f"Averaged {', '.join(results['models'])}: {results['sets']}")


def _write_classes(output: Path, name: str, predicted, facts) -> None:
    labels, bounds = facts["labels"], facts["bounds"]
    lines = glue.score_lines(predicted, labels)
    glue.write_lines(output / f"{name}_results.tsv", lines)
    lines = glue.submission_lines(predicted["index"], predicted, labels, bounds)
    glue.write_lines(output / "GLUE" / f"{name}.tsv", lines)


def _write_choices(output: Path, name: str, predicted, facts) -> None:
    answers, table = f"{name}_predictions.json", f"{name}_results.tsv"
    multiple_choice.write_predictions(predicted, output / answers, output / table)


if __name__ == "__main__":
    flags.DEFINE_list("models", None, "Output folders of runs.", required=True)
    flags.DEFINE_string("output_dir", None, "Where results go.", required=True)
    flags.DEFINE_string(
        "select_by",
        "",
        "Set, as dev, by which models are chosen, one after the other as long as each "
        "makes the average better. Empty: all of them.",
    )
    common_flags.run(main)
