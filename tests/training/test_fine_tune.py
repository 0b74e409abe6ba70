"""Fine-tuning and evaluation from Python, without flags."""

import dataclasses

import pytest

from albert_tf.checkpoints.model_dir import ModelDir
from albert_tf.task_config import Squad
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.training.fine_tune import evaluate, fine_tune, new_model
from data_prep.fine_tuning import datasets
from helpers.bucket_runs import new_folder
from helpers.fine_tuning_toys import config, texts, write_table, write_vocabulary
from helpers.questions import question, write_squad

SETTINGS = {
    "learning_rate": 0.005,
    "num_train_steps": 60,
    "num_warmup_steps": 6,
    "train_batch_size": 8,
    "iterations_per_loop": 20,
    "save_checkpoints_steps": 20,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fine_tune")
    for name, count, seed in [("train", 157, 1), ("dev", 23, 2), ("test", 13, 3)]:
        write_table(folder / f"{name}.tsv", count, seed)
    return folder


@pytest.fixture(scope="module")
def start(folder):
    return new_model(config(), write_vocabulary(folder))


@pytest.fixture(scope="module")
def data(folder, start):
    files = {name: folder / f"{name}.tsv" for name in ("train", "dev", "test")}
    return datasets.table(
        files, start.tokenizer(), max_seq_length=17, cache_dir=folder / "cache"
    )


@pytest.fixture(scope="module")
def outcome(folder, start, data):
    return fine_tune(start, data, folder / "model", **SETTINGS)


def test_it_learns_and_predicts(outcome):
    assert outcome.results["best"]["eval_accuracy"] > 0.9
    assert outcome.results["settings"]["classifier_dropout"] == 0.1
    assert outcome.results["sets"].keys() == {"dev"}
    chosen = outcome.predictions["test"]["probabilities"].argmax(-1)
    expected = [label == "good" for _, label in texts(13, 3)]
    assert (chosen == expected).sum() >= 11


def test_the_folder_is_a_whole_model(outcome, folder, data):
    model = ModelDir.read(folder / "model")
    assert model.task_config == data.task_config
    assert (
        model.tokenizer().metadata()
        == AlbertTokenizer(vocab_file=folder / "vocab.txt").metadata()
    )
    again = evaluate(folder / "model", data, folder / "evaluated")
    best = outcome.results["best"]["eval_accuracy"]
    assert again.results["dev"]["eval_accuracy"] == best
    old, new = (each.predictions["test"]["probabilities"] for each in (outcome, again))
    assert abs(old - new).max() < 1e-6


def test_a_finished_run_is_not_repeated(outcome, folder, start, data):
    again = fine_tune(start, data, folder / "model", **SETTINGS)
    assert again.results["global_step"] == 60
    assert again.results["best"] == outcome.results["best"]


def test_what_does_not_fit_is_refused(folder, start, data):
    def tune(model=start, rows=data, **settings):
        fine_tune(model, rows, folder / "wrong", **(SETTINGS | settings))

    with pytest.raises(ValueError, match="needs rows to train on"):
        tune(rows=dataclasses.replace(data, train=None))
    with pytest.raises(ValueError, match="no configuration next to"):
        tune(dataclasses.replace(start, config=None))
    with pytest.raises(ValueError, match="no vocabulary next to"):
        tune(dataclasses.replace(start, vocabulary=None))
    with pytest.raises(ValueError, match=r"has 61 tokens, the vocabulary .* train 27"):
        tune(dataclasses.replace(start, config=start.config.replace(vocab_size=61)))
    with pytest.raises(ValueError, match="Received 17 and 9: lower --max_seq_length"):
        tune(dataclasses.replace(start, config=config(max_position_embeddings=9)))
    with pytest.raises(ValueError, match="lower_case=False, the rows of train"):
        tune(dataclasses.replace(start, tokenizer_settings={"lower_case": False}))
    other = folder / "other" / "vocab.txt"
    other.parent.mkdir()
    other.write_text((folder / "vocab.txt").read_text().replace("lovely", "nice"))
    with pytest.raises(ValueError, match="has vocabulary_sha256="):
        tune(dataclasses.replace(start, vocabulary=other))
    with pytest.raises(ValueError, match="Did you mean learning_rate"):
        tune(learn_rate=1.0)
    with pytest.raises(ValueError, match="does not say what the model was trained for"):
        evaluate(start, data, folder / "wrong")
    assert not (folder / "wrong").exists()


def test_answers_of_squad_are_written_with_their_threshold(folder, start):
    """Into a bucket; run_squad.py is tested on a disk."""
    text = "lovely worda awful"
    asked = [
        question("a", "worda", [("awful", 13)], is_impossible=False),
        question("b", "lovely", is_impossible=True),
    ]
    path = write_squad(folder / "squad.json", [(text, asked)], version="v2.0")
    task_config = Squad(True, max_seq_length=17, max_query_length=5)
    data = datasets.squad(
        {"train": path, "dev": path},
        start.tokenizer(),
        task_config,
        cache_dir=folder / "cache",
    )
    output = new_folder()
    settings = {"num_train_steps": 2, "num_warmup_steps": 0, "tune_threshold": True}
    foreign = output / "predictions.json"
    foreign.write_text('{"places": [], "length": 1}')
    with pytest.raises(FileExistsError, match=f"{foreign} is there already"):
        fine_tune(start, data, output, **settings)
    assert not any(output.glob("model.ckpt*"))
    foreign.unlink()
    outcome = fine_tune(start, data, output, **settings)
    assert "best_f1" in outcome.results["best"]
    tuned = ModelDir.read(output).task_config
    assert tuned == dataclasses.replace(task_config, threshold=tuned.threshold)
    again = output / "answers"
    answers = evaluate(output, data, again, null_threshold=float("-inf"))
    assert answers.results["dev"]["NoAns_f1"] == 100
    assert (again / "predictions.json").read_text().count('""') == 2


def test_averages_are_what_a_fine_tuned_model_stands_for(start, data, tmp_path, capsys):
    model = tmp_path / "model"
    steps = {"num_train_steps": 6, "save_checkpoints_steps": 3, "num_warmup_steps": 0}
    settings = {**SETTINGS, **steps, "iterations_per_loop": 3, "ema_decay": 0.5}
    results = fine_tune(start, data, model, **settings).results
    assert results["averaged_weights"] is True
    best, dev = results["best"], results["sets"]["dev"]
    assert dev["eval_loss"] == pytest.approx(best["eval_loss"], rel=1e-5)
    assert f"{model}/best/model.ckpt-" in capsys.readouterr().out
    again = evaluate(model, data, tmp_path / "again", use_ema=True).results
    assert again["dev"]["eval_loss"] == pytest.approx(dev["eval_loss"], rel=1e-6)
    with pytest.raises(ValueError, match="holds averaged weights alone"):
        evaluate(model, data, tmp_path / "last", use_ema=False)
