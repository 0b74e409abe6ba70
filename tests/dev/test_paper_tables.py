"""Our parameter counts against the paper's tables."""

import pytest

from albert_tf.config import AlbertConfig
from dev import paper_tables
from helpers.paths import ROOT

CONFIGS = ROOT / "configs"
# Table 1's xxlarge apart, whose 235M no way of counting gives.
COUNTED = [row for row in paper_tables.ROWS if not row.other]


def config_of(row):
    config = AlbertConfig.from_json(CONFIGS / f"{row.config_file}.json")
    return config.override(row.overrides)


@pytest.mark.parametrize("row", COUNTED, ids=lambda row: f"{row.table} {row.name}")
def test_parameters_in_the_papers_way_of_counting_are_the_papers(row):
    config = config_of(row)
    assert round(paper_tables.as_the_paper_counts(config) / 1e6) == row.millions
    # Ours is the same up to the two tables and the pooler.
    ours = paper_tables.encoder_parameters(config) / 1e6
    assert abs(ours - row.millions) < max(1.1, 0.022 * row.millions)


def test_the_papers_two_counts_of_the_widest_model_differ():
    (row,) = (row for row in paper_tables.ROWS if row.other)
    counted = paper_tables.as_the_paper_counts(config_of(row)) / 1e6
    assert round(counted) == row.other != row.millions
    assert paper_tables.encoder_parameters(config_of(row)) == 222_595_584


def test_a_row_that_differs_says_so():
    row = paper_tables.Row(1, "base", "albert_base", (), 13)
    line, agrees = paper_tables.compare(row, config_of(row))
    assert not agrees and "DIFFERS" in line
