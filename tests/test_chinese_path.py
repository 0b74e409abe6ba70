"""The path on Chinese with WordPiece: from text to fine-tuned and served models."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  its operations are in what is served

from albert_tf.config import AlbertConfig
from helpers.paths import ROOT
from helpers.scripts import run_script

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
    done = run_script(f"{script}.py", *arguments, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done


def write_lines(path, values):
    path.parent.mkdir(exist_ok=True)
    lines = [json.dumps(value, ensure_ascii=False) for value in values]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def read_json(path):
    return json.loads(path.read_text(encoding="utf-8"))


def shortest_paragraph(path):
    """The shortest of a SQuAD file."""
    articles = read_json(path)["data"]
    paragraphs = [each for article in articles for each in article["paragraphs"]]
    return min(paragraphs, key=lambda each: len(each["context"]))


def pretrain(folder, shared_data, vocabulary):
    """Makes records of news and trains 20 steps on them."""
    news = (shared_data / "text" / "zh_news.txt").read_text("utf-8").split("\n")
    (folder / "text.txt").write_text("\n".join(news[:40]), encoding="utf-8")
    AlbertConfig(
        vocab_size=21_128,
        embedding_size=6,
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=20,
        hidden_act="relu",
        max_position_embeddings=64,
    ).to_json(folder / "tiny.json")
    run(
        "create_pretraining_data",
        f"--input_file={folder}/text.txt",
        "--input_format=raw",
        "--language=zh",
        f"--vocab_file={vocabulary}",
        f"--output_file={folder}/rows.tfrecord",
        "--max_seq_length=64",
        "--dupe_factor=3",
        "--num_workers=1",
    )
    run(
        "run_pretraining",
        f"--input_file={folder}/rows.tfrecord",
        f"--albert_config_file={folder}/tiny.json",
        f"--output_dir={folder}/model",
        "--max_seq_length=64",
        "--train_batch_size=8",
        "--num_train_steps=20",
        "--num_warmup_steps=2",
        "--iterations_per_loop=20",
    )
    assert read_json(folder / "model" / "results.json")["global_step"] == 20


def fine_tune(script, folder, name, vocabulary, *arguments):
    """Two steps from the pretrained weights, and an evaluation."""
    run(
        script,
        f"--init_checkpoint={folder}/model",
        f"--vocab_file={vocabulary}",
        f"--output_dir={folder}/{name}",
        "--do_eval",
        "--max_seq_length=32",
        "--train_batch_size=3",
        "--eval_batch_size=2",
        "--num_train_steps=2",
        *arguments,
    )
    # A whole model, which predicts without the vocabulary being named again.
    output = folder / name
    assert (output / "vocab.txt").read_bytes() == vocabulary.read_bytes()
    assert read_json(output / "tokenizer.json")["vocab_size"] == 21_128
    results = read_json(output / "results.json")
    assert results["global_step"] == 2
    return output, results


def ask(folder, vocabulary, paragraph):
    """Fine-tunes on a paragraph's questions; their answers stand in it."""
    squad = {"version": "1.1", "data": [{"title": "", "paragraphs": [paragraph]}]}
    (folder / "squad.json").write_text(json.dumps(squad), encoding="utf-8")
    files = [f"--{name}={folder}/squad.json" for name in ("train_file", "predict_file")]
    lengths = "--max_query_length=8", "--doc_stride=10"
    output, _ = fine_tune("run_squad", folder, "squad", vocabulary, *files, *lengths)
    answers = read_json(output / "predictions.json")
    assert answers.keys() == {question["id"] for question in paragraph["qas"]}
    for answer in answers.values():
        assert answer and answer in paragraph["context"]


def serve_choices(folder, model):
    """Exports a model of choices; from text it answers what was predicted."""
    run("export_saved_model", f"--model={model}", f"--export_dir={folder}/served")
    text = tf.saved_model.load(f"{folder}/served/1").signatures["text"]
    names = ("article", "question")
    inputs = {name: tf.constant([q[name] for q in QUESTIONS]) for name in names}
    options = [(q["options"] + [""] * 4)[:4] for q in QUESTIONS]
    served = text(**inputs, options=tf.constant(options))["probabilities"].numpy()
    table = (model / "test_results.tsv").read_text().splitlines()[1:]
    written = [[float(cell or 0) for cell in line.split("\t")[1:]] for line in table]
    np.testing.assert_allclose(served, written, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_chinese_goes_from_text_to_served_models(shared_data, tmp_path):
    vocabulary = shared_data / "vocabulary" / "vocab_chinese.txt"
    pretrain(tmp_path, shared_data, vocabulary)

    texts = write_lines(tmp_path / "texts.jsonl", TEXTS)
    files = f"--train_file={texts}", f"--dev_file={texts}"
    task = "--task_name=custom", *files
    _, results = fine_tune("run_classifier", tmp_path, "texts", vocabulary, *task)
    assert results["eval_rows"] == len(TEXTS)

    ask(
        tmp_path,
        vocabulary,
        shortest_paragraph(shared_data / "squad" / "xquad.zh.json"),
    )

    for part in ("train", "dev", "test"):
        write_lines(tmp_path / "quiz" / f"{part}.jsonl", QUESTIONS)
    data = "--input_format=jsonl", f"--data_dir={tmp_path}/quiz", "--do_predict"
    race, results = fine_tune("run_race", tmp_path, "race", vocabulary, *data)
    assert results["eval_rows"] == len(QUESTIONS)
    assert read_json(race / "predictions.json").keys() == {"1", "2", "3"}
    serve_choices(tmp_path, race)
