"""Names and shapes of heads are those of the models."""

import numpy as np
import pytest

from albert_tf.checkpoints import heads
from albert_tf.model.heads import ClassificationModel
from helpers import tiny
from helpers.tiny_weights import HEAD_SHAPES

CONFIG = tiny.tiny_config(num_hidden_groups=2)


def test_every_head_has_weights_of_its_own():
    shapes = heads.head_shapes(CONFIG, num_classes=3)
    assert set(shapes) == set(heads.PREFIXES) and all(shapes.values())
    names = [name for head in shapes.values() for name in head]
    assert len(names) == len(set(names))
    assert not any(name.startswith("bert/") for name in names)


@pytest.mark.parametrize("head", HEAD_SHAPES)
def test_shapes_are_those_of_the_configuration(head):
    shapes = heads.head_shapes(CONFIG, num_classes=3)
    merged = {name: shape for names in shapes.values() for name, shape in names.items()}
    for name, shape in HEAD_SHAPES[head].items():
        assert merged[name] == shape


def test_heads_are_told_by_their_names():
    names = ["bert/pooler/dense/bias", "cls/predictions/output_bias", "output_weights"]
    assert heads.heads_of(names) == {heads.MASKED_LM, heads.CLASSIFIER}
    assert heads.heads_of(names[:1]) == frozenset()


def test_models_that_exist_already_stay_usable():
    """Building layers in another graph would make Keras refuse to call them."""
    model = ClassificationModel(CONFIG, num_outputs=3, seed=1)
    heads.head_shapes(CONFIG.replace(vocab_size=99), num_classes=4)
    ids = np.ones([1, 2], np.int32)
    batch = {"input_ids": ids, "input_mask": ids, "segment_ids": ids}
    assert model(batch)["logits"].shape == (1, 3)
