"""Question answering through the command line: train, answer, score, ask, combine."""

import json

import pytest

from helpers.questions import question, write_squad
from helpers.scripts import run_script, succeed
from helpers.strict_json import assert_strict_json
from helpers.tiny import tiny_config


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, shared_data):
    """20 questions of XQuAD English, as v1.1 and, every third of them made impossible,
    as v2.0, and a model of 60,000 weights and 30,000 pieces."""
    folder = tmp_path_factory.mktemp("squad")
    articles = read(shared_data / "squad" / "xquad.en.json")["data"]
    paragraphs = [each for article in articles for each in article["paragraphs"]]
    paragraphs.sort(key=lambda each: len(each["context"]))
    chosen, left = [], 20
    for each in paragraphs:
        chosen.append((each["context"], each["qas"][:left]))
        left -= len(chosen[-1][1])
        if not left:
            break
    write_squad(folder / "v1.json", chosen, version="1.1")
    questions = [asked for _, qas in chosen for asked in qas]
    for index, asked in enumerate(questions):
        asked["is_impossible"] = index % 3 == 0
        if asked["is_impossible"]:
            asked["answers"] = []
    write_squad(folder / "v2.json", chosen, version="v2.0")
    config = tiny_config(
        vocab_size=30_000,
        embedding_size=32,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=128,
    )
    config.to_json(folder / "tiny.json")
    return folder


def train(folder, vocabulary, version, **changes):
    """Trains on a file and answers it, with the flags of `changes` besides."""
    flags = {
        "train_file": f"{version}.json",
        "predict_file": f"{version}.json",
        "output_dir": f"out-{version}",
        "albert_config_file": "tiny.json",
        "spm_model_file": vocabulary,
        "max_seq_length": 128,
        "train_batch_size": 20,
        "learning_rate": 2e-3,
        "num_train_steps": 225,
        "num_warmup_steps": 15,
        "iterations_per_loop": 75,
        **changes,
    }
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    arguments += ["--from_scratch", "--do_eval"]
    return succeed("run_squad.py", *arguments, cwd=folder)


@pytest.fixture(scope="module")
def vocabulary(shared_data):
    return shared_data / "vocabulary" / "30k-clean.model"


@pytest.fixture(scope="module")
def v1(folder, vocabulary):
    train(folder, vocabulary, "v1")
    return folder / "out-v1"


@pytest.fixture(scope="module")
def v2(folder, vocabulary):
    """Two runs."""
    train(folder, vocabulary, "v2", tune_threshold=True, num_runs=2)
    return folder / "out-v2"


@pytest.mark.slow
def test_v1_overfits_20_questions(folder, v1):
    results = read(v1 / "squad_results.json")
    assert results["scores"]["f1"] > 95
    assert results["questions"] == 20 and not results["without_candidates"]
    predictions = read(v1 / "predictions.json")
    golds = {
        asked["id"]: asked["answers"][0]["text"]
        for part in read(folder / "v1.json")["data"][0]["paragraphs"]
        for asked in part["qas"]
    }
    assert predictions.keys() == golds.keys()
    assert sum(predictions[q] == golds[q] for q in golds) >= 19
    n_best = read(v1 / "nbest_predictions.json")
    assert {q: found[0]["text"] for q, found in n_best.items()} == predictions
    assert not (v1 / "null_odds.json").exists()


@pytest.mark.slow
def test_without_training_every_question_gets_an_answer_nasty_ones_too(folder, v1):
    """Nothing but the model's folder and the file is needed."""
    text = "Six-time Grammy winner [SEP] Lady Gaga"
    nasty = [
        ("", [question("empty paragraph")]),
        ("\u0301", [question("a mark")]),
        ("😀", [question("emoji", "What?")]),
        (text, [question("empty question", ""), question("long", "why " * 900)]),
        (text, [question("literal", "[SEP] [CLS] who [SEP]")]),
        (text * 40, [question("many windows")]),
    ]
    # Nobody knows the answers.
    for _, asked in nasty:
        for each in asked:
            del each["answers"]
    known = read(folder / "v1.json")["data"][0]["paragraphs"]
    known = [(each["context"], each["qas"]) for each in known]
    write_squad(folder / "nasty.json", [*known, *nasty])
    flags = ["--nodo_train", "--do_predict", "--predict_file=nasty.json"]
    flags += [f"--init_checkpoint={v1}", "--output_dir=nasty", "--doc_stride=20"]
    succeed("run_squad.py", *flags, cwd=folder)
    predictions = read(folder / "nasty" / "predictions.json")
    asked = {each["id"] for _, questions in nasty for each in questions}
    before = read(v1 / "predictions.json")
    assert predictions.keys() == asked | before.keys()
    assert {q: predictions[q] for q in before} == before
    assert {q for q in asked if not predictions[q]} == {"empty paragraph", "a mark"}
    assert predictions["emoji"] == "😀"
    results = read(folder / "nasty" / "squad_results.json")
    assert results["without_candidates"] == {"empty paragraph": 2}
    assert results["scores"] == {}


@pytest.mark.slow
def test_v2_learns_what_is_impossible_and_keeps_its_threshold(folder, v2):
    results = read(v2 / "squad_results.json")
    assert results["scores"]["f1"] > 95
    assert results["scores"]["HasAns_f1"] > 90 and results["scores"]["NoAns_f1"] > 90
    assert results["threshold_source"] == "tuned on v2.json"
    best = v2 / read(v2 / "results.json")["best_run"]
    assert read(best / "task.json")["threshold"] == results["threshold"]
    assert read(v2 / "null_odds.json").keys() == read(v2 / "predictions.json").keys()
    for run in ("run_1", "run_2"):
        assert (v2 / run / "predictions.json").is_file()

    predictions = read(v2 / "predictions.json")
    flags = ["--nodo_train", "--do_predict", "--predict_file=v2.json"]
    succeed("run_squad.py", *flags, f"--output_dir={v2}", cwd=folder)
    kept = read(v2 / "squad_results.json")
    assert kept["threshold"] == results["threshold"]
    assert kept["threshold_source"] == "the model's"
    assert read(v2 / "predictions.json") == predictions


@pytest.mark.slow
def test_a_model_is_exported_with_its_threshold(folder, v2):
    flags = [f"--model={v2}", "--export_dir=served"]
    succeed("export_saved_model.py", *flags, cwd=folder)
    card = read(folder / "served" / "1" / "assets.extra" / "model_card.json")
    best = v2 / read(v2 / "results.json")["best_run"]
    assert card["task"] == read(best / "task.json")


@pytest.mark.slow
def test_an_ensemble_answers_with_its_models(folder, v1, v2):
    assert assert_strict_json(folder) > 10
    models = f"{v2 / 'run_1'},{v2 / 'run_2'}"
    flags = ["--predict_file=v2.json", "--output_dir=both"]
    succeed("ensemble_squad.py", f"--models={models}", *flags, cwd=folder)
    results = read(folder / "both" / "squad_results.json")
    assert results["scores"]["f1"] > 90
    thresholds = [read(v2 / f"run_{i}" / "task.json")["threshold"] for i in (1, 2)]
    assert results["threshold"] == pytest.approx(sum(thresholds) / 2)

    mixed = f"--models={v1},{v2 / 'run_1'}"
    done = run_script("ensemble_squad.py", mixed, *flags, cwd=folder)
    assert done.returncode == 1 and done.stderr.startswith("ERROR: ")
    assert "v1.1 and of v2.0 cannot make one ensemble" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_question_is_answered_at_the_terminal(folder, v1):
    [part, *_] = read(folder / "v1.json")["data"][0]["paragraphs"]
    asked = part["qas"][0]
    (folder / "text.txt").write_text(part["context"], encoding="utf-8")
    flags = [f"--model={v1}", "--context=text.txt", f"--question={asked['question']}"]
    printed = succeed("ask.py", *flags, cwd=folder)
    assert printed.startswith(asked["answers"][0]["text"])


ERRORS = {
    "no predict file": (["--do_eval", "--predict_file="], 2, "--predict_file"),
    "tuning v1.1": (["--do_eval", "--tune_threshold"], 2, "v2.0"),
    "threshold of v1.1": (["--do_eval", "--null_threshold=0"], 2, "--null_threshold"),
    "v2.0 as v1.1": (
        ["--train_file=v2.json", "--noversion_2_with_negative"],
        1,
        "v2.json, question '",
    ),
    "lost answers": (["--train_file=lost.json"], 1, "lost.json: nothing to train on"),
    "no answers": (["--train_file=none.json"], 1, "none.json, question 'a'"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", ERRORS)
def test_wrong_use_is_one_line(folder, vocabulary, case):
    write_squad(folder / "none.json", [("Tea.", [question("a")])])
    lost = [("Tea.", [question("a", answers=[("Coffee", 0)])])]
    write_squad(folder / "lost.json", lost)
    arguments, code, message = ERRORS[case]
    flags = ["--from_scratch", "--output_dir=wrong", "--max_seq_length=128"]
    flags += ["--albert_config_file=tiny.json", f"--spm_model_file={vocabulary}"]
    flags += ["--train_file=v1.json", "--predict_file=v1.json", *arguments]
    done = run_script("run_squad.py", *flags, cwd=folder)
    assert done.returncode == code
    assert message in done.stderr and done.stderr.startswith("ERROR: ")
    assert len(done.stderr.strip().splitlines()) == 1
