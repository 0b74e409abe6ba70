"""Vectors in files, read as they were written."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from albert_tf.serving import vector_files
from albert_tf.serving.nearest import nearest

SETTINGS = {"pooling": "mean", "dimension": 5}


@pytest.fixture
def vectors():
    return np.random.default_rng(2).normal(size=(11, 5)).astype(np.float32)


@pytest.mark.parametrize("name", ["a.npy", "a.parquet"])
def test_files_hold_what_was_written(tmp_path, vectors, name):
    blocks = iter([vectors[:4], vectors[4:]])
    vector_files.write(tmp_path / name, blocks, 11, SETTINGS)
    found = vector_files.read(tmp_path / name)
    assert np.array_equal(found.vectors, vectors)
    assert found.settings == {**SETTINGS, "count": 11}
    if name == "a.npy":
        assert np.array_equal(np.load(tmp_path / name), vectors)


def test_tables_keep_texts_if_asked_to(tmp_path, vectors):
    texts = [f"text {place}" for place in range(11)]
    file = tmp_path / "a.parquet"
    vector_files.write(file, [vectors], 11, SETTINGS, texts)
    table = pq.read_table(file).to_pydict()
    assert table["text"] == texts and table["index"] == list(range(11))
    np.testing.assert_array_equal(np.array(table["vector"], np.float32), vectors)


def test_files_that_were_changed_are_refused(tmp_path, vectors):
    file = tmp_path / "a.npy"
    vector_files.write(file, [vectors], 11, SETTINGS)
    sidecar = vector_files.sidecar_path(file)
    known = json.loads(sidecar.read_text())
    sidecar.write_text(json.dumps({**known, "count": 12}))
    with pytest.raises(ValueError, match="holds 11 vectors of 5 numbers, not 12 of 5"):
        vector_files.read(file)
    sidecar.write_text(json.dumps(known))
    np.save(file, vectors + 1)
    with pytest.raises(ValueError, match=r"not the file that a\.npy.json was written"):
        vector_files.read(file)
    sidecar.unlink()
    with pytest.raises(FileNotFoundError, match=r"has no a\.npy\.json"):
        vector_files.read(file)
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ValueError, match="is damaged"):
        vector_files.read(tmp_path / "b.parquet")


def test_a_failure_leaves_the_files_as_they_were(tmp_path, vectors):
    def blocks():
        yield vectors
        raise RuntimeError("stopped")

    for name in ("a.npy", "a.parquet"):
        vector_files.write(tmp_path / name, [vectors], 11, SETTINGS)
        with pytest.raises(RuntimeError):
            vector_files.write(tmp_path / name, blocks(), 22, SETTINGS)
        assert np.array_equal(vector_files.read(tmp_path / name).vectors, vectors)
    assert len([*tmp_path.iterdir()]) == 3
    (tmp_path / "diary.npy").write_text("Monday")
    with pytest.raises(FileExistsError):
        vector_files.check_output(tmp_path / "diary.npy")
    with pytest.raises(ValueError, match="end in"):
        vector_files.check_output(tmp_path / "a.txt")


def test_the_nearest_are_those_of_the_largest_cosines(vectors):
    query = vectors[3] * 7
    found = nearest(query, vectors, 4)
    cosines = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
    assert [place for place, _ in found] == np.argsort(-cosines)[:4].tolist()
    assert found[0] == (3, pytest.approx(1.0, abs=1e-6))
    assert len(nearest(query, vectors, 99)) == 11
