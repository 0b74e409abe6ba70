"""The questions that `run_squad.py` trains on and answers: their flags, their rows, and
what is written of them."""

import dataclasses
from pathlib import Path
from typing import Any

from absl import flags

from albert_tf.task_config import Squad
from data_prep.fine_tuning import cache, squad, squad_windows
from flags import fine_tuning_flags

FLAGS = flags.FLAGS

PREDICTIONS_FILE = "predictions.json"
N_BEST_FILE = "nbest_predictions.json"
NULL_ODDS_FILE = "null_odds.json"
RESULTS_FILE = "squad_results.json"


def define_flags() -> None:
    """Which files, what may be an answer, and how windows are cut."""
    flags.DEFINE_string("train_file", "", "SQuAD JSON to train on, v1.1 or v2.0.")
    flags.DEFINE_string(
        "predict_file",
        "",
        "SQuAD JSON to evaluate on (--do_eval) or to answer (--do_predict).",
    )
    flags.DEFINE_bool(
        "version_2_with_negative",
        None,
        "Whether questions may have no answer (v2.0). Not given: as --train_file says.",
    )
    flags.DEFINE_integer(
        "doc_stride",
        Squad.doc_stride,
        "Pieces from one window of a paragraph to the next.",
    )
    flags.DEFINE_integer(
        "max_query_length",
        Squad.max_query_length,
        "Pieces of a question at most; its end is cut off.",
    )
    define_answer_flags()
    flags.DEFINE_integer(
        "max_answer_length", Squad.max_answer_length, "Pieces of an answer at most."
    )
    flags.DEFINE_integer(
        "start_n_top", Squad.start_n_top, "v2.0: starts that prediction goes on with."
    )
    flags.DEFINE_integer(
        "end_n_top", Squad.end_n_top, "v2.0: ends that it finds for each."
    )


def define_answer_flags() -> None:
    """How many answers are listed, and when there is none."""
    flags.DEFINE_integer(
        "n_best_size", Squad.n_best_size, "Answers of a question in its list."
    )
    flags.DEFINE_float(
        "null_threshold",
        None,
        "v2.0: answer a question if its null score, a logit, is lower; inf: always, "
        "-inf: never. Not given: the model's own, which is 0 unless it was tuned.",
    )
    flags.DEFINE_bool(
        "tune_threshold",
        False,
        "v2.0: find the threshold of the best F1 on --predict_file, the development "
        "set, and keep it with the model.",
    )


@dataclasses.dataclass
class SquadData:
    """The sets of a run.

    Attributes:
      settings: version, lengths, rules (`task_config.Squad`).
      model: from `fine_tuning_flags.read_model`.
      train: what is trained on; None: nothing.
      asked: what is evaluated or answered; None: nothing.
    """

    settings: Any
    model: Any
    train: squad.SquadFile | None
    asked: squad.SquadFile | None

    def train_rows(self):
        """The rows to train on; None: no training."""
        return self._rows("train", self.train) if self.train else None

    def asked_rows(self) -> dict:
        """The rows to answer, under the name of their set: "dev" if they are scored."""
        if not self.asked:
            return {}
        name = "dev" if FLAGS.do_eval else "test"
        return {name: self._rows(name, self.asked)}

    def questions(self, rows):
        """The questions of the rows to answer, as `answer_metrics` scores them."""
        from albert_tf.records.reader import read_rows
        from albert_tf.tasks.answer_metrics import QuestionSet

        [path] = rows.paths
        return QuestionSet(
            list(read_rows(path)),
            self.asked.contexts(),
            self.asked.golds(),
            self.settings,
        )

    def _rows(self, name: str, file: squad.SquadFile):
        """The rows of a set, from the cache if they are there."""
        from albert_tf.records.features import squad_features

        for_training = name == "train"
        lengths = {
            field.name: getattr(self.settings, field.name)
            for field in dataclasses.fields(squad_windows.WindowSettings)
        }
        labelled = file.golds() is not None

        def make(statistics):
            report = squad_windows.ConversionReport()

            def rows():
                yield from squad_windows.make_rows(
                    file.paragraphs,
                    self.model.tokenizer,
                    squad_windows.WindowSettings(**lengths),
                    report,
                    for_training,
                )
                if not report.windows:
                    raise ValueError(f"{file.path}: nothing to train on: {report}.")
                statistics.update(report.to_dict())

            features = squad_features(with_places=not for_training)
            return features, len(list(file.questions())), rows()

        rows = cache.cached_rows(
            fine_tuning_flags.cache_dir(),
            f"squad-{name}",
            [file.path],
            self.model.tokenizer,
            {**lengths, "labelled": labelled, "for_training": for_training},
            make,
        )
        report = squad_windows.ConversionReport(**rows.metadata["statistics"])
        print(f"{file.path}: {report}.", flush=True)
        return rows


def from_flags(model) -> SquadData:
    """The files that the flags name, read and checked."""
    if FLAGS.do_train and not FLAGS.train_file:
        raise flags.Error("--do_train needs questions: pass --train_file.")
    answering = FLAGS.do_eval or FLAGS.do_predict
    if answering and not FLAGS.predict_file:
        raise flags.Error("--do_eval and --do_predict need --predict_file.")
    train = squad.read_squad(FLAGS.train_file) if FLAGS.do_train else None
    asked = squad.read_squad(FLAGS.predict_file) if answering else None
    settings = _settings(model.task_config, train)
    limit = model.config.max_position_embeddings
    if settings.max_seq_length > limit:
        raise ValueError(
            "max_seq_length must be at most max_position_embeddings. Received "
            f"{settings.max_seq_length} and {limit}: lower --max_seq_length."
        )
    for file in (train, asked):
        if file and not settings.version_2:
            file.check_all_answerable()
    if train:
        train.check_labelled()
    if FLAGS.do_eval and asked.golds() is None:
        raise ValueError(
            f"{asked.path} has questions without gold answers, so it cannot be scored: "
            "pass --do_predict in the place of --do_eval."
        )
    check_threshold(settings.version_2)
    if FLAGS.tune_threshold and not FLAGS.do_eval:
        raise flags.Error("--tune_threshold needs --do_eval on a development set.")
    return SquadData(settings, model, train, asked)


def check_threshold(version_2: bool) -> None:
    """Raises flags.Error if a threshold is given for a model that has none."""
    if not version_2 and (FLAGS.tune_threshold or FLAGS.null_threshold is not None):
        raise flags.Error(
            "--null_threshold and --tune_threshold are for v2.0: a v1.1 model always "
            "answers."
        )


def _settings(known, train: squad.SquadFile | None) -> Squad:
    """Those of a trained model, changed by what flags are given; else the flags'."""
    names = [field.name for field in dataclasses.fields(Squad)]
    given = {
        name: FLAGS[name].value
        for name in names
        if name in FLAGS and (FLAGS[name].present or not known)
    }
    if FLAGS.null_threshold is not None:
        given["threshold"] = FLAGS.null_threshold
    asked = FLAGS.version_2_with_negative
    if known:
        settings = dataclasses.replace(Squad.require(known), **given)
        if asked is not None and asked != settings.version_2:
            raise ValueError(
                f"The model was trained for {known.task_name}, so that "
                f"version_2_with_negative is {settings.version_2}: leave it out."
            )
    else:
        version_2 = train.has_impossible if asked is None else asked
        settings = Squad(version_2=version_2, **given)
    squad_windows.WindowSettings(
        settings.max_seq_length, settings.doc_stride, settings.max_query_length
    )
    return settings


def write_answers(
    folder: Path, proposals, questions, settings, source: str
) -> dict[str, Any]:
    """Writes what a model, or an ensemble, answers, and how it scores.

    Args:
      folder: of the four files.
      proposals: its answers.
      questions: the question set.
      settings: its `Squad`, whose threshold decides.
      source: where that comes from.
    Returns:
      What `squad_results.json` holds: `scores`, `threshold` and its `source`, and the
      number of questions without an answer by reason.
    """
    from albert_tf.files import write_json

    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / PREDICTIONS_FILE, proposals.predictions(settings.threshold))
    write_json(folder / N_BEST_FILE, proposals.n_best())
    results: dict[str, Any] = {"task_name": settings.task_name}
    if settings.version_2:
        write_json(folder / NULL_ODDS_FILE, proposals.null_scores)
        results["threshold"] = settings.to_dict()["threshold"]
        results["threshold_source"] = source
    results["questions"] = len(proposals.candidates)
    reasons = list(proposals.reasons.values())
    results["without_candidates"] = {r: reasons.count(r) for r in sorted(set(reasons))}
    results["scores"] = questions.score(proposals, settings.threshold)
    write_json(folder / RESULTS_FILE, results)
    for name, value in results["scores"].items():
        print(f"{name}: {value:.6g}", flush=True)
    print(f"Answers: {folder / PREDICTIONS_FILE}", flush=True)
    return results
