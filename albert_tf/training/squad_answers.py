"""The answers to a split of SQuAD: their files, their threshold, and ensembles of them.

A folder of answers has four files: `predictions.json`, `nbest_predictions.json`,
`squad_results.json` and, of v2.0, `null_odds.json`.
"""

import dataclasses
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from albert_tf.file_kinds import check_replaceable
from albert_tf.files import json_bytes, make_folder, read_json, write_json
from albert_tf.records.reader import read_rows
from albert_tf.records.sidecar import RecordSet
from albert_tf.storage import AnyPath
from albert_tf.task_config import SPAN_AVERAGES, Squad
from albert_tf.tasks import answers
from albert_tf.tasks.answer_metrics import QuestionSet
from albert_tf.tasks.answers import Candidate, Proposals

PREDICTIONS_FILE = "predictions.json"
N_BEST_FILE = "nbest_predictions.json"
NULL_ODDS_FILE = "null_odds.json"
RESULTS_FILE = "squad_results.json"


class QuestionFile(Protocol):
    """The questions of a file, as `data_prep.fine_tuning.squad.SquadFile` has them."""

    path: str

    def contexts(self) -> Mapping[str, str]:
        """Question id -> text of its paragraph."""
        ...

    def golds(self) -> Mapping[str, Sequence[str]] | None:
        """Question id -> gold answers; None: not all are known."""
        ...


def question_set(
    file: QuestionFile, task_config: Squad, record_set: RecordSet | None = None
) -> QuestionSet:
    """Returns the questions of a file, to score answers to them.

    Args:
      file: the questions.
      task_config: lengths of answers and of their lists.
      record_set: rows of the questions; None: proposals cannot be made, only scored.
    """
    rows: list = []
    for path in record_set.paths if record_set else ():
        rows += read_rows(path)
    return QuestionSet(rows, file.contexts(), file.golds(), task_config)


def tune_threshold(
    proposals: Proposals, questions: QuestionSet, task_config: Squad
) -> Squad:
    """Returns the task configuration with the threshold of the best F1.

    Raises:
      ValueError: the questions have no gold answers.
    """
    return dataclasses.replace(task_config, threshold=questions.tune(proposals))


def check_outputs(
    folder: AnyPath, question_ids: Iterable[str], task_config: Squad
) -> None:
    """Checks that answers replace no files of another kind.

    Args:
      folder: the folder that `write_answers` is to write into.
      question_ids: ids of the questions.
      task_config: its version.
    Raises:
      FileExistsError: they would.
    """
    ids = list(question_ids)
    samples: dict[str, dict[str, Any]] = {
        PREDICTIONS_FILE: dict.fromkeys(ids, ""),
        N_BEST_FILE: {question: [] for question in ids},
        RESULTS_FILE: {"task_name": task_config.task_name},
    }
    if task_config.version_2:
        samples[NULL_ODDS_FILE] = dict.fromkeys(ids, 0.0)
    for name, sample in samples.items():
        check_replaceable(folder / name, json_bytes(sample))


def write_answers(
    folder: AnyPath,
    proposals: Proposals,
    questions: QuestionSet,
    task_config: Squad,
    source: str,
) -> dict[str, Any]:
    """Writes the answers of a model or an ensemble, and prints their metrics.

    Args:
      folder: folder of the four files.
      proposals: the answers proposed.
      questions: the questions.
      task_config: version and threshold.
      source: origin of the threshold.
    Returns:
      The content of `squad_results.json`: `scores`, `threshold` and its
      `threshold_source`, and the number of questions without an answer by reason.
    """
    make_folder(folder)
    threshold = task_config.threshold
    predictions = proposals.predictions(threshold)
    write_json(folder / PREDICTIONS_FILE, predictions)
    write_json(folder / N_BEST_FILE, proposals.n_best())
    results: dict[str, Any] = {"task_name": task_config.task_name}
    if task_config.version_2:
        write_json(folder / NULL_ODDS_FILE, proposals.null_scores)
        results["threshold"] = task_config.to_dict()["threshold"]
        results["threshold_source"] = source
    results["questions"] = len(proposals.candidates)
    reasons = list(proposals.reasons.values())
    results["without_candidates"] = {r: reasons.count(r) for r in sorted(set(reasons))}
    results["scores"] = questions.score(proposals, threshold)
    write_json(folder / RESULTS_FILE, results)
    for name, value in results["scores"].items():
        print(f"{name}: {value:.6g}", flush=True)
    if not any(predictions.values()):
        print(f"WARNING: {_why_empty(folder, proposals, threshold)}", flush=True)
    print(f"Answers: {folder / PREDICTIONS_FILE}", flush=True)
    return results


def _why_empty(folder: AnyPath, proposals: Proposals, threshold: float) -> str:
    """Says why all answers are empty."""
    beginning = f"every answer in {folder / PREDICTIONS_FILE} is empty: "
    if not any(proposals.candidates.values()):
        reasons = " or ".join(sorted(set(proposals.reasons.values())))
        return (
            f"{beginning}the model has found none ({reasons}); check that the "
            "vocabulary and its casing are the model's and fit the text."
        )
    return (
        f"{beginning}no null score is below the threshold {threshold:g}; "
        "tune it on labeled questions with --tune_threshold, or pass "
        "--null_threshold=inf to see the answers."
    )


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """The averaged answers of several models.

    Attributes:
      proposals: the answers proposed.
      version_2: true for SQuAD v2.0.
      thresholds: of the models; empty for v1.1.
    """

    proposals: Proposals
    version_2: bool
    thresholds: Sequence[float]

    @classmethod
    def read(
        cls,
        folders: Sequence[AnyPath],
        file: QuestionFile,
        n_best_size: int,
        averaged: str = SPAN_AVERAGES[0],
    ) -> "Ensemble":
        """Reads the answers of several models to one file, and averages them.

        Args:
          folders: folders of answers.
          file: the questions that all of them have answered.
          n_best_size: most answers in a question's list.
          averaged: as of `answers.average`.
        Raises:
          FileNotFoundError: a folder has no answers.
          ValueError: answers to other questions, or of both versions of SQuAD.
        """
        results = [_read_results(folder / RESULTS_FILE) for folder in folders]
        contexts = file.contexts()
        proposals = answers.average(
            [_read_proposals(folder, contexts, file.path) for folder in folders],
            n_best_size,
            averaged,
        )
        version_2 = results[0]["task_name"] == Squad(True).task_name
        thresholds = [each["threshold"] for each in results] if version_2 else []
        return cls(proposals, version_2, thresholds)

    def mean_threshold(self) -> float:
        """Returns the mean of the models' thresholds.

        Raises:
          ValueError: they are inf and -inf, which have none.
        """
        if {math.inf, -math.inf} <= set(self.thresholds):
            raise ValueError(
                "The models' thresholds are inf and -inf, which have no mean: pass "
                "--null_threshold or --tune_threshold."
            )
        return statistics.fmean(self.thresholds)


def _read_results(file: AnyPath) -> dict[str, Any]:
    """Reads a `squad_results.json`; its threshold, of v2.0 alone, is a number."""
    results = _read(file)
    try:
        if results["task_name"] == Squad(True).task_name:
            results["threshold"] = float(results["threshold"])
    except (LookupError, TypeError, ValueError) as error:
        raise _damaged(file, repr(error)) from None
    return results


def _read_proposals(
    folder: AnyPath, contexts: Mapping[str, str], questions_path: str
) -> Proposals:
    """Reads a folder of answers, checked against the paragraphs."""
    listed = _read(folder / N_BEST_FILE)
    candidates, reasons = {}, {}
    try:
        for question, values in listed.items():
            if "reason" in values[0]:
                reasons[question], values = str(values[0]["reason"]), []
            candidates[question] = [_candidate(value) for value in values]
    except (LookupError, TypeError) as error:
        raise _damaged(folder / N_BEST_FILE, error) from None
    same = listed.keys() == contexts.keys() and all(
        contexts[question][candidate.start : candidate.end] == candidate.text
        for question, found in candidates.items()
        for candidate in found
    )
    if not same:
        raise ValueError(
            f"{folder} has answers to other questions than {questions_path}: "
            "answer that with run_squad.py first."
        )
    return Proposals(candidates, _read_null_scores(folder, contexts), reasons)


def _candidate(values: Mapping[str, Any]) -> Candidate:
    """Reads an entry of a list of answers; raises TypeError if it is none."""
    candidate = Candidate(**values)
    for name, expected in Candidate.__annotations__.items():
        value = getattr(candidate, name)
        kinds = (int, float) if expected is float else (expected,)
        if type(value) not in kinds or (expected is float and math.isnan(value)):
            raise TypeError(f"{name} is {value!r:.80}")
    return candidate


def _read_null_scores(
    folder: AnyPath, questions: Iterable[str]
) -> dict[str, float] | None:
    """Reads the null scores of a folder of answers; None: v1.1 has none."""
    file = folder / NULL_ODDS_FILE
    if not file.is_file():
        return None
    # What JSON has no number for is written so.
    special = {"inf": math.inf, "-inf": -math.inf, None: math.nan}
    scores: dict[str, Any] = {
        question: special.get(score, score) if isinstance(score, str | None) else score
        for question, score in _read(file).items()
    }
    for question in questions:
        score = scores.get(question)
        if type(score) is bool or not isinstance(score, int | float):
            raise _damaged(file, f"question {question!r:.80} has {score!r:.80}")
    return scores


def _damaged(file: AnyPath, problem: object) -> ValueError:
    return ValueError(
        f"{file} is not a file of run_squad.py ({problem}): answer --predict_file with "
        "that model again."
    )


def _read(path: AnyPath) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing: answer --predict_file with that model first."
        )
    return read_json(path)
