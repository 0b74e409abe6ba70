"""Every way to share parameters: what is shared, learnt, saved, exported, mapped."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import group_mapping
from albert_tf.checkpoints.load import load_weights, released_name, weights_checkpoint
from albert_tf.config import AlbertConfig, OptimizerConfig, TrainConfig
from albert_tf.model.heads import PretrainingModel
from albert_tf.records.sidecar import read_record_set
from albert_tf.serving import export
from albert_tf.tasks.pretraining import MASKED_LM, PRETRAINING
from albert_tf.training import run as training_run
from helpers import tiny

# Six layers, so that two and three groups divide them.
LAYERS = 6
# Layers, and how many distinct attention and feed-forward sets they have.
STRATEGIES = {
    "all shared": (2, 1, 1),
    "shared attention": (2, 1, 2),
    "shared feed-forward": (2, 2, 1),
    "not shared": (2, 2, 2),
    "two and three groups": (6, 2, 3),
}
STACK = "bert/encoder/transformer/"


def config_of(attention=1, ffn=1, **changes):
    values = {
        "num_hidden_layers": LAYERS,
        "attention_groups": attention,
        "ffn_groups": ffn,
    }
    return tiny.tiny_config(**{**values, **changes})


def values(model):
    return {released_name(v): v.numpy() for v in model.variables}


def random_batch(seed=0):
    rng = np.random.default_rng(seed)
    batch = {
        "input_ids": rng.integers(5, tiny.VOCAB_SIZE, (2, 7)),
        "input_mask": rng.integers(0, 2, (2, 7)) | np.eye(2, 7, dtype=int),
        "segment_ids": rng.integers(0, 2, (2, 7)),
        "masked_lm_positions": rng.integers(0, 7, (2, 3)),
    }
    return {name: tf.constant(value, tf.int32) for name, value in batch.items()}


def moved(model, seed=1):
    """The model with every weight moved from its start, biases and gammas too."""
    rng = np.random.default_rng(seed)
    for variable in model.variables:
        variable.assign_add(rng.normal(0, 0.1, variable.shape).astype(np.float32))
    return model


def save(model, folder, config=None):
    folder.mkdir(exist_ok=True)
    if config:
        config.to_json(folder / "albert_config.json")
    return weights_checkpoint(model).write(str(folder / "model.ckpt"))


def run(folder, rows, config, steps, task=PRETRAINING, **job):
    return training_run.run(
        training_run.Job(
            task=task,
            model_config=config,
            optimizer_config=OptimizerConfig(
                learning_rate=0.01, num_train_steps=steps, num_warmup_steps=0
            ),
            train_config=TrainConfig(
                str(folder), train_batch_size=4, iterations_per_loop=2
            ),
            train_rows=rows,
            **job,
        ),
        tf.distribute.OneDeviceStrategy("CPU:0"),
    )


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.tfrecord"
    return read_record_set([tiny.write_rows(path, 9, seed=2)], {})


@pytest.fixture(scope="module", params=STRATEGIES)
def trained(request, rows, tmp_path_factory):
    """A strategy, its configuration, and the folder of two steps of training."""
    layers, *sets = STRATEGIES[request.param]
    config = config_of(*sets, num_hidden_layers=layers)
    folder = tmp_path_factory.mktemp("trained")
    run(folder, rows, config, steps=2)
    return request.param, config, folder


def test_two_steps_reach_every_variable(trained):
    _, config, folder = trained
    start = values(PretrainingModel(config, seed=TrainConfig("x").random_seed))
    reader = tf.train.load_checkpoint(str(folder))
    for name, value in start.items():
        key = f"{name.replace('/', '.S')}/.ATTRIBUTES/VARIABLE_VALUE"
        assert np.any(reader.get_tensor(f"second_moment/{key}") > 0), name
        assert not np.array_equal(reader.get_tensor(f"weights/{key}"), value), name


def test_a_strategy_has_its_sets_and_no_others(trained):
    strategy, config, folder = trained
    layers, attention, ffn = STRATEGIES[strategy]
    model = PretrainingModel(config, seed=0)
    load_weights(model, folder)
    blocks = [inner[0] for inner in model.encoder.blocks]
    for kind, count in (("attention", attention), ("feed_forward", ffn)):
        parts = [getattr(block, kind) for block in blocks]
        assert len({id(part) for part in parts}) == count
        for layer, part in enumerate(parts):
            group = f"group_{layer * count // layers}/"
            assert all(group in variable.name for variable in part.variables)
    names = [name for name in values(model) if name.startswith(STACK)]
    # Four projections or two, with a bias each, and a LayerNorm.
    assert len(names) == 10 * attention + 6 * ffn


def test_a_strategy_survives_saving_loading_and_export(trained, tmp_path):
    _, config, folder = trained
    model = PretrainingModel(
        AlbertConfig.from_json(folder / "albert_config.json"), seed=3
    )
    report = load_weights(model, folder)
    assert (report.missing, report.unused) == ((), ())
    again = PretrainingModel(config, seed=4)
    load_weights(again, save(model, tmp_path / "again"))
    batch = random_batch()
    expected = model.encoder(batch)
    assert np.array_equal(
        again(batch)["masked_lm_logits"], model(batch)["masked_lm_logits"]
    )
    exported = export.ExportedModel(config, str(folder))
    version, _ = export.export_model(exported, tmp_path / "served")
    served = tf.saved_model.load(str(version)).signatures["serving_default"]
    inputs = {name: batch[name] for name in ("input_ids", "input_mask", "segment_ids")}
    answers = served(**inputs)
    for name in ("pooled_output", "sequence_output"):
        np.testing.assert_allclose(answers[name], expected[name], atol=1e-6)


UNSHARED = {
    "all from one": ((1, 1), (6, 6)),
    "attention stays": ((1, 1), (1, 6)),
    "feed-forward stays": ((1, 1), (2, 1)),
    "from two and three": ((2, 3), (6, 6)),
}


@pytest.mark.parametrize("case", UNSHARED)
def test_unsharing_changes_no_output_before_the_first_step(case, tmp_path):
    stored, own = UNSHARED[case]
    shared = moved(PretrainingModel(config_of(*stored), seed=1))
    prefix = save(shared, tmp_path / "shared", config_of(*stored))
    model = PretrainingModel(config_of(*own), seed=2)
    report = load_weights(model, prefix, unshare=True)
    assert (report.missing, report.unused) == ((), ())
    for name, output in shared(random_batch()).items():
        assert np.array_equal(model(random_batch())[name], output), name


def test_unshared_layers_part_in_training(rows, tmp_path):
    one, two = (config_of(n, n, num_hidden_layers=2) for n in (1, 2))
    shared = PretrainingModel(one, seed=1)
    prefix = save(shared, tmp_path / "shared")
    run(tmp_path / "out", rows, two, 1, init_checkpoint=prefix, unshare=True)
    model = PretrainingModel(two, seed=3)
    load_weights(model, tmp_path / "out")
    found = values(model)
    name = f"{STACK}group_{{}}/inner_group_0/ffn_1/intermediate/dense/kernel"
    first, second = found[name.format(0)], found[name.format(1)]
    start = values(shared)[name.format(0)]
    assert not np.array_equal(first, second)
    assert max(abs(first - start).max(), abs(second - start).max()) < 0.05


@pytest.mark.parametrize("layers", [3, 12])
def test_a_shared_model_of_another_depth_takes_all_weights(layers, tmp_path):
    shared = moved(PretrainingModel(config_of(1, 1), seed=1))
    model = PretrainingModel(config_of(1, 1, num_hidden_layers=layers), seed=2)
    load_weights(model, save(shared, tmp_path / "shared"))
    found = values(model)
    for name, value in values(shared).items():
        assert np.array_equal(found[name], value), name


@pytest.mark.parametrize(
    ("layers", "expected"), [(3, [0, 2, 4]), (9, None), (12, None)]
)
def test_layer_i_of_another_depth_starts_from_layer_i_times_old_by_new(
    layers, expected, tmp_path
):
    old = moved(PretrainingModel(config_of(1, 6), seed=1))
    prefix = save(old, tmp_path / "old", config_of(1, 6))
    config = config_of(1, layers, num_hidden_layers=layers)
    model = PretrainingModel(config, seed=2)
    report = load_weights(model, prefix)
    assert report.missing == () and len(report.unused) == (18 if layers == 3 else 0)
    stored, found = values(old), values(model)
    expected = expected or [layer * 6 // layers for layer in range(layers)]
    for layer, source in enumerate(expected):
        for end in ("ffn_1/intermediate/output/dense/kernel", "LayerNorm_1/gamma"):
            name = f"{STACK}group_{{}}/inner_group_0/{end}"
            assert np.array_equal(
                found[name.format(layer)], stored[name.format(source)]
            )


@pytest.mark.parametrize(
    ("stored", "own", "unshare", "words"),
    [
        (
            (1, 1),
            (6, 1),
            False,
            "1 attention groups, the model 6: set .* or train with --unshare",
        ),
        (
            (2, 2),
            (2, 3),
            True,
            "2 feed-forward groups, the model 3: set ffn_groups to 2",
        ),
        (
            (6, 6),
            (1, 6),
            True,
            "6 attention groups, the model 1: set attention_groups",
        ),
        ((3, 1), (2, 1), False, "3 attention groups, the model 2: set attention_gr"),
    ],
)
def test_groups_that_do_not_map_are_refused(stored, own, unshare, words, tmp_path):
    prefix = save(
        PretrainingModel(config_of(*stored), seed=1),
        tmp_path / "stored",
        config_of(*stored),
    )
    model = PretrainingModel(config_of(*own), seed=2)
    before = values(model)
    with pytest.raises(ValueError, match=words) as caught:
        load_weights(model, prefix, unshare=unshare)
    assert str(prefix) in str(caught.value) and "\n" not in str(caught.value)
    assert all(np.array_equal(before[n], v) for n, v in values(model).items())


def test_without_sentence_order_its_weights_stay_and_the_rest_learns(rows, tmp_path):
    config = config_of(1, 1, num_hidden_layers=2)
    results = run(tmp_path, rows, config, steps=2, task=MASKED_LM)
    assert "sentence_order_loss" not in results["train"]
    model = PretrainingModel(config, seed=3)
    load_weights(model, tmp_path)
    start = values(PretrainingModel(config, seed=TrainConfig("x").random_seed))
    found = values(model)
    kept = {name for name in found if np.array_equal(found[name], start[name])}
    assert kept == {n for n in found if "pooler" in n or "seq_relationship" in n}


def test_layers_of_bert_have_names_of_albert():
    found = group_mapping.from_bert_name(
        "bert/encoder/layer_11/attention/output/LayerNorm/beta"
    )
    assert found == f"{STACK}group_11/inner_group_0/LayerNorm/beta"
    for name in ("bert/pooler/dense/kernel", f"{STACK}group_0/inner_group_0/x", "a"):
        assert group_mapping.from_bert_name(name) == name
