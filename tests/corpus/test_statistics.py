"""Counts of parts add up to those of the whole and survive JSON."""

import json
from collections import Counter

from data_prep.corpus.statistics import Statistics


def test_statistics_of_parts_add_up_and_survive_json():
    total = Statistics(rows=2, ngrams_drawn=Counter({1: 3, 2: 1}))
    total.merge(Statistics(rows=5, pieces=7, ngrams_drawn=Counter({2: 4, 3: 1})))
    total.skipped["chunks of one word"] += 2
    assert (total.rows, total.pieces) == (7, 7)
    assert total.ngrams_drawn == {1: 3, 2: 5, 3: 1}
    assert Statistics.from_dict(json.loads(json.dumps(total.to_dict()))) == total


def test_counts_of_zero_are_left_out_of_sidecars():
    assert Statistics(rows=3).nonzero() == {"rows": 3}
