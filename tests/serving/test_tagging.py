"""A tagger as it is served: from ids, from tf.Examples and from text."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.heads import TokenClassificationModel
from albert_tf.records.features import tagging_features
from albert_tf.records.writer import write_records
from albert_tf.serving.tagging import find_entities
from albert_tf.task_config import Tagging
from albert_tf.text import entities
from albert_tf.text.words import split_words
from albert_tf.text.words_tf import Words
from data_prep.fine_tuning.tagged_sentences import Sentence
from data_prep.fine_tuning.tagging import tagging_rows
from helpers.fine_tuning_toys import MAX_SEQ_LENGTH, config
from helpers.served_models import export_folder, warmup_requests, write_model
from helpers.tagged_toys import LABELS

TEXTS = [
    "worda  lovely, wordb!",
    "",
    "“Wörda”\u00a0\x07 lovely 北京 wordc-wordd\n",
    "worde wordf " * 12,
    " ",
    "awful",
]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A model, its tokenizer, its export's signatures, and their folder."""
    folder = tmp_path_factory.mktemp("model")
    shape = config()
    model = TokenClassificationModel(shape, num_outputs=len(LABELS), seed=7)
    weights = model.head.output_weights
    weights.assign(tf.random.stateless_normal(weights.shape, [1, 2]))
    task_config = Tagging("toy", LABELS, max_seq_length=MAX_SEQ_LENGTH)
    tokenizer = write_model(folder, task_config, model, shape)
    version = export_folder(folder, folder / "served")
    loaded = tf.saved_model.load(str(version))
    return model, tokenizer, loaded.signatures, version


def rows_of(text, tokenizer):
    words = [text[start:end] for start, end in split_words(text)]
    sentence = Sentence(words, None, 1)
    return list(tagging_rows([sentence], LABELS, tokenizer, MAX_SEQ_LENGTH, 99, {}))


def probabilities_of(model, row):
    ids = np.array([row["input_ids"]], np.int32)
    batch = {"input_ids": ids, "input_mask": ids * 0 + 1, "segment_ids": ids * 0}
    return tf.nn.softmax(model(batch)["logits"]).numpy()


def expected_entities(model, tokenizer, text):
    """(start, end, label, score) of entities in the words that fit one row."""
    rows = rows_of(text, tokenizer)
    if not rows:
        return []
    probabilities = probabilities_of(model, rows[0])[0]
    probabilities = probabilities[np.flatnonzero(rows[0]["tag_ids"])]
    tags = [LABELS[place] for place in probabilities.argmax(-1)]
    ranges, scores = split_words(text), probabilities.max(-1)
    return [
        (ranges[s][0], ranges[e - 1][1], label, scores[s:e].mean())
        for s, e, label in entities.entities(tags)
    ]


def test_entities_of_texts_are_those_of_the_python_path(served):
    model, tokenizer, signatures, _ = served
    found = {
        name: value.numpy()
        for name, value in signatures["text"](tf.constant(TEXTS)).items()
    }
    assert found["truncated"].tolist() == [False] * 3 + [True] + [False] * 2
    assert found["entity_starts"].shape[1] > 2
    for row, text in enumerate(TEXTS):
        expected = expected_entities(model, tokenizer, text)
        count = len(expected)
        columns = [*("entity_starts", "entity_ends", "entity_labels", "entity_scores")]
        starts, ends, labels, scores = (found[name][row] for name in columns)
        assert list(zip(starts, ends, strict=True))[:count] == [e[:2] for e in expected]
        assert (starts[count:] == -1).all() and (ends[count:] == -1).all()
        assert [x.decode() for x in labels[:count]] == [e[2] for e in expected]
        np.testing.assert_allclose(scores[:count], [e[3] for e in expected], atol=1e-5)
        parts = [part.decode() for part in found["entity_texts"][row]]
        slices = [text[start:end] for start, end, *_ in expected]
        assert parts == slices + [""] * (len(parts) - count)


def test_no_texts_and_texts_without_words_are_answered(served):
    text = served[2]["text"]
    assert text(tf.constant([], tf.string))["entity_starts"].shape == (0, 0)
    assert text(tf.constant([""]))["entity_labels"].shape == (1, 0)
    broken = text(tf.constant([b"worda\xff lovely"]))
    for part in broken["entity_texts"].numpy()[0]:
        assert part.decode() in "worda\ufffd lovely"


def test_ids_and_examples_have_tags_of_tokens(served, tmp_path):
    model, tokenizer, signatures, _ = served
    rows = [rows_of(text, tokenizer)[0] for text in (TEXTS[0], TEXTS[2])]
    write_records(tmp_path / "rows", rows, tagging_features(), {"max_seq_length": 17})
    examples = list(tf.data.TFRecordDataset(str(tmp_path / "rows")))
    found = signatures["examples"](tf.stack(examples))
    lengths = [len(row["input_ids"]) for row in rows]
    assert lengths[0] != lengths[1]
    ids = np.zeros([2, max(lengths)], np.int32)
    mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int32)
    for place, row in enumerate(rows):
        ids[place, : lengths[place]] = row["input_ids"]
        expected = probabilities_of(model, row)[0]
        probabilities = found["probabilities"][place].numpy()
        np.testing.assert_allclose(probabilities[: lengths[place]], expected, atol=1e-5)
        assert (probabilities[lengths[place] :] == 0).all()
        tags = [tag.decode() for tag in found["tags"][place].numpy()]
        best = [LABELS[label] for label in expected.argmax(-1)]
        assert tags == best + [""] * (max(lengths) - lengths[place])
    served_ids = signatures["ids"](
        input_ids=ids, input_mask=mask, segment_ids=np.zeros_like(ids)
    )
    for name, value in served_ids.items():
        np.testing.assert_array_equal(value, found[name])
    names = [name.decode() for name in found["labels"][1].numpy()]
    assert names == LABELS


def test_warm_up_requests_are_answered(served):
    assert {name for name, _ in warmup_requests(served[3])} >= {"text", "examples"}


@pytest.mark.parametrize(
    "labels",
    [LABELS, ["E-a", "O", "I-a", "S-a", "B-a", "B-b", "U-b"], ["NN", "O", "V"]],
)
def test_entities_in_a_graph_are_those_of_python_in_any_scheme(labels):
    rng = np.random.default_rng(4)
    counts = [0, 9, 1, 0, 14, 7]
    chosen = [rng.integers(len(labels), size=count) for count in counts]
    reads = [np.arange(count) < rng.integers(count + 1) for count in counts]
    flat = np.concatenate(chosen)
    probabilities = np.full([len(flat), len(labels)], 0.1, np.float32)
    best = rng.uniform(0.5, 1, len(flat)).astype(np.float32)
    probabilities[np.arange(len(flat)), flat] = best
    starts = tf.ragged.constant([[3 * i for i in range(n)] for n in counts], tf.int32)
    words = Words(tf.fill([len(flat)], "x"), starts, starts + 2)
    found = find_entities(
        tf.constant(probabilities), tf.constant(np.concatenate(reads)), words, labels
    )
    first = np.cumsum([0, *counts])
    for row, count in enumerate(counts):
        tags = [
            labels[label] if is_read else "O"
            for label, is_read in zip(chosen[row], reads[row], strict=True)
        ]
        expected = entities.entities(tags)
        scores = best[first[row] : first[row] + count]
        for place, (start, end, label) in enumerate(expected):
            assert found["entity_starts"][row, place] == 3 * start
            assert found["entity_ends"][row, place] == 3 * (end - 1) + 2
            assert found["entity_labels"][row, place].numpy().decode() == label
            score = float(found["entity_scores"][row, place])
            assert score == pytest.approx(scores[start:end].mean(), rel=1e-5)
        assert (found["entity_starts"].numpy()[row, len(expected) :] == -1).all()
