"""Checks that the rows of a job fit its task, its model and each other."""

from typing import Any

from albert_tf.checkpoints.model_dir import PRETRAINING_FILE, folder_of
from albert_tf.checkpoints.tokenizer_check import check_tokenizer
from albert_tf.files import read_json
from albert_tf.records.features import MAX_DOCUMENTS
from albert_tf.records.length_sets import check_alike
from albert_tf.records.sidecar import PAIR_OBJECTIVE, RecordSet, check_features
from albert_tf.training import run_checkpoints
from albert_tf.training.job import Job

# What a model is said to be trained on that never learned the labels of pairs.
NO_OBJECTIVE = "none"


def check_records(job: Job) -> None:
    """Checks what the sidecars of a job's rows say.

    Raises:
      ValueError: rows are longer than the model reads, lack a feature, or were made
        with another vocabulary, text cleaning or pair objective than the task, the
        model's folder or the other rows.
    """
    for rows in job.record_sets:
        _check_task(job, rows)
        _check_length(job, rows)
    if job.train_sets:
        check_alike(job.train_sets)
    if job.train_rows and job.eval_rows:
        _check_alike(job.train_rows, job.eval_rows)
    model = _model(job)
    for rows in job.record_sets if model else ():
        check_tokenizer(
            model, rows.tokenizer_settings, f"{rows.paths[0]} was made with"
        )
    if model:
        _check_objective(job, model)


def describe(rows: RecordSet) -> dict[str, Any]:
    """Returns JSON values that tell which rows were read."""
    objective, documents = rows.pair_objective, rows.max_documents_per_row
    return {
        "files": list(rows.paths),
        "rows": rows.total_rows,
        "sha256": rows.sha256,
        **({PAIR_OBJECTIVE: objective} if objective else {}),
        **({MAX_DOCUMENTS: documents} if documents else {}),
    }


def learned_objective(job: Job) -> str | None:
    """The pair objective that a job's model learns or, if none, has learned before.

    None: of no pretraining, or the start's files do not say it.
    """
    if job.train_rows is None or job.train_rows.pair_objective is None:
        return None
    if job.task.pair_objective:
        return job.task.pair_objective
    # The run's own folder, if it resumes, then that of its start.
    for path in (job.train_config.output_dir, job.init_checkpoint):
        learned = _stored_objective(path) if path else None
        if learned:
            return learned
    return None if job.init_checkpoint else NO_OBJECTIVE


def _stored_objective(path: str) -> str | None:
    """The pair objective that the files next to weights state."""
    file = folder_of(path) / PRETRAINING_FILE
    return read_json(file, missing_ok=True).get(PAIR_OBJECTIVE)


def _model(job: Job) -> str:
    """The path of the weights that a job starts from; empty: none, or it resumes."""
    output_dir = job.train_config.output_dir
    if job.train_rows is None:
        return job.init_checkpoint or output_dir
    return "" if run_checkpoints.latest_of_run(output_dir) else job.init_checkpoint


def _check_task(job: Job, rows: RecordSet) -> None:
    task = job.task
    if task.features:
        check_features(rows.paths[0], rows.features, task.features(rows.metadata))
    wanted, objective = task.pair_objective, rows.pair_objective
    if wanted and objective not in (None, wanted):
        raise ValueError(
            f"{rows.paths[0]} was made with {PAIR_OBJECTIVE}={objective}, but the task "
            f"learns {wanted}: make the records alike, or pass "
            "--nosentence_order_loss."
        )


def _check_length(job: Job, rows: RecordSet) -> None:
    length = rows.metadata.get("max_seq_length", 0)
    limit = job.model_config.max_position_embeddings
    if job.phases and rows is not job.eval_rows:
        for phase in job.phases:
            if phase.length > limit:
                raise ValueError(
                    "A phase's length must be at most max_position_embeddings. "
                    f"Received {phase} and {limit}: shorten the phase, or use a model "
                    "made for longer input."
                )
    elif length > limit:
        raise ValueError(
            "max_seq_length must be at most max_position_embeddings. Received "
            f"{length} of {rows.paths[0]} and {limit}: make shorter rows, or use a "
            "model made for longer input."
        )


def _check_alike(train: RecordSet, evaluation: RecordSet) -> None:
    # `_check_task` compares each pair objective with the task's, if that learns one.
    for name, value in train.tokenizer_settings.items():
        other = evaluation.metadata.get(name)
        if value != other:
            raise ValueError(
                f"{evaluation.paths[0]} was made with {name}={other}, the training "
                f"rows with {value}: make them alike."
            )


def _check_objective(job: Job, model: str) -> None:
    """Checks that the weights have learned the objective of the rows, if any.

    A model that has learned none may go on with any, but cannot be scored on it.
    """
    wanted = job.task.pair_objective
    learned = _stored_objective(model)
    if not wanted or learned in (None, wanted):
        return
    if learned == NO_OBJECTIVE and job.train_rows:
        return
    raise ValueError(
        f"The model of {folder_of(model)} was trained with {PAIR_OBJECTIVE}="
        f"{learned}, the rows were made with {wanted}: use records of its "
        "objective, or pass --nosentence_order_loss."
    )
