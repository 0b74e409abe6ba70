"""Weights are converted unchanged, with all that belongs to them."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import (
    edit,
    formats,
    model_dir,
    tensorflow_files,
    verify,
)
from albert_tf.checkpoints.checkpoint_format import CheckpointFormat
from albert_tf.checkpoints.load import load_weights, released_name
from albert_tf.config import AlbertConfig
from albert_tf.model.heads import (
    ClassificationModel,
    MultipleChoiceModel,
    PretrainingModel,
)
from albert_tf.model.span_heads import AnswerableSpanModel, SpanModel
from helpers import tiny
from helpers.tiny_weights import (
    TOKENS,
    assert_same_weights,
    convert,
    files_in,
    random_model,
    write_model,
)


@pytest.fixture
def released(tmp_path):
    """A released folder with a vocabulary of too few pieces; its weights."""
    config, weights = random_model()
    folder = write_model(tmp_path / "released", weights, config)
    (folder / "vocab_chinese.txt").write_text("\n".join(TOKENS) + "\n")
    return folder, weights


CONFIG = tiny.tiny_config()
SHARING = {
    "all shared": {},
    "groups": {"num_hidden_groups": 2},
    "inner groups": {"inner_group_num": 2},
    "attention shared": {"ffn_groups": 4},
    "mixed": {"attention_groups": 2, "ffn_groups": 4},
    "as BERT": {"embedding_size": 12, "num_hidden_groups": 4},
}


@pytest.mark.parametrize("sharing", SHARING)
@pytest.mark.parametrize("target_format", ["own", "tensorflow1", "hugging_face"])
def test_a_round_trip_keeps_outputs_and_plain_weights_to_the_bit(
    target_format, sharing, tmp_path
):
    config, weights = random_model(**SHARING[sharing])
    source = write_model(tmp_path / "source", weights, config)
    results = convert(source, tmp_path / "there", target_format)
    assert set(results["largest_differences"]["reload"]) == {
        "sequence_output",
        "pooled_output",
        "cls/seq_relationship/logits",
        "cls/predictions/logits",
    }
    convert(tmp_path / "there", tmp_path / "back", "tensorflow1")
    some, others = (formats.read_weights(f) for f in (source, tmp_path / "back"))
    if sharing in ("all shared", "groups", "inner groups"):
        assert_same_weights(some.weights, others.weights)
        assert some.config == others.config
    batch = verify.random_batch(config, np.random.default_rng(6))
    differences = verify.largest_difference(
        verify.outputs(some, batch), verify.outputs(others, batch)
    )
    assert len(differences) == 4 and max(differences.values()) < 1e-5


def test_an_exported_base_model_has_the_released_names(shared_data, tmp_path):
    released = shared_data / "checkpoints" / "albert_base_zh"
    names = dict(tf.train.list_variables(str(released / "model.ckpt-best")))
    config = AlbertConfig.from_json(released / "albert_config.json")
    rng = np.random.default_rng(0)
    values = {n: rng.random(s, np.float32) for n, s in names.items() if s}
    source = write_model(tmp_path / "source", values, config)
    convert(source, tmp_path / "exported", "tensorflow1")
    prefix = str(tmp_path / "exported" / "model.ckpt-best")
    assert dict(tf.train.list_variables(prefix)) == names
    again = formats.read_weights(tmp_path / "exported")
    assert_same_weights(again.weights, values)


def test_steps_and_training_state(released, tmp_path):
    folder, weights = released
    slots = {f"{name}/adam_m": value for name, value in weights.items()}
    tensorflow_files.write_named(
        folder / "model.ckpt-best", {**weights, **slots, "global_step": np.int64(9)}
    )
    results = convert(folder, tmp_path / "own", "own")
    assert results["weights"]["ignored"] == sorted([*slots, "global_step"])
    assert tensorflow_files.read_global_step(str(tmp_path / "own/model.ckpt-9")) == 9


def test_the_report_lies_beside_the_weights(released, tmp_path):
    results = convert(released[0], tmp_path / "own", "own")
    stored = json.loads((tmp_path / "own" / "conversion.json").read_text())
    assert stored == results
    assert results["weights"]["loaded"] == sorted(released[1])
    assert results["weights"]["fresh"] == results["weights"]["unused"] == []
    assert results["source_layout"] == "tensorflow1"


# -- heads


HEADS = {
    "classifier": {"output_weights": (3, 12), "output_bias": (3,)},
    "span": {"cls/squad/output_weights": (2, 12), "cls/squad/output_bias": (2,)},
    "span and answerable": {
        "start_logits/dense/kernel": (12, 1),
        "start_logits/dense/bias": (1,),
        "end_logits/dense_0/kernel": (24, 12),
        "end_logits/dense_0/bias": (12,),
        "end_logits/LayerNorm/gamma": (12,),
        "end_logits/LayerNorm/beta": (12,),
        "end_logits/dense_1/kernel": (12, 1),
        "end_logits/dense_1/bias": (1,),
        "answer_class/dense_0/kernel": (24, 12),
        "answer_class/dense_0/bias": (12,),
        "answer_class/dense_1/kernel": (12, 1),
    },
}


def with_head(tmp_path, head):
    config, weights = random_model()
    weights = {n: v for n, v in weights.items() if n.startswith("bert/")}
    rng = np.random.default_rng(7)
    values = {n: rng.random(s, np.float32) for n, s in HEADS[head].items()}
    return write_model(tmp_path / "source", weights | values, config), values


@pytest.mark.parametrize("target_format", ["own", "tensorflow1"])
@pytest.mark.parametrize("head", HEADS)
def test_heads_of_tasks_travel_along(head, target_format, tmp_path):
    source, values = with_head(tmp_path, head)
    convert(source, tmp_path / "there", target_format)
    there = formats.read_weights(tmp_path / "there").weights
    assert_same_weights({n: v for n, v in there.items() if n in values}, values)


def test_every_head_of_our_models_is_known():
    config = tiny.tiny_config()
    models = [
        ClassificationModel(config, num_outputs=3),
        MultipleChoiceModel(config),
        SpanModel(config),
        AnswerableSpanModel(config),
        PretrainingModel(config),
    ]
    for model in models:
        weights = {released_name(v): v.numpy() for v in model.variables}
        stored = formats.StoredWeights(
            "here", CheckpointFormat.OWN, weights, config=config
        )
        complete, report = edit.complete(stored, True, 0)
        assert set(complete.weights) == set(weights)
        assert (report.missing, report.unused) == ((), ())


def test_a_head_that_the_other_side_lacks_is_left_out_only_when_told(tmp_path):
    source, values = with_head(tmp_path, "span and answerable")
    with pytest.raises(ValueError, match="No class of transformers has these heads"):
        convert(source, tmp_path / "there", "hugging_face")
    with pytest.raises(ValueError, match=r"no place for answer_class.*--nostrict"):
        convert(source, tmp_path / "there", "model_garden")
    assert files_in(tmp_path) == ["source"]
    for name in ("hugging_face", "model_garden"):
        results = convert(source, tmp_path / name, name, strict=False)
        assert results["weights"]["unused"] == sorted(values)
        assert not set(results["weights"]["loaded"]) & set(values)


def test_labels_of_a_task_are_named_there(tmp_path):
    source, _ = with_head(tmp_path, "classifier")
    labels = ["no", "maybe", "yes"]
    task = {"task_name": "custom", "labels": labels}
    (source / "task.json").write_text(json.dumps(task))
    convert(source, tmp_path / "theirs", "hugging_face")
    values = json.loads((tmp_path / "theirs" / "config.json").read_text())
    assert values["id2label"] == {"0": "no", "1": "maybe", "2": "yes"}
    assert values["architectures"] == ["AlbertForSequenceClassification"]
    convert(source, tmp_path / "own", "own")
    assert model_dir.read_task(tmp_path / "own") == task


def test_a_classifier_is_no_multiple_choice(tmp_path):
    source, _ = with_head(tmp_path, "classifier")
    with pytest.raises(ValueError, match="one score, this model's 3"):
        convert(source, tmp_path / "x", "hugging_face", multiple_choice=True)


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("output_weights", (3, 11), r"\[3, 11\], its configuration says \[3, 12\]"),
        ("output_bias", (2,), r"output_weights .* says \[2, 12\]"),
    ],
)
def test_a_head_of_another_shape_is_refused(name, shape, words, tmp_path):
    source, _ = with_head(tmp_path, "classifier")
    weights = dict(formats.read_weights(source).weights)
    write_model(source, {**weights, name: np.ones(shape, np.float32)}, CONFIG)
    with pytest.raises(ValueError, match=words):
        convert(source, tmp_path / "there", "own")


# -- strictness


def test_missing_and_unknown_weights_stop_a_strict_conversion(released, tmp_path):
    folder, weights = released
    config = model_dir.read_config(folder)
    odd = {"bert/odd": np.float32(1), "cls/predictions/odd": np.float32(2)}
    weights = {**weights, **odd}
    lacking = ["bert/pooler/dense/bias", "cls/predictions/output_bias"]
    for name in lacking:
        del weights[name]
    source = write_model(tmp_path / "odd", weights, config)
    words = "2 missing .*pooler/dense/bias.*output_bias.*2 unused .*bert/odd"
    with pytest.raises(ValueError, match=words):
        convert(source, tmp_path / "there", "own")
    assert not (tmp_path / "there").exists()
    results = convert(source, tmp_path / "there", "own", strict=False)
    assert results["weights"]["fresh"] == ["bert/pooler/dense/bias"]
    # A head without its bias is none.
    transform = [n for n in weights if n.startswith("cls/predictions/")]
    assert results["weights"]["unused"] == sorted([*transform, "bert/odd"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"vocab_size": 62}, r"\[61, 6\], its configuration says \[62, 6\]"),
        ({"hidden_size": 15}, r"configuration says \[15\]"),
        ({"num_hidden_groups": 2}, "16 missing"),
    ],
)
def test_weights_of_another_shape_are_refused(changes, words, released, tmp_path):
    config = tiny.tiny_config(**changes)
    with pytest.raises(ValueError, match=words) as caught:
        convert(released[0], tmp_path / "there", "own", config=config)
    assert "\n" not in str(caught.value) and not (tmp_path / "there").exists()


def test_a_target_in_use_is_left_alone(released, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine").write_text("x")
    with pytest.raises(ValueError, match="in use"):
        convert(released[0], tmp_path / "there", "own")
    assert files_in(tmp_path / "there") == ["mine"]


def test_outputs_that_differ_fail_and_leave_nothing(released, tmp_path, monkeypatch):
    def spoiled(prefix, weights, step):
        tensorflow_files.write_named(prefix, {**weights, TABLE: weights[TABLE] + 0.01})

    monkeypatch.setattr(tensorflow_files, "write_own", spoiled)
    with pytest.raises(ValueError, match=r"differs by .*, expected at most 0\.0001"):
        convert(released[0], tmp_path / "there", "own")
    assert files_in(tmp_path) == ["released"]


def test_weights_that_are_not_numbers_fail(released, tmp_path):
    weights = {**released[1], "bert/pooler/dense/bias": np.full(12, np.nan, np.float32)}
    write_model(released[0], weights, model_dir.read_config(released[0]))
    with pytest.raises(ValueError, match="pooled_output differs by nan"):
        convert(released[0], tmp_path / "there", "own")


# -- vocabulary


TABLE = "bert/embeddings/word_embeddings"


def test_the_vocabulary_and_its_cleaning_travel_along(released, tmp_path):
    folder = released[0]
    cased = model_dir.read_vocabulary(folder, None, True, False)
    convert(folder, tmp_path / "own", "own", vocabulary=cased)
    assert model_dir.read_cleaning(tmp_path / "own") == {
        "lower_case": True,
        "strip_accents": False,
    }
    convert(tmp_path / "own", tmp_path / "theirs", "hugging_face")
    settings = json.loads((tmp_path / "theirs/tokenizer_config.json").read_text())
    assert settings == {
        "do_lower_case": True,
        "strip_accents": False,
        "tokenizer_class": "BertTokenizer",
    }
    values = json.loads((tmp_path / "theirs/config.json").read_text())
    assert (values["pad_token_id"], values["bos_token_id"]) == (0, 2)
    results = convert(tmp_path / "theirs", tmp_path / "again", "own")
    some, others = (tmp_path / name / "tokenizer.json" for name in ("own", "again"))
    assert some.read_bytes() == others.read_bytes()
    assert (tmp_path / "again/vocab.txt").read_text().split() == TOKENS
    assert results["notes"] == ["vocab.txt has 15 tokens, the model 61 rows."]


def test_sentencepiece_settings_are_transformers_own(tmp_path):
    settings = {"do_lower_case": False, "keep_accents": True}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    assert model_dir.read_cleaning(tmp_path) == {
        "lower_case": False,
        "strip_accents": False,
    }
    # Their file of this name is no setting of ours.
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": "1.0"}))
    assert model_dir.read_cleaning(tmp_path)["lower_case"] is False


def test_a_vocabulary_of_another_model_is_refused(released, tmp_path):
    folder = released[0]
    (folder / "vocab_chinese.txt").write_text(
        "\n".join([*TOKENS, *map(str, range(99))])
    )
    with pytest.raises(ValueError, match="114 tokens, the model 61"):
        convert(folder, tmp_path / "there", "own")
    (folder / "vocab_chinese.txt").write_text("\n".join(TOKENS))
    metadata = {
        "vocabulary_sha256": "f" * 64,
        "lower_case": True,
        "strip_accents": True,
    }
    (folder / "tokenizer.json").write_text(json.dumps(metadata))
    with pytest.raises(ValueError, match=r"not the vocabulary .*expected ffffff"):
        convert(folder, tmp_path / "there", "own")
    (folder / "vocab_other.txt").write_text("\n".join(TOKENS))
    with pytest.raises(ValueError, match=r"several.*vocab_chinese\.txt, vocab_other"):
        convert(folder, tmp_path / "there", "own")


def test_a_vocabulary_grows_in_the_table_and_the_bias_together(released, tmp_path):
    folder, weights = released
    results = convert(folder, tmp_path / "grown", "tensorflow1", vocab_size=70)
    grown = formats.read_weights(tmp_path / "grown")
    assert grown.config == tiny.tiny_config(vocab_size=70)
    bias = "cls/predictions/output_bias"
    assert np.array_equal(grown.weights[TABLE][:61], weights[TABLE])
    assert np.array_equal(grown.weights[bias][:61], weights[bias])
    assert not grown.weights[bias][61:].any()
    new = grown.weights[TABLE][61:]
    assert len(np.unique(new)) == new.size == 9 * 6 and np.abs(new).max() <= 0.04
    rest = {n: v for n, v in weights.items() if n not in (TABLE, bias)}
    assert_same_weights(rest, {n: grown.weights[n] for n in rest})
    assert len(results["largest_differences"]["reload"]) == 4
    again = edit.grow_vocabulary(formats.read_weights(folder), 70, 12345)
    assert np.array_equal(again.weights[TABLE], grown.weights[TABLE])
    load_weights(PretrainingModel(grown.config, seed=1), tmp_path / "grown")


@pytest.mark.parametrize("size", [61, 60])
def test_a_vocabulary_does_not_shrink(size, released, tmp_path):
    with pytest.raises(ValueError, match=f"Received {size}, and the model has 61"):
        convert(released[0], tmp_path / "there", "own", vocab_size=size)


def test_a_grown_vocabulary_keeps_its_old_ids(released, tmp_path):
    folder = released[0]
    old = model_dir.read_vocabulary(folder)

    def with_file(name, pieces):
        (tmp_path / name).write_text("\n".join(pieces))
        return model_dir.VocabularyFile(
            tmp_path / name, old.lower_case, old.strip_accents
        )

    longer = with_file("longer.txt", [*TOKENS, "k", "l"])
    convert(folder, tmp_path / "there", "own", vocab_size=63, vocabulary=longer)
    assert model_dir.read_metadata(tmp_path / "there")["vocab_size"] == 17
    other = with_file("other.txt", [*TOKENS[:-1], "k", "j"])
    with pytest.raises(ValueError, match="does not have 'j' at 14"):
        convert(folder, tmp_path / "x", "own", vocab_size=63, vocabulary=other)


def test_what_is_known_of_a_vocabulary_travels_without_its_file(released, tmp_path):
    folder = released[0]
    (folder / "vocab_chinese.txt").unlink()
    metadata = {
        "vocabulary_sha256": "0" * 64,
        "lower_case": True,
        "strip_accents": True,
    }
    (folder / "tokenizer.json").write_text(json.dumps(metadata))
    results = convert(folder, tmp_path / "own", "own")
    assert model_dir.read_metadata(tmp_path / "own") == metadata
    assert "none was copied" in results["notes"][0]
