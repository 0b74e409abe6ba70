"""Files of `transformers` are read as it reads them, or refused in one line."""

import json

import numpy as np
import pytest
import safetensors.numpy

from albert_tf.checkpoints import formats, model_dir
from albert_tf.checkpoints.transformers_config import config_from_dict, config_to_dict
from helpers import tiny
from helpers.tiny_weights import assert_same_weights
from helpers.transformers_models import (
    POSITIONS,
    PRETRAINING_HEADS,
    convert_back,
    random_tensors,
    saved_config,
    transformers,
    transformers_config,
    write_folder,
)


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
    values = config_to_dict(config, "Model")
    assert values["hidden_act"] == theirs
    assert config_from_dict(values) == config


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "roberta"}, "'roberta', but only models of type 'albert' and"),
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


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tf_model.h5", r"tf_model\.h5, expected model\.safetensors.*save_pretrained"),
        ("flax_model.msgpack", r"flax_model\.msgpack, expected.*save_pretrained"),
        ("pytorch_model.bin", r"pytorch_model\.bin cannot be read as tensors alone"),
    ],
)
def test_weights_that_cannot_be_read_name_the_way_out(name, words, tmp_path):
    transformers_config().save_pretrained(tmp_path)
    (tmp_path / name).write_bytes(b"PK")
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(ValueError, match=words):
            formats.read_weights(path)


@pytest.mark.parametrize(
    "weight_map", [None, {}, ["model.safetensors"], {"a": "../x.safetensors"}, {"a": 3}]
)
def test_an_index_names_files_beside_it(weight_map, tmp_path):
    transformers_config().save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors.index.json"
    file.write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(ValueError, match=r"index\.json does not name the files"):
        formats.read_weights(tmp_path)


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
