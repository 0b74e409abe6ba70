"""A model that answers questions as it is served: from ids, tf.Examples and text."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.serving import export
from albert_tf.serving.squad import ServedSquad
from albert_tf.task_config import Squad
from albert_tf.tasks import answers, create_task
from albert_tf.tasks.squad import predict
from albert_tf.text.tokenizer import AlbertTokenizer
from helpers.fine_tuning_toys import GOOD, WORDS, config
from helpers.questions import convert, paragraph
from helpers.served_models import export_folder, warmup_requests, write_model
from helpers.tiny import tiny_config

MAX_SEQ_LENGTH = 23
TEXTS = [" ".join(WORDS[:13]), f"{GOOD} worda", "wordc", ""]


def make_model(folder, version_2, threshold):
    """A folder with random weights, its task, its model and its tokenizer."""
    shape = config(initializer_range=0.5, hidden_dropout_prob=0.3)
    settings = Squad(
        version_2,
        max_seq_length=MAX_SEQ_LENGTH,
        max_query_length=5,
        n_best_size=40,
        max_answer_length=4,
        start_n_top=7,
        end_n_top=6,
        threshold=threshold,
    )
    task = create_task(settings)
    model = task.build_model(shape, seed=7, rematerialize="none")
    tokenizer = write_model(folder, settings, model, shape)
    return settings, task, model, tokenizer, shape


@pytest.fixture(scope="module", params=[False, True], ids=["v1.1", "v2.0"])
def served(request, tmp_path_factory):
    """Settings, the Python path's proposals, rows, and the export's signatures and
    folder."""
    folder = tmp_path_factory.mktemp("model")
    made = make_model(folder, request.param, threshold=3.5 if request.param else 0.0)
    settings, task, model, tokenizer, _ = made
    rows = []
    for number, text in enumerate(TEXTS):
        asked = paragraph(text, (WORDS[number], None, 0))
        [row], _ = convert(
            [asked],
            tokenizer,
            for_training=False,
            max_seq_length=MAX_SEQ_LENGTH,
            max_query_length=5,
        )
        rows.append(row | {"question_id": str(number).encode()})
    predicted = predict(task, model, rows, batch_size=len(rows))
    threshold = None
    if request.param:
        # Between the scores, so that some are answered and some are not. The export
        # replaces the stored threshold by it.
        threshold = float(np.median(predicted["no_answer_logits"]))
        settings = dataclasses.replace(settings, threshold=threshold)
    contexts = {str(number): text for number, text in enumerate(TEXTS)}
    proposals = answers.propose(rows, predicted, contexts, settings)
    version = export_folder(folder, folder / "served", threshold=threshold)
    signatures = tf.saved_model.load(str(version)).signatures
    return settings, proposals, rows, signatures, version


def batch_of(rows):
    ids = [row["input_ids"].tolist() for row in rows]
    segments = [row["segment_ids"].tolist() for row in rows]
    batch = {
        "input_ids": tf.ragged.constant(ids, tf.int32),
        "segment_ids": tf.ragged.constant(segments, tf.int32),
    }
    batch["input_mask"] = tf.ones_like(batch["input_ids"])
    return {name: values.to_tensor() for name, values in batch.items()}


def texts_of(served_row, row, text):
    """Texts of a row's spans with a probability, best first, each once."""
    found = [
        text[row["piece_starts"][start] : row["piece_ends"][end]]
        for start, end, probability in zip(*served_row, strict=True)
        if probability > 0
    ]
    return list(dict.fromkeys(found))


def check(answer, settings, proposals, rows):
    names = ("span_starts", "span_ends", "probabilities")
    for index, (row, text) in enumerate(zip(rows, TEXTS, strict=True)):
        own = [answer[name][index].numpy() for name in names]
        candidates = proposals.candidates[str(index)]
        assert texts_of(own, row, text) == [each.text for each in candidates]
        count = len(candidates)
        scores = answer["span_scores"][index].numpy()[:count]
        np.testing.assert_allclose(scores, [c.score for c in candidates], atol=1e-4)
        np.testing.assert_allclose(
            own[2][:count], [c.probability for c in candidates], atol=1e-4
        )
        assert not own[2][count:].any()
    assert ("answered" in answer) == settings.version_2
    if settings.version_2:
        null_scores = [proposals.null_scores[str(i)] for i in range(len(rows))]
        np.testing.assert_allclose(answer["null_scores"], null_scores, atol=1e-5)
        answered = answer["answered"].numpy().tolist()
        assert answered == [
            answers.is_answered(n, settings.threshold) for n in null_scores
        ]
        assert len(set(answered)) == 2


def test_ids_get_the_answers_of_the_python_path(served):
    settings, proposals, rows, signatures, _ = served
    assert len(proposals.candidates["0"]) > 5 and not proposals.candidates["3"]
    batch = batch_of(rows)
    check(signatures["serving_default"](**batch), settings, proposals, rows)
    wide = {name: tf.cast(values, tf.int64) for name, values in batch.items()}
    check(signatures["ids_int64"](**wide), settings, proposals, rows)


def test_examples_get_the_answers_of_ids(served):
    settings, proposals, rows, signatures, _ = served
    examples = []
    for row in rows:
        example = tf.train.Example()
        for name in ("input_ids", "segment_ids"):
            values = example.features.feature[name].int64_list.value
            values.extend(row[name].tolist())
        examples.append(example.SerializeToString())
    answer = signatures["examples"](examples=tf.constant(examples))
    check(answer, settings, proposals, rows)


@pytest.mark.parametrize(("threshold", "answered"), [(np.inf, True), (-np.inf, False)])
def test_infinite_thresholds_answer_always_and_never(tmp_path, threshold, answered):
    settings, _, model, _, shape = make_model(tmp_path, True, threshold)
    module = ServedSquad(model, shape, settings)
    row = {"input_ids": [[2, 8, 3, 9, 3]], "input_mask": [[1] * 5]}
    row["segment_ids"] = [[0, 0, 0, 1, 1]]
    answer = module.answer({name: tf.constant(v) for name, v in row.items()})
    assert answer["answered"].numpy().tolist() == [answered]


NASTY = [
    ("Was?", "Cafe\u0301 ﬁn ½ 😀👩\u200d👧 in 2013, 17,a \u200b İn ﷺ…"),
    ("", ""),
    ("wo?", "\x07"),
    ("", "b  c\t d"),
    ("x\x07", "\u0301a \u0301 b\u200b\u0301c"),
    ("the same", " ".join(["Größe"] * 50)),
]


def python_answers(settings, model, tokenizer, pairs):
    """Answers of `ask.py` to each pair of question and context, one window each."""
    rows = []
    for number, (asked, text) in enumerate(pairs):
        [row], _ = convert(
            [paragraph(text, (asked, None, 0))],
            tokenizer,
            for_training=False,
            max_seq_length=settings.max_seq_length,
            max_query_length=settings.max_query_length,
        )
        rows.append(row | {"question_id": str(number).encode()})
    predicted = predict(create_task(settings), model, rows, batch_size=16)
    contexts = {str(number): text for number, (_, text) in enumerate(pairs)}
    return answers.propose(rows, predicted, contexts, settings)


def check_text(answer, settings, proposals):
    answer = {name: values.numpy() for name, values in answer.items()}
    final = proposals.predictions(settings.threshold)
    best = "best_answer" if settings.version_2 else "answer"
    texts, starts = answer[best], answer[f"{best}_start"]
    for index, text in enumerate(answer["answer"]):
        assert text.decode() == final[str(index)]
        candidates = proposals.candidates[str(index)]
        probability = candidates[0].probability if candidates else 0
        assert answer["probability"][index] == pytest.approx(probability, abs=1e-5)
        assert (answer["answer_start"][index] == -1) == (not text)
        if candidates:
            place = texts[index].decode(), starts[index]
            assert place == (candidates[0].text, candidates[0].start)
            assert answer["score"][index] == pytest.approx(
                candidates[0].score, abs=1e-4
            )
        else:
            assert answer["score"][index] == np.float32(answers.NO_SCORE)
    assert ("threshold" in answer) == settings.version_2
    if settings.version_2:
        null_scores = [proposals.null_scores[str(i)] for i in range(len(texts))]
        np.testing.assert_allclose(answer["null_scores"], null_scores, atol=1e-5)
        assert (answer["threshold"] == np.float32(settings.threshold)).all()
        assert answer["answered"].tolist() == [
            bool(final[str(i)]) for i in range(len(texts))
        ]


def test_text_gets_the_answers_of_the_python_path_from_a_saved_model(served):
    settings, proposals, _, signatures, _ = served
    asked = tf.constant(WORDS[: len(TEXTS)])
    answer = signatures["text"](question=asked, context=tf.constant(TEXTS))
    check_text(answer, settings, proposals)
    assert not answer["truncated"].numpy().any()


@pytest.mark.parametrize(
    ("version_2", "language", "vocabulary"),
    [
        (False, "en", "30k-clean.model"),
        (True, "de", "xquad-16k.model"),
        (False, "zh", "xquad-16k.model"),
        (True, "zh", "vocab_chinese.txt"),
    ],
)
def test_text_gets_the_answers_of_the_python_path_on_xquad(
    shared_data, version_2, language, vocabulary
):
    tokenizer = AlbertTokenizer.from_file(shared_data / "vocabulary" / vocabulary)
    file = shared_data / "squad" / f"xquad.{language}.json"
    paragraphs = [
        paragraph
        for article in json.loads(file.read_text("utf-8"))["data"][:3]
        for paragraph in article["paragraphs"]
    ]
    pairs = [(p["qas"][0]["question"], p["context"]) for p in paragraphs] + NASTY
    longest = 900
    shape = tiny_config(
        vocab_size=tokenizer.vocab_size,
        max_position_embeddings=longest,
        num_hidden_layers=2,
        initializer_range=0.5,
    )
    settings = Squad(version_2, max_seq_length=longest)
    model = create_task(settings).build_model(shape, seed=7, rematerialize="none")
    proposals = python_answers(settings, model, tokenizer, pairs)
    if version_2:
        # Between two scores: one that equals the threshold may round to either side.
        scores = np.unique(list(proposals.null_scores.values()))
        middle = float(scores[len(scores) // 2 - 1 :][:2].mean())
        settings = dataclasses.replace(settings, threshold=middle)
    module = ServedSquad(model, shape, settings, tokenizer)
    asked, contexts = map(tf.constant, zip(*pairs, strict=True))
    answer = module.signatures["text"](asked, contexts)
    check_text(answer, settings, proposals)
    assert len(set(answer["answer"].numpy())) > len(pairs) // 3
    assert not answer["truncated"].numpy().any()


def test_what_does_not_fit_one_window_is_cut_and_said(served):
    signatures = served[3]
    question, context = " ".join(WORDS[:5]), " ".join(WORDS[5:20])
    room = MAX_SEQ_LENGTH - 3 - 5
    assert room == len(context.split())
    asked = [question, f"{question} wordt", question]
    contexts = [context, context, f"{context}  {GOOD}"]
    answer = signatures["text"](
        question=tf.constant(asked), context=tf.constant(contexts)
    )
    assert answer["truncated"].numpy().tolist() == [False, True, True]
    assert_rows_are_equal({n: v for n, v in answer.items() if n != "truncated"})


def assert_rows_are_equal(answer):
    for name, values in answer.items():
        if values.dtype.is_floating:
            np.testing.assert_allclose(values, [values[0]] * len(values), atol=1e-5)
        else:
            assert len(set(values.numpy().tolist())) == 1, name


def test_an_invalid_byte_is_a_replacement_character_in_an_answer(served):
    signatures = served[3]
    contexts = [b"\xff worda", "\ufffd worda".encode()]
    answer = signatures["text"](
        question=tf.constant(["wordb"] * 2), context=tf.constant(contexts)
    )
    assert_rows_are_equal(answer)


def test_a_threshold_to_export_replaces_the_stored_one(served):
    settings, *_, signatures, version = served
    card = json.loads((version / "assets.extra" / export.MODEL_CARD).read_text())
    assert card["task"]["threshold"] == settings.threshold
    assert card["signatures_with_custom_operations"] == ["text"]
    if not settings.version_2:
        return
    asked, contexts = tf.constant(WORDS[: len(TEXTS)]), tf.constant(TEXTS)
    answer = signatures["text"](question=asked, context=contexts)
    assert (answer["threshold"].numpy() == np.float32(settings.threshold)).all()
    below = answer["null_scores"].numpy() < settings.threshold
    assert (answer["answered"].numpy() <= below).all()


def test_signatures_take_the_requests_that_warm_a_server_up(served):
    *_, signatures, version = served
    taken = set()
    for name, inputs in warmup_requests(version):
        answer = signatures[name](**inputs)
        [rows] = {len(value) for value in inputs.values()}
        assert {len(value) for value in answer.values()} == {rows}
        taken.add(name)
    assert taken == {"serving_default", "examples", "text"}


def test_requests_get_as_many_answers_or_are_refused(served):
    *_, signatures, _ = served
    none = tf.constant([], tf.string)
    ids = {
        name: tf.zeros([0, 4], tf.int32)
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    for answer in (
        signatures["text"](question=none, context=none),
        signatures["examples"](examples=none),
        signatures["ids"](**ids),
    ):
        assert {len(value) for value in answer.values()} == {0}
    text = signatures["text"]
    for shape in ([3, 2], [3, 1], []):
        texts = tf.fill(shape, "worda")
        with pytest.raises(tf.errors.InvalidArgumentError, match="expected shape"):
            text(question=texts, context=texts)
    with pytest.raises(tf.errors.InvalidArgumentError, match="question and context"):
        text(question=tf.fill([3], "worda"), context=tf.fill([2], "worda"))
    row = {name: tf.constant([[2, 1, 1]]) for name in ids}
    with pytest.raises(tf.errors.InvalidArgumentError, match="segment_ids must"):
        signatures["ids"](**{**row, "input_mask": tf.ones([1, 3], tf.int32)})
