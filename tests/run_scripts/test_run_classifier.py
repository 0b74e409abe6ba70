"""`run_classifier.py` and `ensemble.py` as a person runs them."""

import json
import re

import numpy as np
import pytest

from helpers.bucket_files import files_of, new_bucket, upload
from helpers.fine_tuning_toys import config, texts, write_table, write_vocabulary
from helpers.scripts import assert_one_line, run_script
from helpers.strict_json import assert_strict_json
from helpers.training_jobs import assert_equal_weights, weights


def run(folder, *arguments, script="run_classifier.py"):
    result = run_script(script, *arguments, cwd=folder)
    assert result.returncode == 0, result.stderr
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables, a vocabulary and a shape of the toy language."""
    folder = tmp_path_factory.mktemp("classifier")
    write_vocabulary(folder)
    config().to_json(folder / "toy.json")
    for name, count, seed in [("train", 157, 1), ("dev", 23, 2), ("test", 13, 3)]:
        write_table(folder / f"{name}.tsv", count, seed)
    return folder


START = [
    "--task_name=custom",
    "--train_file=train.tsv",
    "--dev_file=dev.tsv",
    "--from_scratch",
    "--albert_config_file=toy.json",
    "--vocab_file=vocab.txt",
    "--max_seq_length=17",
    "--train_batch_size=8",
    "--learning_rate=0.005",
    "--iterations_per_loop=20",
]


@pytest.fixture(scope="module")
def trained(folder):
    """Two runs on the toy language, evaluated and predicted."""
    result = run(
        folder,
        *START,
        "--output_dir=model",
        "--num_runs=2",
        "--num_train_steps=60",
        "--save_checkpoints_steps=20",
        "--do_eval",
        "--do_predict",
        "--test_file=test.tsv",
    )
    return folder / "model", result.stdout


def test_it_learns_and_reports(trained):
    folder, printed = trained
    assert assert_strict_json(folder) > 10
    results = json.loads((folder / "results.json").read_text())
    assert results["median"] > 0.9 and len(results["values"]) == 2
    assert "WARNING: learning_rate 0.005 is far above" in printed
    assert (folder / "run_2" / "best" / "task.json").is_file()


def test_rows_are_as_long_as_a_short_model_reads(folder, tmp_path):
    start = [each for each in START if not each.startswith("--max_seq_length")]
    result = run(folder, *start, f"--output_dir={tmp_path}", "--num_train_steps=2")
    assert "Rows have at most 24 tokens, as many as the model reads." in result.stdout
    assert json.loads((tmp_path / "task.json").read_text())["max_seq_length"] == 24


def test_predictions_are_by_label_name_and_in_order(trained):
    folder, _ = trained
    expected = [label for _, label in texts(13, 3)]
    lines = (folder / "test_predictions.tsv").read_text().splitlines()
    assert lines[0] == "index\tprediction" and len(lines) == 14
    answers = [line.split("\t") for line in lines[1:]]
    assert [index for index, _ in answers] == [str(number) for number in range(13)]
    right = sum(a == e for (_, a), e in zip(answers, expected, strict=True))
    assert right >= 11
    rows = (folder / "test_results.tsv").read_text().splitlines()
    assert rows[0] == "bad\tgood" and len(rows) == 14
    for row, (_, answer) in zip(rows[1:], answers, strict=True):
        bad, good = map(float, row.split("\t"))
        assert bad + good == pytest.approx(1, abs=1e-6)
        assert answer == ("good" if good > bad else "bad")


def test_a_model_and_a_file_are_all_that_a_prediction_needs(trained, tmp_path):
    folder, _ = trained
    # Other columns, no labels, another kind of file.
    rows = ["text,more", *(f'"{text}",x' for text, _ in texts(5, 4))]
    (tmp_path / "new.csv").write_text("\n".join(rows))
    run(
        tmp_path,
        "--nodo_train",
        "--do_predict",
        "--predict_file=new.csv",
        f"--init_checkpoint={folder}",
        "--output_dir=out",
    )
    lines = (tmp_path / "out" / "test_predictions.tsv").read_text().splitlines()
    right = sum(
        line.split("\t")[1] == label
        for line, (_, label) in zip(lines[1:], texts(5, 4), strict=True)
    )
    assert len(lines) == 6 and right >= 4


def test_with_all_paths_in_a_bucket_the_results_are_the_same(folder, tmp_path):
    bucket = new_bucket()
    outputs = (tmp_path / "short", f"{bucket}/short")
    for place, output in zip((folder, upload(folder, bucket)), outputs, strict=True):
        run(
            tmp_path,
            *(re.sub(r"=([a-z]+\.)", rf"={place}/\1", flag) for flag in START),
            f"--test_file={place}/test.tsv",
            f"--output_dir={output}",
            "--num_train_steps=2",
            "--do_eval",
            "--do_predict",
        )
    local, there = map(files_of, outputs)
    for name in ("test_results.tsv", "test_predictions.tsv", "vocab.txt"):
        assert there[name] == local[name]
    # Events, locks, and rows of a bucket, have other names.
    kinds = ("best/", "predictions/", "model.ckpt", "task", "GLUE", "results")
    kept = [[n for n in sorted(each) if n.startswith(kinds)] for each in (local, there)]
    assert kept[0] == kept[1] and "best/model.ckpt-2.index" in kept[0]
    assert_equal_weights(weights(outputs[1]), weights(outputs[0]))
    # The folder is a model that needs nothing else.
    run(
        tmp_path,
        "--nodo_train",
        "--do_predict",
        f"--predict_file={folder}/test.tsv",
        f"--init_checkpoint={outputs[1]}",
        f"--output_dir={bucket}/again",
    )
    again = files_of(f"{bucket}/again")
    assert again["test_results.tsv"] == local["test_results.tsv"]


def test_evaluation_alone_gives_the_same_score(trained, tmp_path):
    folder, _ = trained
    run(
        tmp_path,
        "--nodo_train",
        "--do_eval",
        f"--dev_file={folder.parent / 'dev.tsv'}",
        f"--init_checkpoint={folder}",
        "--output_dir=out",
    )
    found = json.loads((tmp_path / "out" / "eval_results.json").read_text())
    best = json.loads((folder / "results.json").read_text())["best_run"]
    expected = json.loads((folder / best / "results.json").read_text())
    accuracy = found["sets"]["dev"]["eval_accuracy"]
    assert accuracy == pytest.approx(expected["best"]["eval_accuracy"])


def test_an_ensemble_averages_and_scores(trained, tmp_path):
    folder, _ = trained
    run(
        tmp_path,
        f"--models={folder / 'run_1'},{folder / 'run_2'}",
        "--output_dir=both",
        script="ensemble.py",
    )
    results = json.loads((tmp_path / "both" / "results.json").read_text())
    assert set(results["sets"]) == {"dev"} and len(results["models"]) == 2

    def probabilities(path):
        return np.loadtxt(path, skiprows=1, delimiter="\t")

    runs = [
        np.load(folder / name / "predictions" / "test.npz")["probabilities"]
        for name in ("run_1", "run_2")
    ]
    averaged = probabilities(tmp_path / "both" / "test_results.tsv")
    np.testing.assert_allclose(averaged, np.mean(runs, axis=0), atol=1e-6)
    run(
        tmp_path,
        f"--models={folder / 'run_1'},{folder / 'run_2'}",
        "--output_dir=chosen",
        "--select_by=dev",
        script="ensemble.py",
    )
    chosen = json.loads((tmp_path / "chosen" / "results.json").read_text())
    single = json.loads((folder / "results.json").read_text())["values"]
    assert chosen["sets"]["dev"]["eval_accuracy"] >= max(single) - 1e-9


def test_regression_and_glue_layouts_run(folder, tmp_path):
    """STS-B's layout, its scores, its submission within its bounds."""
    header = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1"
    header += "\tsentence2"
    glue = tmp_path / "STS-B"
    glue.mkdir()
    for name, count, seed in [("train", 33, 5), ("dev", 9, 6), ("test", 7, 7)]:
        labels = name != "test"
        lines = [header + "\tscore" * labels]
        for index, (text, label) in enumerate(texts(count, seed)):
            fields = [str(index + 40), *"abcdef", text, text]
            score = "5.000" if label == "good" else "0.250"
            lines.append("\t".join([*fields, *[score] * labels]))
        (glue / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    arguments = [each for each in START if "_file=t" not in each and "task" not in each]
    arguments = [each for each in arguments if not each.startswith("--dev_file")]
    run(
        tmp_path,
        *arguments,
        f"--albert_config_file={folder / 'toy.json'}",
        f"--vocab_file={folder / 'vocab.txt'}",
        "--task_name=STS-B",
        "--data_dir=.",
        "--output_dir=out",
        "--num_train_steps=20",
        "--do_eval",
        "--do_predict",
    )
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert {"pearson", "spearman", "eval_loss"} <= results.keys()
    lines = (tmp_path / "out" / "GLUE" / "STS-B.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines[1:]] == [
        str(n + 40) for n in range(7)
    ]
    assert all(0 <= float(line.split("\t")[1]) <= 5 for line in lines[1:])


ERRORS = {
    "nothing to start from": (["--nofrom_scratch"], 2, ["--from_scratch"]),
    "both": (["--init_checkpoint=x"], 2, ["--from_scratch"]),
    "nothing to do": (["--nodo_train"], 2, ["--do_predict"]),
    "no shape": (["--albert_config_file="], 2, ["--albert_config_file"]),
    "no vocabulary": (["--vocab_file="], 2, ["--vocab_file"]),
    "missing file": (["--train_file=no.tsv"], 1, ["no.tsv"]),
    "no room": (["--max_seq_length=2"], 1, ["at least 3", "Received 2"]),
    "missing column": (["--label_column=class"], 1, ["train.tsv", "'class'", "text"]),
    "missing text": (["--text_column=body"], 1, ["'body'"]),
    "one label": (["--train_file=one.tsv"], 1, ["one label only, 'good'"]),
    "label in two lines": (["--train_file=lines.jsonl"], 1, ["'a\\nb'", "rename"]),
    "model of another kind": (
        ["--nodo_train", "--do_predict", "--init_checkpoint=choice"],
        1,
        ["trained for race"],
    ),
    "unknown label": (
        ["--do_eval", "--dev_file=other.tsv"],
        1,
        ["other.tsv, line 2", "'great'", "'bad', 'good'"],
    ),
    "not a number": (["--regression"], 1, ["train.tsv, line 2", "'good'"]),
    "too few columns": (["--train_file=short.tsv"], 1, ["short.tsv, line 3"]),
    "too long": (["--max_seq_length=25"], 1, ["at most 24", "=25: lower it"]),
    "other vocabulary": (["--albert_config_file=other.json"], 1, ["61", "27"]),
    "unknown task": (["--task_name=rtf"], 2, ["rtf"]),
    "no data": (["--task_name=rte"], 2, ["--data_dir"]),
    "wrong data": (["--task_name=rte", "--data_dir=no"], 1, ["no", "RTE/"]),
    "no runs": (["--num_runs=0"], 2, ["num_runs"]),
    "no passes": (["--num_train_epochs=-1"], 2, ["num_train_epochs"]),
    "passes that are no number": (["--num_train_epochs=nan"], 2, ["num_train_epochs"]),
    "no decay": (["--lr_schedule=wsd"], 2, ["num_decay_steps must be above 0"]),
    "steps that do not add up": (
        ["--lr_schedule=wsd", "--num_decay_steps=41", "--num_train_steps=40"],
        1,
        ["num_decay_steps, 41, are", "above num_train_steps, 40"],
    ),
    "dropout": (["--classifier_dropout=1.5"], 2, ["classifier_dropout", "below 1"]),
    "no threshold": (["--tune_threshold"], 1, ["has no threshold to tune"]),
    "early stopping": (["--early_stopping=2"], 2, ["--do_eval"]),
    "not trained": (["--nodo_train", "--do_predict"], 1, ["out"]),
    "start in the output": (
        ["--init_checkpoint=choice", "--output_dir=choice"],
        2,
        ["replace the weights choice", "leave --init_checkpoint out"],
    ),
    "input in the output": (
        ["--train_file=out/test_results.tsv"],
        2,
        ["out/test_results.tsv, an input (--train_file)"],
    ),
    "scheme": (["--output_dir=s4://b/out"], 2, ["--output_dir: s4://b/out is not"]),
}


def _write_choice_model(folder):
    """A model of multiple choice, as far as a script looks before it computes."""
    (folder / "choice").mkdir(exist_ok=True)
    for name in ("model.ckpt-1.index", "model.ckpt-1.data-00000-of-00001"):
        (folder / "choice" / name).touch()
    config().to_json(folder / "choice" / "albert_config.json")
    vocabulary = (folder / "vocab.txt").read_text()
    (folder / "choice" / "vocab.txt").write_text(vocabulary)
    facts = {"task_name": "race", "labels": None, "max_seq_length": 17}
    (folder / "choice" / "task.json").write_text(json.dumps(facts))


@pytest.mark.parametrize("case", ERRORS)
def test_what_is_wrong_is_said_in_one_line(case, folder):
    from helpers.tiny import tiny_config

    (folder / "one.tsv").write_text("text\tlabel\nlovely\tgood\nlovely\tgood\n")
    (folder / "other.tsv").write_text("text\tlabel\nlovely\tgreat\n")
    (folder / "short.tsv").write_text("text\tlabel\nlovely\tgood\nlovely\n")
    (folder / "lines.jsonl").write_text(
        '{"text": "x", "label": "a\\nb"}\n{"text": "x", "label": "c"}\n'
    )
    tiny_config().to_json(folder / "other.json")
    (folder / "out").mkdir(exist_ok=True)
    (folder / "out" / "test_results.tsv").touch()
    _write_choice_model(folder)
    wrong, code, parts = ERRORS[case]
    result = run_script(
        "run_classifier.py", *START, "--output_dir=out", *wrong, cwd=folder
    )
    assert_one_line(result, code, *parts)


@pytest.mark.parametrize("name", ["test_results.tsv", "test_predictions.tsv"])
def test_tables_of_others_are_found_before_training(name, folder, tmp_path):
    (tmp_path / name).write_text("city\tcountry\nOslo\tNorway\n")
    words = (f"--output_dir={tmp_path}", "--do_predict", "--test_file=test.tsv")
    result = run_script("run_classifier.py", *START, *words, cwd=folder)
    assert_one_line(result, 1, f"{tmp_path}/{name} is there already")
    assert not any(tmp_path.glob("model.ckpt*"))


def test_a_table_to_predict_may_name_its_columns_otherwise(trained, tmp_path):
    model, _ = trained
    rows = texts(5, seed=7)
    (tmp_path / "new.tsv").write_text(
        "text\tbody\n" + "".join(f"wrong\t{text}\n" for text, *_ in rows)
    )
    arguments = ["--nodo_train", "--do_predict", f"--init_checkpoint={model}"]
    arguments += [f"--predict_file={tmp_path / 'new.tsv'}", "--output_dir=out"]
    run(tmp_path, *arguments, "--text_column=body")
    by_name = (tmp_path / "out" / "test_results.tsv").read_text()
    run(tmp_path, *arguments, "--text_column=text")
    assert by_name != (tmp_path / "out" / "test_results.tsv").read_text()
    result = run_script(
        "run_classifier.py", *arguments, "--max_seq_length=999", cwd=tmp_path
    )
    assert_one_line(result, 1, "max_position_embeddings", "999")


def test_bad_rows_are_skipped_and_counted_when_told_to(folder):
    lines = (folder / "train.tsv").read_text().splitlines()
    lines.insert(2, "only one column")
    (folder / "holes.tsv").write_text("\n".join(lines))
    result = run(
        folder,
        *START,
        "--train_file=holes.tsv",
        "--output_dir=holes",
        "--num_train_steps=1",
        "--on_bad_row=skip",
    )
    assert "WARNING: 1 bad rows of train were skipped." in result.stdout
