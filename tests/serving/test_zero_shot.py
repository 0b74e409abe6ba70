"""Zero-shot classification, against the formulas row by row."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.heads import ClassificationModel
from albert_tf.serving.zero_shot import ZeroShotClassifier, find_labels
from albert_tf.task_config import Classification, Regression
from albert_tf.text import packing
from albert_tf.text.tokenizer import AlbertTokenizer
from helpers.fine_tuning_toys import config, texts, write_vocabulary

LABELS = ["contradiction", "neutral", "entailment"]
MNLI = Classification("mnli", LABELS, max_seq_length=13)
CANDIDATES = ["worda", "lovely awful", "wordb"]
TEMPLATE = "wordc {} wordd"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return AlbertTokenizer(vocab_file=write_vocabulary(tmp_path_factory.mktemp("v")))


@pytest.fixture(scope="module")
def model():
    return ClassificationModel(config(), num_outputs=3, seed=5)


def logits_of(model, tokenizer, text, label, template=TEMPLATE):
    """One pair at a time, whose text alone is shortened."""
    second = tokenizer.encode(template.format(label))
    first = tokenizer.encode(text)[: 13 - 3 - len(second)]
    row = packing.pack_segments(
        first,
        second,
        max_seq_length=13,
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        pad_id=tokenizer.pad_id,
    )
    batch = {name: tf.constant([value], tf.int32) for name, value in row.items()}
    return model(batch)["logits"][0].numpy()


def test_scores_are_those_of_the_formulas(model, tokenizer):
    given = [text for text, _ in texts(7, 1)] + [""]
    classifier = ZeroShotClassifier(model, config(), MNLI, tokenizer)
    expected = np.array(
        [[logits_of(model, tokenizer, t, c) for c in CANDIDATES] for t in given]
    )
    one = classifier.classify(given, CANDIDATES, TEMPLATE, batch_size=5)
    assert one.scores.shape == (8, 3)
    np.testing.assert_allclose(
        one.scores, tf.nn.softmax(expected[..., 2], axis=1), atol=1e-5
    )
    several = classifier.classify(given, CANDIDATES, TEMPLATE, multi_label=True)
    pairs = tf.nn.softmax(expected[..., [2, 0]], axis=-1)[..., 0]
    np.testing.assert_allclose(several.scores, pairs, atol=1e-5)
    # Rows differ, or nothing was compared; and a single label has no rival.
    assert np.ptp(one.scores, axis=0).min() > 1e-3
    alone = classifier.classify(given, CANDIDATES[:1], TEMPLATE)
    np.testing.assert_allclose(alone.scores, pairs[:, :1], atol=1e-5)
    longest = max(len(tokenizer.encode(f"{TEMPLATE.format(c)}")) for c in CANDIDATES)
    cut = sum(len(tokenizer.encode(text)) > 10 - longest for text in given)
    assert one.truncated == cut > 0


def test_a_task_of_two_labels_has_the_other_one(model, tokenizer):
    assert find_labels(Classification("rte", ["entailment", "not_entailment"])) == (
        0,
        1,
    )
    upper = ["ENTAILMENT", "NEUTRAL", "CONTRADICTION"]
    assert find_labels(Classification("custom", upper)) == (0, 2)
    for wrong in (
        Classification("toy", ["good", "bad"]),
        Classification("toy", ["entailment", "neutral", "odd"]),
        Regression("toy"),
        None,
    ):
        with pytest.raises(ValueError, match="needs a model of entailment"):
            find_labels(wrong)


def test_what_cannot_be_asked_is_refused(model, tokenizer):
    classifier = ZeroShotClassifier(model, config(), MNLI, tokenizer)
    for labels, template, match in (
        ([], TEMPLATE, "each once"),
        (["a", "a"], TEMPLATE, "each once"),
        (["a", " "], TEMPLATE, "each once"),
        (["a"], "no place", "one {}"),
        (["a"], "{} {}", "one {}"),
        (["worda " * 9], TEMPLATE, "11 tokens, which leaves no room"),
    ):
        with pytest.raises(ValueError, match=match):
            classifier.classify(["worda"], labels, template)
