"""Models and their signatures, by task configuration."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.serving.create import create_served_model
from helpers.served_models import export_folder, signature


def test_bfloat16_answers_about_the_same(pair_model, tmp_path):
    folder, exported = pair_model
    low = export_folder(folder, tmp_path, precision="bfloat16")
    inputs = {"text": tf.constant(["lovely"]), "text_pair": tf.constant(["awful"])}
    one, other = (
        signature(path)(**inputs)["probabilities"] for path in (exported, low)
    )
    assert one.dtype == other.dtype == tf.float32
    difference = np.abs(one - other).max()
    assert 0 < difference < 0.05
    # Kernels are stored in bfloat16: no request converts them.
    sizes = [
        sum(file.stat().st_size for file in (path / "variables").iterdir())
        for path in (exported, low)
    ]
    assert sizes[1] < 0.85 * sizes[0]


def test_the_content_of_a_task_json_is_no_task_configuration():
    with pytest.raises(TypeError, match="pass a value of albert_tf"):
        create_served_model(tf.Module(), None, {"task_name": "squad_v1"})
