"""The numbers of Figure 1, against numpy."""

import numpy as np
import pytest

from albert_tf.analysis.layer_similarity import layer_similarity
from albert_tf.model.encoder import AlbertEncoder
from helpers import tiny


def random_batches(rng):
    for rows in (3, 2):
        yield {
            "input_ids": rng.integers(5, tiny.VOCAB_SIZE, (rows, 7)),
            "input_mask": np.tri(rows, 7, 3, dtype=int),
            "segment_ids": rng.integers(0, 2, (rows, 7)),
        }


@pytest.mark.parametrize(
    "changes", [{}, {"inner_group_num": 2}, {"embedding_size": 12}]
)
def test_means_are_those_of_numpy_over_visible_tokens(changes):
    encoder = AlbertEncoder(tiny.tiny_config(initializer_range=0.5, **changes), seed=1)
    batches = list(random_batches(np.random.default_rng(2)))
    found = layer_similarity(encoder, batches)
    distances, degrees = [], []
    for batch in batches:
        outputs = encoder(batch)
        first = outputs["embedding_output"]
        if encoder.embedding_projection is not None:
            first = encoder.embedding_projection(first)
        step = changes.get("inner_group_num", 1)
        states = [first, *outputs["encoder_outputs"][step - 1 :: step]]
        visible = batch["input_mask"] == 1
        states = np.stack([np.asarray(s, np.float64)[visible] for s in states])
        before, after = states[:-1], states[1:]
        distances.append(np.linalg.norm(after - before, axis=-1))
        lengths = np.linalg.norm(before, axis=-1) * np.linalg.norm(after, axis=-1)
        degrees.append(np.degrees(np.arccos((before * after).sum(-1) / lengths)))
    expected = [np.concatenate(values, 1).mean(1) for values in (distances, degrees)]
    np.testing.assert_allclose(found.l2_distance, expected[0], rtol=1e-5)
    np.testing.assert_allclose(found.cosine_degrees, expected[1], rtol=1e-4)
    assert found.l2_distance.shape == (4,)


def test_nothing_to_measure_is_refused():
    encoder = AlbertEncoder(tiny.tiny_config(), seed=1)
    with pytest.raises(ValueError, match="no token to measure"):
        layer_similarity(encoder, [])
