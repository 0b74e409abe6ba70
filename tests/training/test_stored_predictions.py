"""Stored predictions: the latest ones are read, damaged ones are named."""

import zipfile

import numpy as np
import pytest

from albert_tf.files import write_json
from albert_tf.training import stored_predictions
from helpers.bucket_runs import new_folder


@pytest.fixture(params=["disk", "bucket"])
def place(request, tmp_path):
    return tmp_path if request.param == "disk" else new_folder()


def predictions(*values):
    return {"dev": {"values": np.array(values)}}


def test_predictions_come_back_as_they_were(place):
    stored_predictions.write(place, predictions(1.5, 2.5))
    assert stored_predictions.splits(place) == ["dev"]
    found = stored_predictions.read(place, "dev")
    np.testing.assert_array_equal(found["values"], [1.5, 2.5])
    with pytest.raises(
        FileNotFoundError, match=r"test\.npz is missing: .*--do_predict"
    ):
        stored_predictions.read(place, "test")


def test_of_several_runs_those_in_the_output_folder_count_before_the_best_runs(
    place,
):
    write_json(place / "results.json", {"best_run": "run_2"})
    stored_predictions.write(place / "run_1", predictions(1.0))
    stored_predictions.write(place / "run_2", predictions(2.0))
    assert stored_predictions.read(place, "dev")["values"] == [2.0]
    stored_predictions.write(place, predictions(3.0))
    assert stored_predictions.read(place, "dev")["values"] == [3.0]


@pytest.mark.parametrize("kept", [0, 100, 700])
def test_damaged_predictions_are_named(tmp_path, kept):
    path = tmp_path / stored_predictions.PREDICTIONS_FOLDER / "dev.npz"
    path.parent.mkdir()
    probabilities = np.full([40, 2], 0.5)
    np.savez(path, label_ids=[0, 1, 1, 0], probabilities=probabilities)
    found = stored_predictions.read(tmp_path, "dev")
    assert found["label_ids"].tolist() == [0, 1, 1, 0]
    whole = path.read_bytes()
    path.write_bytes(whole[:kept])
    with pytest.raises(ValueError, match=r"dev\.npz is damaged.*predict again"):
        stored_predictions.read(tmp_path, "dev")


def test_any_damage_inside_predictions_is_named(tmp_path):
    path = tmp_path / stored_predictions.PREDICTIONS_FOLDER / "dev.npz"
    path.parent.mkdir()
    np.savez_compressed(path, values=np.arange(60.0), names=np.array(["a", "bc"]))
    whole = path.read_bytes()
    rng = np.random.default_rng(2)
    refused = 0
    for _ in range(150):
        content = bytearray(whole)
        first = rng.integers(len(content))
        content[first : first + 4] = rng.bytes(4)
        path.write_bytes(content)
        try:
            stored_predictions.read(tmp_path, "dev")
        except ValueError as error:
            refused += 1
            assert str(error).startswith(f"{path} is damaged")
    assert refused > 75


def test_an_array_that_claims_more_than_the_file_has_is_named(tmp_path):
    path = tmp_path / stored_predictions.PREDICTIONS_FOLDER / "dev.npz"
    path.parent.mkdir()
    header = {"descr": "<f8", "fortran_order": False, "shape": (2**55,)}
    with zipfile.ZipFile(path, "w") as file, file.open("values.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, header)
    with pytest.raises(ValueError, match=r"dev\.npz is damaged.*predict again"):
        stored_predictions.read(tmp_path, "dev")
