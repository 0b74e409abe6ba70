"""Models and their signatures, by task configuration."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.load import HEADS, load_weights
from albert_tf.checkpoints.model_dir import ModelDir
from albert_tf.serving.create import (
    create_served_model,
    embedding_signatures,
    load_model,
)
from albert_tf.serving.encoder import EncoderModel
from helpers.served_models import export_folder, signature


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_16_bits_answer_about_the_same(precision, pair_model, tmp_path):
    folder, exported = pair_model
    low = export_folder(folder, tmp_path, precision=precision)
    inputs = {"text": tf.constant(["lovely"]), "text_pair": tf.constant(["awful"])}
    one, other = (
        signature(path)(**inputs)["probabilities"] for path in (exported, low)
    )
    assert one.dtype == other.dtype == tf.float32
    difference = np.abs(one - other).max()
    assert 0 < difference < 0.05
    # Kernels are stored in 16 bits: no request converts them.
    sizes = [
        sum(file.stat().st_size for file in (path / "variables").iterdir())
        for path in (exported, low)
    ]
    assert sizes[1] < 0.85 * sizes[0]


def test_embeddings_of_a_fine_tuned_model_are_those_of_its_encoder(
    pair_model, pair_answers
):
    found, rows = ModelDir.read(pair_model[0]), pair_answers[1]
    model, _ = load_model(found.config, found.checkpoint, found.task_config)
    tokenizer = found.tokenizer()
    arguments = (model, found.config, found.task_config)
    assert list(embedding_signatures(*arguments)) == ["embeddings"]
    signatures = embedding_signatures(*arguments, tokenizer)
    batch = {name: tf.stack([row[name] for row in rows]) for name in rows[0]}
    answers = signatures["embeddings"](**batch)
    encoder = EncoderModel(found.config)
    load_weights(encoder.encoder, found.checkpoint, unused_ok=HEADS)
    expected = encoder(batch)
    assert set(answers) == {"pooled_output", "sequence_output", "mean_output"}
    for name, value in expected.items():
        np.testing.assert_allclose(answers[name], value, rtol=0, atol=1e-5)
    # A single text is a row without a second one.
    tokens = [tokenizer.cls_id, *tokenizer.encode("lovely worda"), tokenizer.sep_id]
    row = {"input_ids": [tokens], "input_mask": [[1] * 4], "segment_ids": [[0] * 4]}
    expected = encoder({name: tf.constant(value) for name, value in row.items()})
    answers = signatures["embeddings_text"](tf.constant(["lovely worda"]))
    for name, value in expected.items():
        np.testing.assert_allclose(answers[name], value, rtol=0, atol=1e-5)


def test_the_content_of_a_task_json_is_no_task_configuration():
    with pytest.raises(TypeError, match="pass a value of albert_tf"):
        create_served_model(tf.Module(), None, {"task_name": "squad_v1"})
