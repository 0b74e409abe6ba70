"""Classifiers and regressions give the answers of the Python path."""

import numpy as np
import tensorflow as tf

from albert_tf.serving.classification import ServedClassifier
from albert_tf.task_config import Classification
from helpers.fine_tuning_toys import config, texts
from helpers.served_models import (
    LABELS,
    PAIRS,
    export_folder,
    python_answer,
    signature,
    write_classifier,
)


def test_pairs_of_text_get_the_answers_of_the_python_path(pair_model, pair_answers):
    answers, _ = pair_answers
    first, second = zip(*PAIRS, strict=True)
    text = signature(pair_model[1])
    served = text(text=tf.constant(first), text_pair=tf.constant(second))
    for row, answer in enumerate(answers):
        expected = answer["probabilities"][0]
        np.testing.assert_allclose(served["probabilities"][row], expected, atol=1e-5)
        assert served["label"][row].numpy().decode() == LABELS[expected.argmax()]
        names = [name.decode() for name in served["labels"][row].numpy()]
        assert names == LABELS
    assert served["truncated"].numpy().tolist() == [False] * 3 + [True] * 2 + [False]


def test_single_texts_and_regressions_are_served(tmp_path):
    (tmp_path / "model").mkdir()
    folder = write_classifier(tmp_path / "model", None, pair=False)
    exported = export_folder(folder, tmp_path / "served")
    sentences = [text for text, _ in texts(5, 1)] + [""]
    answers, _ = python_answer(folder, [(text,) for text in sentences])
    served = signature(exported)(text=tf.constant(sentences))
    expected = [answer["values"][0] for answer in answers]
    np.testing.assert_allclose(served["values"], expected, atol=1e-5)


def answer_zeros(task_config):
    def model(batch, training):
        return {"logits": tf.zeros([2, 3])}

    return ServedClassifier(model, config(), task_config).answer({})


def test_a_threshold_is_an_output_for_clients():
    with_threshold = Classification("toy", LABELS, threshold=0.75)
    assert answer_zeros(with_threshold)["threshold"].numpy().tolist() == [0.75] * 2
    assert "threshold" not in answer_zeros(Classification("toy", LABELS))
