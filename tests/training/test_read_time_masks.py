"""Training on rows without masks: resumes as it began, evaluates rows of any kind."""

import dataclasses

import numpy as np
import pytest

from albert_tf.records.masking_config import ReadTimeMasks
from albert_tf.records.sidecar import read_record_set
from albert_tf.training.phases import Phase
from albert_tf.training.run import run
from helpers import compact_rows, tiny
from helpers.training_jobs import (
    assert_equal_weights,
    make_job,
    one_device,
    train_until,
    weights,
)

LENGTH, COUNT = tiny.MAX_SEQ_LENGTH, 30


def compact_set(folder, **values):
    text = compact_rows.pairs(COUNT, LENGTH, np.random.default_rng(1))
    vocabulary = tiny.tiny_config().vocab_size
    ids, *rest = text
    metadata = {
        **compact_rows.metadata(LENGTH),
        "vocab_size": vocabulary,
        "ordinary_ids": [[5, vocabulary]],
        "vocabulary_sha256": "made up",
    }
    text = (5 + ids % (vocabulary - 5), *rest)
    path = compact_rows.write(folder / "compact.tfrecord", text, metadata)
    masks = ReadTimeMasks.for_length(LENGTH, num_train_steps=8, **values)
    return dataclasses.replace(read_record_set([path], {}), masks=masks)


def test_a_resumed_run_ends_with_the_weights_of_a_whole_one(tmp_path):
    rows = compact_set(tmp_path, masked_lm_prob=0.15, masked_lm_prob_end=0.5)
    whole = make_job(rows, tmp_path / "whole", 8, eval_rows=rows)
    results = run(whole, one_device())
    assert results["settings"]["masks_of_train_rows"]["masked_lm_prob_end"] == 0.5
    assert 0.0 < results["masked_lm_loss"] < 20.0
    cut = make_job(rows, tmp_path / "cut", 8)
    train_until(cut, 3)
    other = dataclasses.replace(
        cut, train_rows=compact_set(tmp_path, masked_lm_prob=0.15)
    )
    with pytest.raises(ValueError, match=r"masked_lm_prob_end=0\.5, but .*None"):
        run(other, one_device())
    run(cut, one_device())
    assert_equal_weights(weights(tmp_path / "cut"), weights(tmp_path / "whole"))


def test_rows_with_static_masks_are_evaluated_beside_it(tmp_path):
    rows = compact_set(tmp_path)
    tiny.write_rows(tmp_path / "eval.tfrecord", 7)
    static = read_record_set([str(tmp_path / "eval.tfrecord")], {})
    keys = rows.tokenizer_settings
    static = dataclasses.replace(static, metadata={**static.metadata, **keys})
    results = run(make_job(rows, tmp_path / "run", 2, eval_rows=static), one_device())
    assert results["eval_rows"] == 7
    predictions = rows.masks.masking.max_predictions_per_seq
    assert predictions != static.metadata["max_predictions_per_seq"]


def test_phases_cut_rows_before_they_are_masked_and_resume(tmp_path):
    plan = (Phase(3, LENGTH - 3, 4), Phase(4, LENGTH, 2))
    rows = compact_set(tmp_path, masked_lm_prob=0.2, masked_lm_prob_end=0.6)
    whole, cut = (
        make_job(rows, tmp_path / name, 7, phases=plan) for name in ("whole", "cut")
    )
    results = run(whole, one_device())
    assert [p["rows_of_length"] for p in results["settings"]["phases"]] == [LENGTH] * 2
    assert "masked_tokens_cut" not in results["train"]
    train_until(cut, 5)
    run(cut, one_device())
    assert_equal_weights(weights(tmp_path / "cut"), weights(tmp_path / "whole"))


def test_the_rate_goes_on_from_phase_to_phase():
    masks = ReadTimeMasks.for_length(
        30, masked_lm_prob=0.1, masked_lm_prob_end=0.5, num_train_steps=10
    )
    later = masks.for_phase(20, first_step=4, random_seed=7)
    assert later.rate(3.0) == pytest.approx(masks.rate(7.0)) == pytest.approx(0.38)
    assert later.masking.max_predictions_per_seq == 10
    assert later.to_dict() | {"max_predictions_per_seq": 15} == masks.to_dict()
