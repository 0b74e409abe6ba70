"""Named files must not contradict those next to the weights."""

import dataclasses
import json
from pathlib import Path

import pytest

from albert_tf.checkpoints import agreement, transformers_config
from albert_tf.config import AlbertConfig
from helpers.fine_tuning_toys import write_vocabulary
from helpers.tiny import tiny_config
from helpers.tokenization_cases import train

OF_TRAINING = {
    "hidden_dropout_prob": 0.3,
    "attention_probs_dropout_prob": 0.2,
    "initializer_range": 0.5,
}
# Another value of each other field.
OF_OUTPUTS = {
    "vocab_size": 62,
    "embedding_size": 8,
    "hidden_size": 15,
    "num_hidden_layers": 6,
    "num_hidden_groups": 2,
    "num_attention_heads": 4,
    "intermediate_size": 21,
    "inner_group_num": 2,
    "hidden_act": "gelu_erf",
    "max_position_embeddings": 25,
    "type_vocab_size": 3,
    "attention_groups": 2,
    "ffn_groups": 4,
    "project_embeddings": True,
    "attention_window": 9,
    "global_attention_tokens": 2,
}
# Those that are possible with others only.
DEPENDENT = ("project_embeddings", "global_attention_tokens")
CONFIG = tiny_config()


@pytest.fixture
def weights(tmp_path):
    """The path of weights, of which the configuration is there."""
    CONFIG.to_json(tmp_path / "albert_config.json")
    return str(tmp_path / "model.ckpt-3")


def write(tmp_path, config):
    config.to_json(tmp_path / "other.json")
    return tmp_path / "other.json"


def test_every_field_is_of_training_or_of_outputs():
    names = {field.name for field in dataclasses.fields(AlbertConfig)}
    assert names == {*OF_TRAINING, *OF_OUTPUTS}


@pytest.mark.parametrize("name", [n for n in OF_OUTPUTS if n not in DEPENDENT])
def test_a_configuration_that_gives_other_outputs_is_refused_by_name(
    name, weights, tmp_path
):
    value = OF_OUTPUTS[name]
    file = write(tmp_path, CONFIG.replace(**{name: value}))
    said = {"attention_groups": "2 of attention, 1 of ffn"}
    said |= {"ffn_groups": "1 of attention, 4 of ffn"}
    shown = "num_hidden_groups" if name in said else name
    known = getattr(CONFIG, shown)
    words = rf"other\.json says {shown}={said.get(name, value)}, but .*albert_config"
    words += (
        rf"\.json, .* {shown}={known}: leave --albert_config_file out, or .*override"
    )
    with pytest.raises(ValueError, match=words):
        agreement.choose_config(weights, file)
    override = f"{name}={value}"
    changed = agreement.choose_config(weights, overrides=[override])
    assert changed == CONFIG.replace(**{name: value})


def test_a_projection_that_only_one_side_has_is_refused(tmp_path):
    square = CONFIG.replace(embedding_size=12)
    square.to_json(tmp_path / "albert_config.json")
    file = write(tmp_path, square.replace(project_embeddings=True))
    with pytest.raises(ValueError, match=r"project_embeddings=True, but .*=False"):
        agreement.choose_config(tmp_path, file)


def test_global_tokens_that_only_one_side_has_are_refused(tmp_path):
    local = CONFIG.replace(attention_window=9)
    local.to_json(tmp_path / "albert_config.json")
    file = write(tmp_path, local.replace(global_attention_tokens=2))
    with pytest.raises(ValueError, match=r"global_attention_tokens=2, but .*=None"):
        agreement.choose_config(tmp_path, file)


def test_rates_of_training_may_differ(weights, tmp_path):
    config = CONFIG.replace(**OF_TRAINING)
    assert agreement.choose_config(weights, write(tmp_path, config)) == config
    assert agreement.choose_config(weights) == CONFIG


def test_one_way_of_counting_groups_is_as_good_as_another(weights, tmp_path):
    config = CONFIG.replace(attention_groups=1, ffn_groups=1)
    assert agreement.choose_config(weights, write(tmp_path, config)) == config


def test_weights_without_a_configuration_take_the_one_that_is_named(tmp_path):
    weights = tmp_path / "bare" / "model.ckpt-3"
    weights.parent.mkdir()
    assert agreement.choose_config(weights, write(tmp_path, CONFIG)) == CONFIG
    with pytest.raises(FileNotFoundError, match="pass --albert_config_file"):
        agreement.choose_config(weights)


@pytest.mark.parametrize("keys", [{}, {"architectures": ["AlbertModel"]}])
def test_the_configuration_of_transformers_may_be_named(keys, tmp_path):
    values = transformers_config.config_to_dict(CONFIG, "Model")
    del values["architectures"], values["model_type"]
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "model.safetensors").touch()
    file = folder / "config.json"
    file.write_text(json.dumps({**values, **keys, "hidden_act": "gelu"}))
    config = CONFIG.replace(hidden_act="gelu_erf")
    assert agreement.choose_config(folder, file) == config
    if keys:
        copy = tmp_path / "copy.json"
        copy.write_text(file.read_text())
        assert agreement.choose_config(folder, copy) == config
        copy.write_text(file.read_text().replace('"gelu"', '"relu"'))
        with pytest.raises(ValueError, match=r"hidden_act=relu, but .*=gelu_erf"):
            agreement.choose_config(folder, copy)


def test_of_several_configurations_the_named_one_counts(tmp_path):
    for name, hidden in (("albert_config_a", 15), ("albert_config_b", 24)):
        CONFIG.replace(hidden_size=hidden).to_json(tmp_path / f"{name}.json")
    file = tmp_path / "albert_config_b.json"
    with pytest.raises(ValueError, match="holds several"):
        agreement.choose_config(tmp_path)
    assert agreement.choose_config(tmp_path, file) == CONFIG.replace(hidden_size=24)
    # One of the usual name counts, and the others must not contradict it.
    CONFIG.to_json(tmp_path / "albert_config.json")
    with pytest.raises(ValueError, match="hidden_size=24, but"):
        agreement.choose_config(tmp_path, file)


# -- vocabularies


@pytest.fixture
def folder(tmp_path):
    """A folder of weights with a vocabulary; nothing else is known of it."""
    folder = tmp_path / "model"
    folder.mkdir()
    write_vocabulary(folder)
    return folder


def other_vocabulary(folder, name):
    """A vocabulary of the same size."""
    text = write_vocabulary(folder.parent).read_text()
    path = folder.parent / name
    path.write_text(text.replace("wordt", "wordz"))
    return str(path)


def state(folder, **changes):
    values = agreement.choose_vocabulary(folder).tokenizer().metadata()
    (folder / "tokenizer.json").write_text(json.dumps({**values, **changes}))


def test_the_vocabulary_next_to_weights_is_chosen_with_its_cleaning(folder, tmp_path):
    found = agreement.choose_vocabulary(folder)
    assert (found.path, found.lower_case) == (folder / "vocab.txt", True)
    state(folder, lower_case=False, strip_accents=False)
    found = agreement.choose_vocabulary(folder)
    assert (found.lower_case, found.strip_accents) == (False, False)
    (tmp_path / "empty").mkdir()
    assert agreement.choose_vocabulary(tmp_path / "empty") is None


@pytest.mark.parametrize("is_stated", [False, True])
def test_another_vocabulary_of_the_same_size_is_refused(is_stated, folder):
    if is_stated:
        state(folder)
    other = other_vocabulary(folder, "other.txt")
    words = r"other\.txt is not the vocabulary of .*model: its vocabulary_sha256 is "
    with pytest.raises(ValueError, match=words):
        agreement.choose_vocabulary(folder, vocab_file=other)
    grown = agreement.choose_vocabulary(folder, vocab_file=other, may_differ=True)
    assert str(grown.path) == other
    # A copy under another name is the same.
    copy = folder.parent / "copy"
    copy.write_bytes((folder / "vocab.txt").read_bytes())
    named = agreement.choose_vocabulary(folder, vocab_file=str(copy))
    assert named.path == copy and named.is_wordpiece


def test_of_several_vocabularies_the_named_one_counts(folder):
    (folder / "vocab.txt").rename(folder / "vocab_a.txt")
    (folder / "vocab_b.txt").write_text((folder / "vocab_a.txt").read_text() + "x\n")
    with pytest.raises(ValueError, match="holds several"):
        agreement.choose_vocabulary(folder)
    named = str(folder / "vocab_b.txt")
    found = agreement.choose_vocabulary(folder, vocab_file=named)
    assert found.tokenizer().vocab_size == 28
    with pytest.raises(ValueError, match=r"other\.txt is not the vocabulary"):
        other = other_vocabulary(folder, "other.txt")
        agreement.choose_vocabulary(folder, vocab_file=other)


@pytest.mark.parametrize("name", ["lower_case", "strip_accents"])
def test_another_cleaning_than_the_stated_one_is_refused(name, folder):
    state(folder)
    assert agreement.choose_vocabulary(folder, **{name: True})
    with pytest.raises(ValueError, match=f"trained with {name}=True, but {name}=False"):
        agreement.choose_vocabulary(folder, **{name: False})


def test_a_changed_vocabulary_next_to_weights_is_refused(folder):
    state(folder, vocabulary_sha256="f" * 64)
    with pytest.raises(ValueError, match=r"that of its tokenizer\.json ffffff"):
        agreement.choose_vocabulary(folder)


def test_the_flag_tells_the_kind(tmp_path):
    words = write_vocabulary(tmp_path).rename(tmp_path / "words")
    pieces = Path(train(tmp_path / "x.model")).rename(tmp_path / "pieces.txt")
    found = agreement.choose_vocabulary("", vocab_file=str(words))
    assert found.tokenizer().vocab_size == 27
    found = agreement.choose_vocabulary("", spm_model_file=str(pieces))
    assert not found.is_wordpiece and found.tokenizer().vocab_size > 27
    with pytest.raises(FileNotFoundError, match=r"no vocabulary file .*nowhere\b"):
        agreement.choose_vocabulary("", vocab_file=str(tmp_path / "nowhere"))
