"""A folder that holds a whole model: weights, shape, vocabulary, and what it was
trained for.

Training leaves such folders; predictions and exports need nothing else. A published
checkpoint with its configuration and vocabulary beside it is one too, for a task to
start from.
"""

import dataclasses
import os
from pathlib import Path
from typing import Any

from albert_tf.checkpoints import beside_weights, formats
from albert_tf.checkpoints.beside_weights import TASK_FILE
from albert_tf.config import AlbertConfig
from albert_tf.files import json_bytes, read_json, sha256
from albert_tf.text.tokenizer import AlbertTokenizer

SENTENCEPIECE_FILE, WORDPIECE_FILE = "spiece.model", "vocab.txt"
RESULTS_FILE = "results.json"
# The best weights of a run, and the evaluation that chose them.
BEST_FOLDER, BEST_REPORT_FILE = "best", "best.json"


@dataclasses.dataclass(frozen=True)
class ModelFolder:
    """What a model's folder holds.

    Attributes:
      checkpoint: its best weights: a checkpoint's prefix, or the folder of another
        layout.
      config: the model's shape; None: not there.
      task: what `task.json` says; empty: nothing was trained for a task.
      vocabulary: path of its vocabulary; None: not there.
      tokenizer_settings: what its files say of the vocabulary and its cleaning, as far
        as they do.
      scores: of its best weights, where evaluations chose them.
    """

    checkpoint: str
    config: AlbertConfig | None
    task: dict[str, Any]
    vocabulary: Path | None
    tokenizer_settings: dict[str, Any]
    scores: dict[str, Any]

    def tokenizer(self) -> AlbertTokenizer:
        """The tokenizer that the model was trained with.

        Raises:
          FileNotFoundError: there is no vocabulary in the folder.
          ValueError: it is another one than the model was trained with.
        """
        folder = beside_weights.folder_of(self.checkpoint)
        if self.vocabulary is None:
            raise FileNotFoundError(
                f"{folder} holds no vocabulary ({SENTENCEPIECE_FILE} or "
                f"{WORDPIECE_FILE}): copy the model's there."
            )
        known = self.tokenizer_settings
        digest = known.get("vocabulary_sha256")
        if digest and digest != sha256(self.vocabulary):
            raise ValueError(
                f"{self.vocabulary} is not the vocabulary that {folder} was trained "
                "with: copy that one there."
            )
        return AlbertTokenizer.of_file(
            self.vocabulary,
            known.get("lower_case", True),
            known.get("strip_accents", True),
        )


def read(path: str | os.PathLike) -> ModelFolder:
    """The model of an output folder, or of weights of any layout.

    Raises:
      FileNotFoundError: no weights there.
      ValueError: a file beside them is damaged.
    """
    weights = locate(path)
    return ModelFolder(
        checkpoint=weights,
        config=beside_weights.read_config(weights),
        task=beside_weights.read_task(weights),
        vocabulary=beside_weights.find_vocabulary(weights),
        tokenizer_settings=beside_weights.read_metadata(weights)
        or beside_weights.read_cleaning(weights),
        scores=read_json(
            beside_weights.folder_of(weights) / BEST_REPORT_FILE, missing_ok=True
        ),
    )


def locate(path: str | os.PathLike) -> str:
    """The weights that count in an output folder; any other path as `layouts.locate`.

    Of several runs they are those of the best one; of a run the best that it kept, or
    else its latest.

    Raises:
      FileNotFoundError: no weights there.
    """
    path = Path(path)
    results = read_json(path / RESULTS_FILE, missing_ok=True)
    if "best_run" in results:
        path = path / results["best_run"]
    if (path / BEST_FOLDER).is_dir():
        path = path / BEST_FOLDER
    return formats.locate(path)[1]


def model_files(vocabulary: Path, task: dict[str, Any]) -> dict[str, bytes]:
    """Name -> content of what a task leaves beside its weights."""
    wordpiece = vocabulary.suffix == ".txt"
    name = WORDPIECE_FILE if wordpiece else SENTENCEPIECE_FILE
    return {name: vocabulary.read_bytes(), TASK_FILE: json_bytes(task)}
