"""A multiple-choice model as it is served: from ids, from tf.Examples and from text."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.heads import MultipleChoiceModel
from albert_tf.records.features import choice_features
from albert_tf.records.writer import write_records
from albert_tf.serving.multiple_choice import join
from albert_tf.task_config import MultipleChoice
from data_prep.fine_tuning import multiple_choice
from helpers.fine_tuning_toys import MAX_SEQ_LENGTH, config
from helpers.served_models import export_folder, warmup_requests, write_model

MAX_QA_LENGTH = 6
QUESTIONS = [
    ("wordb worda wordc", "worda wordb", ("lovely", "awful", "worda awful")),
    ("wordb", "wordc __ awful", ("lovely", "wordd wordd", "worda")),
    ("wordb " * 30, "_ wordc _", ("wordf", "wordg")),
    ("", "worda " * 9, ("lovely", "awful wordb")),
]


def as_questions():
    return [
        multiple_choice.ChoiceQuestion(str(number), article, question, options, 0, -1)
        for number, (article, question, options) in enumerate(QUESTIONS)
    ]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A model, its tokenizer, its export's signatures, and their folder."""
    folder = tmp_path_factory.mktemp("model")
    shape = config()
    model = MultipleChoiceModel(shape, seed=7)
    model.head.output_weights.assign(
        tf.random.stateless_normal(model.head.output_weights.shape, [1, 2])
    )
    task_config = MultipleChoice(
        levels=["middle", "high"],
        max_seq_length=MAX_SEQ_LENGTH,
        max_qa_length=MAX_QA_LENGTH,
    )
    tokenizer = write_model(folder, task_config, model, shape)
    version = export_folder(folder, folder / "served")
    signatures = tf.saved_model.load(str(version)).signatures
    return model, tokenizer, signatures, version


def padded_batch(rows):
    """Rows of options -> the model's batch."""
    batch = {}
    for name in ("input_ids", "segment_ids"):
        batch[name] = tf.ragged.constant([row[name] for row in rows], tf.int32)
    batch["input_mask"] = tf.ones_like(batch["input_ids"])
    return {name: values.to_tensor() for name, values in batch.items()}


@pytest.fixture(scope="module")
def expected(served):
    """Rows by the Python path, their batch, and the model's probabilities."""
    model, tokenizer = served[:2]
    lengths = MAX_SEQ_LENGTH, MAX_QA_LENGTH
    rows = list(multiple_choice.choice_rows(as_questions(), tokenizer, *lengths, {}))
    batch = padded_batch(rows)
    probabilities = tf.nn.softmax(model(batch)["logits"]).numpy()
    assert np.ptp(probabilities[:2], axis=1).min() > 0.01
    return rows, batch, probabilities


def check(answer, probabilities):
    np.testing.assert_allclose(answer["probabilities"], probabilities, atol=1e-5)
    assert answer["choice"].numpy().tolist() == probabilities.argmax(axis=1).tolist()


def test_text_gets_the_answers_of_the_python_path(served, expected):
    signatures = served[2]
    articles, questions, options = zip(*QUESTIONS, strict=True)
    answer = signatures["text"](
        article=tf.constant(articles),
        question=tf.constant(questions),
        options=tf.constant([[*own, ""][:3] for own in options]),
    )
    check(answer, expected[2])
    assert (answer["probabilities"].numpy()[2:, 2] == 0).all()
    assert answer["truncated"].numpy().tolist() == [False, False, True, True]


def test_ids_and_examples_get_the_answers_of_the_model(served, expected, tmp_path):
    rows, batch, probabilities = expected
    signatures = served[2]
    check(signatures["serving_default"](**batch), probabilities)
    wide = {name: tf.cast(values, tf.int64) for name, values in batch.items()}
    check(signatures["ids_int64"](**wide), probabilities)
    path = tmp_path / "rows.tfrecord"
    write_records(path, rows, choice_features(), {})
    examples = list(tf.data.TFRecordDataset(str(path)))
    check(signatures["examples"](examples=tf.stack(examples)), probabilities)


def test_blanks_are_filled_in_the_graph_as_in_python():
    questions = ["a _ b", "a ___ b __", "_", "none", "", "x_y", "ends _", "日_本"]
    options = ["one", r"\1 two", "", "four", "five", "z", "", "語"]
    found = join(tf.constant(questions), tf.constant(options)).numpy()
    asked = [
        multiple_choice.ChoiceQuestion("", "", question, (option,), 0, -1)
        for question, option in zip(questions, options, strict=True)
    ]
    assert [[text.decode()] for text in found] == [each.texts() for each in asked]


def test_signatures_take_the_requests_that_warm_a_server_up(served):
    signatures, version = served[2:]
    taken = set()
    for name, inputs in warmup_requests(version):
        assert signatures[name](**inputs)["probabilities"].shape[1] == 2
        taken.add(name)
    assert taken == {"serving_default", "examples", "text"}


def choice_example(ids, lengths, segments=None, segment_lengths=None):
    made = tf.train.Example()
    features = {
        "input_ids": ids,
        "input_ids_lengths": lengths,
        "segment_ids": [0] * len(ids) if segments is None else segments,
        "segment_ids_lengths": lengths if segment_lengths is None else segment_lengths,
    }
    for name, values in features.items():
        made.features.feature[name].int64_list.value.extend(values)
    return made.SerializeToString()


def test_empty_batches_get_empty_answers(served):
    signatures = served[2]
    texts = tf.constant([], tf.string)
    ids = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), tf.zeros([0, 2, 4]))
    ids = {name: tf.cast(values, tf.int32) for name, values in ids.items()}
    options = tf.zeros([0, 2], tf.string)
    for answer in (
        signatures["text"](article=texts, question=texts, options=options),
        signatures["examples"](examples=texts),
        signatures["ids"](**ids),
    ):
        assert answer["choice"].shape == [0] and len(answer["probabilities"]) == 0


def test_examples_that_cannot_be_answered_are_refused(served):
    examples = served[2]["examples"]
    good = choice_example([2, 3, 4, 2, 5], [3, 2])
    answer = examples(examples=tf.constant([good, choice_example([2], [1])]))
    assert answer["probabilities"].shape == [2, 2]
    assert answer["probabilities"].numpy()[1].tolist() == [1, 0]
    for bad, rule in (
        (choice_example([], []), "A question must have an option"),
        (choice_example([2, 3], [1, 1], [0, 0], [2]), "which must be equal"),
        (choice_example([2, 3], [1, 1], [], []), "which must be equal"),
        (choice_example([2, 3], [1, 2]), "RaggedTensor|partition|splits|lengths"),
        (choice_example([2, 2**32 + 5], [1, 1]), "must be below vocab_size"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=rule):
            examples(examples=tf.constant([good, bad]))


def test_questions_without_options_and_of_another_shape_are_refused(served):
    def ask(options, rows=2):
        texts = tf.fill([rows], "worda")
        return served[2]["text"](
            article=texts, question=texts, options=tf.constant(options)
        )

    assert ask([["lovely", ""], ["awful", "worda"]])["choice"].shape == [2]
    for options, rule in (
        ([["lovely", "worda"], ["", ""]], "A question must have an option"),
        (np.zeros([2, 0], "S1"), "A question must have an option"),
        ([["lovely", "worda"]], "article and options must have as many rows"),
        (["lovely", "worda"], "expected shape"),
        ([[["lovely"], ["worda"]]] * 2, "expected shape"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=rule):
            ask(options)
