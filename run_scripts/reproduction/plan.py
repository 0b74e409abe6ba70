"""The steps that reproduce a row: commands of the other scripts, in order."""

import dataclasses
import shlex
import sys
from collections.abc import Iterable, Sequence

from albert_tf.config import AlbertConfig
from albert_tf.files import read_json
from albert_tf.records.sidecar import SIDECAR_SUFFIX
from albert_tf.storage import AnyPath, as_path
from reproduction.rows import REPOSITORY, Row
from reproduction.tasks import RESULTS, Task, is_finished, tasks_for

# Floating-point operations a second of a v3-8: its peak, and the share that is assumed,
# as in the headers of the recipes.
_V3_8, _SHARE_OF_PEAK = 420e12, 0.4
# Masked tokens of a row of 512 (15 %, at most 77).
_MASKED_SHARE = 0.15
# Sizes of the models of --small, whatever the row's are; what the row shares stays.
# The width is none of the sizes of embeddings in the tables.
_SMALL_WIDTH, _SMALL_HEADS = 96, 4
_SMALL_VOCABULARY, _SMALL_LENGTH = 1200, 128
# Steps, rows of a step, tokens of a row.
_SMALL_PRETRAINING = (120, 16, _SMALL_LENGTH)
_SMALL_FINE_TUNING = (24, 16, _SMALL_LENGTH)
_SMALL_RUNS = 2


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a reproduction is to do.

    Attributes:
      row: the row.
      output_dir: folder of all results.
      input_file: records to pretrain on; empty: they are not given.
      init_checkpoint: the row's model, pretrained; empty: it is pretrained.
      data_dir: folder of the tasks' data; None: not there yet.
      num_runs: runs of a task whose median counts.
      small: True for a small model and short trainings.
      pretraining_flags: further flags of the pretraining.
      run_flags: flags of devices, of all trainings.
    """

    row: Row
    output_dir: AnyPath
    input_file: str
    init_checkpoint: str
    data_dir: AnyPath | None
    num_runs: int
    small: bool = False
    pretraining_flags: tuple[str, ...] = ()
    run_flags: tuple[str, ...] = ()

    @property
    def runs(self) -> int:
        """Runs of a task whose median counts."""
        return min(self.num_runs, _SMALL_RUNS) if self.small else self.num_runs


@dataclasses.dataclass(frozen=True)
class Step:
    """One command.

    Attributes:
      name: what is trained or made.
      command: script and flags, without those of devices.
      folder: where its results are; without a training, the file that it makes last.
      cost: its steps, and what they need; empty: no training.
      task: the task that is fine-tuned; None: none.
    """

    name: str
    command: tuple[str, ...]
    folder: AnyPath
    cost: str = ""
    task: Task | None = None

    def is_done(self) -> bool:
        """True if the training has ended; of other steps, if their file is there."""
        if not self.cost:
            return self.folder.is_file()
        return is_finished(read_json(self.folder / RESULTS, missing_ok=True))

    def shown(self) -> str:
        """The command as a shell takes it."""
        return shlex.join(
            ["python", f"run_scripts/{self.command[0]}", *self.command[1:]]
        )

    def arguments(self, run_flags: Iterable[str]) -> list[str]:
        """The command to start, with further flags."""
        script = str(REPOSITORY / "run_scripts" / self.command[0])
        return [sys.executable, script, *self.command[1:], *run_flags]


def steps_of(plan: Plan) -> list[Step]:
    """All steps.

    Raises:
      FileNotFoundError: data are missing; all of it is named.
    """
    steps, model = [], plan.init_checkpoint
    if not model:
        if plan.small and not plan.input_file:
            steps += small_text_steps(plan.output_dir, plan.row.pair_objective)
            records, vocabulary = steps[-1].folder, steps[1].folder
            plan = dataclasses.replace(
                plan,
                input_file=str(records).removesuffix(SIDECAR_SUFFIX),
                pretraining_flags=(f"--spm_model_file={vocabulary}",),
            )
        steps += _pretrainings(plan, plan.row)
        model = str(steps[-1].folder)
    tasks = tasks_for(list(plan.row.scores))
    data = data_flags(tasks, plan.data_dir)
    for task in tasks:
        start = model
        if task.from_mnli:
            start = str(plan.output_dir / "mnli")
        steps.append(_fine_tuning(plan, task, start, data[task.name]))
    return steps


def small_text_steps(output_dir: AnyPath, pair_objective: str) -> list[Step]:
    """Text, vocabulary and records of a small pretraining, of the quick start's text.

    Returns:
      The steps; the second makes the vocabulary, the last one the records.
    """
    folder = output_dir / "pretraining"
    text, vocabulary = folder / "text" / "train.jsonl", folder / "vocabulary.model"
    records, length = folder / "train.tfrecord", f"--max_seq_length={_SMALL_LENGTH}"
    read = [f"--input_file={text}", "--input_format=jsonl"]
    return [
        Step(
            "Text",
            (
                "quickstart/corpus.py",
                f"--output_dir={text.parent}",
            ),
            text,
        ),
        Step(
            "Vocabulary",
            (
                "train_sentencepiece.py",
                *read,
                f"--model_prefix={vocabulary.with_suffix('')}",
                f"--vocab_size={_SMALL_VOCABULARY}",
            ),
            vocabulary,
        ),
        Step(
            "Records",
            (
                "create_pretraining_data.py",
                *read,
                f"--spm_model_file={vocabulary}",
                f"--output_file={records}",
                "--dupe_factor=2",
                f"--pair_objective={pair_objective}",
                length,
                "--max_predictions_per_seq=20",
            ),
            as_path(f"{records}{SIDECAR_SUFFIX}"),
        ),
    ]


def small_overrides(config: AlbertConfig) -> list[str]:
    """Changes that make a model small, but keep its layers and what they share."""
    sizes = {
        "hidden_size": _SMALL_WIDTH,
        "num_attention_heads": _SMALL_HEADS,
        "intermediate_size": 4 * _SMALL_WIDTH,
        "vocab_size": _SMALL_VOCABULARY,
    }
    if not config.has_embedding_projection:
        sizes["embedding_size"] = _SMALL_WIDTH
    return [f"--config_override={name}={size}" for name, size in sizes.items()]


def _pretrainings(plan: Plan, row: Row) -> list[Step]:
    """The pretraining of a row, after those of the rows that it starts from."""
    before = _pretrainings(plan, Row.read(row.start)) if row.start else []
    folder = plan.output_dir / "pretraining" / row.name
    flags = [
        f"--flagfile={row.recipe.path}",
        # In the recipe it is relative to the repository.
        f"--albert_config_file={row.recipe.config_file}",
        f"--input_file={plan.input_file or 'RECORDS'}",
        f"--output_dir={folder}",
        *plan.pretraining_flags,
    ]
    if before:
        flags.append(f"--init_checkpoint={before[-1].folder}")
    sizes = row.recipe.steps_of_rows()
    config = row.config
    if plan.small:
        sizes = _SMALL_PRETRAINING
        changes = small_overrides(config)
        config = config.override([flag.partition("=")[2] for flag in changes])
        flags += [*changes, *_size_flags(*sizes), "--learning_rate=0.002"]
    cost = _cost(config, sizes, masked=round(_MASKED_SHARE * sizes[2]))
    step = Step(
        f"Pretraining of {row.name}", ("run_pretraining.py", *flags), folder, cost
    )
    return [*before, step]


def _fine_tuning(plan: Plan, task: Task, start: str, data: list[str]) -> Step:
    recipe = task.read_recipe()
    folder = plan.output_dir / task.recipe
    flags = [
        f"--flagfile={recipe.path}",
        *data,
        f"--init_checkpoint={start}",
        f"--output_dir={folder}",
    ]
    runs = plan.runs if task.repeated else 1
    if runs > 1:
        flags.append(f"--num_runs={runs}")
    sizes = recipe.steps_of_rows()
    config = plan.row.config
    if plan.small:
        sizes = _SMALL_FINE_TUNING
        flags += [*_size_flags(*sizes), "--learning_rate=5e-4"]
        if task.options > 1:
            flags.append("--max_qa_length=48")
        changes = small_overrides(config)
        config = config.override([flag.partition("=")[2] for flag in changes])
    cost = _cost(config, sizes, runs, task.options)
    return Step(task.name, (task.script, *flags), folder, cost, task)


def _size_flags(steps: int, rows: int, length: int) -> list[str]:
    return [
        f"--num_train_steps={steps}",
        f"--num_warmup_steps={steps // 10}",
        f"--train_batch_size={rows}",
        f"--max_seq_length={length}",
        f"--save_checkpoints_steps={steps}",
    ]


def data_flags(tasks: Sequence[Task], data_dir: AnyPath | None) -> dict[str, list[str]]:
    """Task -> flags of its data.

    Raises:
      FileNotFoundError: some are missing.
    """
    if data_dir is None:
        return {task.name: list(task.layout) for task in tasks}
    found, missing = {}, []
    for task in tasks:
        try:
            found[task.name] = task.data(data_dir)
        except FileNotFoundError as error:
            missing.append(str(error))
    if missing:
        raise FileNotFoundError(f"{data_dir} lacks {'; '.join(missing)}.")
    return found


def _cost(
    config: AlbertConfig,
    sizes: tuple[int, int, int],
    runs: int = 1,
    options: int = 1,
    masked: int = 0,
) -> str:
    """What a training needs, in words.

    Args:
      config: the model's configuration.
      sizes: steps, rows of a step, most tokens of a row.
      runs: number of trainings.
      options: inputs of a row.
      masked: masked tokens of a row.
    """
    from albert_tf.analysis.costs import forward_operations

    steps, rows, length = sizes
    # The forward pass, and twice as much for the gradients.
    operations = 3.0 * forward_operations(config, length, masked)
    operations *= steps * rows * options * runs
    hours = operations / (_V3_8 * _SHARE_OF_PEAK) / 3600
    time = f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:,.0f} days"
    several = f"{runs} runs of " if runs > 1 else ""
    inputs = f" of {options} inputs" if options > 1 else ""
    return (
        f"{several}{steps:,} steps of {rows:,} rows{inputs} of up to {length} tokens; "
        f"at most {operations:.1e} floating-point operations, {time} on a v3-8 at "
        f"{_SHARE_OF_PEAK:.0%} of its peak"
    )
