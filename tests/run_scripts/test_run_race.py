"""run_race.py as a person runs it: train, evaluate, predict; and what it refuses."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from helpers.paths import ROOT
from helpers.tokenization_cases import train


def run_script(*arguments, script="run_race"):
    script = ROOT / "run_scripts" / f"{script}.py"
    return subprocess.run(
        [sys.executable, str(script), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def assert_one_line(done, code, *messages):
    assert done.returncode == code, done.stderr
    line = done.stderr.strip().splitlines()[-1]
    for message in messages:
        assert message in line
    assert "Traceback" not in done.stderr


def write_questions(path, count, **changes):
    """Questions of two or three options, as JSON lines."""
    path.parent.mkdir(exist_ok=True, parents=True)
    lines = []
    for number in range(count):
        line = {
            "id": f"q{number}",
            "article": "the rat eats " * (number + 1),
            "question": "who eats" if number % 2 else "the _ eats",
            "options": ["rat", "sea", "dune"][: 2 + number % 2],
            "answer": "AB"[number % 2],
        } | changes
        lines.append(json.dumps({k: v for k, v in line.items() if v is not None}))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with questions and a model that was trained on them."""
    folder = tmp_path_factory.mktemp("race")
    spm_model_file = train(folder / "small.model")
    AlbertConfig(
        vocab_size=420,
        embedding_size=6,
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=64,
    ).to_json(folder / "tiny.json")
    for name, count in (("train", 9), ("dev", 7), ("test", 5)):
        write_questions(folder / "quiz" / f"{name}.jsonl", count)
    done = run_script(
        "--input_format=jsonl",
        f"--data_dir={folder}/quiz",
        "--from_scratch",
        f"--albert_config_file={folder}/tiny.json",
        f"--spm_model_file={spm_model_file}",
        f"--output_dir={folder}/model",
        "--do_eval",
        "--do_predict",
        "--max_seq_length=48",
        "--max_qa_length=20",
        "--num_train_steps=2",
        "--num_warmup_steps=1",
        "--train_batch_size=4",
        "--eval_batch_size=3",
    )
    assert done.returncode == 0, done.stderr
    return folder


def read_results(folder):
    """Answers by id, and the rows of the table."""
    answers = json.loads((folder / "predictions.json").read_text())
    table = (folder / "test_results.tsv").read_text().splitlines()
    return answers, [line.split("\t") for line in table]


def test_a_run_leaves_scores_answers_and_probabilities(trained):
    results = json.loads((trained / "model" / "results.json").read_text())
    assert results["eval_rows"] == 7 and 0 <= results["eval_accuracy"] <= 1
    assert results["sets"]["test"]["eval_rows"] == 5
    answers, (header, *rows) = read_results(trained / "model")
    assert header == ["id", "A", "B", "C"]
    assert [row[0] for row in rows] == list(answers) == [f"q{n}" for n in range(5)]
    correct = 0
    for number, row in enumerate(rows):
        cells = row[1 : 3 + number % 2]
        assert all(cells) and not any(row[3 + number % 2 :])
        probabilities = np.array(cells, float)
        np.testing.assert_allclose(probabilities.sum(), 1, rtol=1e-5)
        assert answers[row[0]] == "ABC"[probabilities.argmax()]
        correct += answers[row[0]] == "AB"[number % 2]
    assert results["sets"]["test"]["eval_accuracy"] == pytest.approx(correct / 5)


def test_predicting_needs_a_model_and_questions_without_answers(trained, tmp_path):
    file = write_questions(tmp_path / "new.jsonl", 3, answer=None)
    done = run_script(
        "--nodo_train",
        "--do_predict",
        "--input_format=jsonl",
        f"--init_checkpoint={trained}/model",
        f"--output_dir={tmp_path}/out",
        f"--predict_file={file}",
    )
    assert done.returncode == 0, done.stderr
    assert "3 unanswered questions" in done.stdout
    answers, rows = read_results(tmp_path / "out")
    _, old_rows = read_results(trained / "model")
    assert list(answers) == ["q0", "q1", "q2"]
    # The lengths too are those that the model was trained with.
    for row, old_row in zip(rows[1:], old_rows[1:4], strict=True):
        found = [float(cell or 0) for cell in row[1:]]
        expected = [float(cell or 0) for cell in old_row[1:]]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    # Without answers there is no score.
    assert not (tmp_path / "out" / "eval_results.json").exists()


def test_models_are_averaged(trained, tmp_path):
    models = f"{trained}/model,{trained}/model"
    done = run_script(
        f"--models={models}", f"--output_dir={tmp_path}", script="ensemble"
    )
    assert done.returncode == 0, done.stderr
    for name, single in (
        ("test_predictions.json", "predictions.json"),
        ("test_results.tsv", "test_results.tsv"),
    ):
        found = (tmp_path / name).read_text()
        assert found == (trained / "model" / single).read_text()
    sets = json.loads((tmp_path / "results.json").read_text())["sets"]
    results = json.loads((trained / "model" / "results.json").read_text())
    assert sets["dev"]["eval_accuracy"] == results["eval_accuracy"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--high_only", "--middle_only"], 2, "pass one"),
        (["--high_only", "--input_format=jsonl"], 2, "have no level"),
        (["--data_dir={}/nowhere"], 1, "nowhere/test: --data_dir must hold"),
        (["--predict_file={}/bad.jsonl", "--input_format=jsonl"], 1, "question 1"),
    ],
)
def test_what_cannot_be_is_one_line(trained, tmp_path, arguments, code, message):
    write_questions(trained / "bad.jsonl", 2, answer="F")
    done = run_script(
        "--nodo_train",
        "--do_predict",
        f"--init_checkpoint={trained}/model",
        f"--output_dir={tmp_path}/out",
        *[argument.format(trained) for argument in arguments],
    )
    assert_one_line(done, code, message)
    assert not (tmp_path / "out" / "predictions.json").exists()


def test_answers_of_others_are_found_before_anything_is_computed(trained, tmp_path):
    (tmp_path / "predictions.json").write_text('{"cities": ["Oslo"]}')
    done = run_script(
        "--nodo_train",
        "--do_predict",
        "--input_format=jsonl",
        f"--predict_file={trained}/quiz/test.jsonl",
        f"--init_checkpoint={trained}/model",
        f"--output_dir={tmp_path}",
    )
    assert_one_line(done, 1, f"{tmp_path}/predictions.json is there already")
    assert not (tmp_path / "predictions").exists()


def test_training_needs_an_answer_to_each_question(trained, tmp_path):
    write_questions(tmp_path / "train.jsonl", 3, answer=None)
    done = run_script(
        "--input_format=jsonl",
        f"--data_dir={tmp_path}",
        f"--init_checkpoint={trained}/model",
        f"--output_dir={tmp_path}/out",
        "--max_seq_length=48",
    )
    assert_one_line(done, 1, "train.jsonl", "'q0' has no answer")
