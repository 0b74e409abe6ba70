"""The tagging task: its head, losses and metrics, and that it learns."""

import numpy as np
import pytest
import tensorflow as tf
from seqeval import metrics as seqeval_metrics

from albert_tf.model.heads import TokenClassificationModel
from albert_tf.task_config import Tagging
from albert_tf.tasks import create_task, losses
from albert_tf.tasks.metrics import table_lines
from albert_tf.tasks.tagging import (
    UNSEEN,
    class_table,
    gold_tags,
    sentence_tags,
    tagging_metrics,
)
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.training.fine_tune import evaluate, fine_tune, new_model
from data_prep.fine_tuning.tagging_data import tagging
from helpers import tiny
from helpers.fine_tuning_toys import config, write_vocabulary
from helpers.tagged_toys import LABELS, sentences, write_conll

ROWS, LENGTH = 3, 7


def random_batch(rng):
    lengths = rng.integers(3, LENGTH + 1, ROWS)
    mask = (np.arange(LENGTH) < lengths[:, None]).astype(np.int32)
    ids = rng.integers(5, tiny.VOCAB_SIZE, mask.shape).astype(np.int32)
    return {
        "input_ids": tf.constant(ids * mask),
        "input_mask": tf.constant(mask),
        "segment_ids": tf.zeros_like(mask),
    }


def test_logits_are_a_linear_function_of_each_token():
    model = TokenClassificationModel(tiny.tiny_config(), num_outputs=5, seed=3)
    head = model.head
    head.output_bias.assign(np.arange(5.0))
    batch = random_batch(np.random.default_rng(1))
    sequence = model.encoder(batch)["sequence_output"].numpy()
    expected = sequence @ head.output_weights.numpy().T + np.arange(5.0)
    found = model(batch)["logits"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    restored = TokenClassificationModel.from_config(model.get_config())
    assert [v.shape for v in restored.variables] == [v.shape for v in model.variables]
    drops = TokenClassificationModel(
        tiny.tiny_config(), num_outputs=5, head_dropout=0.5, seed=3
    )
    one, same, other = (
        drops(batch, training=True, dropout_seed=tf.constant(seed))["logits"].numpy()
        for seed in ([1, 2], [1, 2], [1, 3])
    )
    assert (one == same).all() and (one != other).any()


def test_the_loss_is_that_of_first_tokens_with_known_tags():
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(2, 4, 3)).astype(np.float32)
    # 4 and 5 are tags that training had none of.
    tag_ids = np.array([[0, 3, 0, 1], [4, 2, 5, 0]])
    batch = {"tag_ids": tf.constant(tag_ids), "row_weight": tf.constant([1.0, 0.0])}
    values = losses.tagging({"logits": tf.constant(logits)}, batch).numpy()
    weights = losses.tagging_weights(batch, 3).numpy()
    assert weights.tolist() == [[0, 1, 0, 1], [0, 0, 0, 0]]
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    np.testing.assert_allclose(values[0, [1, 3]], -logs[0, [1, 3], [2, 0]], rtol=1e-5)
    assert np.isfinite(values).all()
    full = losses.tagging_weights({**batch, "row_weight": tf.ones([2])}, 3)
    assert full.numpy().tolist()[1] == [0, 1, 0, 0]


def predictions_of(gold, predicted, labels, windows=2):
    """Predictions of sentences, each cut into windows, with other tokens between."""
    rows, tag_ids, numbers = [], [], []
    for number, (true, chosen) in enumerate(zip(gold, predicted, strict=True)):
        for part in np.array_split(np.arange(len(true)), windows):
            row, ids = np.zeros([20, len(labels)], np.float32), np.zeros(20, int)
            for place, word in enumerate(part):
                row[2 * place + 1, labels.index(chosen[word])] = 0.75
                ids[2 * place + 1] = true[word]
            rows.append(row)
            tag_ids.append(ids)
            numbers.append(number + 1)
    return {
        "probabilities": np.array(rows),
        "tag_ids": np.array(tag_ids),
        "sentence": np.array(numbers),
    }


def test_metrics_are_seqevals_over_whole_sentences():
    rng = np.random.default_rng(3)
    gold = [rng.integers(1, 8, rng.integers(2, 15)) for _ in range(40)]
    # Half of the tags are right.
    predicted = [
        [LABELS[t - 1] if t < 6 and rng.random() < 0.5 else "O" for t in each]
        for each in gold
    ]
    names = dict(enumerate([*LABELS, f"B-{UNSEEN}", f"I-{UNSEEN}"], start=1))
    named = [[names[t] for t in each] for each in gold]
    found = predictions_of(gold, predicted, LABELS)
    assert gold_tags(found, LABELS) == named
    tags = sentence_tags(found, LABELS)
    assert list(tags) == list(range(1, 41))
    assert [chosen for chosen, _ in tags.values()] == predicted
    assert {p for _, scores in tags.values() for p in scores} == {0.75}
    metrics = tagging_metrics(found, LABELS)
    for name in ("precision", "recall", "f1"):
        expected = getattr(seqeval_metrics, f"{name}_score")(named, predicted)
        assert metrics[name] == pytest.approx(expected) and 0 < expected < 1
    flat = [
        (g, p)
        for pair in zip(named, predicted, strict=True)
        for g, p in zip(*pair, strict=True)
    ]
    assert metrics["eval_accuracy"] == pytest.approx(np.mean([g == p for g, p in flat]))
    classes = class_table(found, LABELS)["classes"]
    assert classes["micro avg"]["f1"] == pytest.approx(metrics["f1"])
    # A tag that the model does not know is an error.
    assert classes[UNSEEN]["f1"] == 0 and classes[UNSEEN]["support"] > 0
    assert len(table_lines(classes, "entities")) == 1 + len(classes)
    assert len({len(line) for line in table_lines(classes, "entities")}) == 1


def test_sentences_without_entities_have_metrics_and_no_classes():
    found = predictions_of([np.array([1, 1])], [["O", "O"]], LABELS)
    assert tagging_metrics(found, LABELS) == {
        **{"precision": 0, "recall": 0, "f1": 0},
        "eval_accuracy": 1,
    }
    assert class_table(found, LABELS) == {"classes": {}}


def test_plain_tags_are_scored_word_by_word():
    labels = ["ADJ", "NOUN"]
    found = predictions_of(
        [np.array([1, 2, 2, 2])], [["ADJ", "NOUN", "ADJ", "NOUN"]], labels
    )
    metrics = tagging_metrics(found, labels)
    assert metrics["f1"] == metrics["eval_accuracy"] == 0.75
    assert class_table(found, labels)["classes"]["NOUN"]["support"] == 3


def test_padding_and_special_tokens_have_no_prediction():
    task = create_task(Tagging("toy", LABELS))
    batch = {
        "tag_ids": tf.constant([[0, 2, 0]]),
        "sentence": tf.constant([7]),
    }
    found = task.predictions({"logits": tf.zeros([1, 3, 5])}, batch)
    sums = found["probabilities"].numpy().sum(-1)
    np.testing.assert_allclose(sums, [[0, 1, 0]], rtol=1e-6)
    assert task.best_metric == "f1"


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A model that has learned the toy language, its folder and its tokenizer."""
    folder = tmp_path_factory.mktemp("tagging")
    vocabulary = write_vocabulary(folder)
    tokenizer = AlbertTokenizer(vocab_file=vocabulary)
    files = {
        "train": write_conll(folder / "train.txt", sentences(300, 1)),
        "dev": write_conll(folder / "dev.txt", sentences(41, 2)),
    }
    data = tagging(files, tokenizer, max_seq_length=24, cache_dir=folder / "cache")
    outcome = fine_tune(
        new_model(config(hidden_size=24), vocabulary),
        data,
        folder / "model",
        learning_rate=5e-3,
        num_train_steps=300,
        num_warmup_steps=20,
        train_batch_size=16,
        eval_batch_size=6,
        eval_steps=150,
        save_checkpoints_steps=150,
        iterations_per_loop=150,
    )
    return folder, tokenizer, outcome


@pytest.mark.slow
def test_a_tiny_model_learns_tags_of_sentences_that_it_has_not_seen(learned):
    report = learned[2].reports["dev"]
    best = learned[2].results["best"]
    assert report["f1"] == best["f1"] > 0.95
    assert report["classes"].keys() == {
        *("bad", "good", "macro avg", "micro avg", "weighted avg")
    }
    assert report["classes"]["micro avg"]["f1"] == pytest.approx(report["f1"])


@pytest.mark.slow
def test_windows_of_long_sentences_are_joined(learned):
    folder, tokenizer, _ = learned
    words, tags = sentences(1, 5)[0]
    # The type of a window without its own cue is open, entities are not.
    long = [(words * 9, tags * 9), *sentences(4, 6)]
    test = {"test": write_conll(folder / "long.txt", long)}
    task_config = Tagging("tagging", LABELS, max_seq_length=11, doc_stride=4)
    data = tagging(test, tokenizer, task_config, cache_dir=folder / "cache")
    assert data.test["test"].total_rows > 10
    found = evaluate(folder / "model", data, folder / "out", eval_batch_size=4)
    joined = sentence_tags(found.predictions["test"], LABELS)
    assert [len(chosen) for chosen, _ in joined.values()] == [
        len(words) for words, _ in long
    ]
    assert found.reports["test"]["eval_accuracy"] > 0.7
