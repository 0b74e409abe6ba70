"""The encoder and the pretraining model against the original's numbers."""

import json
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.tasks import losses as tasks_losses
from helpers.references import REFERENCES, Case
from helpers.tiny import tiny_config

INPUTS = ("input_ids", "segment_ids", "input_mask")


@pytest.fixture(scope="module", params=REFERENCES)
def case(request, reference):
    return Case(reference / request.param)


@pytest.mark.parametrize("training", [False, True])
def test_encoder_outputs_equal_the_originals(case, training):
    outputs = case.model.encoder(case.batch, training=training)
    # Without training, nothing is computed for padding.
    compared = case.batch["input_mask"].numpy() == 1 if not training else ...
    for name in ("sequence_output", "embedding_output"):
        np.testing.assert_allclose(
            outputs[name].numpy()[compared],
            case.expected[name][compared],
            rtol=0,
            atol=1e-5,
            err_msg=name,
        )
    np.testing.assert_allclose(
        outputs["pooled_output"], case.expected["pooled_output"], rtol=0, atol=1e-5
    )
    layers = zip(outputs["encoder_outputs"], case.expected["all_layers"], strict=True)
    for found, expected in layers:
        np.testing.assert_allclose(
            found.numpy()[compared], expected[compared], rtol=0, atol=1e-5
        )


@pytest.mark.parametrize("training", [False, True])
def test_head_outputs_equal_the_originals(case, training):
    outputs = case.model(case.batch, training=training)
    vocabulary = case.config.vocab_size
    masked = tf.nn.log_softmax(
        tf.reshape(outputs["masked_lm_logits"], [-1, vocabulary])
    )
    order = tf.nn.log_softmax(outputs["sentence_order_logits"])
    expected = case.expected
    np.testing.assert_allclose(
        masked, expected["masked_lm_log_probs"], rtol=0, atol=1e-5
    )
    np.testing.assert_allclose(
        order, expected["sentence_order_log_probs"], rtol=0, atol=1e-5
    )


def test_losses_equal_the_originals(case):
    found = case.losses()
    for name, value in found.items():
        np.testing.assert_allclose(value, case.expected[name], rtol=0, atol=1e-5)
    total = sum(found.values())
    np.testing.assert_allclose(total, case.expected["total_loss"], rtol=0, atol=1e-5)
    example_losses = tasks_losses.masked_lm(case.model(case.batch), case.batch)
    np.testing.assert_allclose(
        tf.reshape(example_losses, [-1]),
        case.expected["masked_lm_example_loss"],
        rtol=0,
        atol=1e-5,
    )


def test_every_gradient_equals_the_originals(case):
    _, gradients, norm = case.gradients()
    expected_norm = float(case.expected["global_grad_norm"])
    np.testing.assert_allclose(norm, expected_norm, rtol=1e-5)
    # float32 cannot resolve less than this of a sum of that size: gradients that cancel
    # to nothing (a key's bias moves all logits of a row alike) are rounding alone.
    rounding = 1.2e-7 * expected_norm
    for name, gradient in gradients.items():
        expected = case.expected[f"grad/{name}"]
        error = np.linalg.norm(gradient - expected)
        assert error < 1e-4 * np.linalg.norm(expected) + rounding, name


def test_parameter_counts_are_the_papers_whatever_the_depth():
    counts = {768: 11_683_584, 1024: 17_683_968, 2048: 58_724_864, 4096: 222_595_584}
    for hidden, count in counts.items():
        shape = {
            "hidden_size": hidden,
            "num_attention_heads": hidden // 64,
            "intermediate_size": 4 * hidden,
        }
        # The largest once: its weights alone are 0.9 GB.
        for depth in (2, 12) if hidden < 4096 else (12,):
            config = AlbertConfig(30_000, num_hidden_layers=depth, **shape)
            model = AlbertEncoder(config, seed=0)
            found = sum(int(tf.size(v)) for v in model.trainable_variables)
            assert found == count


def test_layers_share_their_blocks_in_order():
    config = AlbertConfig(7, 4, 12, 6, 3, 3, 20, inner_group_num=2)
    blocks = AlbertEncoder(config, seed=0).blocks
    assert len(blocks) == 6 and all(len(inner) == 2 for inner in blocks)
    for layer, inner in enumerate(blocks):
        scope = f"group_{layer // 2}/inner_group_1/"
        assert scope in inner[1].attention.query.kernel.name
        assert inner[0] is blocks[layer // 2 * 2][0]


def test_attention_and_feed_forward_share_on_their_own():
    config = AlbertConfig(7, 4, 12, 4, 1, 3, 20, attention_groups=1, ffn_groups=4)
    blocks = [inner[0] for inner in AlbertEncoder(config, seed=0).blocks]
    assert len({id(block.attention) for block in blocks}) == 1
    assert len({id(block.feed_forward) for block in blocks}) == 4


def tiny_model(**changes):
    config = AlbertConfig(31, 6, 12, 3, 1, 3, 20, max_position_embeddings=9)
    return AlbertEncoder(config.replace(**changes), seed=5)


def tiny_batch(batch=2, length=7):
    rng = np.random.default_rng(6)
    return {
        "input_ids": tf.constant(rng.integers(5, 31, (batch, length)), tf.int32),
        "input_mask": tf.ones([batch, length], tf.int32),
        "segment_ids": tf.constant(rng.integers(0, 2, (batch, length)), tf.int32),
    }


@pytest.mark.parametrize(
    ("layers", "groups"),
    [(1, {}), (5, {}), (2, {"ffn_groups": 2})],
    ids=str,
)
def test_fewer_layers_are_a_model_of_that_depth(layers, groups):
    """In all three forms, with the groups of that model; all layers are the default."""
    config = tiny_config(num_hidden_layers=6, hidden_dropout_prob=0.3, **groups)
    deep = AlbertEncoder(config, seed=5)
    shallow = AlbertEncoder(config.replace(num_hidden_layers=layers), seed=5)
    batch = {
        "input_ids": tf.constant([[5, 7, 9, 0], [6, 8, 0, 0]]),
        "segment_ids": tf.constant([[0, 0, 1, 0], [0, 1, 0, 0]]),
        "input_mask": tf.constant([[1, 1, 1, 0], [1, 1, 0, 0]]),
    }
    seed = tf.constant([3, 4])
    for options in ({"training": True, "dropout_seed": seed}, {}):
        for compiled in (False, True):
            found, expected, whole = (
                tf.function(partial(model, **options, **depth), jit_compile=compiled)(
                    batch
                )
                for model, depth in (
                    (deep, {"num_layers": layers}),
                    (shallow, {}),
                    (deep, {}),
                )
            )
            assert len(found["encoder_outputs"]) == layers
            for name in ("sequence_output", "pooled_output"):
                np.testing.assert_array_equal(found[name], expected[name])
                assert not np.array_equal(whole[name], found[name])


@pytest.mark.parametrize("layers", [0, 5])
def test_other_numbers_of_layers_are_refused(layers):
    encoder = AlbertEncoder(tiny_config(), seed=1)
    batch = {name: tf.ones([1, 3], tf.int32) for name in INPUTS}
    with pytest.raises(ValueError, match=f"from 1 to 4, .* Received {layers}"):
        encoder(batch, num_layers=layers)


def test_padding_does_not_change_what_stands_before_it():
    model, short = tiny_model(), tiny_batch()
    padded = {n: tf.pad(t, [[0, 0], [0, 2]]) for n, t in short.items()}
    np.testing.assert_allclose(
        model(padded)["sequence_output"][:, :7],
        model(short)["sequence_output"],
        atol=1e-6,
    )


def test_a_row_of_padding_alone_is_finite():
    batch = tiny_batch()
    batch["input_mask"] *= 0
    assert np.isfinite(tiny_model()(batch)["sequence_output"]).all()


def test_dropout_is_a_function_of_its_seed():
    model = tiny_model(hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.2)
    batch = tiny_batch()

    def output(seed, training=True):
        outputs = model(batch, training=training, dropout_seed=seed)
        return outputs["sequence_output"].numpy()

    assert np.array_equal(output([1, 2]), output([1, 2]))
    assert not np.allclose(output([1, 2]), output([1, 3]))
    assert not np.allclose(output(None), output(None))
    assert np.array_equal(output([1, 2], training=False), output(None, training=False))


def test_initial_weights_are_a_function_of_seed_and_name():
    first, second = tiny_model(), tiny_model(num_hidden_layers=1)
    for one, other in zip(first.variables, second.variables, strict=True):
        assert one.name == other.name and np.array_equal(one, other)
    table = first.embedding_table.numpy()
    assert 0.015 < table.std() < 0.02 and abs(table).max() <= 0.04
    assert not np.array_equal(table, AlbertEncoder(first.config).embedding_table)


def test_input_longer_than_the_positions_is_refused():
    with pytest.raises(Exception, match="max_position_embeddings"):
        tiny_model()(tiny_batch(length=10))


def test_keras_configuration_round_trips():
    model = tiny_model()
    again = AlbertEncoder.from_config(json.loads(json.dumps(model.get_config())))
    assert again.config == model.config
    for one, other in zip(model.variables, again.variables, strict=True):
        assert np.array_equal(one, other)


def test_layers_that_share_a_block_are_traced_once():
    batch = tiny_batch()

    def operations(layers, **changes):
        model = tiny_model(num_hidden_layers=layers, **changes)
        graph = tf.function(model).get_concrete_function(batch).graph
        return len(graph.get_operations())

    a_layer = operations(5, num_hidden_groups=5) - operations(4, num_hidden_groups=4)
    assert operations(24) - operations(4) < 20 * a_layer / 4


def test_a_graph_drops_and_learns_as_eager_code_does():
    model = tiny_model(hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.2)
    batch = tiny_batch()

    def gradients():
        with tf.GradientTape() as tape:
            outputs = model(batch, training=True, dropout_seed=tf.constant([3, 4]))
            total = tf.reduce_sum(outputs["sequence_output"][:, :, 1] ** 2)
        return total, tape.gradient(total, model.blocks[0][0].variables)

    (eager, eager_slopes), (graph, slopes) = gradients(), tf.function(gradients)()
    np.testing.assert_allclose(graph, eager, rtol=1e-5)
    for one, other in zip(slopes, eager_slopes, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def loss_and_gradients(model, batch, xla=False, varying=False):
    """Of the pooled output and all tokens, with dropout's seed fixed."""

    def compute(batch):
        with tf.GradientTape() as tape:
            outputs = model(batch, training=True, dropout_seed=tf.constant([3, 5]))
            visible = tf.cast(batch["input_mask"], tf.float32)[..., tf.newaxis]
            loss = tf.reduce_sum(outputs["pooled_output"] ** 2) + tf.reduce_sum(
                (outputs["sequence_output"] * visible) ** 3
            )
        gradients = tape.gradient(loss, model.trainable_variables)
        return loss, [tf.convert_to_tensor(gradient) for gradient in gradients]

    signature = None
    if varying:
        signature = [{name: tf.TensorSpec([None, None], tf.int32) for name in batch}]
    return tf.function(
        compute, jit_compile=xla, input_signature=signature, autograph=False
    )(batch)


@pytest.mark.parametrize(
    ("changes", "rematerialize"),
    [
        ({}, "none"),
        ({}, "attention"),
        ({}, "block"),
        ({"attention_groups": 2, "num_hidden_layers": 4}, "none"),
        ({"hidden_act": "relu"}, "none"),
    ],
)
def test_training_forms_agree(changes, rematerialize):
    """Rows of tokens alone, all rows of a fixed shape, and what XLA compiles."""
    config = tiny_config(initializer_range=0.3, **changes)
    model = AlbertEncoder(config, seed=5, rematerialize=rematerialize)
    rng = np.random.default_rng(2)
    mask = (np.arange(9) < np.array([[9], [2], [5]])).astype(np.int32)
    batch = {
        "input_ids": rng.integers(5, 29, mask.shape),
        "segment_ids": rng.integers(0, 2, mask.shape),
        "input_mask": mask,
    }
    batch = {name: tf.constant(values, tf.int32) for name, values in batch.items()}
    expected_loss, expected = loss_and_gradients(model, batch, xla=True)
    # Of the largest: those of key biases are rounding alone.
    bound = 1e-5 * max(abs(gradient).numpy().max() for gradient in expected)
    for varying in (False, True):
        loss, gradients = loss_and_gradients(model, batch, varying=varying)
        np.testing.assert_allclose(loss, expected_loss, rtol=1e-5)
        for found, one in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(found, one, rtol=1e-4, atol=bound)


def test_rows_without_padding_drop_the_same_in_both_training_forms():
    config = tiny_config(hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.2)
    model = AlbertEncoder(config, seed=5)
    ids = tf.constant(np.random.default_rng(2).integers(5, 29, [3, 7]), tf.int32)
    batch = {
        "input_ids": ids,
        "segment_ids": tf.zeros_like(ids),
        "input_mask": tf.ones_like(ids),
    }
    losses = [
        float(loss_and_gradients(model, batch, varying=varying)[0])
        for varying in (False, True)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_row_of_padding_alone_has_the_gradient_of_its_output():
    """The shapes are unknown, so that its only token is computed."""
    model = AlbertEncoder(tiny_config(initializer_range=0.3), seed=5)
    kernel = model.blocks[0][0].attention.value.kernel
    ids = tf.constant(np.random.default_rng(2).integers(5, 29, [2, 9]), tf.int32)
    mask = tf.constant([[1] * 9, [0] * 9], tf.int32)
    batch = {"input_ids": ids, "input_mask": mask, "segment_ids": tf.zeros_like(ids)}
    spec = {name: tf.TensorSpec([None, None], tf.int32) for name in batch}

    @tf.function(input_signature=[spec], autograph=False)
    def loss_and_gradient(batch):
        with tf.GradientTape() as tape:
            outputs = model(batch, training=True, dropout_seed=tf.constant([3, 5]))
            loss = tf.reduce_sum(outputs["pooled_output"][1] ** 3)
        return loss, tape.gradient(loss, kernel)

    start, (_, gradient) = kernel.numpy(), loss_and_gradient(batch)
    direction = gradient / tf.norm(gradient)
    losses = []
    for step in (1e-2, -1e-2):
        kernel.assign(start + step * direction)
        losses.append(float(loss_and_gradient(batch)[0]))
    slope = (losses[0] - losses[1]) / 2e-2
    assert slope == pytest.approx(float(tf.norm(gradient)), rel=0.02)


@pytest.mark.parametrize(
    ("training", "skips_padding", "expected"),
    [
        (False, False, [True] * 4),
        (False, True, [False] * 4),
        (True, False, [True] + [False] * 3),
    ],
)
def test_gradients_with_respect_to_outputs(training, skips_padding, expected):
    """Of the embeddings and of three layers."""
    encoder = AlbertEncoder(tiny_config(num_hidden_layers=3), seed=5)
    encoder.skips_padding = skips_padding
    ids = tf.constant(np.random.default_rng(2).integers(5, 29, [2, 6]), tf.int32)
    mask = tf.constant([[1] * 6, [1] * 4 + [0] * 2], tf.int32)
    batch = {"input_ids": ids, "input_mask": mask, "segment_ids": tf.zeros_like(ids)}
    with tf.GradientTape() as tape:
        outputs = encoder(batch, training=training)
        loss = tf.reduce_sum(outputs["pooled_output"] ** 2)
    tensors = [outputs["embedding_output"], *outputs["encoder_outputs"]]
    found = tape.gradient(loss, tensors)
    assert [gradient is not None for gradient in found] == expected
    assert all(
        tf.reduce_any(gradient != 0) for gradient in found if gradient is not None
    )
