"""run_classifier.py on texts with several labels, as a person runs it."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.model_dir import ModelDir
from helpers.fine_tuning_toys import BAD, GOOD, WORDS, config, write_vocabulary
from helpers.scripts import assert_one_line, run_script

LABELS = ["bad", "good", "rare"]


def rows(count, seed):
    """Texts that say each of their labels by a word."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        has = rng.random(3) < [0.5, 0.6, 0.2]
        words = rng.choice(WORDS[1:4], rng.integers(1, 4)).tolist()
        for word in np.array([BAD, GOOD, WORDS[0]] * 3)[[*has] * 3]:
            words.insert(rng.integers(len(words) + 1), str(word))
        labels = [label for label, it in zip(LABELS, has, strict=True) if it]
        found.append({"text": " ".join(words), "label": labels})
    return found


def write(path, count, seed):
    lines = [json.dumps(row) for row in rows(count, seed)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def run(*arguments, cwd, script="run_classifier.py"):
    done = run_script(script, *map(str, arguments), cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


TRAIN = (
    *("--task_name=custom", "--multi_label", "--train_file=train.jsonl"),
    *("--dev_file=dev.jsonl", "--do_eval", "--do_predict", "--test_file=test.jsonl"),
    *("--from_scratch", "--albert_config_file=tiny.json", "--vocab_file=vocab.txt"),
    *("--max_seq_length=14", "--class_weights=rare:1.5", "--train_batch_size=16"),
    *("--eval_batch_size=5", "--learning_rate=0.001", "--num_train_steps=600"),
    *("--num_warmup_steps=20", "--eval_steps=200"),
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("multi_label")
    write_vocabulary(folder)
    config().to_json(folder / "tiny.json")
    for name, count, seed in [("train", 250, 1), ("dev", 31, 2), ("test", 17, 3)]:
        write(folder / f"{name}.jsonl", count, seed)
    output = run(*TRAIN, "--output_dir=model", cwd=folder)
    (folder / "stdout").write_text(output)
    return folder


def test_a_run_learns_and_tunes_its_thresholds(trained):
    results = json.loads((trained / "model/results.json").read_text())
    dev = results["sets"]["dev"]
    assert dev["micro_f1"] > 0.8
    tuned = dev["tuned"]
    assert tuned["macro_f1"] >= dev["macro_f1"] and [*tuned["classes"]] == LABELS
    thresholds = results["thresholds"]
    assert results["thresholds_tuned_on"] == "dev" and [*thresholds] == LABELS
    task = json.loads((trained / "model/task.json").read_text())
    assert task["thresholds"] == list(thresholds.values())
    assert ModelDir.read(trained / "model").task_config.thresholds == tuple(
        task["thresholds"]
    )
    output = (trained / "stdout").read_text()
    assert "Class weights: bad " in output and "dev, tuned:" in output


def test_predictions_are_the_labels_that_reach_their_thresholds(trained):
    task = json.loads((trained / "model/task.json").read_text())
    table = (trained / "model/test_results.tsv").read_text().splitlines()
    assert table[0].split("\t") == LABELS
    values = np.array([line.split("\t") for line in table[1:]], float)
    lines = (trained / "model/test_predictions.tsv").read_text().splitlines()
    expected = [",".join(np.array(LABELS)[row >= task["thresholds"]]) for row in values]
    assert lines == ["index\tlabels", *(f"{i}\t{e}" for i, e in enumerate(expected))]
    right = [",".join(row["label"]) for row in rows(17, 3)]
    assert sum(a == b for a, b in zip(expected, right, strict=True)) >= 12


def test_a_trained_model_scores_exports_and_converts(trained):
    output = run(
        *("--nodo_train", "--do_eval", "--dev_file=dev.jsonl", "--output_dir=again"),
        *("--init_checkpoint=model", "--export_dir=served"),
        cwd=trained,
    )
    assert "Exported to" in output
    again = json.loads((trained / "again/eval_results.json").read_text())["sets"]["dev"]
    tuned = json.loads((trained / "model/results.json").read_text())["sets"]["dev"]
    assert again["macro_f1"] == pytest.approx(tuned["tuned"]["macro_f1"])
    served = tf.saved_model.load(trained / "served/1").signatures["text"]
    texts = [row["text"] for row in rows(17, 3)]
    answers = served(text=tf.constant(texts))
    table = (trained / "model/test_results.tsv").read_text().splitlines()[1:]
    expected = np.array([line.split("\t") for line in table], float)
    np.testing.assert_allclose(answers["probabilities"], expected, atol=1e-5)
    thresholds = answers["thresholds"].numpy()
    assert (answers["is_label"].numpy() == (expected >= thresholds)).mean() > 0.98
    task = json.loads((trained / "model/task.json").read_text())
    np.testing.assert_allclose(thresholds, [task["thresholds"]] * 17, atol=1e-6)
    assert answers["labels"][3].numpy().tolist() == [b"bad", b"good", b"rare"]
    run(
        *("--from=model", "--to=hf", "--layout=hugging_face"),
        cwd=trained,
        script="convert_checkpoint.py",
    )
    values = json.loads((trained / "hf/config.json").read_text())
    assert values["problem_type"] == "multi_label_classification"
    assert [values["id2label"][str(i)] for i in range(3)] == LABELS
    back = ModelDir.read(trained / "hf").task_config
    assert back.kind == "multi_label" and list(back.labels) == LABELS


def test_each_of_several_runs_has_thresholds_of_its_own(trained):
    run(
        *(*TRAIN, "--output_dir=runs", "--num_runs=2", "--num_train_steps=5"),
        cwd=trained,
    )
    best = json.loads((trained / "runs/results.json").read_text())["best_run"]
    found = {}
    for name in ("run_1", "run_2"):
        folder = trained / "runs" / name
        results = json.loads((folder / "results.json").read_text())
        assert results["thresholds_tuned_on"] == "dev"
        found[name] = [*results["thresholds"].values()]
        for task in (folder / "task.json", folder / "best/task.json"):
            assert json.loads(task.read_text())["thresholds"] == found[name]
        assert not (folder / "eval_results.json").exists()
    assert found["run_1"] != found["run_2"]
    table = (trained / "runs/test_results.tsv").read_text().splitlines()[1:]
    values = np.array([line.split("\t") for line in table], float)
    lines = (trained / "runs/test_predictions.tsv").read_text().splitlines()[1:]
    for line, row in zip(lines, values, strict=True):
        chosen = ",".join(np.array(LABELS)[row >= found[best]])
        assert line.split("\t")[1] == chosen


def test_models_are_averaged(trained):
    run(
        *("--models=model,model", "--output_dir=both"),
        cwd=trained,
        script="ensemble.py",
    )
    both = json.loads((trained / "both/results.json").read_text())["sets"]["dev"]
    one = json.loads((trained / "model/results.json").read_text())["sets"]["dev"]
    assert both["micro_f1"] == pytest.approx(one["tuned"]["micro_f1"])


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--label_smoothing=0.1"], 1, "label_smoothing=0.1 is asked for"),
        (["--class_weights=ugly:2"], 1, "labels are 'bad', 'good', 'rare'"),
        (["--focal_gamma=-1"], 2, "focal_gamma"),
        (["--regression"], 1, "one of --regression and --multi_label"),
    ],
)
def test_what_cannot_be_is_one_line(trained, arguments, code, message):
    output = "model" if "smoothing" in arguments[0] else "new"
    done = run_script(
        "run_classifier.py", *TRAIN, f"--output_dir={output}", *arguments, cwd=trained
    )
    assert_one_line(done, code, message)
