r"""Reproduces a row of the paper's tables: pretraining, fine-tuning, and its scores.

    python run_scripts/reproduce.py table3_all_shared_e128 --data_dir=DATA \
        --input_file='data/*.tfrecord' --spm_model_file=30k-clean.model \
        --output_dir=table3
    python run_scripts/reproduce.py table2_albert_xxlarge --data_dir=DATA \
        --init_checkpoint=albert_xxlarge --output_dir=table2 --dry_run
    python run_scripts/reproduce.py table3_all_shared_e128 --small --output_dir=small

The row is the name of a recipe of a table, in configs/recipes. DATA holds SQuAD/, RACE/
and the folders of GLUE. Tasks have their recipes' settings; of GLUE's the median of
--num_runs runs counts, and of every run its best weights on the development data. The
same command, given again, goes on where it was.
"""

import os
import signal
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import flags

from albert_tf.checkpoints.output_names import check_start
from albert_tf.files import make_folder, read_json, write_json
from albert_tf.storage import AnyPath, as_path
from flags import common_flags, data_flags

if TYPE_CHECKING:
    from reproduction.plan import Plan, Step
    from reproduction.rows import Row

FLAGS = flags.FLAGS

SCRIPTS = Path(__file__).resolve().parent
_PLAN_FILE, _ROW_FILE = "plan.json", "row.json"
_OF_RECORDS = ("spm_model_file", "vocab_file", "do_lower_case", "strip_accents")
# Settings of a model that a table does not decide.
_MAY_DIFFER = frozenset(
    {
        *("hidden_dropout_prob", "attention_probs_dropout_prob"),
        *("vocab_size", "max_position_embeddings", "initializer_range"),
    }
)


def main(words: Sequence[str]) -> None:
    from reproduction import report
    from reproduction.plan import steps_of
    from reproduction.rows import Row

    if len(words) != 1:
        raise flags.Error("Name one row, as table3_all_shared_e128.")
    row = Row.read(words[0])
    plan = _plan(row)
    steps = steps_of(plan)
    if FLAGS.dry_run:
        for number, step in enumerate(steps, 1):
            state = " (done)" if step.is_done() else ""
            print(f"== {number} of {len(steps)}: {step.name}{state}")
            print(f"{step.shown()}\n" + (f"{step.cost}.\n" if step.cost else ""))
        return
    _check_plan(plan.output_dir, row, steps)
    for number, step in enumerate(steps, 1):
        print(f"\n== {number} of {len(steps)}: {step.name}", flush=True)
        if step.is_done():
            print(f"{step.folder} is there already.", flush=True)
            continue
        flags_of_run = plan.run_flags if step.cost else ()
        ended = _run(step.name, step.arguments(flags_of_run))
        if not (ended and step.is_done()):
            print(f"Stopped in {step.name}: the same command goes on from there.")
            return
    scores = {
        step.task.name: step.task.read_score(step.folder) for step in steps if step.task
    }
    write_json(plan.output_dir / _ROW_FILE, report.content(row, scores, plan.small))
    print("\n== Row\n" + "\n".join(report.lines(row, scores, plan.small)), flush=True)


def _plan(row: "Row") -> "Plan":
    """What the flags ask for.

    Raises:
      ValueError: the model of --init_checkpoint is not that of the row.
    """
    from reproduction import samples
    from reproduction.plan import Plan

    given = FLAGS.init_checkpoint or FLAGS.input_file or FLAGS.small
    if not given and not FLAGS.dry_run:
        raise flags.Error(
            "Name records to pretrain on, --input_file, or the row's pretrained model, "
            "--init_checkpoint."
        )
    if FLAGS.init_checkpoint and (FLAGS.input_file or FLAGS.eval_input_file):
        raise flags.Error(
            "--init_checkpoint is the row's pretrained model, so that no records are "
            "read: leave it or --input_file and --eval_input_file out."
        )
    if not (FLAGS.data_dir or FLAGS.small or FLAGS.dry_run):
        raise flags.Error("Name the folder with SQuAD, RACE and GLUE: --data_dir.")
    output_dir = as_path(FLAGS.output_dir)
    if FLAGS.init_checkpoint:
        check_start(FLAGS.init_checkpoint, output_dir)
        if not FLAGS.small:
            _check_model(row)
    data_dir = as_path(FLAGS.data_dir) if FLAGS.data_dir else None
    if FLAGS.small and not FLAGS.dry_run:
        data_dir = samples.prepare(data_dir, output_dir / "data", list(row.scores))
    pretraining_flags = _given(_OF_RECORDS)
    if FLAGS.eval_input_file:
        pretraining_flags += [f"--eval_input_file={FLAGS.eval_input_file}", "--do_eval"]
    return Plan(
        row,
        output_dir,
        FLAGS.input_file or "",
        FLAGS.init_checkpoint,
        data_dir,
        FLAGS.num_runs,
        FLAGS.small,
        tuple(pretraining_flags),
        tuple(_given(DEVICE_FLAGS)),
    )


def _given(names: Iterable[str]) -> list[str]:
    """Those of some flags that are given, as arguments."""
    given = [FLAGS[name].serialize() for name in names if FLAGS[name].present]
    return [argument for text in given for argument in text.splitlines()]


def _check_model(row: "Row") -> None:
    """Raises ValueError if the model that is given has another shape than the row's."""
    from albert_tf.checkpoints.model_dir import ModelDir

    found = ModelDir.read(common_flags.initial_weights()).require_config()
    for name, expected in row.config.to_dict().items():
        if name in _MAY_DIFFER:
            continue
        value = getattr(found, name)
        if value != getattr(row.config, name):
            raise ValueError(
                f"{FLAGS.init_checkpoint} has {name}={value}, the row {row.name} "
                f"{expected}: give a model of the row, or another row."
            )


def _check_plan(folder: AnyPath, row: "Row", steps: Sequence["Step"]) -> None:
    """Keeps the reproductions of two rows, or of one with other flags, apart.

    Raises:
      ValueError: the folder holds another one.
    """
    plan: dict[str, Any] = {
        "row": row.name,
        "commands": {step.name: list(step.command) for step in steps},
    }
    before = read_json(folder / _PLAN_FILE, missing_ok=True)
    if not before:
        make_folder(folder)
        write_json(folder / _PLAN_FILE, plan)
        return
    if before.get("row") != row.name:
        raise ValueError(
            f"{folder} holds the reproduction of {before.get('row')}: give another "
            "--output_dir."
        )
    for name, command in plan["commands"].items():
        stored = before["commands"].get(name, [])
        if stored != command:
            changed = sorted(set(command).symmetric_difference(stored)) or [name]
            raise ValueError(
                f"{folder} holds a reproduction with other flags ({name}: "
                f"{', '.join(changed)}): give them as then, or another --output_dir."
            )


def _run(name: str, arguments: Sequence[str]) -> bool:
    """Runs a command, which gets the signals that stop this one.

    Returns:
      True if it ended well, False if a signal stopped it.
    Raises:
      ValueError: it failed.
      KeyboardInterrupt: Ctrl-C stopped it.
    """
    # A terminal sends Ctrl-C to both; the command saves its work, and this one waits.
    previous = signal.signal(signal.SIGINT, lambda *_: None)
    environment = {**os.environ}
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, (str(SCRIPTS), str(SCRIPTS.parent), environment.get("PYTHONPATH")))
    )
    process = subprocess.Popen(arguments, env=environment)
    stopping = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        code = process.wait()
    finally:
        signal.signal(signal.SIGTERM, stopping)
        signal.signal(signal.SIGINT, previous)
    if code == 128 + signal.SIGINT or code == -signal.SIGINT:
        print(f"Stopped in {name}: the same command goes on from there.", flush=True)
        raise KeyboardInterrupt
    if code < 0:
        return False
    if code:
        raise ValueError(
            f"{name} failed with exit code {code}; its message is above. The same "
            "command goes on from there."
        )
    return True


if __name__ == "__main__":
    common_flags.define_output_dir_flag("Folder of all models, results and the row.")
    common_flags.define_data_dir_flag(
        "Folder with SQuAD/, RACE/ and the folders of GLUE, as published. Default, of "
        "--small only: small data that are made."
    )
    common_flags.define_record_flags()
    common_flags.define_tokenizer_flags(cleaning=None, checked_only=True)
    common_flags.define_init_checkpoint_flag()
    flags.DEFINE_integer(
        "num_runs", 5, "Runs of a task of GLUE, whose median counts.", lower_bound=1
    )
    data_flags.define_dry_run_flag("Print all commands, steps and costs, and stop.")
    flags.DEFINE_bool(
        "small",
        False,
        "A small model with the row's layers and sharing, short trainings and samples "
        "of the data: a test of all steps, for minutes.",
    )
    known = set(FLAGS)
    common_flags.define_device_flags()
    DEVICE_FLAGS = sorted(set(FLAGS) - known)
    common_flags.run(main, texts="ROW", watched=False)
