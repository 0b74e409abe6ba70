"""Every script takes the weights, configuration and vocabulary that belong together."""

import json
import shutil

import pytest

from albert_tf.checkpoints import formats
from albert_tf.config import AlbertConfig
from albert_tf.training.multi_run import FineTuned
from albert_tf.training.run import RunStatus
from helpers import tiny
from helpers.fine_tuning_toys import write_table, write_vocabulary
from helpers.scripts import assert_one_line, run_script, succeed
from helpers.served_models import LABELS, write_classifier


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A trained classifier, several runs of it, and what contradicts it."""
    folder = tmp_path_factory.mktemp("named")
    (folder / "model").mkdir()
    write_classifier(folder / "model", LABELS, pair=False)
    write_table(folder / "train.tsv", 4, 1)
    (folder / "text.txt").write_text("worda wordb.\nwordc lovely.\n")
    config = AlbertConfig.from_json(folder / "model" / "albert_config.json")
    changed = config.replace(num_attention_heads=4, hidden_act="relu")
    changed.to_json(folder / "other.json")
    config.replace(hidden_dropout_prob=0.2).to_json(folder / "dropout.json")
    text = write_vocabulary(folder).read_text()
    (folder / "words").write_text(text)
    (folder / "other").write_text(text.replace("wordt", "wordz"))
    shutil.copytree(folder / "model", folder / "cut")
    listed = 'model_checkpoint_path: "model.ckpt-5"\n'
    (folder / "cut" / "checkpoint").write_text(listed)
    for name in ("run_1", "run_2"):
        shutil.copytree(folder / "model", folder / "runs" / name)
    for file in (folder / "runs" / "run_2").glob("model.ckpt-3*"):
        file.rename(file.with_name(file.name.replace("-3.", "-75.")))
    (folder / "runs" / "results.json").write_text(json.dumps({"best_run": "run_2"}))
    tiny.write_rows(folder / "rows.tfrecord", 3, vocab_size=27)
    return folder


def commands(model):
    train = ["--task_name=custom", "--train_file=train.tsv", "--max_seq_length=17"]
    train += ["--train_batch_size=2", "--num_train_steps=1", "--output_dir=out"]
    predict = ["--nodo_train", "--do_predict", "--predict_file=train.tsv"]
    rows = ["--input_file=rows.tfrecord", "--max_seq_length=10", "--output_dir=out"]
    rows += ["--max_predictions_per_seq=3", "--train_batch_size=1"]
    layers = ["--input_file=text.txt", "--output_file=s.csv", "--max_seq_length=17"]
    return {
        "predict": [
            "run_classifier.py",
            *predict,
            f"--init_checkpoint={model}",
            "--output_dir=out",
        ],
        "train": ["run_classifier.py", *train, f"--init_checkpoint={model}"],
        "pretrain": ["run_pretraining.py", *rows, f"--init_checkpoint={model}"],
        "export": ["export_saved_model.py", f"--model={model}", "--export_dir=served"],
        "convert": [
            "convert_checkpoint.py",
            f"--from={model}",
            "--to=to",
            "--layout=own",
        ],
        "layers": ["layer_similarity.py", f"--checkpoints={model}", *layers],
        "ask": ["ask.py", f"--model={model}", "--context=text.txt", "--question=Who?"],
        "average": ["ensemble.py", f"--models={model},{model}", "--output_dir=mean"],
    }


NAMES = list(commands(""))
WITH_CONFIG = ["predict", "train", "pretrain", "export", "convert"]
WITH_VOCABULARY = ["predict", "train", "convert", "layers"]


def refuse(name, model, files, arguments, *parts):
    before = {path.name for path in files.iterdir()}
    command = commands(model)[name]
    result = run_script(*command, *arguments, cwd=files)
    assert_one_line(result, 1, *parts)
    assert {path.name for path in files.iterdir()} == before


@pytest.mark.parametrize("name", NAMES)
def test_a_list_of_checkpoints_that_names_a_missing_one_is_an_error(name, files):
    vocabulary = ["--vocab_file=words"] if name == "layers" else []
    parts = ["cut/checkpoint names checkpoint model.ckpt-5", "ckpt-5.index is missing"]
    refuse(name, "cut", files, vocabulary, *parts)


@pytest.mark.parametrize("name", WITH_CONFIG)
def test_a_configuration_that_contradicts_the_weights_is_refused(name, files):
    said = "other.json says num_attention_heads=4, hidden_act=relu"
    known = "model/albert_config.json, next to the weights, num_attention_heads=3"
    flag = ["--albert_config_file=other.json"]
    refuse(name, "model", files, flag, said, known, "hidden_act=gelu", "--config_over")


@pytest.mark.parametrize("name", WITH_VOCABULARY)
def test_a_vocabulary_or_cleaning_that_contradicts_the_weights_is_refused(name, files):
    refuse(name, "model", files, ["--vocab_file=other"], "other is not the vocabulary")
    cased = ["--vocab_file=words", "--nodo_lower_case"]
    refuse(name, "model", files, cased, "lower_case=True, but lower_case=False")


def test_rates_of_dropout_and_what_is_overridden_on_purpose_may_differ(files, tmp_path):
    succeed(
        *commands("model")["convert"][:2],
        f"--to={tmp_path}/own",
        "--layout=own",
        "--albert_config_file=dropout.json",
        "--config_override=num_attention_heads=6",
        "--vocab_file=words",
        cwd=files,
    )
    config = AlbertConfig.from_json(tmp_path / "own" / "albert_config.json")
    assert (config.hidden_dropout_prob, config.num_attention_heads) == (0.2, 6)
    # The kind of the vocabulary is what the flag says; so is its copy's name.
    assert (tmp_path / "own" / "vocab.txt").read_text() == (files / "words").read_text()


def test_the_best_of_several_runs_is_a_start(files, monkeypatch):
    started = []

    def fine_tune(model, *_, **__):
        started.append(model)
        return FineTuned({"status": RunStatus.PREEMPTED, "global_step": 3})

    monkeypatch.setattr("albert_tf.training.fine_tune.fine_tune", fine_tune)
    succeed(*commands("runs")["train"], "--vocab_file=words", cwd=files)
    [model] = started
    assert model.checkpoint == "runs/run_2/model.ckpt-75"
    assert (model.config.hidden_dropout_prob, model.vocabulary.name) == (0.4, "words")


def test_a_converted_model_keeps_its_step(files, tmp_path):
    arguments = [f"--to={tmp_path}/own", "--layout=own"]
    succeed("convert_checkpoint.py", "--from=runs", *arguments, cwd=files)
    assert (tmp_path / "own" / "model.ckpt-75.index").is_file()
    assert formats.read_step(tmp_path / "own") == 75
    arguments = [f"--to={tmp_path}/theirs", "--layout=hugging_face"]
    succeed("convert_checkpoint.py", "--from=runs", *arguments, cwd=files)
    assert formats.read_step(tmp_path / "theirs") == 75
    assert formats.read_weights(tmp_path / "theirs").global_step == 75


@pytest.mark.parametrize("positions", [90, 600])
def test_a_task_without_a_length_takes_the_flags_as_far_as_the_model_reads(
    positions, files, tmp_path, monkeypatch
):
    evaluated = []

    def evaluate(model, *_, **__):
        evaluated.append(model)
        return FineTuned({"status": RunStatus.PREEMPTED, "global_step": 3})

    monkeypatch.setattr("albert_tf.training.fine_tune.evaluate", evaluate)
    folder = tmp_path / "model"
    shutil.copytree(files / "model", folder)
    task = json.loads((folder / "task.json").read_text())
    del task["max_seq_length"]
    (folder / "task.json").write_text(json.dumps({**task, "task_name": "custom"}))
    config = AlbertConfig.from_json(folder / "albert_config.json")
    config.replace(max_position_embeddings=positions).to_json(
        folder / "albert_config.json"
    )
    predict = commands(str(folder))["predict"]
    predict[-1] = f"--output_dir={tmp_path}/out"
    succeed(*predict, cwd=files)
    succeed(*predict, "--max_seq_length=33", cwd=files)
    lengths = [model.task_config.max_seq_length for model in evaluated]
    assert lengths == [min(512, positions), None]
