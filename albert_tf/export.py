"""A checkpoint -> a SavedModel that TensorFlow Serving runs, with no code of ours."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from albert_tf import checkpoints
from albert_tf.config import AlbertConfig
from albert_tf.encoder import AlbertEncoder
from albert_tf.records import TOKENIZER_FILE, write_json

_OUTPUTS = ("pooled_output", "sequence_output")


class _EncoderModule(tf.Module):
    """What is saved: the weights and the graph, without Keras around them."""

    def __init__(self, encoder: AlbertEncoder):
        super().__init__()
        self.encoder = encoder
        self.encode = tf.function(
            self._encode,
            input_signature=[
                tf.TensorSpec([None, None], tf.int32, name=name)
                for name in ("input_ids", "input_mask", "segment_ids")
            ],
        )

    def _encode(self, input_ids, input_mask, segment_ids):
        inputs = {
            "input_ids": input_ids,
            "input_mask": input_mask,
            "segment_ids": segment_ids,
        }
        outputs = self.encoder(inputs, training=False)
        return {name: outputs[name] for name in _OUTPUTS}


def export_encoder(
    config: AlbertConfig,
    checkpoint: str | os.PathLike,
    export_dir: str | os.PathLike,
    tokenizer_settings: Mapping[str, Any] | None = None,
) -> checkpoints.LoadReport:
    """Writes the encoder of a checkpoint as a SavedModel; whole or not at all.

    `serving_default` takes `input_ids`, `input_mask` and `segment_ids`, int32 [B, S],
    both dimensions free up to `max_position_embeddings`, and returns `pooled_output`
    float32 [B, H] and `sequence_output` float32 [B, S, H]. The configuration and what
    is known of the vocabulary lie in its `assets.extra/`.

    Args:
      config: the checkpoint's own.
      checkpoint: as `checkpoints.load_weights` takes it.
      export_dir: the SavedModel's folder; must not exist or be empty.
      tokenizer_settings: JSON values, `AlbertTokenizer.metadata()`.
    Returns:
      The load report; heads of the checkpoint are in `unused`.
    Raises:
      FileNotFoundError: no such weights.
      ValueError: the folder is in use, or the checkpoint is of another shape.
      OSError: the folder cannot be written, or its disk is full.
    """
    export_dir = Path(export_dir)
    if export_dir.exists() and (not export_dir.is_dir() or any(export_dir.iterdir())):
        raise ValueError(f"{export_dir} is in use: export into a new folder.")
    encoder = AlbertEncoder(config, seed=0)
    report = checkpoints.load_weights(encoder, checkpoint, unused_ok=checkpoints.HEADS)
    module = _EncoderModule(encoder)
    export_dir.parent.mkdir(parents=True, exist_ok=True)
    partial = export_dir.with_name(f".{export_dir.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        tf.saved_model.save(module, str(partial), {"serving_default": module.encode})
        extra = partial / "assets.extra"
        extra.mkdir()
        write_json(extra / "albert_config.json", config.to_dict())
        if tokenizer_settings:
            write_json(extra / TOKENIZER_FILE, tokenizer_settings)
        os.replace(partial, export_dir)
    except tf.errors.OpError as error:
        raise OSError(f"{export_dir} cannot be written: {error.message}.") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return report
