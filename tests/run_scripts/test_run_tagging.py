"""run_tagging.py as a person runs it, under both of its names."""

import json

import pytest

from helpers.fine_tuning_toys import config, write_vocabulary
from helpers.scripts import assert_one_line, run_script
from helpers.tagged_toys import LABELS, sentences, write_conll, write_tokens


def run(script, *arguments, cwd, code=0):
    done = run_script(script, *map(str, arguments), cwd=cwd)
    assert done.returncode == code, done.stderr
    return done


OUTPUT = "test_predictions.conll"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with sentences and two models that were trained on them."""
    folder = tmp_path_factory.mktemp("tagging")
    write_vocabulary(folder)
    config().to_json(folder / "tiny.json")
    (folder / "ner").mkdir()
    write_conll(folder / "ner/train.conll", sentences(11, 1))
    write_tokens(folder / "ner/dev.jsonl", sentences(7, 2))
    write_conll(folder / "ner/test.txt", sentences(5, 3, longest=30))
    run(
        "run_tagging.py",
        *("--data_dir=ner", "--from_scratch", "--albert_config_file=tiny.json"),
        *("--vocab_file=vocab.txt", "--output_dir=model", "--do_eval"),
        *("--do_predict", "--max_seq_length=14", "--doc_stride=5", "--num_runs=2"),
        *("--num_train_steps=3", "--num_warmup_steps=1", "--train_batch_size=4"),
        *("--eval_batch_size=3", "--eval_steps=2"),
        cwd=folder,
    )
    return folder


def test_a_run_leaves_metrics_tags_and_spans(trained):
    results = json.loads((trained / "model/results.json").read_text())
    best = json.loads(
        (trained / "model" / results["best_run"] / "results.json").read_text()
    )
    assert results["metric"] == "f1" and best["sets"]["dev"].keys() >= {
        *("f1", "precision", "recall", "eval_accuracy", "classes")
    }
    lines = (trained / "model/test_predictions.conll").read_text().splitlines()
    gold = (trained / "ner/test.txt").read_text().splitlines()
    assert [line.rsplit("\t", 1)[0] for line in lines if line] == [
        line for line in gold if line
    ]
    assert {line.split("\t")[2] for line in lines if line} <= {*LABELS}
    spans = (trained / "model/test_predictions.jsonl").read_text().splitlines()
    assert len(spans) == 5
    for line in map(json.loads, spans):
        for entity in line["entities"]:
            part = line["text"][entity["start"] : entity["end"]]
            assert part == entity["text"] and entity["label"] in ("good", "bad")


def test_words_alone_are_tagged_as_before_and_exported(trained):
    gold = (trained / "ner/test.txt").read_text()
    words = "\n".join(line.split("\t")[0] for line in gold.split("\n"))
    (trained / "new.txt").write_text(words)
    done = run(
        "run_ner.py",
        *("--nodo_train", "--do_predict", "--init_checkpoint=model"),
        *("--predict_file=new.txt", "--output_dir=out", "--export_dir=served"),
        cwd=trained,
    )
    assert "no tags" in done.stdout and "Exported to" in done.stdout
    assert not (trained / "out/eval_results.json").exists()
    found, before = (
        (trained / folder / OUTPUT).read_text() for folder in ("out", "model")
    )
    cells = [line.split("\t") for line in before.splitlines()]
    assert found.splitlines() == ["\t".join(c[::2]) for c in cells]
    found, before = (
        list(map(json.loads, (trained / folder).read_text().splitlines()))
        for folder in ("out/test_predictions.jsonl", "model/test_predictions.jsonl")
    )
    scores = [
        [entity.pop("score") for line in lines for entity in line["entities"]]
        for lines in (found, before)
    ]
    assert found == before and len(scores[0]) > 0
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)


def test_models_are_averaged(trained):
    runs = "model/run_1,model/run_1"
    run("ensemble.py", f"--models={runs}", "--output_dir=both", cwd=trained)
    both, one = (
        json.loads((trained / place / "results.json").read_text())["sets"]["dev"]
        for place in ("both", "model/run_1")
    )
    assert both["f1"] == one["f1"]
    lines = (trained / "both/dev_tags.jsonl").read_text().splitlines()
    assert [json.loads(line)["sentence"] for line in lines] == list(range(7))
    assert [len(json.loads(line)["tags"]) for line in lines] == [
        len(words) for words, _ in sentences(7, 2)
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--do_predict"], 2, "--test_file, or --data_dir"),
        (["--do_eval", "--dev_file=bad.txt"], 1, "bad.txt, line 2: 1 columns, but"),
        (["--do_eval", "--dev_file=new"], 1, "There is no file new"),
        (["--do_eval", "--data_dir=."], 1, "has no file dev or valid"),
        (
            ["--do_predict", "--predict_file=out2/test_predictions.conll"],
            2,
            "output_dir",
        ),
        (["--do_predict", "--predict_file=ner/test.txt"], 1, "is there already"),
    ],
)
def test_what_cannot_be_is_one_line(trained, arguments, code, message):
    (trained / "bad.txt").write_text("a\tO\nb\n")
    (trained / "out2").mkdir(exist_ok=True)
    (trained / "out2/test_predictions.conll").write_text("Oslo, 3\nRome, 4, 5\n")
    done = run_script(
        "run_tagging.py",
        *("--nodo_train", "--init_checkpoint=model", "--output_dir=out2", *arguments),
        cwd=trained,
    )
    assert_one_line(done, code, message)
