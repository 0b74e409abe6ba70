"""ALBERT for TensorFlow 2: pretraining, fine-tuning, evaluation, conversion, export.

The names below are loaded on first use: `import albert_tf` loads no TensorFlow.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from albert_tf.checkpoints.load import load_tf1_checkpoint, load_weights
    from albert_tf.checkpoints.model_dir import ModelDir
    from albert_tf.config import AlbertConfig, OptimizerConfig, TrainConfig
    from albert_tf.model.encoder import AlbertEncoder
    from albert_tf.model.heads import (
        ClassificationModel,
        MultipleChoiceModel,
        PretrainingModel,
        TokenClassificationModel,
    )
    from albert_tf.model.span_heads import AnswerableSpanModel, SpanModel
    from albert_tf.task_config import (
        Classification,
        Embedding,
        MultiLabel,
        MultipleChoice,
        Regression,
        Squad,
        Tagging,
        TaskConfig,
    )
    from albert_tf.tasks.base import Task
    from albert_tf.tasks.create import create_task
    from albert_tf.tasks.pretraining import PRETRAINING
    from albert_tf.text.tokenizer import AlbertTokenizer
    from albert_tf.training.fine_tune import evaluate, fine_tune, new_model
    from albert_tf.training.fine_tuning_config import FineTuningConfig
    from albert_tf.training.job import Job
    from albert_tf.training.optimization import create_optimizer
    from albert_tf.training.run import run

__all__ = [
    "PRETRAINING",
    "AlbertConfig",
    "AlbertEncoder",
    "AlbertTokenizer",
    "AnswerableSpanModel",
    "Classification",
    "ClassificationModel",
    "Embedding",
    "FineTuningConfig",
    "Job",
    "ModelDir",
    "MultiLabel",
    "MultipleChoice",
    "MultipleChoiceModel",
    "OptimizerConfig",
    "PretrainingModel",
    "Regression",
    "SpanModel",
    "Squad",
    "Tagging",
    "Task",
    "TaskConfig",
    "TokenClassificationModel",
    "TrainConfig",
    "create_optimizer",
    "create_task",
    "evaluate",
    "fine_tune",
    "load_tf1_checkpoint",
    "load_weights",
    "new_model",
    "run",
]

_MODULES = {
    "checkpoints.load": ("load_tf1_checkpoint", "load_weights"),
    "checkpoints.model_dir": ("ModelDir",),
    "config": ("AlbertConfig", "OptimizerConfig", "TrainConfig"),
    "model.encoder": ("AlbertEncoder",),
    "model.heads": (
        "ClassificationModel",
        "MultipleChoiceModel",
        "PretrainingModel",
        "TokenClassificationModel",
    ),
    "model.span_heads": ("AnswerableSpanModel", "SpanModel"),
    "task_config": (
        "Classification",
        "Embedding",
        "MultiLabel",
        "MultipleChoice",
        "Regression",
        "Squad",
        "Tagging",
        "TaskConfig",
    ),
    "tasks.base": ("Task",),
    "tasks.create": ("create_task",),
    "tasks.pretraining": ("PRETRAINING",),
    "text.tokenizer": ("AlbertTokenizer",),
    "training.fine_tune": ("evaluate", "fine_tune", "new_model"),
    "training.fine_tuning_config": ("FineTuningConfig",),
    "training.job": ("Job",),
    "training.optimization": ("create_optimizer",),
    "training.run": ("run",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Loads a public name, and TensorFlow with it if its module needs that."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULE_OF[name]}")
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
