"""Phases of pretraining: their rules, and runs whose rows differ in length."""

import dataclasses
import json

import numpy as np
import pytest

from albert_tf.records import batches, cutting
from albert_tf.records.length_sets import read_sets_by_length
from albert_tf.records.sidecar import read_record_set
from albert_tf.training import identity, phases
from albert_tf.training.phases import Phase
from albert_tf.training.run import run
from helpers.tiny import tiny_config, write_rows
from helpers.training_jobs import (
    assert_equal_weights,
    make_job,
    one_device,
    stored_run,
    train_until,
    two_devices,
    weights,
)

# Of lengths 7 (cut from 10), 18 and 10, which have rows of their own.
PLAN = (Phase(5, 7, 6), Phase(4, 18, 2), Phase(3, 10, 4))


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """Rows of 18 and of 10 tokens."""
    folder = tmp_path_factory.mktemp("rows")
    paths = [
        write_rows(folder / "a.tfrecord", 11, seed=1),
        write_rows(folder / "b.tfrecord", 9, seed=2, max_seq_length=18),
        write_rows(folder / "c.tfrecord", 6, seed=3),
    ]
    return read_sets_by_length([str(path) for path in paths], {})


def phased(sets, output_dir, plan=PLAN, **changes):
    steps = sum(phase.steps for phase in plan)
    longest, *others = sets
    # One layer is traced faster.
    model = tiny_config(num_hidden_layers=1)
    settings = {"num_warmup_steps": 2, "steps": steps, "model_config": model}
    changes = settings | changes
    return make_job(
        longest, output_dir, phases=plan, other_train_rows=others, **changes
    )


# -- rules


def test_phases_are_written_as_they_are_read():
    found = phases.parse("112500:128:4096, 12500:512", 1024)
    assert found == (Phase(112500, 128, 4096), Phase(12500, 512, 1024))
    assert phases.parse(phases.to_text(found), 1) == found
    assert phases.parse("", 7) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", "phases are written STEPS:LENGTH:BATCH, or .* Received '5'"),
        ("5:128,", "phases are written .* Received ''"),
        ("5:128:4:1", "phases are written"),
        ("-5:128", "phases are written"),
        ("0:128", "steps must be a whole number of at least 1"),
        ("5:128:0", "batch_size must be a whole number of at least 1"),
        ("5:0:4", "A phase's length must be at least 5. Received '5:0:4'"),
        ("5:4:4", "length must be a whole number of at least 5"),
    ],
)
def test_other_phases_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        phases.parse(text, 4)


def test_a_step_belongs_to_one_phase():
    numbers = [phases.place_of(PLAN, step).number for step in range(12)]
    assert numbers == [0] * 5 + [1] * 4 + [2] * 3
    ends = [phases.end_of(PLAN, step) for step in range(12)]
    assert ends == [5] * 5 + [9] * 4 + [12] * 3
    assert phases.place_of(PLAN, 9) == (2, 9, PLAN[2])
    assert phases.place_of(PLAN, 12).number == 2


def test_work_is_counted_in_tokens():
    """Steps of 42, 36 and 40 tokens."""
    tokens = [42] * 5 + [36] * 4 + [40] * 3
    for step in range(1, 13):
        left = phases.work_left(PLAN, step, step - 1)
        assert left == pytest.approx(sum(tokens[step:]) / tokens[step - 1])


def test_seeds_of_phases_differ_but_the_first_is_the_runs():
    seeds = [phases.seed_of(seed, n) for seed in (0, 5) for n in range(4)]
    assert seeds[0] == 0 and seeds[4] == 5 and len(set(seeds)) == 8


def test_a_phase_reads_the_shortest_rows_that_are_long_enough(sets):
    assert [phases.rows_length(rows) for rows in sets] == [18, 10]
    assert [rows.rows for rows in sets] == [(9,), (11, 6)]
    for length, expected in ((5, 10), (9, 10), (10, 10), (11, 18), (18, 18)):
        rows = phases.records_for(sets, length)
        assert phases.rows_length(rows) == expected
        assert phases.is_cut(sets, Phase(1, length, 1)) == (length != expected)


def test_packed_rows_are_not_cut(tmp_path):
    path = write_rows(tmp_path / "packed", 2, max_documents_per_row=4)
    rows = read_record_set([str(path)], {})
    length = phases.rows_length(rows)
    assert phases.records_for([rows], length) is rows
    with pytest.raises(ValueError, match=f"cannot be cut to a phase of {length - 1}"):
        phases.records_for([rows], length - 1)


def test_sets_must_agree_but_in_length(tmp_path, sets):
    other = write_rows(tmp_path / "d.tfrecord", 4, max_seq_length=12, lower_case=False)
    paths = [*sets[0].paths, str(other)]
    with pytest.raises(ValueError, match=r"d.tfrecord .* differ in lower_case \(F"):
        read_sets_by_length(paths, {})


@pytest.mark.parametrize(
    ("plan", "changes", "message"),
    [
        (PLAN, {"steps": 13}, "are 12 steps, but num_train_steps is 13: make them"),
        (
            (Phase(12, 19, 4),),
            {},
            "A phase of 19 tokens needs .* at most 18",
        ),
        ((Phase(12, 18, 4),), {}, "No phase reads .*a.tfrecord, rows of 10 tokens"),
        ((), {"steps": 12}, "training rows have several lengths, 18, 10"),
    ],
)
def test_jobs_whose_phases_do_not_fit_are_refused(plan, changes, message, sets):
    with pytest.raises(ValueError, match=message):
        phased(sets, "out", plan, **changes)


def test_phases_must_fit_model_and_devices(sets, tmp_path):
    short = tiny_config(max_position_embeddings=17)
    with pytest.raises(ValueError, match=r"max_position_embeddings. Received 4:18:2 "):
        identity.check_job(phased(sets, tmp_path, model_config=short))
    # Rows that are cut may be longer than the model reads.
    shorter = [rows for rows in sets if phases.rows_length(rows) == 10]
    model = tiny_config(max_position_embeddings=8)
    plan = (Phase(3, 7, 2),)
    identity.check_job(phased(shorter, tmp_path, plan, model_config=model))
    with pytest.raises(ValueError, match=r"A batch of 6 rows .* multiple of 4"):
        run(phased(sets, tmp_path, gradient_accumulation_steps=2), two_devices())


def test_only_the_phases_that_are_done_are_kept():
    asked = [
        ("5:7:6,4:18:2", "5:7:6,9:18:2,3:10:4", True),
        ("5:7:6,4:18:2", "5:7:6,1:18:2,3:10:4", False),
        ("5:7:6,4:18:2", "5:7:6,4:18:4", False),
        ("5:7:6,4:18:2", "6:7:6,3:18:2", False),
        ("5:7:6,4:18:2", "", False),
        ("", "9:18:2", False),
        ("", "", True),
        (7, "9:18:2", False),
        ("damaged", "9:18:2", False),
    ]
    for stored, wanted, agree in asked:
        assert phases.agree_until(stored, wanted, 7) == agree, (stored, wanted)
    assert phases.agree_until("5:7:6,4:18:2", "5:7:6,3:10:4", 5)


# -- runs


RUN = PLAN[:2]


@pytest.fixture(scope="module")
def whole(sets, tmp_path_factory):
    """The folder of an uninterrupted run, and the reports of its loops."""
    folder, curve = tmp_path_factory.mktemp("whole") / "out", []
    run(
        phased(sets, folder, RUN),
        one_device(),
        lambda step, report: curve.append({"step": step, **report}),
    )
    return folder, curve


def test_loops_end_with_their_phase_and_say_what_they_read(whole):
    folder, curve = whole
    # Loops are of 4 steps, checkpoints of 6.
    assert [report["step"] for report in curve] == [4, 5, 6, 9]
    lost = [report["masked_tokens_cut"] for report in curve]
    assert all(0 < share < 1 for share in lost[:2]) and lost[2:] == [0, 0]
    settings = json.loads((folder / "results.json").read_text())["settings"]
    keys = ("steps", "length", "batch_size", "rows_of_length")
    found = [tuple(phase[key] for key in keys) for phase in settings["phases"]]
    assert found == [(5, 7, 6, 10), (4, 18, 2, 18)]


def test_a_run_resumed_in_its_second_phase_ends_with_the_same_weights(
    whole, sets, tmp_path, monkeypatch
):
    asked, plain = [], batches.training_batches

    def training_batches(*arguments):
        asked.append(arguments)
        return plain(*arguments)

    monkeypatch.setattr(batches, "training_batches", training_batches)
    job = phased(sets, tmp_path / "out", RUN)
    train_until(job, 7)
    assert run(job, one_device())["global_step"] == 9
    assert_equal_weights(weights(tmp_path / "out"), weights(whole[0]))
    # Length of the rows, batch, whether the seed is the run's, first step, cut to.
    found = [(phases.rows_length(a[0]), a[1], a[2] == 12345, a[3], a[7]) for a in asked]
    assert found == [
        (10, 6, True, 0, 7),
        (18, 2, False, 0, 0),
        (18, 2, False, 2, 0),
    ]
    assert asked[1][2] == asked[2][2]
    long = next(iter(plain(*asked[0][:7])))
    for name, values in next(iter(plain(*asked[0]))).items():
        np.testing.assert_array_equal(values, cutting.cut_rows(long, 7)[name])


def test_two_replicas_compute_the_same(whole, sets, tmp_path):
    curve = []
    job = phased(sets, tmp_path, RUN)
    run(job, two_devices(), lambda _, report: curve.append(report))
    names = ("masked_lm_loss", "sentence_order_loss", "masked_tokens_cut")
    found, expected = (
        [[report[name] for name in names] for report in reports]
        for reports in (curve, whole[1])
    )
    assert np.shape(found) == (4, 3)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_one_phase_of_whole_rows_is_the_run_without_phases(sets, tmp_path):
    job = phased(sets[1:], tmp_path / "a", (Phase(4, 10, 6),))
    run(job, one_device())
    config = dataclasses.replace(
        job.train_config, output_dir=str(tmp_path / "b"), train_batch_size=6
    )
    run(dataclasses.replace(job, train_config=config, phases=()), one_device())
    assert_equal_weights(weights(tmp_path / "a"), weights(tmp_path / "b"))


def test_the_phases_to_come_may_be_changed(sets, tmp_path):
    """A run at step 7 of 12."""
    job = phased(sets, tmp_path)
    stored_run(job, tmp_path, step=7)
    changed = (*PLAN[:1], Phase(3, 18, 2), Phase(4, 10, 6))
    identity.check_job(phased(sets, tmp_path, changed))
    for plan in ((Phase(5, 7, 4), *PLAN[1:]), (Phase(6, 7, 6), Phase(6, 18, 2))):
        with pytest.raises(ValueError, match="holds a run with phases=5:7:6,4:18:2,3"):
            identity.check_job(phased(sets, tmp_path, plan))
    without = dataclasses.replace(job, phases=(), other_train_rows=())
    with pytest.raises(ValueError, match="with phases=5:7:6,4:18:2,3:10:4, but phases"):
        identity.check_job(without)
