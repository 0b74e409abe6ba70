"""The path on Chinese with WordPiece: data, pretraining, classifier, choices."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from albert_tf.config import AlbertConfig

ROOT = Path(__file__).resolve().parents[1]

TEXTS = [
    {"text": "今天天气很好，我们去公园。", "label": "好"},
    {"text": "这部电影太糟糕了。", "label": "坏"},
    {"text": "老师表扬了他。", "label": "好"},
    {"text": "火车又晚点了，真讨厌。", "label": "坏"},
    {"text": "ALBERT很快。", "label": "好"},
]
QUESTIONS = [
    {
        "article": "小明昨天去了南京。",
        "question": "小明去了_。",
        "options": ["南京", "北京", "上海"],
        "answer": "A",
    },
    {
        "article": "他喜欢喝茶。",
        "question": "他喜欢喝什么？",
        "options": ["咖啡", "茶"],
        "answer": "B",
    },
    {
        "article": "火车晚点了。",
        "question": "什么晚点了？",
        "options": ["飞机", "火车", "船", "车"],
        "answer": "B",
    },
]


def run(script, *arguments):
    done = subprocess.run(
        [sys.executable, str(ROOT / "run_scripts" / f"{script}.py"), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def write_lines(path, values):
    path.parent.mkdir(exist_ok=True)
    lines = [json.dumps(value, ensure_ascii=False) for value in values]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.slow
def test_chinese_goes_from_text_to_fine_tuned_models(shared_data, tmp_path):
    vocabulary = shared_data / "vocabulary" / "vocab_chinese.txt"
    news = (shared_data / "text" / "zh_news.txt").read_text("utf-8").split("\n")
    (tmp_path / "text.txt").write_text("\n".join(news[:40]), encoding="utf-8")
    AlbertConfig(
        vocab_size=21_128,
        embedding_size=6,
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=20,
        hidden_act="relu",
        max_position_embeddings=64,
    ).to_json(tmp_path / "tiny.json")
    run(
        "create_pretraining_data",
        f"--input_file={tmp_path}/text.txt",
        "--input_format=raw",
        "--language=zh",
        f"--vocab_file={vocabulary}",
        f"--output_file={tmp_path}/rows.tfrecord",
        "--max_seq_length=64",
        "--dupe_factor=3",
        "--num_workers=1",
    )
    run(
        "run_pretraining",
        f"--input_file={tmp_path}/rows.tfrecord",
        f"--albert_config_file={tmp_path}/tiny.json",
        f"--output_dir={tmp_path}/model",
        "--max_seq_length=64",
        "--train_batch_size=8",
        "--num_train_steps=20",
        "--num_warmup_steps=2",
        "--iterations_per_loop=20",
    )
    results = json.loads((tmp_path / "model" / "results.json").read_text())
    assert results["global_step"] == 20

    start = (
        f"--init_checkpoint={tmp_path}/model",
        f"--vocab_file={vocabulary}",
        "--do_eval",
        "--max_seq_length=32",
        "--train_batch_size=3",
        "--eval_batch_size=2",
        "--num_train_steps=2",
    )
    texts = write_lines(tmp_path / "texts.jsonl", TEXTS)
    classifier = tmp_path / "classifier"
    files = f"--train_file={texts}", f"--dev_file={texts}"
    run(
        "run_classifier",
        "--task_name=custom",
        *files,
        *start,
        f"--output_dir={classifier}",
    )
    for part in ("train", "dev", "test"):
        write_lines(tmp_path / "quiz" / f"{part}.jsonl", QUESTIONS)
    race = tmp_path / "race"
    run(
        "run_race",
        "--input_format=jsonl",
        f"--data_dir={tmp_path}/quiz",
        *start,
        "--do_predict",
        f"--output_dir={race}",
    )
    for folder, rows in ((classifier, len(TEXTS)), (race, len(QUESTIONS))):
        results = json.loads((folder / "results.json").read_text())
        assert results["eval_rows"] == rows and results["global_step"] == 2
        # A whole model, which predicts without the vocabulary being named again.
        assert (folder / "vocab.txt").read_bytes() == vocabulary.read_bytes()
        settings = json.loads((folder / "tokenizer.json").read_text())
        assert settings["vocab_size"] == 21_128
    assert json.loads((race / "predictions.json").read_text()).keys() == {"1", "2", "3"}
