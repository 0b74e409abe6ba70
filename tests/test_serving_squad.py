"""A model that answers questions as it is served: from ids and from tf.Examples."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import answers, checkpoints, export, model_folder, serving_squad
from albert_tf.span_tasks import SquadSettings, predict, squad_task
from albert_tf.tokenization import AlbertTokenizer
from fine_tuning_toys import GOOD, WORDS, config, write_vocabulary
from questions import convert, paragraph

MAX_SEQ_LENGTH = 23
TEXTS = [" ".join(WORDS[:13]), f"{GOOD} worda", "wordc", ""]


def make_model(folder, version_2, threshold):
    """A folder with random weights, its task, its model and its tokenizer."""
    shape = config(initializer_range=0.5, hidden_dropout_prob=0.3)
    settings = SquadSettings(
        version_2,
        max_seq_length=MAX_SEQ_LENGTH,
        max_query_length=5,
        n_best_size=40,
        max_answer_length=4,
        start_n_top=7,
        end_n_top=6,
        threshold=threshold,
    )
    task = squad_task(settings)
    model = task.build_model(shape, 7, "none")
    tokenizer = AlbertTokenizer(vocab_file=write_vocabulary(folder))
    files = model_folder.model_files(folder / "vocab.txt", settings.to_dict())
    for name, content in files.items():
        (folder / name).write_bytes(content)
    checkpoints.weights_checkpoint(model).write(str(folder / "model.ckpt-3"))
    return settings, task, model, tokenizer, shape


@pytest.fixture(scope="module", params=[False, True], ids=["v1.1", "v2.0"])
def served(request, tmp_path_factory):
    """Settings, the Python path's proposals, rows, and the export's signatures."""
    folder = tmp_path_factory.mktemp("model")
    made = make_model(folder, request.param, threshold=0.0)
    settings, task, model, tokenizer, shape = made
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
    if request.param:
        # Between the scores, so that some are answered and some are not.
        middle = float(np.median(predicted["no_answer_logits"]))
        settings = SquadSettings(**{**vars(settings), "threshold": middle})
        files = model_folder.model_files(folder / "vocab.txt", settings.to_dict())
        (folder / "task.json").write_bytes(files["task.json"])
    contexts = {str(number): text for number, text in enumerate(TEXTS)}
    proposals = answers.propose(rows, predicted, contexts, settings.rules)
    found = model_folder.read(folder)
    exported = export.ExportedModel(
        config=shape,
        checkpoint=found.checkpoint,
        task=found.task,
        tokenizer=tokenizer,
    )
    version, _ = export.export_model(exported, folder / "served")
    signatures = tf.saved_model.load(str(version)).signatures
    return settings, proposals, rows, signatures


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
    settings, proposals, rows, signatures = served
    assert len(proposals.candidates["0"]) > 5 and not proposals.candidates["3"]
    assert "text" not in signatures
    batch = batch_of(rows)
    check(signatures["serving_default"](**batch), settings, proposals, rows)
    wide = {name: tf.cast(values, tf.int64) for name, values in batch.items()}
    check(signatures["ids_int64"](**wide), settings, proposals, rows)


def test_examples_get_the_answers_of_ids(served):
    settings, proposals, rows, signatures = served
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
    module = serving_squad.ServedAnswers(model, shape, settings.to_dict())
    row = {"input_ids": [[2, 8, 3, 9, 3]], "input_mask": [[1] * 5]}
    row["segment_ids"] = [[0, 0, 0, 1, 1]]
    answer = module.answer({name: tf.constant(v) for name, v in row.items()})
    assert answer["answered"].numpy().tolist() == [answered]
