"""SQuAD as a task: rows on disk, losses, predictions, scores."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import TrainConfig
from albert_tf.records import batches
from albert_tf.records.features import squad_features
from albert_tf.records.reader import read_rows
from albert_tf.records.sidecar import read_record_set
from albert_tf.records.writer import write_records
from albert_tf.task_config import Squad
from albert_tf.tasks import losses, squad
from albert_tf.tasks.answer_metrics import QuestionSet, score_v1, score_v2
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.training.evaluator import Evaluator
from helpers.questions import convert, paragraph
from helpers.tiny import tiny_config
from helpers.tokenization_cases import train

TEXT = "the tide rose and the sailor sat still on that old stone there "
CONTEXTS = {"0": TEXT * 3, "1": TEXT * 3, "empty": ""}
LENGTHS = {"max_seq_length": 31, "doc_stride": 9, "max_query_length": 7}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabulary")
    return AlbertTokenizer(train(folder / "small.model"))


@pytest.fixture(scope="module")
def paragraphs():
    asked = [("who sat", "sailor", TEXT.index("sailor")), ("what", None, 0)]
    return [paragraph(TEXT * 3, *asked), paragraph("", ("who", None, 0))]


@pytest.fixture(scope="module")
def rows(paragraphs, tokenizer, tmp_path_factory):
    """Rows in memory, and the same as a set of records."""
    # Ids are unique in a file; here each paragraph numbers its own.
    made, _ = convert(paragraphs[:1], tokenizer, for_training=False, **LENGTHS)
    empty, _ = convert(paragraphs[1:], tokenizer, for_training=False, **LENGTHS)
    for row in empty:
        row["question_id"] = b"empty"
    made += empty
    path = tmp_path_factory.mktemp("rows") / "dev.tfrecord"
    metadata = {**tokenizer.metadata(), **LENGTHS}
    features = squad_features(with_places=True)
    assert write_records(path, made, features, metadata) == len(made) > 7
    return made, read_record_set([str(path)], {})


def test_rows_come_back_from_disk_as_they_were(rows):
    made, record_set = rows
    features = squad_features(with_places=True)
    for row, again in zip(made, read_rows(record_set.paths[0]), strict=True):
        assert row.keys() == again.keys() == features.keys()
        for name in features:
            np.testing.assert_array_equal(np.asarray(again[name]), row[name])


def test_training_rows_leave_out_what_only_answers_need(rows, tmp_path, tokenizer):
    made, _ = rows
    features = squad_features(with_places=False)
    metadata = {**tokenizer.metadata(), **LENGTHS}
    write_records(tmp_path / "train.tfrecord", made, features, metadata)
    [first, *_] = read_rows(tmp_path / "train.tfrecord")
    places = {"token_is_max_context", "piece_starts", "piece_ends"}
    assert features.keys() == first.keys() == made[0].keys() - places
    record_set = read_record_set([str(tmp_path / "train.tfrecord")], {})
    dataset = batches.training_batches(
        record_set, 5, 1, 0, tf.distribute.InputContext(), length_multiple=8
    )
    [batch] = dataset.take(1)
    for version_2 in (False, True):
        task_config = Squad(version_2, **LENGTHS)
        task = squad.squad_task(task_config)
        model = task.build_model(model_config(tokenizer), seed=3)
        outputs = model(task.read_batch(batch), training=True)
        for loss in task.losses.values():
            assert loss.values(outputs, batch).shape == (5,)


def model_config(tokenizer):
    return tiny_config(
        vocab_size=tokenizer.vocab_size,
        max_position_embeddings=31,
        initializer_range=0.4,
    )


@pytest.fixture(scope="module", params=[False, True], ids=["v1.1", "v2.0"])
def evaluated(request, rows, tokenizer):
    """(task_config, task, model, question set, predictions, report)"""
    made, record_set = rows
    task_config = Squad(request.param, n_best_size=6, **LENGTHS)
    golds = {"0": ["sailor"], "1": ["stone"], "empty": ["tea"]}
    if request.param:
        golds |= {"1": [], "empty": []}
    questions = QuestionSet(made, CONTEXTS, golds, task_config)
    task = squad.squad_task(task_config, questions=questions)
    model = task.build_model(model_config(tokenizer), seed=3)
    with tf.distribute.OneDeviceStrategy("CPU:0").scope():
        config = TrainConfig("unused", eval_batch_size=4)
        evaluator = Evaluator(task, model, record_set, config)
        steps = batches.evaluation_steps(record_set, 4)
        report, predictions = evaluator.evaluate(tf.constant(steps))
    return task_config, task, model, questions, predictions, report


def test_predictions_in_padded_batches_by_length_are_those_of_rows_alone(
    evaluated, rows
):
    task_config, task, model, questions, predictions, _ = evaluated
    made, _ = rows
    alone = squad.predict(task, model, made, batch_size=1)
    assert alone.keys() == predictions.keys()
    ours = questions.proposals(predictions)
    theirs = questions.proposals(alone)
    assert ours.best_texts() == theirs.best_texts()
    for question, found in ours.candidates.items():
        for a, b in zip(found, theirs.candidates[question], strict=True):
            assert a.text == b.text and a.score == pytest.approx(b.score, abs=1e-3)
    assert ours.candidates["0"] and not ours.candidates["empty"]
    assert ours.reasons["empty"] == "empty paragraph"
    assert (ours.null_scores is None) == (not task_config.version_2)


def test_the_report_has_the_losses_and_the_official_scores(evaluated, rows):
    task_config, task, model, questions, predictions, report = evaluated
    made, _ = rows
    assert report["rows"] == len(made)
    proposals = questions.proposals(predictions)
    scores = questions.score(proposals, task_config.threshold)
    assert task.best_metric in scores
    assert scores.items() <= report.items()
    totals = dict.fromkeys(task.losses, 0.0)
    for row in made:
        numbers = {k: np.asarray(v)[None] for k, v in row.items() if k != "question_id"}
        batch = {k: tf.constant(v, tf.int32) for k, v in numbers.items()}
        batch["input_mask"] = tf.ones_like(batch["input_ids"])
        outputs = model(batch)
        for name, loss in task.losses.items():
            totals[name] += float(loss.values(outputs, batch)[0]) / len(made)
            assert losses.row_weights(batch) == [1.0]
    for name, total in totals.items():
        assert report[f"eval_{name}"] == pytest.approx(total, rel=1e-4)


def test_without_gold_answers_nothing_is_scored(evaluated, rows):
    task_config, *_, predictions, _ = evaluated
    unknown = QuestionSet(rows[0], CONTEXTS, None, task_config)
    assert unknown.score(unknown.proposals(predictions), 0.0) == {}


def test_a_sample_is_scored_on_its_questions_alone(evaluated, rows):
    task_config, task, model, questions, predictions, _ = evaluated
    made, record_set = rows
    places = [i for i, row in enumerate(made) if row["question_id"] == b"1"]
    sample = np.array(places)
    with tf.distribute.OneDeviceStrategy("CPU:0").scope():
        config = TrainConfig("unused", eval_batch_size=4)
        evaluator = Evaluator(task, model, record_set, config, sample)
        steps = batches.evaluation_steps(record_set, 4, sample)
        found = evaluator.evaluate(tf.constant(steps))
    assert found.report["rows"] == len(sample) < record_set.total_rows
    for name, values in found.predictions.items():
        np.testing.assert_allclose(values, predictions[name][sample], atol=1e-4)
    proposals = questions.proposals(predictions)
    if task_config.version_2:
        answer = {"1": proposals.predictions(task_config.threshold)["1"]}
        expected = score_v2({"1": []}, answer)
    else:
        expected = score_v1({"1": ["stone"]}, {"1": proposals.best_texts()["1"]})
    assert found.report.items() >= expected.items()
