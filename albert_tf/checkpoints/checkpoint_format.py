"""Names of the checkpoint formats; loads no TensorFlow."""

import enum


class CheckpointFormat(enum.Enum):
    """Conventions of naming stored weights; the values are those of flags and reports.

    A hub module or SavedModel has the format of the names in it.
    """

    OWN = "own"
    TENSORFLOW1 = "tensorflow1"
    BERT = "bert"
    ALBERT_ZH = "albert_zh"
    TRANSFORMERS = "hugging_face"
    MODEL_GARDEN = "model_garden"


# Formats in which a model's folder can be written.
WRITABLE_FORMATS = (
    CheckpointFormat.OWN,
    CheckpointFormat.TENSORFLOW1,
    CheckpointFormat.TRANSFORMERS,
    CheckpointFormat.MODEL_GARDEN,
)

# How a table of positions becomes a longer one.
POSITION_METHODS = ("tiled", "interpolated")
