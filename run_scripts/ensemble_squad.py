r"""Answers of several models together (section 4.9 of the paper).

    python run_scripts/ensemble_squad.py --models=squad/run_1,squad/run_2 \
        --predict_file=dev-v2.0.json --output_dir=squad_ensemble --tune_threshold

Probabilities of what each proposes are averaged, and so are its null scores. Each model
must have answered the same file, with `run_squad.py`; its sizes, lengths and vocabulary
may be others.
"""

import dataclasses
import math
import statistics
from pathlib import Path

from absl import flags

from data_prep.fine_tuning import squad
from flags import common_flags, squad_data

FLAGS = flags.FLAGS


def main():
    from albert_tf.tasks import answers
    from albert_tf.tasks.answer_metrics import QuestionSet
    from albert_tf.tasks.squad import NAMES, SquadSettings
    from albert_tf.training import ensembles

    output_dir = Path(FLAGS.output_dir)
    ensembles.check_output(output_dir)
    file = squad.read_squad(FLAGS.predict_file)
    contexts = file.contexts()
    folders = [Path(folder) for folder in FLAGS.models]
    known = [_read_json(folder / squad_data.RESULTS_FILE) for folder in folders]
    proposals = answers.average(
        [_read_proposals(folder, contexts) for folder in folders], FLAGS.n_best_size
    )
    version_2 = known[0]["task_name"] == NAMES[True]
    squad_data.check_threshold(version_2)
    settings = SquadSettings(version_2, n_best_size=FLAGS.n_best_size)
    questions = QuestionSet([], contexts, file.golds(), settings.rules)
    source = "mean of the models'"
    if version_2:
        threshold = FLAGS.null_threshold
        if FLAGS.tune_threshold:
            source = f"tuned on {file.path}"
            scores = questions.score(proposals, answers.DEFAULT_THRESHOLD)
            if not scores:
                raise ValueError(f"{file.path} has no gold answers to tune on.")
            threshold = scores["best_f1_thresh"]
        elif threshold is None:
            threshold = _mean([float(each["threshold"]) for each in known])
        else:
            source = "given"
        settings = dataclasses.replace(settings, threshold=threshold)
    squad_data.write_answers(output_dir, proposals, questions, settings, source)


def _mean(thresholds: list[float]) -> float:
    mean = statistics.fmean(thresholds)
    if math.isnan(mean):
        raise ValueError(
            "The models' thresholds are inf and -inf, which have no mean: pass "
            "--null_threshold or --tune_threshold."
        )
    return mean


def _read_proposals(folder: Path, contexts):
    """What `run_squad.py` left there, checked against the paragraphs."""
    from albert_tf.tasks.answers import Candidate, Proposals

    listed = _read_json(folder / squad_data.N_BEST_FILE)
    candidates, reasons = {}, {}
    try:
        for question, found in listed.items():
            if "reason" in found[0]:
                reasons[question], found = found[0]["reason"], []
            candidates[question] = [Candidate(**each) for each in found]
    except (LookupError, TypeError):
        raise ValueError(
            f"{folder / squad_data.N_BEST_FILE} is not what run_squad.py writes: "
            "answer --predict_file with that model again."
        ) from None
    same = listed.keys() == contexts.keys() and all(
        contexts[question][each.start : each.end] == each.text
        for question, found in candidates.items()
        for each in found
    )
    if not same:
        raise ValueError(
            f"{folder} has answers to other questions than {FLAGS.predict_file}: "
            "answer that with run_squad.py first."
        )
    null_odds = folder / squad_data.NULL_ODDS_FILE
    null_scores = _read_json(null_odds) if null_odds.is_file() else None
    return Proposals(candidates, null_scores, reasons)


def _read_json(path: Path):
    from albert_tf.files import read_json

    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing: answer --predict_file with that model first."
        )
    return read_json(path)


if __name__ == "__main__":
    flags.DEFINE_list(
        "models",
        None,
        "Output folders of run_squad.py, comma-separated.",
        required=True,
    )
    flags.DEFINE_string(
        "predict_file", None, "SQuAD JSON that they have answered.", required=True
    )
    flags.DEFINE_string(
        "output_dir", None, "Folder of the ensemble's answers.", required=True
    )
    squad_data.define_answer_flags()
    common_flags.run(main)
