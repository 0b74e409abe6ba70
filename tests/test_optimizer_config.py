"""The optimizer's configuration: parts that are frozen, and what is refused."""

import pytest

from albert_tf.optimizer_config import OptimizerConfig


@pytest.mark.parametrize(
    ("freeze", "parts"),
    [
        ("", set()),
        ("embeddings", {"embeddings"}),
        (" block, embeddings", {"embeddings", "block"}),
        ("encoder", {"embeddings", "block", "pooler"}),
        ("pooler,encoder,", {"embeddings", "block", "pooler"}),
        ("head", {"head"}),
    ],
)
def test_names_of_frozen_parts_are_read(freeze, parts):
    assert OptimizerConfig(freeze=freeze).frozen_parts == parts


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"freeze": "blocks"},
            "freeze has no part 'blocks': choose of embeddings, block, pooler, "
            "encoder, head.",
        ),
        ({"freeze": ["block"]}, "freeze must be names separated by commas"),
        ({"freeze": "encoder,head"}, "freeze=encoder,head leaves nothing to train"),
        (
            {"freeze": "block,head,pooler,embeddings"},
            "leaves nothing to train: leave a part out.",
        ),
        (
            {"freeze": "encoder", "layer_decay": 0.5},
            "layer_decay=0.5 is for layers that are trained. Received freeze=encoder",
        ),
        (
            {"freeze": "head", "head_learning_rate": 0.1},
            "head_learning_rate=0.1 is for heads that are trained",
        ),
        ({"layer_decay": 0.0}, "layer_decay must be a number above 0 and at most 1"),
        ({"layer_decay": 1.5}, "layer_decay must be a number above 0 and at most 1"),
        ({"ema_decay": 1.0}, r"ema_decay must be a number in \[0, 1\)"),
        ({"head_learning_rate": 0.0}, "head_learning_rate must be a number above 0"),
        (
            {"lr_schedule": "constant", "lr_schedule_by": "time"},
            "lr_schedule_by=time is for a rate that decays. Received "
            "lr_schedule=constant: leave one out.",
        ),
        ({"lr_schedule_by": "hours"}, "lr_schedule_by must be one of steps, time"),
    ],
)
def test_wrong_values_are_refused_in_one_line(wrong, message):
    with pytest.raises(ValueError, match=message) as caught:
        OptimizerConfig(**wrong)
    assert "\n" not in str(caught.value)
