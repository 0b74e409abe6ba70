"""The notebooks run from their first cell to their last one, on tiny sizes."""

import json

import nbclient
import nbformat
import numpy as np
import pytest

from helpers.paths import ROOT
from helpers.transformers_models import bert_config, random_bert_tensors, write_folder

NOTEBOOKS = ROOT / "docs" / "notebooks"
NAMES = {"pretraining", "fine_tuning", "question_answering"}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def read(name):
    return nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)


def run(name, **parameters):
    """Runs a notebook; returns it with its outputs."""
    notebook = read(name)
    [cell] = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", ())]
    known = {line.split(" = ")[0] for line in cell.source.splitlines()}
    assert known >= parameters.keys()
    cell.source += "".join(f"\n{key} = {value!r}" for key, value in parameters.items())
    place = {"metadata": {"path": str(ROOT)}}
    client = nbclient.NotebookClient(notebook, timeout=300, resources=place)
    client.execute()
    printed = "\n".join(map(text_of, notebook.cells))
    # A command of the shell that fails stops no notebook.
    assert "ERROR:" not in printed and "Traceback" not in printed, printed
    return printed


def text_of(cell):
    texts = []
    for output in cell.get("outputs", ()):
        texts.append(output.get("text", ""))
        texts.append(output.get("data", {}).get("text/plain", ""))
    return "\n".join(texts)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A tiny BERT of random weights whose vocabulary has each letter of a notebook."""
    folder = tmp_path_factory.mktemp("published")
    text = "".join((NOTEBOOKS / f"{name}.ipynb").read_text("utf-8") for name in NAMES)
    letters = sorted({c for c in text.lower() if not c.isspace()})
    vocabulary = [*SPECIAL, *letters, *(f"##{c}" for c in letters)]
    config = bert_config(vocab_size=len(vocabulary), max_position_embeddings=96)
    tensors = random_bert_tensors(config, np.random.default_rng(1), {})
    write_folder(folder, config, tensors)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", "utf-8")
    return str(folder)


def test_they_are_stored_without_outputs_and_open_in_colab():
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == NAMES
    for name in NAMES:
        notebook = read(name)
        nbformat.validate(notebook)
        assert not any(cell.get("outputs") for cell in notebook.cells)
        assert f"/blob/main/docs/notebooks/{name}.ipynb)" in notebook.cells[0].source
        assert "os.chdir" in notebook.cells[1].source


def test_pretraining(tmp_path):
    printed = run(
        "pretraining",
        TEXT="docs/*.md",
        OUTPUT=str(tmp_path),
        VOCABULARY=400,
        STEPS=20,
        COPIES=1,
    )
    # IPython gives commands a terminal, where there is a bar.
    assert "| 20/20" in printed and "TensorShape([1, 128])" in printed
    assert json.loads((tmp_path / "model" / "results.json").read_text())["eval_rows"]


def test_fine_tuning(published, tmp_path):
    printed = run("fine_tuning", MODEL=published, OUTPUT=str(tmp_path), EPOCHS=1)
    assert "Please pay it back. {'" in printed
    assert (tmp_path / "served" / "1" / "saved_model.pb").is_file()


def test_question_answering(published, tmp_path):
    printed = run("question_answering", MODEL=published, OUTPUT=str(tmp_path), EPOCHS=1)
    assert "exact" in printed
    assert (tmp_path / "model" / "predictions.json").is_file()
