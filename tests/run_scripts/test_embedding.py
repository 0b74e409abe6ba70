"""run_embedding.py and embed.py, as a person runs them."""

import json

import numpy as np
import pytest
import tensorflow as tf

from helpers.fine_tuning_toys import WORDS, config, write_vocabulary
from helpers.scripts import assert_one_line, run_script, succeed

TRAIN = (
    *("--from_scratch", "--albert_config_file=tiny.json", "--vocab_file=vocab.txt"),
    *("--train_file=train.jsonl", "--dev_file=dev.jsonl", "--do_eval"),
    *("--max_seq_length=12", "--train_batch_size=16", "--eval_batch_size=7"),
    *("--num_train_steps=150", "--num_warmup_steps=10", "--learning_rate=0.002"),
    *("--eval_steps=75", "--text_column=question", "--text_pair_column=answer"),
)


def write(path, count, seed):
    """Questions and answers that share a rare word."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        shared = str(rng.choice(WORDS))
        texts = [rng.choice(WORDS[:3], rng.integers(1, 4)).tolist() for _ in range(2)]
        question, answer = (" ".join([shared, shared, *text]) for text in texts)
        rows.append(json.dumps({"question": question, "answer": answer}))
    path.write_text("\n".join(rows) + "\n")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedding")
    write_vocabulary(folder)
    config().to_json(folder / "tiny.json")
    for name, count, seed in [("train", 200, 1), ("dev", 23, 2)]:
        write(folder / f"{name}.jsonl", count, seed)
    succeed("run_embedding.py", *TRAIN, "--output_dir=model", cwd=folder)
    lines = [
        json.loads(line)["answer"]
        for line in (folder / "dev.jsonl").read_text().splitlines()
    ]
    (folder / "texts.txt").write_text("\n".join(lines) + "\n")
    return folder


def embed(folder, *arguments):
    return succeed("embed.py", "--model=model", *arguments, cwd=folder)


def test_partners_are_found(trained):
    results = json.loads((trained / "model/results.json").read_text())
    dev = results["sets"]["dev"]
    assert dev.keys() >= {"mrr_at_10", "accuracy_at_1", "recall_at_10", "ndcg_at_10"}
    assert dev["mrr_at_10"] > 0.5 and results["best"]["mrr_at_10"] == dev["mrr_at_10"]
    task = json.loads((trained / "model/task.json").read_text())
    assert task["kind"] == "embedding" and task["pooling"] == "mean"


def test_vectors_are_those_of_the_export_and_of_both_formats(trained):
    output = embed(trained, "--input_file=texts.txt", "--output_file=texts.npy")
    assert "23 vectors of 12 numbers: texts.npy" in output
    vectors = np.load(trained / "texts.npy")
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    embed(
        trained,
        *("--input_file=dev.jsonl", "--text_column=answer", "--keep_text"),
        *("--output_file=texts.parquet", "--batch_size=5"),
    )
    succeed(
        "export_saved_model.py",
        *("--model=model", "--export_dir=served", "--onnx=model.onnx"),
        cwd=trained,
    )
    served = tf.saved_model.load(trained / "served/1").signatures["text"]
    texts = (trained / "texts.txt").read_text().splitlines()
    answers = served(text=tf.constant(texts))
    np.testing.assert_allclose(answers["vectors"], vectors, atol=1e-5)


def test_the_nearest_texts_are_printed(trained):
    embed(trained, "--input_file=texts.txt", "--output_file=near.npy")
    text = (trained / "texts.txt").read_text().splitlines()[4]
    near = ("--vectors=near.npy", "--texts=texts.txt", "--top_k=3")
    lines = embed(trained, *near, f"--query={text}").splitlines()
    assert lines[0].split(maxsplit=1) == ["1.000", text] and len(lines) == 3
    done = run_script(
        "embed.py", "--model=model", *near, "--query=a", "--pooling=first", cwd=trained
    )
    assert_one_line(done, 1, "was made with pooling=mean")
    done = run_script(
        "embed.py",
        *("--model=model", "--vectors=near.npy", "--texts=dev.jsonl", "--query=a"),
        *("--text_column=answer", "--max_length=9"),
        cwd=trained,
    )
    assert_one_line(done, 1, "max_seq_length=12")
    other = ("--vectors=near.npy", "--texts=texts.txt", "--query=a", "--nouse_ema")
    succeed(
        "run_embedding.py", *TRAIN, "--random_seed=9", "--output_dir=b", cwd=trained
    )
    done = run_script("embed.py", "--model=b", *other, cwd=trained)
    assert_one_line(done, 1, "was made with weights_sha256=")


def test_a_model_of_no_task_is_scored_as_it_is(trained):
    done = run_script(
        "run_embedding.py",
        *("--nodo_train", "--do_eval", "--init_checkpoint=model/best"),
        *("--output_dir=scored", "--dev_file=dev.jsonl"),
        cwd=trained,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((trained / "scored/eval_results.json").read_text())["sets"][
        "dev"
    ]
    results = json.loads((trained / "model/results.json").read_text())["sets"]["dev"]
    assert found["mrr_at_10"] == results["mrr_at_10"]


@pytest.mark.parametrize("setting", ["--scale=7", "--pooling=first", "--nonormalize"])
def test_a_run_goes_on_with_the_same_task_alone(trained, setting):
    done = run_script(
        "run_embedding.py", *TRAIN, "--output_dir=model", setting, cwd=trained
    )
    assert_one_line(done, 1, "is asked for: give another --output_dir")


@pytest.mark.parametrize(
    ("script", "arguments", "code", "message"),
    [
        ("run_embedding.py", ["--loss=cosine"], 2, "needs pairs with scores"),
        ("run_embedding.py", ["--gradient_accumulation_steps=2"], 1, "leave it out"),
        ("run_embedding.py", ["--score_bounds=1"], 2, "--score_bounds are two"),
        ("run_embedding.py", ["--text_pair_column=x"], 1, "no value"),
        ("embed.py", [], 2, "Pass texts and a file"),
        ("embed.py", ["--output_file=a.txt"], 2, "Name the texts"),
        (
            "embed.py",
            ["--output_file=a.csv", "--input_file=texts.txt"],
            1,
            "end in .npy or .parquet",
        ),
        (
            "embed.py",
            ["--output_file=a.npy", "--input_file=texts.txt", "--layer=7"],
            1,
            "Received 7",
        ),
    ],
)
def test_what_cannot_be_is_one_line(trained, script, arguments, code, message):
    known = (*TRAIN, "--output_dir=new") if script == "run_embedding.py" else ()
    known = known or ("--model=model",)
    assert_one_line(run_script(script, *known, *arguments, cwd=trained), code, message)
