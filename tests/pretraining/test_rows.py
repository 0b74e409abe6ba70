"""Rows are consecutive text of one document, rightly labelled and packed."""

import dataclasses
from collections import Counter

import numpy as np
import pytest

from albert_tf.records.features import pretraining_features
from albert_tf.text.packed_rows import split_rows
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.corpus.reader import ReadingConfig, read_sentences
from data_prep.corpus.statistics import Statistics
from data_prep.corpus.tokenized_corpus import tokenize_sentences
from data_prep.pretraining.config import WITHOUT_LABEL, PretrainingDataConfig
from data_prep.pretraining.output_files import padding_shares
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


def test_rows_hold_text_of_one_document_only(documents):
    text = tokenize(documents)
    rows = make_rows(text, CONFIG)
    texts = " ".join("".join(map(TOKENIZER.words, d)) for d in documents)
    for index, (first, second) in enumerate(unmasked_segments(rows)):
        assert first in texts and second in texts
        swapped = rows["next_sentence_labels"][index, 0] == 1
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
    counts = statistics.pair_labels
    assert counts["swapped"] == pytest.approx(counts["in order"], rel=0.02)
    assert counts.total() == statistics.rows
    assert 0 < counts[WITHOUT_LABEL] < statistics.rows / 2
    labels = np.where(np.array(labels) < 0, 0.5, labels)
    assert np.mean(labels, axis=0) == pytest.approx(np.full(500, 0.5), abs=0.25)
    labels = [each[each != 0.5] for each in labels]
    labels = np.concatenate(labels)
    # Neighbours are as often alike as not.
    assert np.mean(np.diff(labels) == 0) == pytest.approx(0.5, abs=0.02)


def test_a_document_of_one_row_gets_either_label():
    text = tokenize([["aa b", "ccc"]])
    labels = [
        make_rows(text, CONFIG, seed=seed)["next_sentence_labels"].item()
        for seed in range(200)
    ]
    assert np.mean(labels) == pytest.approx(0.5, abs=0.1)


def test_documents_of_one_sentence_give_no_label():
    rng = np.random.default_rng(7)
    text = tokenize(make_documents(3000, rng, sentences=(1, 2), words=(2, 9)))
    statistics = Statistics()
    rows = make_rows(text, CONFIG, statistics)
    assert len(rows["input_ids"]) == 3000
    assert np.all(rows["next_sentence_labels"] == -1)
    assert statistics.pair_labels == {WITHOUT_LABEL: 3000, "in order": 0, "swapped": 0}


def test_a_sentence_on_its_own_is_split_before_any_inner_word():
    text = tokenize([["aa b cccc d"]] * 4000)
    rows = make_rows(text, CONFIG)
    pairs = Counter()
    for index, segments in enumerate(unmasked_segments(rows)):
        assert rows["next_sentence_labels"][index, 0] == -1, "the order is not asked"
        pairs[segments] += 1
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


def test_statistics_of_blocks_add_up(documents):
    text = tokenize(documents)
    total, whole = Statistics(), Statistics()
    for seed in range(3):
        part = Statistics()
        make_rows(text, CONFIG, part, seed)
        total.merge(part)
        make_rows(text, CONFIG, whole, seed)
    assert total == whole


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
        swapped = rows["next_sentence_labels"][index, 0] == 1
        joined = second + first if swapped else first + second
        joined = joined.replace("[CLS]", "").replace(" ", "")
        assert joined in source
        compared += 1
    assert compared > 200


PACKED = dataclasses.replace(CONFIG, pack_documents=True, max_documents_per_row=6)


def test_packed_rows_hold_the_same_pairs_with_their_labels_and_less_padding():
    rng = np.random.default_rng(12)
    text = tokenize(make_documents(900, rng, sentences=(1, 4)))
    statistics, packed_statistics = Statistics(), Statistics()
    rows = make_rows(text, CONFIG, statistics)
    packed = make_rows(text, PACKED, packed_statistics)
    assert packed_statistics.pair_labels == statistics.pair_labels
    assert packed_statistics.row_pieces == statistics.row_pieces
    assert packed_statistics.rows == len(packed["input_ids"]) < 0.6 * statistics.rows
    assert packed_statistics.padding_pieces < 0.1 * statistics.padding_pieces
    shares = padding_shares(packed_statistics, True)
    before = padding_shares(statistics, False)["padding_share"]
    assert shares["unpacked_padding_share"] == pytest.approx(before)

    features = PACKED.features
    assert packed.keys() == features.keys()
    assert all(packed[n].shape[1:] == f.shape for n, f in features.items())
    names = ("input_ids", "input_mask", "segment_ids", "token_boundary")
    unmasked = {**packed, "input_ids": packed["input_ids"].copy()}
    row, slot = np.nonzero(packed["masked_lm_weights"])
    unmasked["input_ids"][row, packed["masked_lm_positions"][row, slot]] = packed[
        "masked_lm_ids"
    ][row, slot]
    row, column, single = split_rows(
        {name: unmasked[name] for name in names}, packed["document_ids"]
    )
    number = packed["document_ids"][row, column] - 1
    np.testing.assert_array_equal(
        packed["next_sentence_positions"][row, number], column
    )
    assert packed["next_sentence_weights"][row, number].all()
    assert packed["next_sentence_weights"].sum() == len(row)
    labels = packed["next_sentence_labels"][row, number]
    real = single["input_mask"].sum(axis=1)
    found = Counter(
        (tuple(ids[:count]), label)
        for ids, count, label in zip(single["input_ids"], real, labels, strict=True)
    )
    expected = Counter(
        (tuple(ids), label)
        for ids, label in zip(
            unmasked_ids(rows), rows["next_sentence_labels"][:, 0], strict=True
        )
    )
    assert found == expected


def test_the_budget_of_masks_is_that_of_the_whole_packed_row():
    masking = dataclasses.replace(CONFIG.masking, max_predictions_per_seq=60)
    config = dataclasses.replace(PACKED, masking=masking)
    text = tokenize(make_documents(900, np.random.default_rng(13), sentences=(1, 4)))
    rows = make_rows(text, config)
    budget = np.rint(rows["input_mask"].sum(axis=1) * masking.masked_lm_prob)
    predicted = rows["masked_lm_weights"].sum(axis=1)
    assert (predicted <= budget).all() and np.mean(predicted == budget) > 0.95
