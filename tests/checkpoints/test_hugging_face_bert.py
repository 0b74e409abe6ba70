"""BERT of `transformers` computes the same here and there, and comes back bit by bit.

The oracle is transformers' TensorFlow classes, as for ALBERT.
"""

import json

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from albert_tf.checkpoints import formats, model_dir
from albert_tf.checkpoints.load import HEADS, load_weights
from albert_tf.model.heads import ClassificationModel, PretrainingModel
from albert_tf.serving.create import create_served_model, load_model
from albert_tf.task_config import Classification, MultipleChoice, Regression, Squad
from helpers.tiny_weights import assert_same_weights, convert
from helpers.transformers_models import (
    POOLER,
    POSITIONS,
    assert_close,
    assert_close_at_tokens,
    bert_config,
    load_transformers,
    random_bert_tensors,
    run_transformers,
    saved_config,
    write_folder,
)

PRETRAINING = {"cls.predictions": 0, "cls.seq_relationship": 2}
SHAPES = {
    "erf gelu": {},
    "tanh gelu": {"hidden_act": "gelu_new"},
    "relu, more segments": {"hidden_act": "relu", "type_vocab_size": 3},
    "one layer": {"num_hidden_layers": 1},
}
LABELS = ["entailment", "neutral", "contradiction"]


def write_bert(folder, heads, name, has_pooler=True, **changes):
    """A folder as a class of transformers saves it, and its tensors."""
    config = bert_config(architectures=[name], **changes)
    rng = np.random.default_rng(6)
    tensors = random_bert_tensors(config, rng, heads, has_pooler)
    return write_folder(folder, config, tensors), tensors


def assert_comes_back(source, tensors, tmp_path):
    """Converts to an own model and back: the same tensors and the same model."""
    convert(source, tmp_path / "own", "own")
    convert(tmp_path / "own", tmp_path / "back", "hugging_face")
    back = safetensors.numpy.load_file(tmp_path / "back" / "model.safetensors")
    assert_same_weights(back, tensors)
    given, found = saved_config(source), saved_config(tmp_path / "back")
    shared = given.keys() & found.keys()
    assert {"hidden_act", "architectures", "model_type", "num_hidden_layers"} <= shared
    assert {key: found[key] for key in shared} == {key: given[key] for key in shared}
    return tmp_path / "own"


@pytest.mark.parametrize("shape", SHAPES)
def test_pretrained_models_agree_and_come_back(shape, batch, tmp_path):
    source, tensors = write_bert(
        tmp_path / "theirs", PRETRAINING, "BertForPreTraining", **SHAPES[shape]
    )
    assert_comes_back(source, tensors, tmp_path)
    model = load_transformers("BertForPreTraining", source)
    theirs, inner = run_transformers(model, batch), run_transformers(model.bert, batch)
    for folder in (source, tmp_path / "own"):
        own = PretrainingModel(model_dir.read_config(folder), seed=2)
        report = load_weights(own, folder)
        assert (report.missing, report.unused) == ((), ())
        results, encoded = own(batch), own.encoder(batch)
        sequence = encoded["sequence_output"]
        assert_close_at_tokens(sequence, inner.last_hidden_state, batch, 1e-5)
        assert_close(encoded["pooled_output"], inner.pooler_output, 1e-5)
        logits = results["masked_lm_logits"]
        assert_close_at_tokens(logits, theirs.prediction_logits, batch)
        order = results["sentence_order_logits"]
        assert_close(order, theirs.seq_relationship_logits)


# Class -> its head, whether it has a pooler, and its task.
CLASSES = {
    "SequenceClassification": (
        {"classifier": 3},
        True,
        Classification("custom", LABELS),
    ),
    "SequenceClassification of a number": (
        {"classifier": 1},
        True,
        Regression("custom"),
    ),
    "MultipleChoice": ({"classifier": 1}, True, MultipleChoice()),
    "QuestionAnswering": (
        {"qa_outputs": 2},
        False,
        Squad(version_2=False, max_seq_length=24, doc_stride=8, max_query_length=4),
    ),
    "MaskedLM": ({"cls.predictions": 0}, False, None),
    "NextSentencePrediction": ({"cls.seq_relationship": 2}, True, None),
}


@pytest.mark.parametrize("case", CLASSES)
def test_a_fine_tuned_class_keeps_its_head_and_its_task(case, batch, tmp_path):
    heads, has_pooler, task = CLASSES[case]
    name = f"BertFor{case.split()[0]}"
    labels = {}
    if "classifier" in heads:
        names = LABELS if heads["classifier"] == 3 else ["LABEL_0"]
        by_name = {name: index for index, name in enumerate(names)}
        labels = {"id2label": dict(enumerate(names)), "label2id": by_name}
    source, tensors = write_bert(tmp_path / "theirs", heads, name, has_pooler, **labels)
    own = assert_comes_back(source, tensors, tmp_path)
    if task is None:
        return
    rows = batch
    if case == "MultipleChoice":
        # The two rows are the options of one question.
        rows = {n: value[tf.newaxis] for n, value in batch.items()}
    theirs = run_transformers(load_transformers(name, source), rows)
    for folder in (source, own):
        found = model_dir.ModelDir.read(folder)
        assert found.task_config == task
        model, report = load_model(found.config, found.checkpoint, task)
        # Without training, it answers with the head that is stored.
        create_served_model(model, found.config, task)
        assert report.unused == ()
        for output, logits in model(rows).items():
            if case == "QuestionAnswering":
                assert_close_at_tokens(logits, theirs[output], rows)
            elif case == "SequenceClassification of a number":
                assert_close(np.ravel(logits), np.ravel(theirs.logits))
            else:
                assert_close(logits, theirs.logits)


def test_names_of_every_age_are_read_and_what_is_no_weight_is_counted(tmp_path):
    config = bert_config()
    rng = np.random.default_rng(6)
    tensors = random_bert_tensors(config, rng, PRETRAINING)
    plain = formats.read_weights(write_folder(tmp_path / "plain", config, tensors))
    old = {
        n.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): v
        for n, v in tensors.items()
    }
    table = tensors["bert.embeddings.word_embeddings.weight"]
    more = {
        "bert.embeddings.position_ids": np.arange(POSITIONS)[np.newaxis],
        "cls.predictions.decoder.weight": table.copy(),
        "cls.predictions.decoder.bias": tensors["cls.predictions.bias"].copy(),
    }
    aged = formats.read_weights(write_folder(tmp_path / "aged", config, old | more))
    assert_same_weights(aged.weights, plain.weights)
    assert plain.ignored == () and aged.ignored == tuple(sorted(more))
    encoder = {n: v for n, v in tensors.items() if n.startswith("bert.")}
    bare = {n.removeprefix("bert."): v for n, v in encoder.items()}
    bare["embeddings.position_ids"] = np.arange(POSITIONS)[np.newaxis]
    some = formats.read_weights(write_folder(tmp_path / "bare", config, bare))
    assert_same_weights(
        some.weights, {n: v for n, v in plain.weights.items() if n.startswith("bert/")}
    )
    twice = {**tensors, **{n: v for n, v in old.items() if n.endswith("gamma")}}
    write_folder(tmp_path / "twice", config, twice)
    with pytest.raises(ValueError, match=r"LayerNorm\.weight is there twice"):
        formats.read_weights(tmp_path / "twice")


def test_a_masked_lm_is_a_start_for_a_classifier(tmp_path):
    heads = {"cls.predictions": 0}
    source, _ = write_bert(tmp_path, heads, "BertForMaskedLM", has_pooler=False)
    own = ClassificationModel(model_dir.read_config(source), num_outputs=2, seed=3)
    report = load_weights(own, source, HEADS, HEADS)
    assert report.missing == (
        "bert/pooler/dense/bias",
        POOLER,
        "output_bias",
        "output_weights",
    )
    assert all(name.startswith("cls/predictions/") for name in report.unused)


def test_a_folder_without_its_type_is_known_by_its_class_or_keys(tmp_path):
    source, tensors = write_bert(tmp_path, {}, "BertModel")
    expected = model_dir.read_config(source)
    values = saved_config(source)
    for absent in (["model_type"], ["model_type", "architectures"]):
        kept = {key: value for key, value in values.items() if key not in absent}
        (source / "config.json").write_text(json.dumps(kept))
        assert model_dir.read_config(source) == expected
        assert len(formats.read_weights(source).weights) == len(tensors)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "roberta"}, "'roberta', but only models of type 'albert'"),
        ({"model_type": "deberta-v2"}, "'deberta-v2', but only"),
        ({"is_decoder": True}, "is_decoder is True"),
        ({"layer_norm_eps": 1e-5}, "layer_norm_eps is 1e-05"),
        ({"hidden_act": "quick_gelu"}, "'quick_gelu', expected one of gelu_new"),
        ({"position_embedding_type": "relative_key"}, "'relative_key'"),
    ],
)
def test_models_of_other_formulas_are_refused(changes, words, tmp_path):
    source, _ = write_bert(tmp_path, {}, "BertModel")
    (source / "config.json").write_text(json.dumps(saved_config(source) | changes))
    with pytest.raises(ValueError, match=words) as caught:
        model_dir.read_config(source)
    assert str(source) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"intermediate_size": 19}, r"bias of shape \[20\], .* says \[19\]"),
        ({"vocab_size": 60}, r"word_embeddings of shape \[61, 12\]"),
        ({"num_hidden_layers": 2}, r"no place here: bert\.encoder\.layer\.2\."),
        ({"num_hidden_layers": 4}, r"16 missing"),
    ],
)
def test_weights_of_other_sizes_are_one_line(changes, words, tmp_path):
    source, _ = write_bert(tmp_path / "theirs", {}, "BertModel")
    (source / "config.json").write_text(json.dumps(saved_config(source) | changes))
    with pytest.raises(ValueError, match=words) as caught:
        convert(source, tmp_path / "own", "own")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "own").exists()
