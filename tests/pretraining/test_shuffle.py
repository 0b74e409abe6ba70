"""Runs keep every row; buckets put them in random order."""

import numpy as np
import pytest

from albert_tf.records.reader import read_rows
from data_prep.pretraining import shards
from data_prep.pretraining.config import PretrainingDataConfig
from helpers.letters import unmasked_segments
from helpers.pretraining_jobs import make


@pytest.mark.parametrize("rows_per_bucket", [10_000, 50])
def test_rows_are_shuffled_over_the_whole_file(rows_per_bucket, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "_ROWS_PER_BUCKET", rows_per_bucket)
    letters = [[chr(97 + place) * 9 + " z"] for place in range(26)]
    config = PretrainingDataConfig(max_seq_length=17, dupe_factor=20)
    (path,), _ = make(letters, config, tmp_path, files=1)
    order = []
    for row in read_rows(path):
        (segments,) = unmasked_segments({name: v[None] for name, v in row.items()})
        found = "".join(segments).lower().replace("z", "")
        order.append(ord((found or "z")[0]) - 97)
    assert len(order) == 520
    assert abs(np.corrcoef(order, np.arange(520))[0, 1]) < 0.2
    assert abs(np.corrcoef(order, np.arange(520) % 26)[0, 1]) < 0.2
    neighbours = np.corrcoef(order[:-1], order[1:])[0, 1]
    assert abs(neighbours) < 0.2
