"""The multiple-choice model and task: the original's numbers, properties, learning."""

from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.load import load_tf1_checkpoint
from albert_tf.config import AlbertConfig, OptimizerConfig, TrainConfig
from albert_tf.model.heads import MultipleChoiceModel
from albert_tf.records.features import choice_features
from albert_tf.records.reader import read_rows
from albert_tf.records.sidecar import read_record_set
from albert_tf.records.writer import write_records
from albert_tf.task_config import MultipleChoice
from albert_tf.tasks import create_task, losses
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.training import evaluation
from albert_tf.training import run as training_run
from data_prep.fine_tuning import multiple_choice as choice
from data_prep.fine_tuning import race
from helpers import tiny

INPUTS = ("input_ids", "input_mask", "segment_ids")
QUESTIONS, OPTIONS, LENGTH = 2, 5, 7


@pytest.fixture(scope="module")
def case(reference):
    """The original's numbers and a model with its weights."""
    folder = reference / "head_multiple_choice"
    config = AlbertConfig.from_json(folder / "albert_config.json")
    model = MultipleChoiceModel(config, seed=1)
    report = load_tf1_checkpoint(model, folder)
    assert report.missing == report.unused == ()
    return model, np.load(folder / "expected.npz")


def test_outputs_and_losses_equal_the_originals(case):
    model, expected = case
    batch = {name: tf.constant(expected[name]) for name in INPUTS}
    batch["label_ids"] = tf.constant(expected["label_ids"])
    outputs = model(batch)
    found = {
        "logits": outputs["logits"],
        "probabilities": tf.nn.softmax(outputs["logits"]),
        "per_example_loss": losses.classification(outputs, batch),
        "loss": tf.reduce_mean(losses.classification(outputs, batch)),
    }
    for name, value in found.items():
        np.testing.assert_allclose(
            value, expected[name], rtol=0, atol=1e-5, err_msg=name
        )


@pytest.fixture(scope="module")
def toy():
    """A model whose weights are large enough that every input matters."""
    return MultipleChoiceModel(tiny.tiny_config(initializer_range=0.5), seed=3)


def random_batch(rng):
    """Questions whose options have lengths of their own."""
    shape = (QUESTIONS, OPTIONS, LENGTH)
    lengths = rng.integers(3, LENGTH + 1, shape[:2])
    mask = (np.arange(LENGTH) < lengths[..., None]).astype(np.int32)
    return {
        "input_ids": rng.integers(5, tiny.VOCAB_SIZE, shape).astype(np.int32) * mask,
        "input_mask": mask,
        "segment_ids": rng.integers(0, 2, shape).astype(np.int32) * mask,
    }


def scores(model, batch, **arguments):
    inputs = {name: tf.constant(values) for name, values in batch.items()}
    return model(inputs, **arguments)["logits"].numpy()


def test_reordered_options_get_reordered_scores(toy):
    rng = np.random.default_rng(0)
    batch, order = random_batch(rng), rng.permutation(OPTIONS)
    plain = scores(toy, batch)
    assert np.ptp(plain, axis=1).min() > 0.1
    permuted = scores(toy, {n: v[:, order] for n, v in batch.items()})
    np.testing.assert_allclose(permuted, plain[:, order], rtol=0, atol=1e-5)


def test_padding_changes_no_score(toy):
    batch = random_batch(np.random.default_rng(1))
    wider = {n: np.pad(v, [(0, 0), (0, 0), (0, 4)]) for n, v in batch.items()}
    np.testing.assert_allclose(
        scores(toy, wider), scores(toy, batch), rtol=0, atol=1e-5
    )


def test_missing_options_have_no_share_and_change_no_loss(toy):
    rng = np.random.default_rng(2)
    batch = random_batch(rng)
    padded = {n: np.pad(v, [(0, 0), (0, 3), (0, 0)]) for n, v in batch.items()}
    plain, found = scores(toy, batch), scores(toy, padded)
    np.testing.assert_allclose(found[:, :OPTIONS], plain, rtol=0, atol=1e-5)
    shares = tf.nn.softmax(found).numpy()
    assert (shares[:, OPTIONS:] == 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-6)
    labels = rng.integers(OPTIONS, size=QUESTIONS)
    values = [
        losses.classification(
            {"logits": tf.constant(logits)}, {"label_ids": tf.constant(labels)}
        )
        for logits in (plain, found)
    ]
    np.testing.assert_allclose(values[0], values[1], rtol=0, atol=1e-5)


def test_a_row_without_any_option_has_a_finite_loss_and_gradient(toy):
    shape = (QUESTIONS, OPTIONS, LENGTH)
    batch = {name: tf.zeros(shape, tf.int32) for name in INPUTS}
    with tf.GradientTape() as tape:
        values = losses.classification(
            toy(batch), {"label_ids": tf.zeros([2], tf.int32)}
        )
        loss = tf.reduce_sum(values)
    np.testing.assert_allclose(loss, QUESTIONS * np.log(OPTIONS), rtol=1e-5)
    for gradient in tape.gradient(loss, toy.trainable_variables):
        assert np.isfinite(tf.convert_to_tensor(gradient).numpy()).all()


def test_the_head_drops_in_training_alone_and_by_the_seed():
    # The encoder drops nothing, as ALBERT's version 2.
    model = MultipleChoiceModel(tiny.tiny_config(), head_dropout=0.5, seed=3)
    batch = random_batch(np.random.default_rng(4))
    seeds = map(tf.constant, ([1, 2], [1, 2], [1, 3]))
    one, same, other = (
        scores(model, batch, training=True, dropout_seed=seed) for seed in seeds
    )
    assert (one == same).all() and (one != other).any()
    plain = scores(model, batch)
    assert (plain == scores(model, batch, dropout_seed=tf.constant([1, 2]))).all()
    assert (one != plain).any()
    drawn = [scores(model, batch, training=True) for _ in range(2)]
    assert (drawn[0] != drawn[1]).any()


def test_accuracy_is_told_of_all_and_of_each_level():
    probabilities = np.array([[0.6, 0.4], [0.6, 0.4], [0.1, 0.9], [0.7, 0.3]])
    predicted = {
        "probabilities": probabilities,
        "label_ids": np.array([0, 1, 1, 1]),
        "level": np.array([0, 0, 0, -1]),
    }
    score = create_task(MultipleChoice("race", ("middle", "high"))).host_metrics
    assert score(predicted) == {"eval_accuracy": 0.5, "eval_accuracy_middle": 2 / 3}


# Learning.


@pytest.fixture(scope="module")
def questions(shared_data):
    """30 questions of RACE."""
    files = [
        file
        for part in ("train", "test")
        for file in race.find_files(shared_data / "race" / part, "race")
    ]
    return race.read_questions(files, "race", Counter())[:30]


@pytest.fixture(scope="module")
def rows(questions, shared_data, tmp_path_factory):
    """Their rows, of a vocabulary of the pieces that they have."""
    tokenizer = AlbertTokenizer(shared_data / "vocabulary" / "30k-clean.model")
    made = list(choice.choice_rows(questions, tokenizer, 64, 48, {}))
    # A question of three options and one of two among those of four.
    for index, options in ((3, 3), (8, 2)):
        label = made[index]["label_ids"]
        for name in ("input_ids", "segment_ids"):
            kept = [label, *(o for o in range(4) if o != label)][:options]
            made[index][name] = [made[index][name][option] for option in kept]
        made[index]["label_ids"] = 0
    pieces: dict[int, int] = {}
    for row in made:
        row["input_ids"] = [
            [pieces.setdefault(piece, len(pieces) + 1) for piece in option]
            for option in row["input_ids"]
        ]
    path = tmp_path_factory.mktemp("rows") / "race.tfrecord"
    metadata = {"max_seq_length": 64, "vocab_size": len(pieces) + 1}
    write_records(path, made, choice_features(), metadata)
    return read_record_set([path], {})


def make_job(rows, output_dir, steps=200, **changes):
    settings = {
        "train_batch_size": 10,
        "eval_batch_size": 8,
        "iterations_per_loop": steps,
        "save_checkpoints_steps": steps,
    }
    model_config = AlbertConfig(
        vocab_size=rows.metadata["vocab_size"],
        embedding_size=32,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=96,
        max_position_embeddings=64,
        initializer_range=0.1,
    )
    return training_run.Job(
        task=create_task(MultipleChoice("race", race.LEVELS), dropout=0.1),
        model_config=model_config,
        optimizer_config=OptimizerConfig(
            optimizer="adamw",
            learning_rate=3e-3,
            num_train_steps=steps,
            num_warmup_steps=10,
        ),
        train_config=TrainConfig(str(output_dir), **(settings | changes)),
        train_rows=rows,
        eval_rows=rows,
    )


def strategy_of(replicas):
    if replicas == 1:
        return tf.distribute.OneDeviceStrategy("CPU:0")
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(replicas)])


@pytest.mark.slow
def test_a_tiny_model_learns_30_real_questions_by_heart(rows, tmp_path):
    found = training_run.run(make_job(rows, tmp_path), strategy_of(1))
    assert found["eval_rows"] == 30
    assert found["eval_accuracy"] > 0.95
    assert found["eval_accuracy_high"] > 0.9 and found["eval_accuracy_middle"] > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [1, 2])
def test_each_question_is_predicted_once_on_any_number_of_replicas(
    rows, tmp_path, replicas
):
    changes = {"gradient_accumulation_steps": 5, "rematerialize": "block"}
    job = make_job(rows, tmp_path, 2, **(changes if replicas == 1 else {}))
    strategy = strategy_of(replicas)
    assert training_run.run(job, strategy)["eval_rows"] == 30
    found = []
    # 30 is no multiple of 8. One device alone is what all others must agree with.
    for batch_size, devices in ((8, strategy), (7, strategy_of(1))):
        [evaluated] = evaluation.evaluate_splits(
            job.task,
            job.model_config,
            TrainConfig(str(tmp_path), eval_batch_size=batch_size),
            str(tmp_path),
            {"test": rows},
            devices,
        ).values()
        assert evaluated.report["eval_rows"] == 30
        probabilities = evaluated.predictions["probabilities"]
        options = evaluated.predictions["options"].tolist()
        assert options == [{3: 3, 8: 2}.get(index, 4) for index in range(30)]
        assert probabilities.shape == (30, 4)
        assert (probabilities[3, 3:] == 0).all() and (probabilities[8, 2:] == 0).all()
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
        found.append(probabilities)
    np.testing.assert_allclose(*found, rtol=0, atol=1e-5)
    labels = [row["label_ids"] for row in read_rows(rows.paths[0])]
    assert evaluated.predictions["label_ids"].tolist() == labels
