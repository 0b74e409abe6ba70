"""The identity of a run: the settings that decide its weights.

A folder's checkpoints are resumed only by a job of the same identity. All workers of a
run must have been given the same settings and records.
"""

import dataclasses
import json
import zlib
from typing import Any

from albert_tf.checkpoints.model_dir import (
    CONFIG_FILE,
    PRETRAINING_FILE,
    TOKENIZER_FILE,
)
from albert_tf.checkpoints.output_folders import (
    BEST_FOLDER,
    best_run_folder,
    locate_best,
    locate_trained,
    run_folders,
)
from albert_tf.checkpoints.output_names import SETTINGS_FILE as SETTINGS_FILE
from albert_tf.checkpoints.output_names import check_start
from albert_tf.config import AlbertConfig
from albert_tf.files import (
    json_bytes,
    read_json,
    short_digest,
    write_json,
    write_whole,
)
from albert_tf.records.sidecar import PAIR_OBJECTIVE
from albert_tf.storage import AnyPath, as_path, comparable
from albert_tf.training import phases, record_checks, run_checkpoints, schedules
from albert_tf.training.job import Job

# Files with weights, in folders that hold no run.
_WEIGHTS = ("*.index", "*.safetensors", "saved_model.pb", "pytorch_model.bin")
# Fields of TrainConfig that decide the weights; the others may change on resuming.
_ORDER, _PHASES, _DEPTHS = "row_order", "phases", "depth_schedule"
_DECISIVE = (
    *("train_batch_size", "precision", "random_seed", "batching", "hard_examples"),
    _ORDER,
)
# Values of settings that earlier releases did not have.
_EARLIER = {
    "batching": "length",
    "hard_examples": 0.0,
    _ORDER: "window",
    "lr_schedule": "polynomial",
    "num_decay_steps": 0,
    _PHASES: "",
    "lr_schedule_by": "steps",
    "ema_decay": 0.0,
    "layer_decay": 1.0,
    "head_learning_rate": None,
    "freeze": "",
    _DEPTHS: "",
    "class_weights": "",
    "label_smoothing": 0.0,
    "focal_gamma": 0.0,
    "window_pooling": None,
}
# Values that earlier releases did not store: not compared where they are missing.
_DIGEST = "training_sha256"
_NEW = (PAIR_OBJECTIVE, _DIGEST)


def run_settings(job: Job, replicas: int) -> dict[str, Any]:
    """All settings of a run, as `results.json` holds them.

    Args:
      job: the job.
      replicas: how many replicas share each batch.
    """
    return {
        "task": job.task.name,
        "model": job.model_config.to_dict(),
        "optimizer": dataclasses.asdict(job.optimizer_config),
        "train": dataclasses.asdict(job.train_config),
        "replicas": replicas,
        **_phase_settings(job),
        **_masks(job),
        **({_DEPTHS: job.depth_schedule} if job.depth_schedule else {}),
        **job.settings,
        **job.decisive_settings,
    }


def _phase_settings(job: Job) -> dict[str, Any]:
    """The phases and the length of the rows that each reads; empty: there are none."""
    if not (job.phases and job.train_sets):
        return {}
    described = []
    for phase in job.phases:
        rows = phases.records_for(job.train_sets, phase.length)
        stored = {"rows_of_length": phases.rows_length(rows)}
        described.append(dataclasses.asdict(phase) | stored)
    return {_PHASES: described}


def _masks(job: Job) -> dict[str, Any]:
    """The masks of rows that are stored without; empty: all are stored with masks."""
    rows = {"train": job.train_rows, "eval": job.eval_rows}
    return {
        f"masks_of_{name}_rows": part.masks.to_dict()
        for name, part in rows.items()
        if part and part.masks
    }


def digest(job: Job, replicas: int) -> int:
    """A 32-bit number that is equal on workers with equal settings and records."""
    settings = run_settings(job, replicas)
    # The one setting that may differ between machines.
    del settings["train"]["output_dir"]
    sets = (job.train_rows, job.eval_rows, *job.other_train_rows)
    rows = [rows and rows.sha256 for rows in sets]
    return zlib.crc32(json.dumps([settings, rows]).encode())


def keep_row_order(job: Job) -> Job:
    """Gives a job the order of rows that the run which it resumes began with."""
    folder = as_path(job.train_config.output_dir)
    if not job.train_rows or not run_checkpoints.latest_of_run(folder):
        return job
    stored = {**_EARLIER, **read_json(folder / SETTINGS_FILE, missing_ok=True)}
    train_config = dataclasses.replace(job.train_config, row_order=stored[_ORDER])
    return dataclasses.replace(job, train_config=train_config)


def write_files(job: Job, folder: AnyPath) -> None:
    """Writes next to a training's checkpoints what reading and resuming them needs."""
    for name, content in model_files(job).items():
        write_whole(folder / name, content)
    write_json(folder / SETTINGS_FILE, _identity(job))


def model_files(job: Job) -> dict[str, bytes]:
    """Name -> content of the files that make weights a complete model."""
    files = {CONFIG_FILE: json_bytes(job.model_config.to_dict())}
    if job.train_rows:
        files[TOKENIZER_FILE] = json_bytes(job.train_rows.tokenizer_settings)
    objective = record_checks.learned_objective(job)
    if objective:
        files[PRETRAINING_FILE] = json_bytes({PAIR_OBJECTIVE: objective})
    return {**files, **job.files}


def check_job(job: Job) -> None:
    """Checks that a job's rows belong together and that its output folder is its own.

    Raises:
      ValueError: as `record_checks.check_records`; the folder holds another run or
        another model, the one that training starts from, or a
        run whose files are damaged or incomplete; or as `check_results_kept`.
    """
    record_checks.check_records(job)
    folder = as_path(job.train_config.output_dir)
    if job.train_rows:
        check_start(job.init_checkpoint, folder)
    else:
        check_results_kept(job)
    if latest := run_checkpoints.latest_of_run(folder):
        _check_identity(job, folder, run_checkpoints.step_of(latest))
    elif job.train_rows and any(folder.glob("model.ckpt-[1-9]*")):
        raise ValueError(
            f"{folder} holds parts of a run, but no whole checkpoint: bring its files "
            "back, or give another --output_dir."
        )
    elif job.train_rows and not (folder / SETTINGS_FILE).is_file():
        _check_no_model(folder, job)


def evaluated_checkpoint(job: Job) -> str:
    """The weights that a job without training evaluates."""
    if job.init_checkpoint:
        return locate_best(job.init_checkpoint)
    return locate_trained(job.train_config.output_dir)


def check_results_kept(job: Job) -> None:
    """Checks that an evaluation replaces no results of a run with those of others.

    Args:
      job: a job without training.
    Raises:
      FileNotFoundError: there are no weights to evaluate.
      ValueError: the output folder holds a run, or several, and the weights are not
        its own, or not of the best run.
    """
    folder = as_path(job.train_config.output_dir)
    if not job.init_checkpoint or not _holds_run(folder):
        return
    weights, run = evaluated_checkpoint(job), best_run_folder(folder)
    own = [comparable(place) for place in (run, run / BEST_FOLDER)]
    if comparable(as_path(weights).parent) not in own:
        raise ValueError(
            f"{folder} holds a run, whose results those of {weights} would replace: "
            "give another --output_dir."
        )


def _holds_run(folder: AnyPath) -> bool:
    places = (folder, best_run_folder(folder), *run_folders(folder))
    return any((place / SETTINGS_FILE).is_file() for place in places)


def _check_no_model(folder: AnyPath, job: Job) -> None:
    """Raises ValueError if a folder without a run holds another model."""
    weights = [path for pattern in _WEIGHTS for path in folder.glob(pattern)]
    file = folder / CONFIG_FILE
    if weights or (file.is_file() and AlbertConfig.from_json(file) != job.model_config):
        raise ValueError(
            f"{folder} holds {(*weights, file)[0].name} of a model that was not "
            "trained there and would be replaced: give another --output_dir."
        )


def _identity(job: Job) -> dict[str, Any]:
    """The settings that decide the weights: if one differs, it is another run."""
    train = dataclasses.asdict(job.train_config)
    identity = {"task": job.task.name, **job.model_config.to_dict()}
    if job.train_rows:
        optimizer_config = job.optimizer_config
        identity |= dataclasses.asdict(optimizer_config)
        identity["freeze"] = ",".join(sorted(optimizer_config.frozen_parts))
        if job.keeps_averages is not None:
            # It decides which weights are the best.
            identity["use_ema"] = job.keeps_averages
        if optimizer_config.lr_schedule_by == "time":
            identity["max_train_hours"] = job.train_config.max_train_hours
        identity |= {name: train[name] for name in _DECISIVE}
        identity |= job.decisive_settings
        identity[_PHASES] = phases.to_text(job.phases)
        identity[_DEPTHS] = job.depth_schedule
        identity["training_rows"] = sum(rows.total_rows for rows in job.train_sets)
        identity |= job.train_rows.tokenizer_settings
        # Rows made from a labeled file also carry a digest of that file's content.
        content = job.train_rows.metadata.get("content_sha256")
        identity |= {"content_sha256": content} if content else {}
        objective = job.train_rows.pair_objective
        identity |= {PAIR_OBJECTIVE: objective} if objective else {}
        digests = [rows.sha256 for rows in job.train_sets]
        identity[_DIGEST] = digests[0] if len(digests) == 1 else digests
        identity |= job.train_rows.masks.to_dict() if job.train_rows.masks else {}
    return identity


def _check_identity(job: Job, folder: AnyPath, step: int) -> None:
    stored = {**_EARLIER, **read_json(folder / SETTINGS_FILE, missing_ok=True)}
    asked = json.loads(json.dumps(_identity(job)))
    free = schedules.free_settings(stored, asked, step, str(folder))
    # Phases that are to come change nothing that is done.
    if phases.agree_until(stored[_PHASES], asked.get(_PHASES, ""), step):
        free = (*free, _PHASES)
    for name, value in asked.items():
        if name in free or (name in _NEW and name not in stored):
            continue
        if stored.get(name) != value:
            raise ValueError(
                f"{folder} holds a run with {name}="
                f"{short_digest(stored.get(name))}, but {name}="
                f"{short_digest(value)} is asked for: give another --output_dir, and "
                "--init_checkpoint to start from its weights."
            )
