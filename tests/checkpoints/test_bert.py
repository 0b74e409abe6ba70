"""BERT is a configuration: published checkpoints give the numbers of its formulas."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.load import load_tf1_checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.model.heads import PretrainingModel
from helpers.paths import ROOT

VOCABULARY, HIDDEN, LAYERS, HEADS, INNER, POSITIONS = 37, 12, 3, 2, 20, 9
PUBLISHED = {
    "attention_probs_dropout_prob": 0.1,
    "directionality": "bidi",
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": HIDDEN,
    "initializer_range": 0.02,
    "intermediate_size": INNER,
    "max_position_embeddings": POSITIONS,
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform",
    "type_vocab_size": 2,
    "vocab_size": VOCABULARY,
}


def bert_weights(rng):
    """Random weights under the names and shapes of published BERT checkpoints."""
    shapes = {
        "bert/embeddings/word_embeddings": (VOCABULARY, HIDDEN),
        "bert/embeddings/token_type_embeddings": (2, HIDDEN),
        "bert/embeddings/position_embeddings": (POSITIONS, HIDDEN),
        "cls/predictions/output_bias": (VOCABULARY,),
        "cls/seq_relationship/output_weights": (2, HIDDEN),
        "cls/seq_relationship/output_bias": (2,),
    }
    dense = {
        "bert/pooler": (HIDDEN, HIDDEN),
        "cls/predictions/transform": (HIDDEN,) * 2,
    }
    norms = ["bert/embeddings", "cls/predictions/transform"]
    for layer in range(LAYERS):
        scope = f"bert/encoder/layer_{layer}"
        for name in ("query", "key", "value"):
            shapes[f"{scope}/attention/self/{name}/kernel"] = (HIDDEN, HIDDEN)
            shapes[f"{scope}/attention/self/{name}/bias"] = (HIDDEN,)
        dense[f"{scope}/attention/output"] = (HIDDEN, HIDDEN)
        dense[f"{scope}/intermediate"] = (HIDDEN, INNER)
        dense[f"{scope}/output"] = (INNER, HIDDEN)
        norms += [f"{scope}/attention/output", f"{scope}/output"]
    for scope, sizes in dense.items():
        shapes |= {f"{scope}/dense/kernel": sizes, f"{scope}/dense/bias": sizes[1:]}
    for scope in norms:
        for name in ("gamma", "beta"):
            shapes[f"{scope}/LayerNorm/{name}"] = (HIDDEN,)
    return {n: rng.normal(0, 0.5, s).astype(np.float32) for n, s in shapes.items()}


class NumpyBert:
    """BERT (Devlin et al. 2019) in float64, for one row without padding."""

    def __init__(self, weights):
        self.weights = weights

    def dense(self, x, scope):
        return x @ self.weights[f"{scope}/kernel"] + self.weights[f"{scope}/bias"]

    def norm(self, x, scope):
        centred = x - x.mean(-1, keepdims=True)
        normal = centred / np.sqrt(centred.var(-1, keepdims=True) + 1e-12)
        gamma, beta = (
            self.weights[f"{scope}/LayerNorm/{n}"] for n in ("gamma", "beta")
        )
        return normal * gamma + beta

    @staticmethod
    def gelu(x):
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    def layer(self, x, scope):
        parts = []
        query, key, value = (
            self.dense(x, f"{scope}/attention/self/{name}")
            for name in ("query", "key", "value")
        )
        for head in np.split(np.arange(HIDDEN), HEADS):
            logits = query[:, head] @ key[:, head].T / np.sqrt(len(head))
            weights = np.exp(logits - logits.max(-1, keepdims=True))
            parts.append(weights / weights.sum(-1, keepdims=True) @ value[:, head])
        attended = self.dense(
            np.concatenate(parts, -1), f"{scope}/attention/output/dense"
        )
        x = self.norm(x + attended, f"{scope}/attention/output")
        inner = self.gelu(self.dense(x, f"{scope}/intermediate/dense"))
        return self.norm(
            x + self.dense(inner, f"{scope}/output/dense"), f"{scope}/output"
        )

    def __call__(self, ids, segments, positions):
        table = self.weights["bert/embeddings/word_embeddings"].astype(np.float64)
        x = table[ids] + self.weights["bert/embeddings/token_type_embeddings"][segments]
        x = x + self.weights["bert/embeddings/position_embeddings"][: len(ids)]
        x = self.norm(x, "bert/embeddings")
        for layer in range(LAYERS):
            x = self.layer(x, f"bert/encoder/layer_{layer}")
        pooled = np.tanh(self.dense(x[0], "bert/pooler/dense"))
        scope = "cls/predictions/transform"
        masked = self.norm(self.gelu(self.dense(x[positions], f"{scope}/dense")), scope)
        order = self.weights["cls/seq_relationship/output_weights"] @ pooled
        return (
            masked @ table.T + self.weights["cls/predictions/output_bias"],
            order + self.weights["cls/seq_relationship/output_bias"],
        )


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A toy in the shape of a published BERT: its folder and weights."""
    folder = tmp_path_factory.mktemp("bert")
    weights = bert_weights(np.random.default_rng(8))
    (folder / "bert_config.json").write_text(json.dumps(PUBLISHED))
    tf.raw_ops.SaveV2(
        prefix=str(folder / "bert_model.ckpt"),
        tensor_names=list(weights),
        shape_and_slices=[""] * len(weights),
        tensors=list(weights.values()),
    )
    return folder, weights


def test_a_published_configuration_is_a_model_that_shares_nothing(published):
    config = AlbertConfig.from_json(published[0] / "bert_config.json")
    assert config.embedding_size == HIDDEN
    assert set(config.groups.values()) == {LAYERS}
    assert config.hidden_dropout_prob == 0.1


def test_a_published_checkpoint_gives_the_numbers_of_berts_formulas(published):
    folder, weights = published
    config = AlbertConfig.from_json(folder / "bert_config.json")
    model = PretrainingModel(config, seed=1)
    report = load_tf1_checkpoint(model, folder)
    assert len(report.loaded) == len(weights)
    rng = np.random.default_rng(9)
    ids, segments = rng.integers(0, VOCABULARY, 7), rng.integers(0, 2, 7)
    positions = [1, 6]
    batch = {
        "input_ids": [ids],
        "input_mask": [[1] * 7],
        "segment_ids": [segments],
        "masked_lm_positions": [positions],
    }
    outputs = model({n: tf.constant(v, tf.int32) for n, v in batch.items()})
    masked, order = NumpyBert(weights)(ids, segments, positions)
    np.testing.assert_allclose(outputs["masked_lm_logits"][0], masked, atol=2e-5)
    np.testing.assert_allclose(outputs["sentence_order_logits"][0], order, atol=2e-5)


def test_a_deeper_model_starts_from_berts_layers(published):
    folder, weights = published
    config = AlbertConfig.from_json(folder / "bert_config.json")
    config = config.replace(num_hidden_layers=6, num_hidden_groups=6)
    model = PretrainingModel(config, seed=1)
    load_tf1_checkpoint(model, folder)
    blocks = [inner[0] for inner in model.encoder.blocks]
    for layer, block in enumerate(blocks):
        scope = f"bert/encoder/layer_{layer // 2}"
        expected = weights[f"{scope}/attention/self/query/kernel"]
        assert np.array_equal(block.attention.query.kernel, expected)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"vocab_size": 38}, r"word_embeddings of shape \[37, 12\].* \[38, 12\]"),
        (
            {"num_hidden_groups": 1},
            "3 attention groups, the model 1: set attention_groups to 3",
        ),
    ],
)
def test_weights_of_another_bert_are_refused_in_one_line(changes, words, published):
    config = AlbertConfig.from_json(published[0] / "bert_config.json")
    model = PretrainingModel(config.replace(**changes), seed=1)
    with pytest.raises(ValueError, match=words) as caught:
        load_tf1_checkpoint(model, published[0])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "layers"), [("bert_base", 12), ("bert_large", 24)])
def test_the_papers_baselines_share_nothing(name, layers):
    config = AlbertConfig.from_json(ROOT / "configs" / f"{name}.json")
    assert config.embedding_size == config.hidden_size
    assert set(config.groups.values()) == {layers} == {config.num_hidden_layers}
