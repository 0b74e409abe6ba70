"""Rows are consecutive text of one document, rightly labelled and packed."""

import json
from collections import Counter

import numpy as np
import pytest

from albert_tf.records.features import pretraining_features
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.corpus.reader import ReadingConfig, read_sentences
from data_prep.corpus.statistics import Statistics
from data_prep.corpus.tokenized_corpus import TokenizedCorpus, tokenize_sentences
from data_prep.pretraining.config import PretrainingDataConfig
from data_prep.pretraining.pairs import choose_chunks, choose_segment_pairs
from data_prep.pretraining.rows import make_rows as rows_make_rows
from helpers.letters import (
    CONFIG,
    TOKENIZER,
    make_documents,
    tokenize,
    unmasked_ids,
    unmasked_segments,
)


@pytest.fixture(scope="module")
def documents():
    return make_documents(700, np.random.default_rng(1))


def make_rows(text, config, statistics=None, seed=0):
    statistics = Statistics() if statistics is None else statistics
    rng = np.random.default_rng(seed)
    return rows_make_rows(text, TOKENIZER, config, rng, statistics)


def test_chunks_cover_each_document_in_order(documents):
    text = tokenize(documents)
    chunks = choose_chunks(text, CONFIG, np.random.default_rng(4))
    assert chunks[0, 0] == 0 and chunks[-1, 1] == len(text.sentence_offsets) - 1
    assert np.array_equal(chunks[1:, 0], chunks[:-1, 1])
    assert set(text.document_offsets[1:]) <= set(chunks[:, 1])


def test_one_chunk_in_ten_is_short():
    # One-piece sentences reach every wanted length exactly.
    text = TokenizedCorpus(
        ids=np.full(2_000_000, 40, np.int32),
        sentence_offsets=np.arange(2_000_001),
        document_offsets=np.array([0, 2_000_000]),
    )
    chunks = choose_chunks(text, CONFIG, np.random.default_rng(5))
    lengths = np.diff(chunks)[:-1, 0]
    shares = np.bincount(lengths, minlength=65) / len(lengths)
    # Lengths 2..64 share the short ones, so full ones get one more of the 63 shares.
    assert shares[64] == pytest.approx(0.9 + 0.1 / 63, abs=0.004)
    assert shares[2:64] == pytest.approx(np.full(62, 0.1 / 63), abs=0.0012)
    assert not shares[:2].any()


def test_segments_are_consecutive_and_within_one_document(documents):
    text = tokenize(documents)
    rng = np.random.default_rng(6)
    chunks = choose_chunks(text, CONFIG, rng)
    starts = TOKENIZER.word_start_table[text.ids]
    pairs = choose_segment_pairs(text, chunks, starts, rng, Statistics())
    swapped = pairs.labels[:, None] == 1
    first = np.where(swapped, pairs.ranges_b, pairs.ranges_a)
    second = np.where(swapped, pairs.ranges_a, pairs.ranges_b)
    assert np.array_equal(first[:, 1], second[:, 0])
    assert np.diff(first).min() > 0 and np.diff(second).min() > 0
    document_starts = text.sentence_offsets[text.document_offsets]
    document = np.searchsorted(document_starts, first[:, 0], side="right")
    assert np.all(second[:, 1] <= document_starts[document])
    # Nothing but chunks of one word lies between one pair and the next.
    begins = np.append(first[:, 0], len(text.ids))
    ends = np.append(0, second[:, 1])
    gaps = [starts[a:b] for a, b in zip(ends, begins, strict=True) if a < b]
    sentence_starts = set(text.sentence_offsets.tolist())
    assert gaps and all(begin in sentence_starts for begin in begins.tolist())
    assert sum(gap.sum() for gap in gaps) == len(chunks) - len(pairs.labels)


def test_rows_hold_text_of_one_document_only(documents):
    text = tokenize(documents)
    rows = make_rows(text, CONFIG)
    texts = " ".join("".join(map(TOKENIZER.words, d)) for d in documents)
    for index, (first, second) in enumerate(unmasked_segments(rows)):
        assert first in texts and second in texts
        swapped = rows["next_sentence_labels"][index, 0]
        in_order = [second, first] if swapped else [first, second]
        length = int(rows["input_mask"][index].sum())
        if length < CONFIG.max_seq_length:
            # Nothing was truncated, so the two are consecutive.
            assert "".join(in_order) in texts


def test_labels_are_even_and_fall_on_any_row(documents):
    statistics = Statistics()
    text = tokenize(documents)
    labels = [
        make_rows(text, CONFIG, statistics, seed)["next_sentence_labels"][:500, 0]
        for seed in range(100)
    ]
    share = statistics.pair_labels["swapped"] / statistics.rows
    assert share == pytest.approx(0.5, abs=0.02)
    assert np.mean(labels, axis=0) == pytest.approx(np.full(500, 0.5), abs=0.2)
    # Neighbours are as often alike as not.
    assert np.mean(np.diff(labels) == 0) == pytest.approx(0.5, abs=0.02)


def test_a_document_of_one_row_gets_either_label():
    text = tokenize([["aa b"]])
    labels = [
        make_rows(text, CONFIG, seed=seed)["next_sentence_labels"].item()
        for seed in range(200)
    ]
    assert np.mean(labels) == pytest.approx(0.5, abs=0.1)


def test_documents_of_one_sentence_give_both_labels():
    rng = np.random.default_rng(7)
    text = tokenize(make_documents(3000, rng, sentences=(1, 2), words=(2, 9)))
    statistics = Statistics()
    rows = make_rows(text, CONFIG, statistics)
    assert len(rows["input_ids"]) == 3000
    share = statistics.pair_labels["swapped"] / 3000
    assert share == pytest.approx(0.5, abs=0.02)


def test_a_sentence_on_its_own_is_split_before_any_inner_word():
    text = tokenize([["aa b cccc d"]] * 4000)
    rows = make_rows(text, CONFIG)
    pairs = Counter()
    for index, segments in enumerate(unmasked_segments(rows)):
        swapped = rows["next_sentence_labels"][index, 0]
        pairs[segments[::-1] if swapped else segments] += 1
    assert set(pairs) == {("Aa", "BCcccD"), ("AaB", "CcccD"), ("AaBCccc", "D")}
    assert min(pairs.values()) > 1100


def test_documents_of_one_word_are_skipped_and_counted():
    statistics = Statistics()
    rows = make_rows(tokenize([["abc"], ["abc de"], ["x"]]), CONFIG, statistics)
    assert len(rows["input_ids"]) == statistics.rows == 1
    assert statistics.skipped["chunks of one word"] == 2


def test_long_rows_are_truncated_to_the_full_length(documents):
    statistics = Statistics()
    rows = make_rows(tokenize(documents), CONFIG, statistics)
    lengths = rows["input_mask"].sum(axis=1)
    assert lengths.max() == CONFIG.max_seq_length
    assert np.mean(lengths == CONFIG.max_seq_length) > 0.3
    assert statistics.row_pieces == lengths.sum()
    assert statistics.row_pieces + statistics.padding_pieces == 67 * statistics.rows


def test_every_piece_is_in_a_row_or_counted_as_truncated():
    rng = np.random.default_rng(8)
    text = tokenize(make_documents(500, rng, words=(2, 9)))
    statistics = Statistics()
    rows = make_rows(text, CONFIG, statistics)
    in_rows = rows["input_mask"].sum() - 3 * len(rows["input_mask"])
    assert statistics.truncated_pieces > 0
    assert in_rows + statistics.truncated_pieces == len(text.ids)


def test_boundaries_mark_word_starts_segment_starts_and_special_pieces(documents):
    rows = make_rows(tokenize(documents), CONFIG)
    for index, (first, second) in enumerate(unmasked_segments(rows)):
        starts = [c.isupper() for c in first + second]
        starts[0] = starts[len(first)] = True
        expected = [1, *starts[: len(first)], 1, *starts[len(first) :], 1]
        expected += [0] * (67 - len(expected))
        assert rows["token_boundary"][index].tolist() == expected


def test_features_have_the_names_and_shapes_on_disk(documents):
    rows = make_rows(tokenize(documents[:9]), CONFIG)
    features = pretraining_features(67, 11)
    assert set(rows) == set(features)
    for name, feature in features.items():
        assert rows[name].shape[1:] == feature.shape
    assert rows["masked_lm_weights"].dtype == np.float32


def test_statistics_of_parts_add_up(documents):
    text = tokenize(documents)
    total, whole = Statistics(), Statistics()
    for seed in range(3):
        part = Statistics()
        make_rows(text, CONFIG, part, seed)
        total.merge(part)
        make_rows(text, CONFIG, whole, seed)
    assert total == whole
    assert Statistics.from_dict(json.loads(json.dumps(total.to_dict()))) == total


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_seq_length": 4}, "max_seq_length must be at least 5.* Received 4"),
        ({"short_seq_prob": 10}, "short_seq_prob .* Received 10"),
        ({"dupe_factor": 0}, "dupe_factor must be at least 1. Received 0"),
        ({"random_seed": -1}, "random_seed .* Received -1"),
        ({"pair_objective": "spo"}, "pair_objective must be one of .*'spo'"),
    ],
)
def test_impossible_settings_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        PretrainingDataConfig(**change)


def test_rows_of_real_text_decode_to_the_source(shared_data):
    tokenizer = AlbertTokenizer(shared_data / "vocabulary" / "30k-clean.model")
    config = PretrainingDataConfig(max_seq_length=128, short_seq_prob=0.8)
    path = str(shared_data / "text" / "xquad_contexts_en.txt")
    sentences = list(read_sentences([path], ReadingConfig("raw")))[:1500]
    (segment,) = tokenize_sentences(sentences, tokenizer, 125, Statistics())
    text = segment.corpus.block(0, len(segment.corpus.sentence_offsets) - 1)
    rng = np.random.default_rng(9)
    rows = rows_make_rows(text, tokenizer, config, rng, Statistics())
    source = "".join(s.text for s in sentences)
    source = tokenizer.normalize(source).replace(" ", "")
    compared = 0
    for index, ids in enumerate(unmasked_ids(rows)):
        if tokenizer.unk_id in ids or len(ids) == config.max_seq_length:
            continue
        segments = np.split(ids, np.flatnonzero(ids == tokenizer.sep_id) + 1)[:2]
        first, second = (tokenizer.decode(segment[:-1]) for segment in segments)
        swapped = rows["next_sentence_labels"][index, 0]
        joined = second + first if swapped else first + second
        joined = joined.replace("[CLS]", "").replace(" ", "")
        assert joined in source
        compared += 1
    assert compared > 200
