"""Tasks of SuperGLUE and XNLI, as a person runs them."""

import json

import pytest

from helpers.fine_tuning_toys import config, write_vocabulary
from helpers.scripts import assert_one_line, run_script, succeed
from helpers.superglue_toys import write_superglue, write_xnli

TRAIN = (
    *("--from_scratch", "--albert_config_file=tiny.json", "--vocab_file=vocab.txt"),
    *("--do_eval", "--do_predict", "--max_seq_length=17", "--num_train_steps=3"),
    *("--num_warmup_steps=1", "--train_batch_size=4", "--eval_batch_size=5"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    write_vocabulary(folder)
    config().to_json(folder / "tiny.json")
    write_superglue(folder / "superglue")
    write_xnli(folder / "xnli")
    return folder


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", ["cb", "wic"])
def test_submissions_are_those_of_the_leaderboard(folder, name):
    succeed(
        "run_classifier.py",
        *(f"--task_name={name}", "--data_dir=superglue", f"--output_dir={name}"),
        *TRAIN,
        cwd=folder,
    )
    dev = json.loads((folder / name / "results.json").read_text())["sets"]["dev"]
    assert {"eval_accuracy", "macro_f1"} <= dev.keys() and dev["eval_rows"] == 7
    [file] = (folder / name / "SuperGLUE").iterdir()
    labels = {"cb": ["contradiction", "entailment", "neutral"]}.get(
        name, ["false", "true"]
    )
    assert file.name == {"cb": "CB.jsonl", "wic": "WiC.jsonl"}[name]
    assert [line["idx"] for line in lines_of(file)] == [0, 1, 2, 3, 4]
    assert {line["label"] for line in lines_of(file)} <= {*labels}


def test_copa_is_multiple_choice(folder):
    copa = ("--input_format=copa", "--data_dir=superglue")
    succeed("run_race.py", *copa, "--output_dir=copa", *TRAIN, cwd=folder)
    results = json.loads((folder / "copa/results.json").read_text())
    assert "eval_accuracy" in results["sets"]["dev"]
    lines = lines_of(folder / "copa/SuperGLUE/COPA.jsonl")
    assert [line["idx"] for line in lines] == [0, 1, 2, 3, 4]
    assert {line["label"] for line in lines} <= {0, 1}


def test_languages_of_xnli_have_scores_of_their_own(folder):
    xnli = ("--task_name=xnli", "--data_dir=xnli", "--languages=de,en")
    succeed("run_classifier.py", *xnli, "--output_dir=nli", *TRAIN, cwd=folder)
    sets = json.loads((folder / "nli/results.json").read_text())["sets"]
    rows = {name: report["eval_rows"] for name, report in sets.items()}
    assert rows == {"dev": 8, "dev_en": 4, "XNLI-de": 6, "XNLI-en": 3}
    assert len((folder / "nli/GLUE/XNLI-de.tsv").read_text().splitlines()) == 7
    done = run_script(
        "run_classifier.py",
        *("--nodo_train", "--do_eval", "--init_checkpoint=nli", "--output_dir=other"),
        *("--data_dir=xnli", "--languages=sw"),
        cwd=folder,
    )
    assert_one_line(done, 1, "no rows of the language 'sw'; it has de, en")
