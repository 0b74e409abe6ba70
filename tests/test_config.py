"""Configurations read the released files and stop wrong values at construction."""

import dataclasses
import json

import pytest
from conftest import ROOT

from albert_tf.analysis.costs import parameter_counts
from albert_tf.config import AlbertConfig, OptimizerConfig, TrainConfig
from helpers import tiny

CONFIG_FILES = sorted((ROOT / "configs").glob("*.json"))

# Table 1 of the paper; heads and feed-forward width by its section 3.1 (4H, H/64) but
# for xlarge, which was released with 16 heads.
PAPER_SHAPES = {
    "albert_base": (12, 768, 128, 12, 3072),
    "albert_large": (24, 1024, 128, 16, 4096),
    "albert_xlarge": (24, 2048, 128, 16, 8192),
    "albert_xxlarge": (12, 4096, 128, 64, 16384),
}

# Layers, width, heads, feed-forward width, activation, and initial deviation.
CHINESE_SHAPES = {
    "tiny": (4, 312, 12, 1248, "gelu", 0.02),
    "small": (6, 384, 12, 1536, "gelu", 0.02),
    "base": (12, 768, 12, 3072, "relu", 0.02),
    "large": (24, 1024, 16, 4096, "relu", 0.02),
    "xlarge": (24, 2048, 16, 8192, "relu", 0.014),
    "xxlarge": (12, 4096, 16, 16384, "relu", 0.01),
}

# The keys and value types of a released file (a whole 0 for the probabilities).
RELEASED = {
    "attention_probs_dropout_prob": 0,
    "hidden_act": "relu",
    "hidden_dropout_prob": 0,
    "embedding_size": 6,
    "hidden_size": 12,
    "initializer_range": 0.02,
    "intermediate_size": 20,
    "max_position_embeddings": 24,
    "num_attention_heads": 3,
    "num_hidden_layers": 4,
    "num_hidden_groups": 2,
    "net_structure_type": 0,
    "layers_to_keep": [],
    "gap_size": 0,
    "num_memory_blocks": 0,
    "inner_group_num": 1,
    "down_scale_factor": 1,
    "ln_type": "postln",
    "type_vocab_size": 2,
    "vocab_size": 61,
}


def write(path, values):
    path.write_text(values if isinstance(values, str) else json.dumps(values))
    return path


def test_a_released_file_is_read_and_its_idle_keys_are_left_out(tmp_path):
    config = AlbertConfig.from_json(write(tmp_path / "albert_config.json", RELEASED))
    expected = tiny.tiny_config(hidden_act="relu", num_hidden_groups=2)
    assert config == expected
    assert set(RELEASED) - set(config.to_dict()) == {
        "net_structure_type",
        "layers_to_keep",
        "gap_size",
        "num_memory_blocks",
        "down_scale_factor",
        "ln_type",
    }


def test_keys_that_a_file_leaves_out_are_those_of_xxlarge():
    xxlarge = AlbertConfig.from_json(ROOT / "configs" / "albert_xxlarge.json")
    assert AlbertConfig(vocab_size=30_000) == xxlarge


@pytest.mark.parametrize("name", PAPER_SHAPES)
def test_configurations_have_the_shapes_of_the_paper(name):
    config = AlbertConfig.from_json(ROOT / "configs" / f"{name}.json")
    shape = (
        config.num_hidden_layers,
        config.hidden_size,
        config.embedding_size,
        config.num_attention_heads,
        config.intermediate_size,
    )
    assert shape == PAPER_SHAPES[name]
    assert config.vocab_size == 30_000 and config.max_position_embeddings == 512
    assert config.groups == dict.fromkeys(config.groups, 1)


@pytest.mark.parametrize("name", CHINESE_SHAPES)
def test_chinese_configurations_have_the_released_shapes(name):
    config = AlbertConfig.from_json(ROOT / "configs" / f"albert_{name}_zh.json")
    shape = (
        config.num_hidden_layers,
        config.hidden_size,
        config.num_attention_heads,
        config.intermediate_size,
        config.hidden_act,
        config.initializer_range,
    )
    assert shape == CHINESE_SHAPES[name]
    assert (config.vocab_size, config.embedding_size) == (21_128, 128)
    assert config.hidden_dropout_prob == config.attention_probs_dropout_prob == 0
    assert config.groups == dict.fromkeys(config.groups, 1)


def test_the_chinese_base_configuration_is_the_published_one(shared_data):
    published = shared_data / "checkpoints" / "albert_base_zh" / "albert_config.json"
    own = ROOT / "configs" / "albert_base_zh.json"
    assert AlbertConfig.from_json(own) == AlbertConfig.from_json(published)


@pytest.mark.parametrize("path", CONFIG_FILES, ids=lambda path: path.stem)
def test_every_configuration_file_survives_a_round_trip(path, tmp_path):
    config = AlbertConfig.from_json(path)
    config.to_json(tmp_path / "again.json")
    assert AlbertConfig.from_json(tmp_path / "again.json") == config


def test_sharing_keys_survive_a_round_trip_and_are_unset_by_default(tmp_path):
    config = tiny.tiny_config(attention_groups=4, ffn_groups=2)
    config.to_json(tmp_path / "config.json")
    assert AlbertConfig.from_json(tmp_path / "config.json") == config
    assert config.groups == {
        "num_hidden_groups": 1,
        "attention_groups": 4,
        "ffn_groups": 2,
    }
    plain = tiny.tiny_config(num_hidden_groups=2)
    assert "attention_groups" not in plain.to_dict()
    assert set(plain.groups.values()) == {2}


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("hiden_size", "hidden_size"),
        ("num_hidden_layer", "num_hidden_layers"),
        ("dropout_prob", "hidden_dropout_prob"),
        ("vocabsize", "vocab_size"),
    ],
)
def test_a_misspelt_key_is_refused_and_the_nearest_named(misspelt, meant, tmp_path):
    path = write(tmp_path / "config.json", {**RELEASED, misspelt: 4})
    with pytest.raises(ValueError, match=f"'{misspelt}'.*'{meant}'") as caught:
        AlbertConfig.from_json(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_attention_heads": 5}, "num_attention_heads.* 12 and 5"),
        ({"num_hidden_groups": 3}, "num_hidden_groups.* 3 and 4"),
        ({"attention_groups": 3}, "attention_groups.* 3 and 4"),
        ({"ffn_groups": 8}, "ffn_groups.* 8 and 4"),
        ({"ffn_groups": 0}, "ffn_groups.* 0"),
        ({"hidden_size": True}, "hidden_size.*True"),
        ({"hidden_size": "12"}, "hidden_size.*'12'"),
        ({"hidden_size": 12.0}, "hidden_size.*12.0"),
        ({"num_hidden_layers": 0}, "num_hidden_layers.* 0"),
        ({"type_vocab_size": -2}, "type_vocab_size.* -2"),
        ({"vocab_size": None}, "vocab_size.*None"),
        ({"hidden_act": "swish"}, "hidden_act.*gelu.*'swish'"),
        ({"hidden_act": ["gelu"]}, "hidden_act"),
        ({"hidden_dropout_prob": 1.0}, "hidden_dropout_prob.*1.0"),
        ({"hidden_dropout_prob": False}, "hidden_dropout_prob.*False"),
        ({"attention_probs_dropout_prob": -0.1}, "attention_probs_dropout_prob"),
        ({"attention_probs_dropout_prob": "0"}, "attention_probs_dropout_prob"),
        ({"initializer_range": 0}, "initializer_range.* 0"),
        ({"initializer_range": float("nan")}, "initializer_range.*nan"),
        ({"initializer_range": float("inf")}, "initializer_range.*inf"),
    ],
)
def test_replace_refuses_a_wrong_value_and_says_which(changes, words):
    with pytest.raises(ValueError, match=words) as caught:
        tiny.tiny_config().replace(**changes)
    assert "\n" not in str(caught.value)


def test_replace_changes_only_what_it_is_told():
    config = tiny.tiny_config()
    changed = config.replace(num_hidden_layers=8)
    assert changed != config
    assert changed.replace(num_hidden_layers=4) == config


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "Expecting value"),
        ('{"vocab_size": 61,', "property name"),
        ("[61]", "one JSON object"),
        ({key: RELEASED[key] for key in RELEASED if key != "vocab_size"}, "vocab_size"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_in_one_line(content, words, tmp_path):
    path = write(tmp_path / "config.json", content)
    with pytest.raises(ValueError, match=words) as caught:
        AlbertConfig.from_json(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.json"):
        AlbertConfig.from_json(tmp_path / "nowhere.json")


def test_a_released_chinese_file_is_read(shared_data):
    path = shared_data / "checkpoints" / "albert_base_zh" / "albert_config.json"
    config = AlbertConfig.from_json(path)
    assert (config.vocab_size, config.hidden_act) == (21_128, "relu")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("optimizer", "sgd"),
        ("learning_rate", 0.0),
        ("learning_rate", "1e-3"),
        ("learning_rate", float("nan")),
        ("learning_rate", True),
        ("num_train_steps", 0),
        ("num_train_steps", 2.0),
        ("num_train_steps", True),
        ("num_warmup_steps", -1),
        ("num_warmup_steps", False),
        ("start_warmup_step", 0.5),
        ("poly_power", 0),
        ("end_learning_rate", -1e-9),
        ("weight_decay", -0.01),
        ("beta_1", 1.0),
        ("beta_2", -0.1),
        ("epsilon", 0),
        ("clip_norm", float("inf")),
        ("lr_schedule", "linear"),
        ("num_decay_steps", -1),
    ],
)
def test_a_wrong_optimizer_setting_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"{name} .*{value}"):
        OptimizerConfig(**{name: value})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"lr_schedule": "wsd"},
            "num_decay_steps must be above 0 for lr_schedule=wsd, and is for it alone. "
            "Received lr_schedule=wsd and num_decay_steps=0: change one of them.",
        ),
        (
            {"num_decay_steps": 7},
            "num_decay_steps must be above 0 for lr_schedule=wsd, and is for it alone. "
            "Received lr_schedule=polynomial and num_decay_steps=7: change one of "
            "them.",
        ),
        (
            {"lr_schedule": "cosine", "poly_power": 0.5},
            "poly_power is for lr_schedule=polynomial alone. Received "
            "lr_schedule=cosine and poly_power=0.5: leave one out.",
        ),
    ],
    ids=str,
)
def test_a_setting_of_another_schedule_is_refused(settings, message):
    with pytest.raises(ValueError) as caught:
        OptimizerConfig(**settings)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("train_batch_size", 0),
        ("eval_batch_size", -1),
        ("train_batch_size", 8.0),
        ("train_batch_size", True),
        ("iterations_per_loop", -1),
        ("save_checkpoints_steps", 0),
        ("keep_checkpoint_max", -1),
        ("max_eval_steps", None),
        ("random_seed", -1),
    ],
)
def test_a_wrong_training_setting_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"{name} .*{value}"):
        TrainConfig(**{"output_dir": "out", name: value})


def test_settings_that_mean_all_or_none_may_be_zero():
    config = TrainConfig("out", keep_checkpoint_max=0, max_eval_steps=0, random_seed=0)
    assert config.random_seed == 0
    assert OptimizerConfig(num_warmup_steps=0, weight_decay=0).weight_decay == 0


def test_a_run_needs_an_output_folder():
    with pytest.raises(ValueError, match="--output_dir"):
        TrainConfig("")


def test_overrides_are_read_as_the_file_would_be():
    config = tiny.tiny_config().override(
        ["ffn_groups=2", "hidden_dropout_prob=0.5", "hidden_act=relu"]
    )
    expected = {"ffn_groups": 2, "hidden_dropout_prob": 0.5, "hidden_act": "relu"}
    assert config == tiny.tiny_config(**expected)
    for wrong, words in {
        "ffn_group=2": "did you mean 'ffn_groups'",
        "ffn_groups": "write it as key=value",
        "ffn_groups=many": "ffn_groups must be a whole number",
        "ffn_groups=3": "3 and 4",
    }.items():
        with pytest.raises(ValueError, match=words):
            tiny.tiny_config().override([wrong])


@pytest.mark.parametrize(("attention", "ffn"), [(None, None), (1, 1), (None, 1)])
def test_a_model_that_shares_everything_can_be_unshared(attention, ffn):
    config = tiny.tiny_config(attention_groups=attention, ffn_groups=ffn)
    assert set(config.unshared().groups.values()) == {4}


def test_a_model_with_groups_of_its_own_keeps_them_when_unshared():
    config = tiny.tiny_config(attention_groups=2)
    assert config.unshared() == config


FIELDS = [field.name for field in dataclasses.fields(AlbertConfig)]


@pytest.mark.parametrize("name", [n for n in FIELDS if n != "initializer_range"])
@pytest.mark.parametrize("power", [40, 62, 63, 2000])
def test_absurd_numbers_are_refused_before_a_model_is_built(name, power, tmp_path):
    values = {**tiny.tiny_config().to_dict(), name: 2**power}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(values))
    with pytest.raises(ValueError, match=r"config\.json") as caught:
        AlbertConfig.from_json(file)
    message = str(caught.value)
    assert name in message and "\n" not in message and len(message) < 2000


@pytest.mark.parametrize("power", [63, 2000])
def test_numbers_that_no_machine_counts_are_refused(power):
    with pytest.raises(ValueError, match=r"num_train_steps must be a whole number"):
        OptimizerConfig(num_train_steps=2**power)
    with pytest.raises(ValueError, match="learning_rate must be a number above 0"):
        OptimizerConfig(learning_rate=2**2000)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"ffn_groups": 4, "attention_groups": 2},
        {"num_hidden_groups": 2, "inner_group_num": 2},
        {"embedding_size": 12},
    ],
    ids=str,
)
def test_parameters_are_counted_as_the_model_has_them(changes):
    config = tiny.tiny_config(**changes)
    assert config.num_parameters == sum(parameter_counts(config).values())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"max_position_embeddings": 10**12},
            "at most 100,000,000,000 parameters.*6,0",
        ),
        ({"vocab_size": 10**10, "embedding_size": 12}, "at most 100,000,000,000"),
        ({"inner_group_num": 10**10}, "at most 10,000. Received 40,000,000,000"),
        ({"num_hidden_layers": 10**10}, "at most 10,000. Received 10,000,000,000"),
        ({"embedding_size": 10**30}, r"below 2\*\*63. Received 1000"),
    ],
    ids=str,
)
def test_sizes_that_no_memory_holds_are_refused_with_the_count(changes, words):
    with pytest.raises(ValueError, match=words):
        tiny.tiny_config(**changes)
