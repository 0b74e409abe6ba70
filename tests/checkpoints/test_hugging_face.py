"""Models of `transformers` compute the same here and there, both ways.

The oracle is transformers' TensorFlow classes, which read the tensors of its PyTorch
classes without PyTorch.
"""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import formats, model_dir, verify
from albert_tf.checkpoints.load import HEADS, load_weights
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.heads import (
    ClassificationModel,
    MultipleChoiceModel,
    PretrainingModel,
)
from albert_tf.model.span_heads import SpanModel
from albert_tf.serving.create import create_served_model, load_model
from helpers.tiny_weights import assert_same_weights, convert
from helpers.transformers_models import (
    POOLER,
    PRETRAINING_HEADS,
    assert_close,
    assert_close_at_tokens,
    convert_back,
    load_transformers,
    random_tensors,
    run_transformers,
    saved_config,
    transformers_config,
    write_folder,
)

SHAPES = {
    "all shared": {},
    "groups": {"num_hidden_groups": 2},
    "inner groups": {"inner_group_num": 3},
    "groups and inner groups": {"num_hidden_groups": 2, "inner_group_num": 2},
    "unfactorised": {"embedding_size": 12},
    "exact gelu": {"hidden_act": "gelu"},
    "relu, more segments": {"hidden_act": "relu", "type_vocab_size": 3},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_pretraining_models_agree_both_ways(shape, batch, tmp_path):
    config = transformers_config(**SHAPES[shape])
    tensors = random_tensors(config, np.random.default_rng(1), PRETRAINING_HEADS)
    source = write_folder(tmp_path / "theirs", config, tensors)
    own = PretrainingModel(model_dir.read_config(source), seed=2)
    report = load_weights(own, source)
    assert (report.missing, report.unused) == ((), ())
    results, encoded = own(batch), own.encoder(batch)

    for folder in (source, convert_back(source, tmp_path)):
        model = load_transformers("AlbertForPreTraining", folder)
        theirs = run_transformers(model, batch)
        # Every position is predicted.
        logits = results["masked_lm_logits"]
        assert_close_at_tokens(logits, theirs.prediction_logits, batch)
        assert_close(results["sentence_order_logits"], theirs.sop_logits)
        inner = run_transformers(model.albert, batch)
        found = encoded["sequence_output"]
        assert_close_at_tokens(found, inner.last_hidden_state, batch)
        assert_close(encoded["pooled_output"], inner.pooler_output)


@pytest.mark.parametrize("labels", [3, 1])
def test_classifiers_agree_both_ways(labels, batch, tmp_path):
    config = transformers_config(num_labels=labels)
    rng = np.random.default_rng(2)
    tensors = random_tensors(config, rng, {"classifier": labels})
    source = write_folder(tmp_path / "theirs", config, tensors)
    own = ClassificationModel(model_dir.read_config(source), num_outputs=labels, seed=3)
    report = load_weights(own, source)
    assert (report.missing, report.unused) == ((), ())
    back = convert_back(source, tmp_path)
    for folder in (source, back):
        model = load_transformers("AlbertForSequenceClassification", folder)
        theirs = run_transformers(model, batch)
        assert_close(own(batch)["logits"], theirs.logits)
    assert saved_config(back)["architectures"] == ["AlbertForSequenceClassification"]
    assert len(saved_config(back)["id2label"]) == labels


def test_multiple_choice_models_agree_both_ways(batch, tmp_path):
    config = transformers_config()
    rng = np.random.default_rng(2)
    tensors = random_tensors(config, rng, {"classifier": 1})
    source = write_folder(tmp_path / "theirs", config, tensors)
    back = convert_back(source, tmp_path, multiple_choice=True)
    assert saved_config(back)["architectures"] == ["AlbertForMultipleChoice"]
    # The two rows are the options of one question.
    choices = {name: value[tf.newaxis] for name, value in batch.items()}
    own = MultipleChoiceModel(model_dir.read_config(source), seed=3)
    report = load_weights(own, source)
    assert (report.missing, report.unused) == ((), ())
    for folder in (source, back):
        theirs = run_transformers(
            load_transformers("AlbertForMultipleChoice", folder), choices
        )
        assert_close(own(choices)["logits"], theirs.logits)


def test_question_answering_agrees_both_ways_though_it_has_no_pooler(batch, tmp_path):
    config = transformers_config()
    rng = np.random.default_rng(2)
    tensors = random_tensors(config, rng, {"qa_outputs": 2})
    tensors = {n: v for n, v in tensors.items() if "pooler" not in n}
    source = write_folder(tmp_path / "theirs", config, tensors)
    back = tmp_path / "back"
    results = convert(source, back, "hugging_face")
    # None is made up.
    assert results["weights"]["fresh"] == []
    assert any("no pooler, so none was written" in note for note in results["notes"])
    own = SpanModel(model_dir.read_config(source), seed=3)
    report = load_weights(own, back)
    # Its head does not read it.
    assert report.missing == ("bert/pooler/dense/bias", POOLER)
    assert report.unused == ()
    with pytest.raises(ValueError, match=rf"2 missing .*{POOLER}"):
        load_weights(AlbertEncoder(own.encoder.config, seed=1), back, None, HEADS)
    with pytest.raises(ValueError, match=r"bert/pooler/dense/.*, which the weights l"):
        convert(source, tmp_path / "garden", "model_garden", strict=True)
    fresh = convert(source, tmp_path / "fresh", "own", strict=False)
    assert fresh["weights"]["fresh"] == ["bert/pooler/dense/bias", POOLER]
    for folder in (source, back):
        theirs = run_transformers(
            load_transformers("AlbertForQuestionAnswering", folder), batch
        )
        for name, logits in own(batch).items():
            assert_close_at_tokens(logits, theirs[name], batch)


def test_a_classifier_that_may_be_of_tokens_is_none_of_texts(tmp_path):
    config = transformers_config(num_labels=3, architectures=None)
    tensors = random_tensors(config, np.random.default_rng(2), {"classifier": 3})
    tensors = {n: v for n, v in tensors.items() if "pooler" not in n}
    source = write_folder(tmp_path / "theirs", config, tensors)
    names = r"no place here: classifier\.bias, classifier\.weight.*--nostrict"
    with pytest.raises(ValueError, match=names):
        convert(source, tmp_path / "own", "own")
    results = convert(source, tmp_path / "own", "own", strict=False)
    assert results["weights"]["unused"] == ["classifier.bias", "classifier.weight"]
    assert "output_weights" not in formats.read_weights(tmp_path / "own").weights
    own = ClassificationModel(model_dir.read_config(source), num_outputs=3, seed=3)
    report = load_weights(own, source, HEADS, HEADS)
    assert "output_bias" in report.missing and POOLER in report.missing


TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


@pytest.mark.parametrize("has_pooler", [False, True])
def test_a_tagger_keeps_its_labels_and_logits_both_ways(has_pooler, batch, tmp_path):
    name = "AlbertForTokenClassification"
    config = transformers_config(
        num_labels=5, id2label=dict(enumerate(TAGS)), architectures=[name]
    )
    tensors = random_tensors(config, np.random.default_rng(2), {"classifier": 5})
    if not has_pooler:
        tensors = {n: v for n, v in tensors.items() if "pooler" not in n}
    source = write_folder(tmp_path / "theirs", config, tensors)
    convert(source, tmp_path / "own", "own")
    convert(tmp_path / "own", tmp_path / "back", "hugging_face")
    values = saved_config(tmp_path / "back")
    assert values["architectures"] == [name]
    assert values["id2label"] == {str(i): tag for i, tag in enumerate(TAGS)}
    theirs = [
        run_transformers(load_transformers(name, tmp_path / folder), batch).logits
        for folder in ("theirs", "back")
    ]
    assert np.ptp(theirs[0].numpy(), axis=-1).min() > 0.1
    for folder in ("theirs", "own", "back"):
        found = model_dir.ModelDir.read(tmp_path / folder)
        task_config = found.require_task()
        assert task_config.labels == tuple(TAGS)
        model, report = load_model(found.config, found.checkpoint, task_config)
        assert has_pooler or report.missing == ("bert/pooler/dense/bias", POOLER)
        for logits in theirs:
            assert_close_at_tokens(model(batch)["logits"], logits, batch)


def test_as_many_labels_of_tags_as_outputs_are_needed(tmp_path):
    config = transformers_config(
        num_labels=3, architectures=["AlbertForTokenClassification"]
    )
    tensors = random_tensors(config, np.random.default_rng(2), {"classifier": 4})
    source = write_folder(tmp_path / "theirs", config, tensors)
    with pytest.raises(ValueError, match=r"names 3 labels .* has 4 outputs"):
        convert(source, tmp_path / "own", "own")


LABELS = ["entailment", "neutral", "contradiction"]


def write_classifier(folder, batch=None):
    """A fine-tuned classifier as transformers saves it."""
    config = transformers_config(
        num_labels=3,
        id2label=dict(enumerate(LABELS)),
        architectures=["AlbertForSequenceClassification"],
    )
    tensors = random_tensors(config, np.random.default_rng(2), {"classifier": 3})
    return write_folder(folder, config, tensors)


def test_a_fine_tuned_class_keeps_its_labels_and_its_task(batch, tmp_path):
    source = write_classifier(tmp_path / "theirs")
    results = convert(source, tmp_path / "own", "own")
    assert "does not say whether a row has one text or two" in results["notes"][0]
    convert(tmp_path / "own", tmp_path / "back", "hugging_face")
    theirs = run_transformers(
        load_transformers("AlbertForSequenceClassification", source), batch
    )
    probabilities = tf.nn.softmax(theirs.logits).numpy()
    for name in ("theirs", "own", "back"):
        found = model_dir.ModelDir.read(tmp_path / name)
        assert found.require_task().labels == tuple(LABELS)
        model, _ = load_model(found.config, found.checkpoint, found.task_config)
        served = create_served_model(model, found.config, found.task_config)
        answers = served.answer(batch)
        assert_close(answers["probabilities"], probabilities)
        expected = [LABELS[row.argmax()] for row in probabilities]
        assert [label.decode() for label in answers["label"].numpy()] == expected


def test_damaged_labels_name_the_file(tmp_path):
    source = write_classifier(tmp_path / "theirs")
    values = saved_config(source)
    values["id2label"] = {"0": "no", "1": "no"}
    (source / "config.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match=r"theirs/config\.json: id2label must"):
        model_dir.ModelDir.read(source)


@pytest.mark.parametrize("count", [0, 2, 4])
def test_other_numbers_of_labels_than_outputs_are_refused(count, tmp_path):
    source = write_classifier(tmp_path / "theirs")
    values = saved_config(source)
    del values["id2label"]
    if count:
        values["id2label"] = {str(index): f"name {index}" for index in range(count)}
    (source / "config.json").write_text(json.dumps(values))
    words = rf"config\.json: id2label names {count or 2} labels .* has 3 outputs"
    for strict in (True, False):
        with pytest.raises(ValueError, match=words):
            convert(source, tmp_path / "own", "own", strict=strict)
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize("architectures", [None, ["AlbertModel"]])
def test_a_classifier_without_a_class_has_no_known_task(architectures, tmp_path):
    source = write_classifier(tmp_path / "theirs")
    values = saved_config(source)
    del values["architectures"]
    if architectures:
        values["architectures"] = architectures
    (source / "config.json").write_text(json.dumps(values))
    results = convert(source, tmp_path / "own", "own")
    assert "was trained for is not known" in results["notes"][0]
    assert not (tmp_path / "own" / "task.json").exists()


def test_a_model_without_pooler_is_a_start_but_no_whole_model(tmp_path):
    config = transformers_config()
    tensors = random_tensors(config, np.random.default_rng(2), {"predictions": 0})
    tensors = {n: v for n, v in tensors.items() if "pooler" not in n}
    source = write_folder(tmp_path / "theirs", config, tensors)
    own = ClassificationModel(model_dir.read_config(source), num_outputs=2, seed=3)
    heads = HEADS
    report = load_weights(own, source, heads, heads)
    assert POOLER in report.missing and len(report.missing) == 4
    with pytest.raises(ValueError, match="4 missing"):
        load_weights(own, source, None, heads)


def test_an_encoder_alone_has_names_without_prefix(batch, tmp_path):
    config = transformers_config()
    tensors = random_tensors(config, np.random.default_rng(2), {})
    bare = {n.removeprefix("albert."): v for n, v in tensors.items()}
    some = formats.read_weights(write_folder(tmp_path / "bare", config, bare))
    others = formats.read_weights(write_folder(tmp_path / "full", config, tensors))
    assert_same_weights(some.weights, others.weights)
    back = convert_back(tmp_path / "bare", tmp_path)
    theirs = run_transformers(load_transformers("AlbertModel", back), batch)
    own = verify.outputs(some, batch)
    assert_close_at_tokens(own["sequence_output"], theirs.last_hidden_state, batch)


@pytest.mark.parametrize("name", ["encoder_shared", "encoder_groups3_inner2"])
def test_transformers_gives_the_originals_numbers(name, reference, tmp_path):
    """From a TensorFlow 1 checkpoint and outputs of the original code."""
    expected = np.load(reference / name / "expected.npz")
    back = convert_back(reference / name, tmp_path)
    model = load_transformers("AlbertForPreTraining", back)
    names = ("input_ids", "input_mask", "segment_ids")
    batch = {name: tf.constant(expected[name]) for name in names}
    inner = run_transformers(model.albert, batch)
    assert_close(inner.last_hidden_state, expected["sequence_output"])
    assert_close(inner.pooler_output, expected["pooled_output"])
    theirs = run_transformers(model, batch)
    order = tf.nn.log_softmax(theirs.sop_logits)
    assert_close(order, expected["sentence_order_log_probs"])
    positions = expected["masked_lm_positions"]
    masked = tf.gather(theirs.prediction_logits, positions, batch_dims=1)
    log_probs = tf.nn.log_softmax(masked).numpy()
    own = expected["masked_lm_log_probs"]
    assert_close(log_probs.reshape(own.shape), own)


def test_transformers_classifies_as_the_original(reference, tmp_path):
    expected = np.load(reference / "head_classifier" / "expected.npz")
    back = convert_back(reference / "head_classifier", tmp_path)
    names = ("input_ids", "input_mask", "segment_ids")
    batch = {name: tf.constant(expected[name]) for name in names}
    theirs = run_transformers(
        load_transformers("AlbertForSequenceClassification", back), batch
    )
    assert_close(theirs.logits, expected["logits"])
