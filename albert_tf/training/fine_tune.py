"""Fine-tunes a model on a task, and evaluates fine-tuned models: the whole protocol.

    outcome = fine_tune("albert_base", data, "rte", num_train_epochs=3)
    outcome = evaluate("rte", other_data, "rte_test")

`data` has the splits; `data_prep.fine_tuning.datasets` makes it from files.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

import tensorflow as tf

from albert_tf.checkpoints import output_folders
from albert_tf.checkpoints.model_dir import ModelDir, model_files, replace_task
from albert_tf.checkpoints.output_names import RESULTS_FILE
from albert_tf.config import AlbertConfig, OptimizerConfig, TrainConfig
from albert_tf.records.sidecar import RecordSet
from albert_tf.storage import AnyPath, PathLike, as_path
from albert_tf.task_config import (
    Embedding,
    MultiLabel,
    Squad,
    TaskConfig,
    TextTask,
)
from albert_tf.tasks.answer_metrics import QuestionSet
from albert_tf.tasks.base import Task
from albert_tf.tasks.create import create_task
from albert_tf.tasks.squad import squad_task
from albert_tf.text.vocabulary_content import vocabulary_digest
from albert_tf.training import devices, label_thresholds, multi_run, squad_answers
from albert_tf.training.class_weights import create_loss
from albert_tf.training.fine_tuning_config import FineTuningConfig, split_settings
from albert_tf.training.job import Job
from albert_tf.training.multi_run import FineTuned
from albert_tf.training.squad_answers import QuestionFile

# The paper's rates of fine-tuning are at most 5e-5 (Table 14).
_HIGH_LEARNING_RATE = 2e-4
_CLEANING = ("lower_case", "strip_accents")


class TaskData(Protocol):
    """The splits of a task; see `data_prep.fine_tuning.datasets.TaskData`."""

    @property
    def task_config(self) -> TaskConfig:
        """The task."""
        ...

    @property
    def train(self) -> RecordSet | None:
        """Rows to train on."""
        ...

    @property
    def dev(self) -> Mapping[str, RecordSet]:
        """Name -> rows with labels; "dev" chooses the best checkpoint."""
        ...

    @property
    def test(self) -> Mapping[str, RecordSet]:
        """Name -> rows to predict."""
        ...

    @property
    def questions(self) -> QuestionFile | None:
        """SQuAD: the questions of "dev" or "test"."""
        ...


def new_model(
    config: AlbertConfig,
    vocabulary: PathLike,
    lower_case: bool | None = None,
    strip_accents: bool | None = None,
) -> ModelDir:
    """Returns a model of random weights to train from scratch.

    Args:
      config: its configuration.
      vocabulary: SentencePiece model or WordPiece vocabulary.
      lower_case: whether text is lower-cased; None: as the released models.
      strip_accents: whether combining marks are dropped; None: the same.
    """
    cleaning = dict(zip(_CLEANING, (lower_case, strip_accents), strict=True))
    return ModelDir(
        checkpoint="",
        config=config,
        task_config=None,
        vocabulary=as_path(vocabulary),
        tokenizer_settings={k: v for k, v in cleaning.items() if v is not None},
        metrics={},
    )


def fine_tune(
    model: ModelDir | PathLike,
    data: TaskData,
    output_dir: PathLike,
    *,
    strategy: tf.distribute.Strategy | None = None,
    **settings: Any,
) -> FineTuned:
    """Trains a model on a task, then evaluates and predicts with its best weights.

    The output folder is a complete model: its weights, configuration, vocabulary and
    task. A run that finds its own checkpoints there resumes.

    Args:
      model: the model to start from: its folder or checkpoint, or `new_model`.
      data: the splits. The best checkpoint is the best on "dev".
      output_dir: folder of the run.
      strategy: the devices; None: all of this machine.
      **settings: values of fields of `FineTuningConfig`, `OptimizerConfig` and
        `TrainConfig`, as num_train_epochs, learning_rate and train_batch_size.
        Defaults are those of the original's classifier: AdamW, 1000 steps of 32 rows
        at 5e-5.
    Returns:
      The content of `results.json`, and the predictions for each split but "train".
    Raises:
      FileNotFoundError: there is no such model.
      ValueError: no rows to train on; model, rows and settings do not fit each other.
    """
    if data.train is None:
        raise ValueError(
            "fine_tune needs rows to train on. Received none: use evaluate to predict."
        )
    strategy = strategy or devices.create_strategy()
    configs = split_settings(str(output_dir), settings)
    run = _FineTuning(_read(model), data, *configs, strategy)
    run.check_outputs()
    run.warn()
    outcome = multi_run.train(run.job(), configs[0].num_runs, strategy, run.splits)
    if not outcome.preempted:
        run.write_answers(outcome, str(output_dir))
        run.tune_labels(outcome, str(output_dir))
    return dataclasses.replace(outcome, task_config=run.task_config)


def evaluate(
    model: ModelDir | PathLike,
    data: TaskData,
    output_dir: PathLike,
    *,
    strategy: tf.distribute.Strategy | None = None,
    **settings: Any,
) -> FineTuned:
    """Evaluates a fine-tuned model and predicts with it.

    Args:
      model: the model: output folder of a run, or weights.
      data: the splits; "train" is not used.
      output_dir: folder for metrics and predictions.
      strategy: the devices; None: all of this machine.
      **settings: as of `fine_tune`, as eval_batch_size and precision.
    Returns:
      Name of a split with labels -> its metrics, and the predictions for each split.
    Raises:
      FileNotFoundError: there is no such model.
      ValueError: the model was trained for no task; model and rows do not fit.
    """
    model = _read(model)
    model.require_task()
    strategy = strategy or devices.create_strategy()
    configs = split_settings(str(output_dir), settings)
    run = _FineTuning(model, data, *configs, strategy)
    run.check_outputs()
    outcome = multi_run.evaluate(run.job(), strategy, run.splits)
    run.write_answers(outcome, model.checkpoint)
    if run.options.tune_threshold:
        run.tune_labels(outcome, model.checkpoint)
    return dataclasses.replace(outcome, task_config=run.task_config)


def _read(model: ModelDir | PathLike) -> ModelDir:
    return model if isinstance(model, ModelDir) else ModelDir.read(model)


@dataclasses.dataclass
class _FineTuning:
    """A model, its data and its configurations, checked to fit each other."""

    model: ModelDir
    data: TaskData
    options: FineTuningConfig
    optimizer_config: OptimizerConfig
    train_config: TrainConfig
    strategy: tf.distribute.Strategy

    def __post_init__(self):
        self.splits = {**self.data.dev, **self.data.test}
        self.task_config = self.data.task_config
        self.config, self.vocabulary = _check_model(self.model)
        if self.options.unshare:
            self.config = self.config.unshared()
        train = {"train": self.data.train} if self.data.train else {}
        for name, rows in {**train, **self.splits}.items():
            _check_rows(name, rows, self.model, self.config)
        if self.data.train:
            self.optimizer_config = self.options.schedule(
                self.optimizer_config,
                self.data.train.total_rows,
                self.train_config.train_batch_size,
            )
        parts = self.train_config.gradient_accumulation_steps
        task = self.task_config
        if self.options.tune_threshold:
            if not isinstance(task, MultiLabel | Squad):
                raise ValueError(
                    f"{task.task_name} has no threshold to tune: leave "
                    "--tune_threshold out."
                )
            if isinstance(task, MultiLabel) and "dev" not in self.data.dev:
                raise ValueError(
                    "Thresholds are tuned on rows with labels: pass --do_eval and "
                    "--dev_file, or leave --tune_threshold out."
                )
        if isinstance(task, Embedding) and task.loss != "cosine" and parts > 1:
            raise ValueError(
                f"The loss {task.loss} compares the texts of a whole batch, of which "
                f"gradient_accumulation_steps={parts} would see parts: leave it out."
            )
        self.questions: QuestionSet | None = None
        if isinstance(self.task_config, Squad):
            self._start_squad(self.task_config)

    def _start_squad(self, task_config: Squad) -> None:
        threshold = self.options.null_threshold
        if threshold is not None:
            task_config = dataclasses.replace(task_config, threshold=threshold)
            self.task_config = task_config
        if self.data.questions:
            [rows] = self.splits.values()
            self.questions = squad_answers.question_set(
                self.data.questions, task_config, rows
            )

    def warn(self) -> None:
        """Prints a warning if the learning rate looks like that of another task."""
        rate = self.optimizer_config.learning_rate
        if rate > _HIGH_LEARNING_RATE and self.optimizer_config.optimizer == "adamw":
            print(
                f"WARNING: learning_rate {rate:g} is far above the paper's 1e-5 to "
                "5e-5 of fine-tuning: large models collapse.",
                flush=True,
            )

    def job(self) -> Job:
        """Returns the job of training, or without rows to train on of evaluation."""
        return Job(
            task=self._task(),
            model_config=self.config,
            optimizer_config=self.optimizer_config,
            train_config=self.train_config,
            train_rows=self.data.train,
            eval_rows=self.data.dev.get("dev"),
            init_checkpoint=self.model.checkpoint,
            unshare=self.options.unshare,
            files=model_files(self.vocabulary, self.task_config.to_dict()),
            settings={"classifier_dropout": self.options.classifier_dropout},
            decisive_settings=self._decisive_settings() if self.data.train else {},
        )

    def _decisive_settings(self) -> dict[str, Any]:
        """Settings of loss and task that decide the weights and are not in the rows."""
        names: tuple[str, ...] = ()
        if isinstance(self.task_config, Embedding):
            names = ("pooling", "normalize", "loss", "scale")
        elif isinstance(self.task_config, TextTask):
            names = ("window_pooling",)
        task = {name: getattr(self.task_config, name) for name in names}
        return {**self.options.loss_settings, **task}

    def _task(self) -> Task:
        dropout = self.options.classifier_dropout
        if isinstance(self.task_config, Squad):
            return squad_task(self.task_config, dropout, self.questions)
        loss = create_loss(self.options, self.task_config, self.data.train)
        return create_task(self.task_config, dropout, loss)

    def check_outputs(self) -> None:
        """SQuAD: checks that the answers replace no files of another kind.

        Raises:
          FileExistsError: they would.
        """
        if not (self.data.questions and isinstance(self.task_config, Squad)):
            return
        num_runs = self.options.num_runs if self.data.train else 1
        output_dir = self.train_config.output_dir
        for folder in output_folders.folders_of_runs(output_dir, num_runs):
            question_ids = self.data.questions.contexts()
            squad_answers.check_outputs(folder, question_ids, self.task_config)

    def write_answers(self, outcome: FineTuned, model: str) -> None:
        """SQuAD: writes the answers of each run, the last ones those of the best run.

        Args:
          outcome: predictions, and those of several runs.
          model: the best run's folder or weights, which a tuned threshold goes to.
        """
        chief = devices.is_chief(self.strategy)
        if not (chief and self.questions and isinstance(self.task_config, Squad)):
            return
        folder = as_path(self.train_config.output_dir)
        runs = [(str(folder / n), folder / n, run) for n, run in outcome.runs.items()]
        for weights, place, run in (*runs, (model, folder, outcome)):
            [predicted] = run.predictions.values()
            self._write_answers(weights, place, predicted)

    def tune_labels(self, outcome: FineTuned, model: str) -> None:
        """Several labels a text: finds the thresholds of each run.

        Args:
          outcome: predictions, and those of several runs.
          model: the best run's folder or weights.
        """
        config = self.task_config
        if not isinstance(config, MultiLabel):
            return
        folder = as_path(self.train_config.output_dir)
        runs = {str(folder / run): found for run, found in outcome.runs.items()}
        best = str(folder / outcome.results["best_run"]) if runs else model
        for place, found in (runs or {model: outcome}).items():
            name = RESULTS_FILE if found.trained else multi_run.EVALUATION_FILE
            file = (as_path(place) if runs else folder) / name
            written = file if devices.is_chief(self.strategy) else None
            tuned = label_thresholds.tune(found, config, place, written)
            if place == best:
                self.task_config = tuned

    def _write_answers(self, model: str, folder: AnyPath, predicted) -> None:
        task_config = Squad.require(self.task_config)
        assert self.questions is not None and self.data.questions is not None
        proposals = self.questions.proposals(predicted)
        source = "the model's" if self.options.null_threshold is None else "given"
        if self.options.tune_threshold:
            source = f"tuned on {self.data.questions.path}"
            task_config = squad_answers.tune_threshold(
                proposals, self.questions, task_config
            )
            replace_task(model, task_config.to_dict())
        squad_answers.write_answers(
            folder, proposals, self.questions, task_config, source
        )


def _check_model(model: ModelDir) -> tuple[AlbertConfig, AnyPath]:
    if model.config is None:
        raise ValueError(
            f"There is no configuration next to {model.checkpoint}: pass one, with "
            "--albert_config_file or as ModelDir.config."
        )
    if model.vocabulary is None:
        raise ValueError(
            f"There is no vocabulary next to {model.checkpoint}: pass one, with "
            "--spm_model_file or --vocab_file or as ModelDir.vocabulary."
        )
    return model.config, model.vocabulary


def _check_rows(
    name: str, rows: RecordSet, model: ModelDir, config: AlbertConfig
) -> None:
    """Raises ValueError if the rows of a split are not for the model."""
    made_with = rows.tokenizer_settings
    if made_with["vocab_size"] != config.vocab_size:
        raise ValueError(
            f"The model has {config.vocab_size} tokens, the vocabulary of the rows of "
            f"{name} {made_with['vocab_size']}: pass the ones that belong together."
        )
    known = dict(model.tokenizer_settings)
    if model.vocabulary is not None:
        known["vocabulary_sha256"] = vocabulary_digest(model.vocabulary)
    for key, value in known.items():
        if made_with.get(key, value) != value:
            raise ValueError(
                f"The model has {key}={value}, the rows of {name} were made with "
                f"{key}={made_with[key]}: make them with the model's tokenizer."
            )
    longest = rows.metadata["max_seq_length"]
    if longest > config.max_position_embeddings:
        raise ValueError(
            "max_seq_length must be at most max_position_embeddings. Received "
            f"{longest} and {config.max_position_embeddings}: lower --max_seq_length."
        )
