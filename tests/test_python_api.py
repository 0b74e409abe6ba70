"""The public names of `albert_tf`, and modules under the paths of earlier releases."""

import ast
import importlib

import pytest

import albert_tf
from helpers.paths import ROOT

PUBLIC = {
    "PRETRAINING",
    "AlbertConfig",
    "AlbertEncoder",
    "AlbertTokenizer",
    "AnswerableSpanModel",
    "Classification",
    "ClassificationModel",
    "Job",
    "ModelDir",
    "MultipleChoice",
    "MultipleChoiceModel",
    "OptimizerConfig",
    "PretrainingModel",
    "Regression",
    "SpanModel",
    "Squad",
    "TrainConfig",
    "create_optimizer",
    "create_task",
    "fine_tune",
    "load_tf1_checkpoint",
    "load_weights",
    "run",
}


def test_public_names_are_there():
    assert set(albert_tf.__all__) >= PUBLIC
    for name in albert_tf.__all__:
        value = getattr(albert_tf, name)
        assert getattr(value, "__name__", name) in (name, "Union", "UnionType"), name
    assert set(dir(albert_tf)) >= set(albert_tf.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'AlbertConfigs'"):
        _ = albert_tf.AlbertConfigs


def test_type_checkers_see_each_name_in_its_module():
    tree = ast.parse((ROOT / "albert_tf" / "__init__.py").read_text(encoding="utf-8"))
    imported = {
        alias.name: f"{node.module}"
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported.keys() == set(albert_tf.__all__)
    for name, module in imported.items():
        value = getattr(importlib.import_module(module), name)
        assert value is getattr(albert_tf, name)


OLD_PATHS = {
    "config": ["AlbertConfig", "OptimizerConfig", "TrainConfig"],
    "encoder": ["AlbertEncoder", "TransformerBlock"],
    "models": ["PretrainingModel", "ClassificationModel", "SpanModel"],
    "packing": ["pack_segments", "pack_rows", "join_segments"],
    "tokenization": ["AlbertTokenizer"],
    "optimization": ["create_optimizer", "LAMB", "AdamW"],
    "checkpoints": ["load_weights", "load_tf1_checkpoint"],
}


@pytest.mark.parametrize("module", OLD_PATHS)
def test_paths_of_earlier_releases_work(module):
    found = importlib.import_module(f"albert_tf.{module}")
    for name in OLD_PATHS[module]:
        assert callable(getattr(found, name)), name
