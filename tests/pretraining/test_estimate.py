"""Rows and bytes of a job are predicted from a sample of its text."""

import dataclasses

import numpy as np
import pytest

from data_prep.pretraining.config import PretrainingDataConfig
from data_prep.pretraining.estimate import estimate, estimate_table
from data_prep.pretraining.job import make_pretraining_data
from helpers.letters import CONFIG, make_documents
from helpers.pretraining_jobs import make_job


@pytest.fixture(scope="module")
def documents():
    return make_documents(2500, np.random.default_rng(2))


@pytest.mark.parametrize("count", [40, 2500])
@pytest.mark.parametrize("files", [1, 6])
@pytest.mark.parametrize("objective", ["sop", "nsp"])
def test_rows_and_bytes_are_predicted(
    count, files, objective, documents, tmp_path, monkeypatch
):
    monkeypatch.setattr("data_prep.corpus.files._SMALLEST_PART", 5000)
    monkeypatch.setattr("data_prep.corpus.files._LARGEST_PART", 10_000)
    config = PretrainingDataConfig(**{**vars(CONFIG), "pair_objective": objective})
    job = make_job(documents[:count], config, tmp_path, files=files)
    predicted = estimate(job)
    assert not list((tmp_path / "out").iterdir())
    report = make_pretraining_data(job)
    assert predicted["rows"] == pytest.approx(report["rows"], rel=0.05)
    assert predicted["record_bytes"] == pytest.approx(report["record_bytes"], rel=0.05)
    assert predicted["documents"] == pytest.approx(count, rel=0.05)


def test_padding_of_packed_rows_is_predicted(documents, tmp_path):
    short = [document[:2] for document in documents]
    config = dataclasses.replace(CONFIG, pack_documents=True, max_documents_per_row=5)
    job = make_job(short, config, tmp_path)
    predicted, report = estimate(job), make_pretraining_data(job)
    for name in ("rows", "record_bytes", "padding_share", "unpacked_padding_share"):
        assert predicted[name] == pytest.approx(report[name], rel=0.05, abs=0.01)
    assert 3 * report["padding_share"] < report["unpacked_padding_share"]


def test_a_prediction_is_a_line_a_number():
    table = estimate_table({"record_bytes": 12345, "unknown_share": 0.5})
    assert table.split() == ["record", "bytes", "12,345", "unknown", "share", "50.00%"]
