"""Models of `transformers` compute the same here and there, both ways.

The oracle is transformers' TensorFlow classes, which read the tensors of its PyTorch
classes without PyTorch.
"""

import json
import os

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from albert_tf.checkpoints import formats, hugging_face, model_dir, verify
from albert_tf.checkpoints.load import HEADS, load_weights
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.heads import (
    ClassificationModel,
    MultipleChoiceModel,
    PretrainingModel,
)
from albert_tf.model.span_heads import SpanModel
from albert_tf.serving.create import create_served_model, load_model
from helpers import tiny
from helpers.tiny_weights import assert_same_weights, convert

# Nothing is downloaded.
os.environ["HF_HUB_OFFLINE"] = "1"
import transformers
from transformers.modeling_tf_pytorch_utils import (
    load_pytorch_state_dict_in_tf2_model,
)

VOCABULARY, POSITIONS = 61, 24
SHAPES = {
    "all shared": {},
    "groups": {"num_hidden_groups": 2},
    "inner groups": {"inner_group_num": 3},
    "groups and inner groups": {"num_hidden_groups": 2, "inner_group_num": 2},
    "unfactorised": {"embedding_size": 12},
    "exact gelu": {"hidden_act": "gelu"},
    "relu, more segments": {"hidden_act": "relu", "type_vocab_size": 3},
}


def transformers_config(**changes):
    return transformers.AlbertConfig(
        **{
            "vocab_size": VOCABULARY,
            "embedding_size": 6,
            "hidden_size": 12,
            "num_hidden_layers": 4,
            "num_attention_heads": 3,
            "intermediate_size": 20,
            "max_position_embeddings": POSITIONS,
            **changes,
        }
    )


def random_tensors(config, rng, heads):
    """Random weights under the names of transformers' PyTorch classes."""
    embedding, hidden = config.embedding_size, config.hidden_size
    inner = config.intermediate_size
    linear = {
        "albert.encoder.embedding_hidden_mapping_in": (hidden, embedding),
        "albert.pooler": (hidden, hidden),
    }
    norms = {"albert.embeddings.LayerNorm": embedding}
    for group in range(config.num_hidden_groups):
        for layer in range(config.inner_group_num):
            scope = f"albert.encoder.albert_layer_groups.{group}.albert_layers.{layer}"
            for name in ("query", "key", "value", "dense"):
                linear[f"{scope}.attention.{name}"] = (hidden, hidden)
            linear[f"{scope}.ffn"] = (inner, hidden)
            linear[f"{scope}.ffn_output"] = (hidden, inner)
            norms[f"{scope}.attention.LayerNorm"] = hidden
            norms[f"{scope}.full_layer_layer_norm"] = hidden
    shapes = {
        "albert.embeddings.word_embeddings.weight": (config.vocab_size, embedding),
        "albert.embeddings.token_type_embeddings.weight": (
            config.type_vocab_size,
            embedding,
        ),
        "albert.embeddings.position_embeddings.weight": (POSITIONS, embedding),
    }
    if "predictions" in heads:
        linear["predictions.dense"] = (embedding, hidden)
        norms["predictions.LayerNorm"] = embedding
        shapes["predictions.bias"] = (config.vocab_size,)
    linear |= {name: (size, hidden) for name, size in heads.items() if size}
    for name, shape in linear.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    for name, size in norms.items():
        shapes |= {f"{name}.weight": (size,), f"{name}.bias": (size,)}
    tensors = {n: rng.normal(0, 0.4, s).astype(np.float32) for n, s in shapes.items()}
    if "predictions" in heads:
        tensors["predictions.decoder.bias"] = tensors["predictions.bias"].copy()
    return tensors


def write_folder(folder, config, tensors):
    folder.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(folder)
    safetensors.numpy.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return folder


def load_transformers(name, folder):
    """A model of transformers from a folder, which must have all of its weights.

    As `from_pretrained` does it, whose own reading fails with new safetensors.
    """
    config = transformers.AlbertConfig.from_pretrained(folder)
    model = getattr(transformers, f"TF{name}")(config)
    _, info = load_pytorch_state_dict_in_tf2_model(
        model,
        safetensors.numpy.load_file(folder / "model.safetensors"),
        allow_missing_keys=True,
        output_loading_info=True,
    )
    assert not info["missing_keys"] and not info["mismatched_keys"]
    return model


@pytest.fixture
def batch():
    rng = np.random.default_rng(4)
    length = 9
    values = {
        "input_ids": rng.integers(0, VOCABULARY, (2, length)),
        "input_mask": np.arange(length) < [[length], [7]],
        "segment_ids": np.arange(length) >= [[3], [5]],
        "masked_lm_positions": np.arange(length)[np.newaxis].repeat(2, 0),
    }
    return {name: tf.constant(value, tf.int32) for name, value in values.items()}


def convert_back(source, tmp_path, **changes):
    """Reads a folder of transformers and writes it again."""
    back = tmp_path / "back"
    convert(source, back, "hugging_face", **changes)
    return back


def saved_config(folder):
    return json.loads((folder / "config.json").read_text())


def run_transformers(model, batch):
    return model(
        input_ids=batch["input_ids"],
        attention_mask=batch["input_mask"],
        token_type_ids=batch["segment_ids"],
    )


def assert_close(some, others):
    np.testing.assert_allclose(some, others, rtol=0, atol=1e-4)


def assert_close_at_tokens(some, others, batch):
    """Compares [B, S, ...] where there is no padding."""
    tokens = batch["input_mask"].numpy() == 1
    assert_close(np.asarray(some)[tokens], np.asarray(others)[tokens])


POOLER = "bert/pooler/dense/kernel"
PRETRAINING_HEADS = {"predictions": 0, "sop_classifier.classifier": 2}


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


@pytest.mark.parametrize("has_pooler", [False, True])
def test_a_classifier_of_tokens_is_none_of_texts(has_pooler, tmp_path):
    classes = ["AlbertForTokenClassification"] if has_pooler else None
    config = transformers_config(num_labels=3, architectures=classes)
    tensors = random_tensors(config, np.random.default_rng(2), {"classifier": 3})
    if not has_pooler:
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
    assert "output_bias" in report.missing
    assert (POOLER in report.missing) is not has_pooler


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


def test_copies_of_tied_weights_and_old_buffers_are_left_out(tmp_path):
    config = transformers_config()
    tensors = random_tensors(config, np.random.default_rng(1), PRETRAINING_HEADS)
    plain = formats.read_weights(write_folder(tmp_path / "plain", config, tensors))
    table = tensors["albert.embeddings.word_embeddings.weight"]
    more = {
        **{n: v for n, v in tensors.items() if n != "predictions.bias"},
        "predictions.decoder.weight": table.copy(),
        "albert.embeddings.position_ids": np.arange(POSITIONS)[np.newaxis],
    }
    copied = formats.read_weights(write_folder(tmp_path / "copied", config, more))
    assert_same_weights(copied.weights, plain.weights)
    more["predictions.decoder.weight"] = table + 1
    write_folder(tmp_path / "untied", config, more)
    with pytest.raises(ValueError, match=r"decoder\.weight differs from"):
        formats.read_weights(tmp_path / "untied")


def test_half_precision_becomes_float32(tmp_path):
    config = transformers_config()
    tensors = random_tensors(config, np.random.default_rng(1), PRETRAINING_HEADS)
    halves = {name: value.astype(np.float16) for name, value in tensors.items()}
    stored = formats.read_weights(write_folder(tmp_path / "half", config, halves))
    assert {value.dtype for value in stored.weights.values()} == {np.dtype(np.float32)}
    bias = stored.weights["cls/predictions/output_bias"]
    assert np.array_equal(bias, halves["predictions.bias"].astype(np.float32))


def test_shards_are_read_as_one(tmp_path):
    config = transformers_config()
    tensors = random_tensors(config, np.random.default_rng(1), PRETRAINING_HEADS)
    whole = formats.read_weights(write_folder(tmp_path / "whole", config, tensors))
    folder, names = tmp_path / "shards", sorted(tensors)
    folder.mkdir()
    config.save_pretrained(folder)
    places = {}
    for number, some in enumerate((names[:9], names[9:])):
        file = f"model-{number}.safetensors"
        part = {name: tensors[name] for name in some}
        safetensors.numpy.save_file(part, folder / file, {"format": "pt"})
        places |= dict.fromkeys(some, file)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places}))
    assert_same_weights(formats.read_weights(folder).weights, whole.weights)
    (folder / "model-1.safetensors").unlink()
    with pytest.raises(ValueError, match=r"no model-1\.safetensors"):
        formats.read_weights(folder)


@pytest.mark.parametrize(
    ("own", "theirs"),
    [("gelu", "gelu_new"), ("gelu_erf", "gelu"), ("relu", "relu"), ("tanh", "tanh")],
)
def test_activations_keep_their_meaning(own, theirs):
    config = tiny.tiny_config(hidden_act=own)
    values = hugging_face.config_to_dict(config, "AlbertModel")
    assert values["hidden_act"] == theirs
    assert hugging_face.config_from_dict(values) == config


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "bert"}, "'bert', expected 'albert'"),
        ({"layer_norm_eps": 1e-6}, "layer_norm_eps is 1e-06"),
        ({"hidden_act": "silu"}, "hidden_act is 'silu', expected one of gelu_new"),
        ({"position_embedding_type": "relative_key"}, "'relative_key'"),
        ({"num_attention_heads": 5}, "12 and 5"),
    ],
)
def test_other_models_are_refused_by_their_configuration(changes, words, tmp_path):
    values = {**transformers_config().to_dict(), **changes}
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match=words) as caught:
        model_dir.read_config(tmp_path)
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("cut", [0, 5, -3])
def test_a_truncated_file_is_one_line(cut, tmp_path):
    config = transformers_config()
    tensors = random_tensors(config, np.random.default_rng(1), {})
    file = write_folder(tmp_path, config, tensors) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(ValueError, match=r"cannot be read .* copy it again") as caught:
        formats.read_weights(tmp_path)
    assert "\n" not in str(caught.value)


def test_pytorchs_own_format_is_refused_with_the_way_to_convert_it(tmp_path):
    transformers_config().save_pretrained(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK")
    for path in (tmp_path, tmp_path / "pytorch_model.bin"):
        with pytest.raises(ValueError, match=r"pytorch_model\.bin.*save_pretrained"):
            formats.read_weights(path)


def test_a_folder_without_config_is_refused(tmp_path):
    config = transformers_config()
    tensors = random_tensors(config, np.random.default_rng(1), {})
    (write_folder(tmp_path, config, tensors) / "config.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"No config\.json"):
        formats.read_weights(tmp_path)


@pytest.mark.parametrize("lower_case", [True, False])
def test_the_tokenizer_of_transformers_gives_our_ids(lower_case, shared_data, tmp_path):
    config = transformers_config(vocab_size=30_000)
    tensors = random_tensors(config, np.random.default_rng(1), {})
    source = write_folder(tmp_path / "theirs", config, tensors)
    file = shared_data / "vocabulary" / "30k-clean.model"
    vocabulary = model_dir.VocabularyFile(file, lower_case, lower_case)
    back = convert_back(source, tmp_path, vocabulary=vocabulary)
    theirs = transformers.AlbertTokenizer.from_pretrained(back)
    own = model_dir.read_vocabulary(back)
    assert (own.lower_case, own.strip_accents) == (lower_case, lower_case)
    text = "How old were Müller's 3 Dogs in 2013, and why?"
    [ids] = own.tokenizer().encode_batch([text])
    assert theirs(text)["input_ids"] == [2, *ids, 3]
    values = saved_config(back)
    special = [values[f"{name}_token_id"] for name in ("pad", "bos", "eos")]
    assert special == [0, 2, 3]


def test_the_wordpiece_tokenizer_of_transformers_gives_our_ids(shared_data, tmp_path):
    config = transformers_config(vocab_size=21_128)
    tensors = random_tensors(config, np.random.default_rng(1), {})
    source = write_folder(tmp_path / "theirs", config, tensors)
    file = shared_data / "vocabulary" / "vocab_chinese.txt"
    back = convert_back(
        source,
        tmp_path,
        vocabulary=model_dir.VocabularyFile(file, True, True),
    )
    theirs = transformers.AutoTokenizer.from_pretrained(back)
    [ids] = model_dir.read_vocabulary(back).tokenizer().encode_batch(["我爱Tokyo。"])
    assert theirs("我爱Tokyo。")["input_ids"] == [101, *ids, 102]


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
