"""run_classifier.py on texts longer than a row, as a person runs it."""

import json

import numpy as np
import pytest
import tensorflow as tf

from helpers.fine_tuning_toys import BAD, GOOD, WORDS, config, write_vocabulary
from helpers.scripts import assert_one_line, run_script, succeed


def write(path, count, seed, shortest=15):
    """Texts whose last words say the label, beyond the length of a row."""
    rng = np.random.default_rng(seed)
    rows = []
    for place in range(count):
        word, label = ((GOOD, "good"), (BAD, "bad"))[place % 2]
        words = rng.choice(WORDS[:4], rng.integers(shortest, 24)).tolist()
        rows.append(f"{' '.join([*words, word, word, word])}\t{label}")
    path.write_text("\n".join(["text\tlabel", *rows]) + "\n")


TRAIN = (
    *(
        "--task_name=custom",
        "--train_file=train.tsv",
        "--dev_file=dev.tsv",
        "--do_eval",
    ),
    *("--do_predict", "--test_file=test.tsv", "--from_scratch", "--max_seq_length=9"),
    *("--albert_config_file=tiny.json", "--vocab_file=vocab.txt", "--doc_stride=5"),
    *("--learning_rate=0.003", "--num_train_steps=120", "--num_warmup_steps=10"),
    *("--train_batch_size=16", "--eval_batch_size=6", "--eval_steps=60"),
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("windows")
    write_vocabulary(folder)
    config().to_json(folder / "tiny.json")
    for name, count, seed in [("train", 120, 1), ("dev", 31, 2), ("test", 17, 3)]:
        write(folder / f"{name}.tsv", count, seed)
    windows = ("--window_pooling=max", "--output_dir=model", "--export_dir=served")
    output = succeed("run_classifier.py", *TRAIN, *windows, cwd=folder)
    (folder / "stdout").write_text(output)
    return folder


def test_what_stands_after_the_first_window_is_learned(trained):
    results = json.loads((trained / "model/results.json").read_text())
    assert results["sets"]["dev"]["eval_accuracy"] > 0.9
    output = (trained / "stdout").read_text()
    assert "train: 120 of 120 texts have several windows" in output
    task = json.loads((trained / "model/task.json").read_text())
    assert (task["window_pooling"], task["doc_stride"], task["max_windows"]) == (
        "max",
        5,
        8,
    )
    plain = ("--output_dir=plain", "--num_train_steps=40")
    succeed("run_classifier.py", *TRAIN, *plain, cwd=trained)
    results = json.loads((trained / "plain/results.json").read_text())
    assert results["sets"]["dev"]["eval_accuracy"] < 0.75
    assert "window_pooling" not in json.loads((trained / "plain/task.json").read_text())


def test_the_export_and_a_later_prediction_have_the_same_windows(trained):
    table = (trained / "model/test_results.tsv").read_text().splitlines()
    expected = np.array([line.split("\t") for line in table[1:]], float)
    lines = (trained / "test.tsv").read_text().splitlines()[1:]
    texts = [line.split("\t")[0] for line in lines]
    text = tf.saved_model.load(trained / "served/1").signatures["text"]
    served = text(text=tf.constant(texts))
    np.testing.assert_allclose(served["probabilities"], expected, atol=1e-5)
    assert not served["truncated"].numpy().any()
    long = text(text=tf.constant([" ".join(texts)]))
    assert long["truncated"].numpy().tolist() == [True]
    succeed(
        "run_classifier.py",
        *("--nodo_train", "--do_predict", "--init_checkpoint=model"),
        *("--predict_file=test.tsv", "--output_dir=again"),
        cwd=trained,
    )
    again = (trained / "again/test_results.tsv").read_text().splitlines()
    found = np.array([line.split("\t") for line in again[1:]], float)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_run_goes_on_with_the_same_pooling_alone(trained):
    other = ("--window_pooling=mean", "--output_dir=model")
    done = run_script("run_classifier.py", *TRAIN, *other, cwd=trained)
    assert_one_line(done, 1, "window_pooling=max, but window_pooling=mean is asked for")


def test_settings_out_of_range_are_one_line(trained):
    for flag, message in (
        ("--window_pooling=sum", "window_pooling"),
        ("--max_windows=0", "max_windows"),
        ("--doc_stride=0", "doc_stride"),
    ):
        done = run_script(
            "run_classifier.py", *TRAIN, "--output_dir=new", flag, cwd=trained
        )
        code = 2 if "sum" in flag else 1
        assert_one_line(done, code, message)
