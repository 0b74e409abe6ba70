"""Weights are found by their released names, all of them, or the load says why not."""

import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import tensorflow_files
from albert_tf.checkpoints.load import (
    HEADS,
    load_tf1_checkpoint,
    load_weights,
    released_name,
)
from albert_tf.config import AlbertConfig, OptimizerConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.heads import PretrainingModel
from albert_tf.training import optimization, run_checkpoints
from helpers import tiny

REFERENCES = {"encoder_shared": 32, "encoder_groups3_inner2": 112}
DATA = "model.ckpt-best.data-00000-of-00001"
INDEX = "model.ckpt-best.index"
KERNEL = "bert/pooler/dense/kernel"


def model_for(folder, seed=0, **changes):
    config = AlbertConfig.from_json(folder / "albert_config.json")
    return PretrainingModel(config.replace(**changes), seed=seed)


def values(model):
    return {released_name(v): v.numpy() for v in model.variables}


def assert_equal_values(some, others):
    assert set(some) == set(others)
    for name in some:
        assert np.array_equal(some[name], others[name]), name


def stored_values(prefix):
    reader = tf.train.load_checkpoint(str(prefix))
    return {n: reader.get_tensor(n) for n in reader.get_variable_to_shape_map()}


def write_tf1_checkpoint(prefix, tensors):
    """Writes tensors under their names alone, as TensorFlow 1 did."""
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )
    return prefix


@pytest.fixture
def shared(reference):
    return reference / "encoder_shared"


@pytest.fixture
def copied(shared, tmp_path):
    """A writable copy of a reference checkpoint's files."""
    for name in (DATA, INDEX):
        shutil.copyfile(shared / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize(("name", "count"), REFERENCES.items())
def test_a_tensorflow_1_checkpoint_loads_strictly(name, count, reference):
    model = model_for(reference / name)
    report = load_tf1_checkpoint(model, reference / name)
    assert len(report.loaded) == count
    assert (report.missing, report.unused) == ((), ())
    assert report.ignored == ("global_step",)
    stored = stored_values(reference / name / "model.ckpt-best")
    del stored["global_step"]
    assert_equal_values(values(model), stored)


def test_names_of_the_released_base_model_are_ours(shared_data):
    """Its index alone is here: names and shapes."""
    folder = shared_data / "checkpoints" / "albert_base_zh"
    released = dict(tf.train.list_variables(str(folder / "model.ckpt-best")))
    assert released.pop("global_step") == []
    own = {name: list(value.shape) for name, value in values(model_for(folder)).items()}
    assert own == released


def test_optimizer_slots_and_counters_are_left_out_by_name(shared, tmp_path):
    weights = stored_values(shared / "model.ckpt-best")
    step = {"global_step": weights.pop("global_step")}
    slots = {
        f"{name}/{slot}": value
        for name, value in weights.items()
        for slot in ("adam_m", "adam_v", "lamb_m", "lamb_v", "Adam", "Adam_1")
    }
    powers = {"beta1_power": np.float32(0.5), "beta2_power": np.float32(0.9)}
    state = {**slots, **powers, **step}
    write_tf1_checkpoint(tmp_path / "model.ckpt-7", {**weights, **state})
    model = model_for(shared)
    report = load_tf1_checkpoint(model, tmp_path)
    assert report.ignored == tuple(sorted(state))
    assert report.loaded == tuple(sorted(weights))
    assert_equal_values(values(model), weights)


def test_a_strict_load_names_what_is_missing_and_unused(shared, tmp_path):
    tensors = stored_values(shared / "model.ckpt-best")
    tensors["bert/pooler/dense/kernels"] = tensors.pop(KERNEL)
    write_tf1_checkpoint(tmp_path / "renamed", tensors)
    model = model_for(shared)
    before = values(model)
    words = r"1 missing \(bert/pooler/dense/kernel\).*1 unused \(.*/kernels\)"
    with pytest.raises(ValueError, match=words):
        load_tf1_checkpoint(model, tmp_path)
    assert_equal_values(values(model), before)

    report = load_tf1_checkpoint(model, tmp_path, strict=False)
    assert report.missing == (KERNEL,)
    assert report.unused == ("bert/pooler/dense/kernels",)
    after = values(model)
    assert np.array_equal(after.pop(KERNEL), before[KERNEL])
    assert_equal_values(after, {name: tensors[name] for name in after})


def test_a_checkpoint_of_fewer_inner_groups_is_refused_with_a_short_list(shared):
    model = model_for(shared, inner_group_num=3)
    with pytest.raises(ValueError, match=r"32 missing .* and 27 more") as caught:
        load_tf1_checkpoint(model, shared)
    assert "\n" not in str(caught.value) and "albert_config.json" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "stored", "own"),
    [
        ({"vocab_size": 61}, [60, 8], [61, 8]),
        ({"max_position_embeddings": 25}, [24, 8], [25, 8]),
        ({"intermediate_size": 20}, [32], [20]),
    ],
)
def test_another_shape_is_refused_and_changes_nothing(changes, stored, own, shared):
    model = model_for(shared, **changes)
    before = values(model)
    words = f"bert/.* {re.escape(str(stored))}.*{re.escape(str(own))}"
    for strict in (True, False):
        with pytest.raises(ValueError, match=words):
            load_tf1_checkpoint(model, shared, strict=strict)
    assert_equal_values(values(model), before)


@pytest.mark.parametrize(
    "damage", ["data cut", "data empty", "data gone", "data altered", "index cut"]
)
def test_a_broken_file_is_one_line_and_changes_nothing(damage, copied, shared):
    path = copied / (INDEX if damage.startswith("index") else DATA)
    content = path.read_bytes()
    middle = len(content) // 2
    if damage == "data gone":
        path.unlink()
    else:
        path.write_bytes(
            {
                "cut": content[:middle],
                "empty": b"",
                "altered": content[:middle]
                + b"\xff\x00\xff\x00"
                + content[middle + 4 :],
            }[damage.split()[1]]
        )
    model = model_for(shared)
    before = values(model)
    fault = ".data-00000-of-00001 is missing" if "gone" in damage else " cannot be read"
    words = re.escape(f"{copied}/model.ckpt-best{fault}")
    with pytest.raises(ValueError, match=words) as caught:
        load_tf1_checkpoint(model, copied)
    assert "\n" not in str(caught.value)
    assert_equal_values(values(model), before)


def trained(optimizer_name, seed):
    """A model and its optimizer after three steps on random gradients."""
    model = PretrainingModel(tiny.tiny_config(num_hidden_groups=2), seed=seed)
    optimizer = optimization.create_optimizer(OptimizerConfig(optimizer=optimizer_name))
    optimizer.build(model.trainable_variables)
    rng = np.random.default_rng(seed)
    for _ in range(3):
        optimizer.apply_gradients(
            (tf.constant(rng.normal(size=variable.shape), tf.float32), variable)
            for variable in model.trainable_variables
        )
    return model, optimizer


def moments(optimizer):
    return {
        (moment, index): slot.numpy()
        for moment, slots in optimizer.moments.items()
        for index, slot in enumerate(slots)
    }


@pytest.mark.parametrize("optimizer_name", ["lamb", "adamw"])
def test_a_training_checkpoint_restores_weights_moments_and_step(
    optimizer_name, tmp_path
):
    model, optimizer = trained(optimizer_name, seed=1)
    saved = run_checkpoints.training_checkpoint(model, optimizer)
    prefix = saved.save(tmp_path / "model.ckpt")
    assert tensorflow_files.read_global_step(prefix) == 3

    other, fresh = trained(optimizer_name, seed=2)
    fresh.iterations.assign(0)
    restored = run_checkpoints.training_checkpoint(other, fresh).restore(prefix)
    restored.assert_consumed()
    assert_equal_values(values(other), values(model))
    assert_equal_values(moments(fresh), moments(optimizer))
    assert fresh.iterations.numpy() == 3


def test_weights_of_a_training_checkpoint_load_by_name(tmp_path):
    model, optimizer = trained("lamb", seed=1)
    prefix = run_checkpoints.training_checkpoint(model, optimizer).save(
        tmp_path / "ckpt"
    )
    other = PretrainingModel(model.encoder.config, seed=2)
    for path in (prefix, tmp_path):
        report = load_weights(other, path)
        assert set(report.loaded) == set(values(model))
        assert_equal_values(values(other), values(model))
    slots = [name for name in report.ignored if "_moment/" in name]
    assert len(slots) == 2 * len(report.loaded)


def test_moments_lie_under_the_names_of_their_weights(tmp_path):
    model, optimizer = trained("lamb", seed=1)
    prefix = run_checkpoints.training_checkpoint(model, optimizer).save(
        tmp_path / "ckpt"
    )
    reader = tf.train.load_checkpoint(prefix)
    for moment, slots in optimizer.moments.items():
        for variable, slot in zip(model.trainable_variables, slots, strict=True):
            name = released_name(variable).replace("/", ".S")
            key = f"{moment}/{name}/.ATTRIBUTES/VARIABLE_VALUE"
            assert np.array_equal(reader.get_tensor(key), slot), key


def test_a_warm_start_excuses_heads(shared, tmp_path):
    tensors = {
        name: value
        for name, value in stored_values(shared / "model.ckpt-best").items()
        if name.startswith("bert/")
    }
    tensors["output_weights"] = np.ones((3, 16), np.float32)
    prefix = write_tf1_checkpoint(tmp_path / "classifier", tensors)
    model = model_for(shared)
    before = values(model)
    heads = HEADS
    report = load_weights(model, prefix, heads, heads)
    assert report.unused == ("output_weights",)
    assert report.missing == tuple(sorted(n for n in before if n.startswith("cls/")))
    for name, value in values(model).items():
        assert np.array_equal(value, tensors.get(name, before[name])), name
    for excused in ({"missing_ok": heads}, {"unused_ok": heads}):
        with pytest.raises(ValueError, match=r"missing|unused"):
            load_weights(model, prefix, **excused)


def test_a_warm_start_never_excuses_the_encoder(shared, tmp_path):
    tensors = stored_values(shared / "model.ckpt-best")
    model = model_for(shared)
    lacking = {name: value for name, value in tensors.items() if name != KERNEL}
    surplus = {**tensors, "bert/pooler/dense/extra": np.float32(1)}
    for name, some in (("lacking", lacking), ("surplus", surplus)):
        prefix = write_tf1_checkpoint(tmp_path / name, some)
        with pytest.raises(ValueError, match=r"\(bert/pooler/dense/(kernel|extra)\)"):
            load_weights(model, prefix, HEADS, HEADS)


def test_an_encoder_loads_from_a_model_with_heads_when_they_are_excused(shared):
    encoder = AlbertEncoder(AlbertConfig.from_json(shared / "albert_config.json"))
    with pytest.raises(ValueError, match="7 unused"):
        load_tf1_checkpoint(encoder, shared)
    report = load_weights(encoder, shared, unused_ok=HEADS)
    assert len(report.loaded) == 25 and len(report.unused) == 7
    assert str(report) == (
        "25 loaded, 0 missing, 7 unused (cls/predictions/output_bias, "
        "cls/predictions/transform/LayerNorm/beta, "
        "cls/predictions/transform/LayerNorm/gamma, "
        "cls/predictions/transform/dense/bias, "
        "cls/predictions/transform/dense/kernel and 2 more), 1 ignored"
    )


def test_a_checkpoint_of_something_else_is_refused(shared, tmp_path):
    prefix = tf.train.Checkpoint(x=tf.Variable(1.0)).save(tmp_path / "other")
    heads = HEADS
    with pytest.raises(ValueError, match=r"no known format: it holds Variable\."):
        load_weights(model_for(shared), prefix, heads, heads)
