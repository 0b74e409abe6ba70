"""Masks drawn while reading are those of a plain walk over the same random numbers."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.records.masking_config import MaskingConfig
from albert_tf.records.masking_tf import masked_rows
from albert_tf.records.ngrams_tf import draws_layout
from helpers import compact_rows
from helpers.compact_rows import CLS, LAST, MASK, PAD, SEP


def walk(tokens, starts, split, draws, more, rate, length, config):
    """One row by plain loops: (masked ids, columns of the masked tokens, swapped)."""
    layout = draws_layout(length, config)
    swapped = draws[layout.order] < 0.5
    parts = [(tokens[:split], starts[:split]), (tokens[split:], starts[split:])]
    row, words = [CLS], []
    for number, (ids, begins) in enumerate(parts[::-1] if swapped else parts):
        for place, token in enumerate(ids):
            if place == 0 or begins[place] or not config.do_whole_word_mask:
                words.append((number, []))
            words[-1][1].append(len(row))
            row.append(token)
        row.append(SEP)
    wanted = int(np.rint(len(row) * rate))
    budget = min(max(wanted, 1), config.max_predictions_per_seq)
    if min(len(places) for _, places in words) > budget:
        words = [(number, [place]) for number, word in words for place in word]
    bounds = np.cumsum(config.ngram_probabilities())[:-1].astype(np.float32)
    count = len(words)
    repeated = (draws[layout.words] * np.float32(count)).astype(int)
    visits = [*zip(repeated.tolist(), draws[layout.sizes], strict=True)]
    order = np.argsort(more[:count], kind="stable").tolist()
    visits += [(word, more[length + word]) for word in order]
    seen, chosen = set(), set()
    for word, number in visits:
        if not budget or word in seen:
            continue
        seen.add(word)
        size = 1 + int(np.sum(number >= bounds))
        gram = [w for w in range(word, min(word + size, count))]
        gram = [w for w in gram if words[w][0] == words[word][0]]
        while gram and sum(len(words[w][1]) for w in gram) > budget:
            gram.pop()
        if not chosen & set(gram):
            chosen |= set(gram)
            budget -= sum(len(words[w][1]) for w in gram)
    columns = sorted(place for word in chosen for place in words[word][1])
    ordinary = np.arange(5, LAST)
    masked = list(row)
    for column, kind, token in zip(
        columns, draws[layout.kinds], draws[layout.tokens], strict=False
    ):
        if kind < config.replace_with_mask:
            masked[column] = MASK
        elif kind >= config.replacement_bounds[1]:
            masked[column] = ordinary[int(token * np.float32(len(ordinary)))]
    return row, masked, columns, swapped


@pytest.mark.parametrize(
    ("length", "rate", "changes"),
    [
        (41, 0.15, {"max_predictions_per_seq": 6}),
        (67, 0.8, {"max_predictions_per_seq": 54}),
        (53, 0.4, {"max_predictions_per_seq": 11, "ngram": 5, "words": 0.2}),
        (31, 0.3, {"max_predictions_per_seq": 9, "do_whole_word_mask": False}),
        (37, 0.2, {"max_predictions_per_seq": 7, "favor_shorter_ngram": False}),
        (29, 0.05, {"max_predictions_per_seq": 1, "words": 0.05, "ngram": 1}),
    ],
)
def test_masks_are_those_of_a_plain_walk(length, rate, changes):
    rng = np.random.default_rng(length)
    text = compact_rows.pairs(150, length, rng, changes.pop("words", 0.7))
    config = MaskingConfig(**changes)
    layout = draws_layout(length, config)
    draws = rng.random((150, layout.total), np.float32)
    more = rng.random((150, 2 * length), np.float32)
    made = masked_rows(
        tf.constant(compact_rows.serialized(compact_rows.columns(*text))),
        tf.constant(draws),
        lambda rows: tf.gather(more, rows),
        tf.fill([150], tf.constant(rate, tf.float64)),
        compact_rows.rows_format(length),
        config,
    )
    made = {name: value.numpy() for name, value in made.items()}
    ids, starts, ranges_a, ranges_b = text
    for index, (begin, split, end) in enumerate(
        zip(ranges_a[:, 0], ranges_b[:, 0], ranges_b[:, 1], strict=True)
    ):
        row, masked, columns, swapped = walk(
            ids[begin:end].tolist(),
            starts[begin:end],
            split - begin,
            draws[index],
            more[index],
            rate,
            length,
            config,
        )
        padding = length - len(row)
        assert made["input_ids"][index].tolist() == masked + [PAD] * padding
        assert made["input_mask"][index].tolist() == [1] * len(row) + [0] * padding
        second = len(row) - row.index(SEP) - 1
        segments = [0] * (len(row) - second) + [1] * second + [0] * padding
        assert made["segment_ids"][index].tolist() == segments
        assert made["next_sentence_labels"][index].tolist() == [int(swapped)]
        free = config.max_predictions_per_seq - len(columns)
        assert made["masked_lm_positions"][index].tolist() == columns + [0] * free
        labels = [row[column] for column in columns]
        assert made["masked_lm_ids"][index].tolist() == labels + [0] * free
        weights = [1.0] * len(columns) + [0.0] * free
        assert made["masked_lm_weights"][index].tolist() == weights
        assert columns
