"""The version before this one wrote these files; this one reads and writes the same.

`previous_version/make.py` made them. Only commands are run here and only files are
read, so that modules may move. On the machine that made them every number was the same
to the last bit, which PREVIOUS_VERSION_EXACT=1 asks for; other processors and builds
of TensorFlow round otherwise.

One thing differs on purpose: the step of the best weights, which was lost, is read from
their name, in `converted.json` and in the results of `evaluated_pretraining`.
"""

import json
import math
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from previous_version import commands, evidence
from previous_version.runner import Runner

FOLDER = Path(__file__).resolve().parent / "previous_version"
EXPECTED = FOLDER / "expected"
_EXACT = os.environ.get("PREVIOUS_VERSION_EXACT") == "1"
RTOL, ATOL = (0, 0) if _EXACT else (1e-5, 1e-5)
# Of `results.json`: speeds; and settings, which may get further keys.
_VARYING = {"examples_per_second", "minutes_left", "waiting_for_input", "settings"}
_VARYING |= {"steps_per_second", "eval_examples_per_second"}
# Of `results.json`: what was not named.
_ADDED = {"eval_data", "checkpoint", "batching", "row_order", "hard_examples"}
_ADDED |= {"lr_schedule", "num_decay_steps", "phases", "averaged_weights"}
_ADDED |= {"lr_schedule_by", "ema_decay", "layer_decay", "head_learning_rate", "freeze"}
_ADDED |= {"depth_schedule", "classes", "confusion_matrix"}
_ADDED |= {"macro_f1", "macro_precision", "macro_recall"}
_ADDED |= {"class_weights", "label_smoothing", "focal_gamma", "window_pooling"}
# The bias of the end logits changes no softmax of them: its gradient is 0, and
# rounding alone moves it.
_SPECIAL = ("train_seconds", "save_counter", "weights/end_logits.Sdense_1.Sbias/")


@pytest.fixture(scope="module")
def runner():
    with Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with the inputs, the models, and the runs that were stopped."""
    work = tmp_path_factory.mktemp("previous")
    for name in ("inputs", "models"):
        shutil.copytree(FOLDER / name, work / name)
    shutil.copytree(FOLDER / "stopped", work / "out")
    return work


_GLUE, _RACE = "--data_dir=inputs/glue", "--data_dir=inputs/RACE"
_SQUAD = "--predict_file=inputs/squad/v1-dev.json"
# Names of cases -> what is taken out of a model's folder, the model, and a command on
# the rest, whose error must name that folder.
_VOCABULARY, _CONFIG, _TASK = ("vocab.txt",), ("albert_config.json",), ("task.json",)
_INDEX, _DATA = ("*.index",), ("*.data-*",)
_PREDICT = ("--nodo_train", "--do_predict", "--init_checkpoint={}")
_OUT = "--output_dir=damaged/{}"
_CLASSIFY = ("cola", "run_classifier.py", *_PREDICT, _OUT, _GLUE)
_ANSWER = ("squad_v1", "run_squad.py", *_PREDICT, _OUT, _SQUAD)
_CHOOSE = ("race", "run_race.py", *_PREDICT, _OUT, _RACE)
_ASK = ("squad_v1", "ask.py", "--model={}", *commands.ASK)
_EXPORT = ("cola", "export_saved_model.py", "--model={}", "--export_dir=damaged/out")
_CONVERT = ("cola", "convert_checkpoint.py", "--from={}", "--to=damaged/out")
_CONVERT = (*_CONVERT, "--layout=own")
DAMAGED = {
    "predict without vocabulary": (_VOCABULARY, _CLASSIFY),
    "ask without vocabulary": (_VOCABULARY, _ASK),
    "export text without vocabulary": (_VOCABULARY, (*_EXPORT, "--text_signature")),
    "predict without configuration": (_CONFIG, _CLASSIFY),
    "answer without configuration": (_CONFIG, _ANSWER),
    "ask without configuration": (_CONFIG, _ASK),
    "export without configuration": (_CONFIG, _EXPORT),
    "convert without configuration": (_CONFIG, _CONVERT),
    "predict without task": (_TASK, _CLASSIFY),
    "answer without task": (_TASK, _ANSWER),
    "choose without task": (_TASK, _CHOOSE),
    "ask without task": (_TASK, _ASK),
    "predict without index": (_INDEX, _CLASSIFY),
    "export without index": (_INDEX, _EXPORT),
    "convert without index": (_INDEX, _CONVERT),
    "ask without numbers": (_DATA, _ASK),
    "convert without numbers": (_DATA, _CONVERT),
}


def folder_of(case):
    return "damaged-" + case.replace(" ", "-")


def damage(work, case):
    """Copies a model without some files; returns the command that uses the rest."""
    lost, (model, *command) = DAMAGED[case]
    folder = work / folder_of(case)
    shutil.copytree(work / "models" / model, folder)
    for path in [path for pattern in lost for path in folder.rglob(pattern)]:
        path.unlink()
    return [word.format(folder.name) for word in command]


@pytest.fixture(scope="module")
def done(runner, work):
    """All commands -> what they left, by name."""
    shutil.copytree(work / "models" / "squad_v1", work / "older")
    for path in (work / "older").rglob("tokenizer.json"):
        path.unlink()
    named = {
        **{case: damage(work, case) for case in DAMAGED},
        "older": ["ask.py", "--model=older", *commands.ASK],
        **commands.RECORDS,
        **commands.RESUMED,
        **commands.PREDICTED,
        **commands.ASKED,
        **commands.EXPORTED,
        **commands.CONVERTED,
    }
    return dict(zip(named, runner.run(work, [*named.values()]), strict=True))


def assert_succeeded(done):
    assert done.code == 0, done.out + done.err


def assert_alike(found, expected, place=""):
    """JSON values that are equal, numbers within the tolerance."""
    if isinstance(expected, dict):
        new = found.keys() - _VARYING - expected.keys()
        assert new <= _ADDED and expected.keys() - _VARYING <= found.keys(), place
        for name in expected.keys() - _VARYING:
            assert_alike(found[name], expected[name], f"{place} {name}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), place
        for number, (some, other) in enumerate(zip(found, expected, strict=True)):
            assert_alike(some, other, f"{place} {number}")
    elif place.endswith("_thresh") and not np.isfinite(expected):
        # A threshold that is best for one file is finite now: JSON has no infinity.
        assert np.isfinite(found), place
    elif isinstance(expected, float):
        # Infinities were no strings in 0.1.0, and its files no strict JSON.
        assert isinstance(found, str) == math.isinf(expected), place
        # The values are nearly equal, so their correlation magnifies rounding.
        rtol = 10 * RTOL if place.endswith("pearson") else RTOL
        np.testing.assert_allclose(float(found), expected, rtol, ATOL, err_msg=place)
    else:
        assert found == expected, place


def assert_equal_arrays(found, expected, skipped=()):
    """Arrays by name that are equal, numbers within the tolerance."""
    assert found.keys() == expected.keys()
    for name in expected:
        if name.startswith(skipped) and skipped:
            continue
        if np.issubdtype(expected[name].dtype, np.floating):
            np.testing.assert_allclose(
                found[name], expected[name], RTOL, ATOL, err_msg=name
            )
        else:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


def cells(path):
    """The lines of a table; what looks like a number is one."""

    def value(cell):
        return float(cell) if "." in cell else cell

    lines = path.read_text("utf-8").splitlines()
    return [[value(cell) for cell in line.split("\t")] for line in lines]


def assert_same_file(found, expected):
    """Files of one kind that say the same."""
    place = str(expected.relative_to(FOLDER))
    if expected.suffix == ".npz":
        with np.load(found) as some, np.load(expected) as other:
            assert_equal_arrays(dict(some), dict(other))
    elif expected.suffix == ".json":
        values = (json.loads(path.read_text("utf-8")) for path in (found, expected))
        assert_alike(*values, place)
    elif expected.suffix == ".tsv":
        assert_alike(cells(found), cells(expected), place)
    elif expected.suffix == ".index":
        prefixes = (path.with_suffix("") for path in (found, expected))
        assert_equal_arrays(*map(evidence.tensors, prefixes), _SPECIAL)


def assert_same_results(folder, name):
    files = [path for path in (EXPECTED / name).rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert_same_file(folder / path.relative_to(EXPECTED / name), path)


def assert_includes(found, expected, place):
    """A sidecar has all that it had, and perhaps more counts, in a later version."""
    for name, value in expected.items():
        if name == "format_version":
            assert found[name] > value
        elif isinstance(value, dict):
            assert_includes(found[name], value, f"{place} {name}")
        else:
            assert found[name] == value, f"{place} {name}"


def test_records_are_made_of_the_same_bytes(work, done):
    expected = json.loads((EXPECTED / "records.json").read_text("utf-8"))
    for name in commands.RECORDS:
        assert_succeeded(done[name])
    found = evidence.records(work / "out")
    assert found.keys() == expected.keys()
    for name, record in expected.items():
        sidecar = dict(record["sidecar"])
        # The digest of a text is also of the places where its sentences were cut.
        sidecar.pop("text_sha256", None)
        if sidecar.get("pair_objective") in ("sop", "none"):
            # Since then chunks are split between whole sentences, and two parts of one
            # have no label and stay in order. The rows are as long as before.
            counts = ("rows", "row_pieces", "padding_pieces")
            sidecar["statistics"] = {key: sidecar["statistics"][key] for key in counts}
            sidecar.pop("bytes", None)
        else:
            assert found[name]["sha256"] == record["sha256"], name
        assert_includes(found[name]["sidecar"], sidecar, name)


@pytest.mark.parametrize("name", commands.PREDICTED)
def test_an_old_model_predicts_what_it_did(work, done, name):
    assert_succeeded(done[name])
    assert_same_results(work / "out" / name, name)


@pytest.mark.parametrize("name", commands.RESUMED)
def test_a_stopped_run_goes_on_to_the_same_end(work, done, name):
    assert_succeeded(done[name])
    assert "resumed from" in done[name].out
    assert_same_results(work / "out" / name, name)


@pytest.mark.parametrize("name", commands.ASKED)
def test_an_old_model_answers_a_question_as_it_did(done, name):
    assert_succeeded(done[name])
    assert done[name].out == json.loads((EXPECTED / "asked.json").read_text())[name]


@pytest.mark.parametrize("name", commands.CONVERTED)
def test_an_old_model_is_converted_to_the_same_files(work, done, name):
    assert_succeeded(done[name])
    expected = json.loads((EXPECTED / "converted.json").read_text("utf-8"))
    assert evidence.conversion(work / "out" / name) == expected[name]


def assert_answers(saved_model, name):
    with np.load(EXPECTED / f"{name}.npz") as expected:
        found, expected = evidence.answers(saved_model), dict(expected)
    for name in found:
        if name.endswith("sequence_output"):
            # 0 at padding: two tokens of the shorter example, and of texts.
            padding = ~found[name].any(axis=-1)
            assert padding.sum() == 2 or not name.startswith("examples")
            expected[name][padding] = 0
    assert_equal_arrays(found, expected)


@pytest.mark.parametrize("name", commands.EXPORTED)
def test_an_old_model_is_exported_and_answers_as_it_did(work, done, name):
    assert_succeeded(done[name])
    assert_answers(work / "out" / name / "1", name)


@pytest.mark.parametrize("name", ["exported_table", "exported_squad_v2"])
def test_an_old_saved_model_answers_as_it_did(name, tmp_path):
    shutil.unpack_archive(FOLDER / "saved_models" / f"{name}.tar.xz", tmp_path)
    assert_answers(tmp_path / "1", name)


def test_a_folder_that_does_not_say_how_text_is_cleaned_answers_the_same(done):
    assert_succeeded(done["older"])
    assert done["older"].out == done["asked_squad_v1"].out


@pytest.mark.parametrize("case", DAMAGED)
def test_a_missing_file_is_one_line_that_names_the_folder(done, case):
    assert done[case].code in (1, 2)
    lines = done[case].err.strip().splitlines()
    # TensorFlow logs it, too, if a checkpoint is not there that its folder names.
    lines = [line for line in lines if "Couldn't match files" not in line]
    assert len(lines) == 1 and lines[0].startswith("ERROR: ")
    assert folder_of(case) in lines[0]
