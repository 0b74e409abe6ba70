"""Rows that do not fit the task, the model's folder or each other are refused."""

import dataclasses

import pytest

from albert_tf.files import read_json, write_json
from albert_tf.records.sidecar import read_record_set
from albert_tf.tasks.pretraining import MASKED_LM, NEXT_SENTENCE, PRETRAINING
from albert_tf.training import identity, record_checks
from helpers.tiny import tiny_config, write_rows
from helpers.training_jobs import make_job

OTHER_DIGEST = "0f" * 32


def make_rows(folder, name="rows", **metadata):
    path = write_rows(folder / f"{name}.tfrecord", 7, **metadata)
    return read_record_set([str(path)], {})


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """Pair objective -> rows; and rows of another vocabulary and of another casing."""
    folder = tmp_path_factory.mktemp("rows")
    found = {o: make_rows(folder, o, pair_objective=o) for o in ("sop", "nsp", "none")}
    common = {"pair_objective": "sop"}
    other = make_rows(folder, "other", vocabulary_sha256=OTHER_DIGEST, **common)
    cased = make_rows(folder, "cased", lower_case=False, **common)
    return {**found, "other": other, "cased": cased}


def trained(folder, rows, task=PRETRAINING):
    """A folder with the files that a run on rows leaves next to its weights."""
    folder.mkdir()
    identity.write_files(make_job(rows, folder, task=task), folder)
    return folder


@pytest.mark.parametrize("name", ["other", "cased"])
@pytest.mark.parametrize("use", ["evaluate", "evaluate from", "continue from"])
def test_rows_of_another_tokenizer_are_refused_by_a_pretrained_folder(
    name, use, sets, tmp_path
):
    folder = trained(tmp_path / "model", sets["sop"])
    jobs = {
        "evaluate": {"rows": None, "output_dir": folder, "eval_rows": sets[name]},
        "evaluate from": {
            "rows": None,
            "output_dir": tmp_path / "new",
            "eval_rows": sets[name],
            "init_checkpoint": str(folder),
        },
        "continue from": {
            "rows": sets[name],
            "output_dir": tmp_path / "new",
            "init_checkpoint": str(folder),
        },
    }
    key = "vocabulary_sha256" if name == "other" else "lower_case"
    words = f"{folder} has {key}=.*{name}.tfrecord was made with {key}=.*own vocab"
    with pytest.raises(ValueError, match=words):
        record_checks.check_records(make_job(**jobs[use]))


def test_a_pretrained_folder_remembers_its_objective(sets, tmp_path):
    folder = trained(tmp_path / "model", sets["nsp"], NEXT_SENTENCE)
    assert read_json(folder / "pretraining.json") == {"pair_objective": "nsp"}
    from_there = {"output_dir": tmp_path / "new", "init_checkpoint": str(folder)}
    job = make_job(None, eval_rows=sets["sop"], **from_there)
    words = "trained with pair_objective=nsp, .*made with sop.*--nosentence_order_loss"
    with pytest.raises(ValueError, match=words):
        record_checks.check_records(job)
    with pytest.raises(ValueError, match=words):
        record_checks.check_records(make_job(sets["sop"], **from_there))
    record_checks.check_records(make_job(sets["sop"], task=MASKED_LM, **from_there))


def test_a_model_without_an_objective_may_learn_one_but_is_not_scored_on_it(
    sets, tmp_path
):
    folder = trained(tmp_path / "model", sets["none"], MASKED_LM)
    assert read_json(folder / "pretraining.json") == {"pair_objective": "none"}
    from_there = {"output_dir": tmp_path / "new", "init_checkpoint": str(folder)}
    record_checks.check_records(make_job(sets["sop"], **from_there))
    with pytest.raises(ValueError, match="pair_objective=none, the rows"):
        record_checks.check_records(make_job(None, eval_rows=sets["sop"], **from_there))


@pytest.mark.parametrize("objective", ["nsp", "none"])
def test_rows_of_another_objective_than_the_task_are_refused(objective, sets, tmp_path):
    job = make_job(sets[objective], tmp_path)
    words = f"pair_objective={objective}, but the task learns sop"
    with pytest.raises(ValueError, match=words):
        record_checks.check_records(job)
    record_checks.check_records(dataclasses.replace(job, task=MASKED_LM))


@pytest.mark.parametrize("name", ["other", "cased"])
def test_training_and_evaluation_rows_are_alike(name, sets, tmp_path):
    job = make_job(sets["sop"], tmp_path, eval_rows=sets[name], task=MASKED_LM)
    key = "vocabulary_sha256" if name == "other" else "lower_case"
    words = rf"{name}\.tfrecord was made with {key}=.*, the training"
    with pytest.raises(ValueError, match=words):
        record_checks.check_records(job)


def test_rows_may_differ_in_an_objective_that_is_not_learned(sets, tmp_path):
    job = make_job(sets["none"], tmp_path, eval_rows=sets["sop"], task=MASKED_LM)
    record_checks.check_records(job)
    job = make_job(sets["sop"], tmp_path, eval_rows=sets["nsp"])
    with pytest.raises(ValueError, match=r"nsp\.tfrecord .*pair_objective=nsp, .*sop"):
        record_checks.check_records(job)


def test_masked_tokens_alone_leave_the_learned_objective(sets, tmp_path):
    start = trained(tmp_path / "start", sets["nsp"], NEXT_SENTENCE)
    folder = tmp_path / "more"
    folder.mkdir()
    job = make_job(sets["sop"], folder, task=MASKED_LM, init_checkpoint=str(start))
    identity.write_files(job, folder)
    assert read_json(folder / "pretraining.json") == {"pair_objective": "nsp"}
    # The run resumes without its start.
    resumed = make_job(sets["none"], folder, task=MASKED_LM)
    assert record_checks.learned_objective(resumed) == "nsp"
    # Of a start whose files do not say it nothing is known.
    (start / "pretraining.json").unlink()
    job = dataclasses.replace(resumed, init_checkpoint=str(start))
    (folder / "pretraining.json").unlink()
    assert record_checks.learned_objective(job) is None
    assert record_checks.learned_objective(resumed) == "none"


def test_rows_longer_than_the_model_reads_are_refused(sets, tmp_path):
    short = tiny_config(max_position_embeddings=9)
    job = make_job(sets["sop"], tmp_path, model_config=short)
    with pytest.raises(ValueError, match=r"Received 10 of .*sop\.tfrecord and 9"):
        record_checks.check_records(job)


def test_rows_without_a_feature_are_refused(tmp_path):
    rows = make_rows(tmp_path)
    sidecar = tmp_path / "rows.tfrecord.json"
    values = read_json(sidecar)
    del values["features"]["token_boundary"]
    write_json(sidecar, values)
    lacking = read_record_set(rows.paths, {})
    words = r"rows\.tfrecord\.json must list the feature token_boundary"
    with pytest.raises(ValueError, match=words):
        record_checks.check_records(make_job(lacking, tmp_path))


def test_results_tell_which_rows_were_evaluated(sets):
    rows = sets["nsp"]
    assert record_checks.describe(rows) == {
        "files": list(rows.paths),
        "rows": 7,
        "sha256": rows.sha256,
        "pair_objective": "nsp",
    }


def test_results_tell_that_rows_are_packed(tmp_path):
    # Without the features that the sidecar promises.
    path = write_rows(tmp_path / "rows", 2, max_documents_per_row=4)
    rows = read_record_set([str(path)], {})
    assert record_checks.describe(rows)["max_documents_per_row"] == 4
    with pytest.raises(ValueError, match=r"next_sentence_labels, .* shape \[4\]"):
        record_checks.check_records(make_job(rows, tmp_path))
