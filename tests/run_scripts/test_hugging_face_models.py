"""Fine-tuned models of `transformers` predict and are exported as they are."""

import csv
import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import formats, model_dir
from helpers.fine_tuning_toys import WORDS, write_vocabulary
from helpers.scripts import assert_one_line, run_script, succeed
from helpers.transformers_models import (
    assert_close,
    bert_config,
    load_transformers,
    random_bert_tensors,
    random_tensors,
    run_transformers,
    saved_config,
    transformers_config,
    write_folder,
)

LABELS = ["zebra", "apple", "mango"]
TOKENS = len(WORDS) + 7
TEXTS = ["lovely worda", "wordb wordc awful", "wordd", "worde lovely wordf awful wordg"]


def write_model(folder, kind, task, heads):
    """A fine-tuned ALBERT or BERT with its vocabulary."""
    sizes = {"vocab_size": TOKENS, "architectures": [f"{kind}For{task}"]}
    if task == "SequenceClassification":
        sizes["id2label"] = dict(enumerate(LABELS))
        sizes["label2id"] = {label: index for index, label in enumerate(LABELS)}
    make, draw = (
        (bert_config, random_bert_tensors)
        if kind == "Bert"
        else (transformers_config, random_tensors)
    )
    config = make(**sizes)
    tensors = draw(config, np.random.default_rng(5), heads)
    write_folder(folder, config, tensors)
    write_vocabulary(folder)
    return folder


@pytest.mark.parametrize("kind", ["Albert", "Bert"])
def test_a_classifier_predicts_and_is_exported_without_training(kind, tmp_path):
    source = write_model(
        tmp_path / "theirs", kind, "SequenceClassification", {"classifier": 3}
    )
    (tmp_path / "new.tsv").write_text("\n".join(["text", *TEXTS]) + "\n")
    tokenizer = model_dir.ModelDir.read(source).tokenizer()
    rows = [[2, *tokenizer.encode(text), 3] for text in TEXTS]
    ids = tf.ragged.constant(rows, dtype=tf.int32).to_tensor()
    mask = tf.cast(ids != 0, tf.int32)
    batch = {"input_ids": ids, "input_mask": mask, "segment_ids": tf.zeros_like(ids)}
    theirs = load_transformers(f"{kind}ForSequenceClassification", source)
    expected = tf.nn.softmax(run_transformers(theirs, batch).logits).numpy()
    names = [LABELS[row.argmax()] for row in expected]

    convert = ["--from=theirs", "--to=own", "--layout=own"]
    succeed("convert_checkpoint.py", *convert, cwd=tmp_path)
    for model in ("theirs", "own"):
        succeed(
            "run_classifier.py",
            "--nodo_train",
            "--do_predict",
            f"--init_checkpoint={model}",
            f"--output_dir=of_{model}",
            "--predict_file=new.tsv",
            cwd=tmp_path,
        )
        folder = tmp_path / f"of_{model}"
        with (folder / "test_results.tsv").open() as file:
            header, *found = csv.reader(file, delimiter="\t")
        assert header == LABELS
        assert_close([[*map(float, row)] for row in found], expected)
        [answers] = folder.glob("*_predictions.tsv")
        lines = answers.read_text().splitlines()[1:]
        assert [line.split("\t")[-1] for line in lines] == names
    export = ["--model=theirs", "--export_dir=serving"]
    printed = succeed("export_saved_model.py", *export, cwd=tmp_path)
    assert "0 variables of other heads left out" in printed
    loaded = tf.saved_model.load(str(tmp_path / "serving" / "1"))
    served = loaded.signatures["text"](text=tf.constant(TEXTS))
    assert_close(served["probabilities"], expected)
    assert [label.decode() for label in served["label"].numpy()] == names


def test_answers_and_options_are_predicted_without_training(tmp_path):
    write_model(tmp_path / "span", "Bert", "QuestionAnswering", {"qa_outputs": 2})
    question = {"id": "one", "question": "wordb", "answers": []}
    paragraph = {"context": "worda lovely wordc awful wordd", "qas": [question]}
    squad = {"version": "1.1", "data": [{"title": "t", "paragraphs": [paragraph]}]}
    (tmp_path / "squad.json").write_text(json.dumps(squad))
    arguments = ["--nodo_train", "--do_predict"]
    succeed(
        "run_squad.py",
        *arguments,
        "--init_checkpoint=span",
        "--output_dir=answers",
        "--predict_file=squad.json",
        cwd=tmp_path,
    )
    answers = json.loads((tmp_path / "answers" / "predictions.json").read_text())
    assert answers["one"] and answers["one"] in paragraph["context"]

    write_model(tmp_path / "choice", "Bert", "MultipleChoice", {"classifier": 1})
    row = {"article": "worda", "question": "wordb", "options": ["lovely", "awful"]}
    (tmp_path / "quiz.jsonl").write_text(json.dumps(row) + "\n")
    succeed(
        "run_race.py",
        *arguments,
        "--input_format=jsonl",
        "--init_checkpoint=choice",
        "--output_dir=chosen",
        "--predict_file=quiz.jsonl",
        "--max_seq_length=24",
        cwd=tmp_path,
    )
    table = (tmp_path / "chosen" / "test_results.tsv").read_text().splitlines()
    _, *probabilities = table[1].split("\t")
    assert sum(map(float, probabilities)) == pytest.approx(1, abs=1e-5)


def test_a_tokenizer_json_is_vocabulary_enough_for_training(tmp_path):
    folder = write_model(tmp_path / "theirs", "Bert", "PreTraining", {})
    tokens = (folder / "vocab.txt").read_text().split()
    (folder / "vocab.txt").unlink()
    tokenizer = {
        "normalizer": {"type": "BertNormalizer", "lowercase": False},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "vocab": {token: index for index, token in enumerate(tokens)},
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    lines = ["text\tlabel", *(f"{text}\t{'ab'[i % 2]}" for i, text in enumerate(TEXTS))]
    (tmp_path / "train.tsv").write_text("\n".join(lines) + "\n")
    arguments = [
        "--task_name=custom",
        "--train_file=train.tsv",
        "--init_checkpoint=theirs",
        "--max_seq_length=9",
        "--train_batch_size=2",
        "--num_train_steps=2",
    ]
    succeed("run_classifier.py", *arguments, "--output_dir=own", cwd=tmp_path)
    own = model_dir.ModelDir.read(tmp_path / "own")
    assert own.vocabulary.name == "vocab.txt"
    assert own.vocabulary.read_text().split() == tokens
    assert own.tokenizer_settings["lower_case"] is False
    assert formats.read_weights(tmp_path / "own").global_step == 2
    (folder / "tokenizer.json").unlink()
    done = run_script(
        "run_classifier.py", *arguments, "--output_dir=other", cwd=tmp_path
    )
    assert_one_line(done, 2, "Name the vocabulary")
    (folder / "vocab.txt").write_text("\n".join(tokens[:-1]) + "\n")
    done = run_script(
        "run_classifier.py", *arguments, "--output_dir=other", cwd=tmp_path
    )
    assert_one_line(done, 1, f"has {TOKENS} tokens, the vocabulary {TOKENS - 1}")
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
    values = saved_config(folder) | {"model_type": "roberta"}
    (folder / "config.json").write_text(json.dumps(values))
    done = run_script(
        "run_classifier.py", *arguments, "--output_dir=other", cwd=tmp_path
    )
    assert_one_line(done, 1, "model_type is 'roberta'")
