"""Scripts as a person runs them: exit codes and one-line errors."""

import os
import subprocess
import sys

import pytest
import sentencepiece

from helpers.paths import SCRIPTS
from helpers.scripts import assert_one_line, run_script
from helpers.tiny import tiny_config, write_rows


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder of records and configurations, right and wrong."""
    folder = tmp_path_factory.mktemp("files")
    write_rows(folder / "rows.tfrecord", 5)
    write_rows(folder / "unordered.tfrecord", 5, pair_objective="none")
    write_rows(folder / "sop.tfrecord", 5, pair_objective="sop")
    tiny_config().to_json(folder / "tiny.json")
    tiny_config(max_position_embeddings=9).to_json(folder / "short.json")
    tiny_config(vocab_size=60).to_json(folder / "other.json")
    text = (folder / "tiny.json").read_text()
    (folder / "heads.json").write_text(text.replace('heads": 3', 'heads": 5'))
    (folder / "misspelt.json").write_text(text.replace("hidden_size", "hiden_size"))
    (folder / "out").mkdir()
    (folder / "file").write_text("in the way")
    return folder


PRETRAINING_ERRORS = {
    "no flags": ([], 2, ["output_dir"]),
    "unknown flag": (
        ["--learning_rat=1"],
        2,
        ["ERROR: Unknown command line flag 'learning_rat'"],
    ),
    "not a number": (["--learning_rate=fast"], 2, ["fast"]),
    "unknown optimizer": (["--optimizer=lamp"], 2, ["lamp"]),
    "unknown precision": (
        ["--precision=float64"],
        2,
        ["float64", "<float32|bfloat16|float16>"],
    ),
    "precision of GPUs": (
        ["--tpu=local", "--precision=float16"],
        2,
        ["TPUs multiply in", "Received float16: pass --precision=bfloat16"],
    ),
    "stray word": (["train"], 2, ["train"]),
    "value of a negated flag": (["--nodo_train=true"], 2, ["--nodo_train=true"]),
    "nothing to do": (["--nodo_train"], 2, ["--do_eval"]),
    "no evaluation rows": (["--do_eval"], 2, ["--eval_input_file"]),
    "missing records": (["--input_file=no.tfrecord"], 1, ["no.tfrecord"]),
    "empty glob": (["--input_file=no*.tfrecord"], 1, ["no*.tfrecord"]),
    "trained on": (
        ["--do_eval", "--eval_input_file=./rows.tfrecord"],
        1,
        ["rows.tfrecord is trained on"],
    ),
    "no sidecar": (["--input_file=file"], 1, ["file.json"]),
    "other length": (["--max_seq_length=12"], 1, ["max_seq_length=10", "=12"]),
    "too long": (["--albert_config_file=short.json"], 1, ["10 of", "and 9"]),
    "no sentence order": (
        ["--input_file=unordered.tfrecord"],
        1,
        ["pair_objective=none", "--nosentence_order_loss"],
    ),
    "mixed objectives": (
        ["--input_file=unordered.tfrecord,sop.tfrecord"],
        1,
        ["differ in pair_objective (none and sop)"],
    ),
    "other vocabulary": (["--spm_model_file=file"], 1, ["vocabulary_sha256"]),
    "other casing": (["--nodo_lower_case"], 1, ["lower_case=True", "=False"]),
    "other size": (["--albert_config_file=other.json"], 1, ["=61", "=60"]),
    "missing config": (["--albert_config_file=no.json"], 1, ["no.json"]),
    "heads": (["--albert_config_file=heads.json"], 1, ["12 and 5"]),
    "misspelt key": (["--albert_config_file=misspelt.json"], 1, ["hiden_size"]),
    "unwritable": (["--output_dir=file/model"], 1, ["file"]),
    "no checkpoint": (["--nodo_train", "--do_eval"], 1, ["holds no checkpoint"]),
    "missing weights": (["--init_checkpoint=no/model"], 1, ["no/model"]),
    "nothing to unshare": (["--unshare"], 2, ["--init_checkpoint"]),
    "other groups": (["--config_override=ffn_groups=8"], 1, ["8 and 4"]),
    "no such key": (["--config_override=ffn=2"], 1, ["ffn_groups"]),
    "bad seed": (["--num_train_steps=0"], 1, ["num_train_steps"]),
    "bucket": (["--input_file=hdfs://b/rows"], 2, ["--input_file: hdfs://b/rows is"]),
    "start in the output": (
        ["--init_checkpoint=out", "--output_dir=out"],
        2,
        ["replace the weights out"],
    ),
}


@pytest.mark.parametrize("case", PRETRAINING_ERRORS)
def test_pretraining_says_what_is_wrong_in_one_line(case, files):
    wrong, code, parts = PRETRAINING_ERRORS[case]
    right = [
        "--input_file=rows.tfrecord",
        "--albert_config_file=tiny.json",
        "--output_dir=out",
        "--max_seq_length=10",
        "--max_predictions_per_seq=3",
    ]
    arguments = [*right, *wrong] if wrong else []
    before = set(files.iterdir())
    result = run_script("run_pretraining.py", *arguments, cwd=files)
    assert_one_line(result, code, *parts)
    left = set(files.iterdir()) - before - {files / "out"}
    assert not left


def test_casing_is_compared_only_where_it_is_asked_for(files):
    write_rows(files / "cased.tfrecord", 5, lower_case=False)
    arguments = ["--input_file=cased.tfrecord", "--albert_config_file=tiny.json"]
    arguments += ["--output_dir=out", "--max_seq_length=10"]
    arguments += ["--max_predictions_per_seq=3", "--num_train_steps=0"]
    result = run_script("run_pretraining.py", *arguments, cwd=files)
    # The rows are accepted; what stops is checked after them.
    assert_one_line(result, 1, "num_train_steps")


def test_lengths_are_the_records_own_unless_they_are_given(files):
    """So that the command of an evaluation needs none, whatever the rows' length."""
    arguments = ["--input_file=rows.tfrecord", "--albert_config_file=tiny.json"]
    arguments += ["--output_dir=out", "--num_train_steps=0"]
    result = run_script("run_pretraining.py", *arguments, cwd=files)
    # As above.
    assert_one_line(result, 1, "num_train_steps")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A folder of texts and vocabularies, right and wrong."""
    folder = tmp_path_factory.mktemp("texts")
    words = ["cat", "sat", "mat", "hat", "that", "rat", "at", "chat"]
    lines = [" ".join(words[i % 7 :] + words[: i % 5]) + "." for i in range(60)]
    (folder / "good.txt").write_text("\n".join(lines), encoding="utf-8")
    (folder / "empty.txt").write_text("")
    (folder / "blank.txt").write_text(" \n\n \n")
    (folder / "latin1.txt").write_bytes("Ein Satz.\nSchön war es.\n".encode("latin-1"))
    (folder / "file").write_text("in the way")
    result = run_script(
        "train_sentencepiece.py",
        "--input_file=good.txt",
        "--model_prefix=good",
        "--vocab_size=30",
        cwd=folder,
    )
    assert result.returncode == 0, result.stderr
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_prefix=str(folder / "no_mask"),
        vocab_size=30,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]"],
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return folder


DATA_ERRORS = {
    "no vocabulary": (["--spm_model_file="], 2, ["--spm_model_file"]),
    "missing input": (["--input_file=no.txt"], 1, ["no.txt"]),
    "empty input": (["--input_file=empty.txt"], 1, ["empty.txt"]),
    "blank input": (["--input_file=blank.txt"], 1, ["No sentence"]),
    "empty glob": (["--input_file=no*.txt"], 1, ["no*.txt"]),
    "not UTF-8": (["--input_file=latin1.txt"], 1, ["latin1.txt", "2"]),
    "missing model": (["--spm_model_file=no.model"], 1, ["no.model"]),
    "not a model": (["--spm_model_file=file"], 1, ["file"]),
    "no mask": (["--spm_model_file=no_mask.model"], 1, ["[MASK]"]),
    "unwritable": (["--output_file=file/rows.tfrecord"], 1, ["file"]),
    "length": (["--max_seq_length=3"], 1, ["3"]),
    "probability": (["--masked_lm_prob=1.5"], 1, ["1.5"]),
    "format": (["--input_format=xml"], 2, ["xml"]),
    "no masks, their share": (
        ["--masking=none", "--masked_lm_prob=0.15"],
        2,
        ["--masked_lm_prob is about masks, which --masking=none leaves to training"],
    ),
    "no masks, passes": (
        ["--masking=none", "--dupe_factor=40"],
        1,
        ["dupe_factor must be 1 with masking=none", "40"],
    ),
}


@pytest.mark.parametrize("case", DATA_ERRORS)
def test_data_creation_says_what_is_wrong_in_one_line(case, texts):
    wrong, code, parts = DATA_ERRORS[case]
    before = set(texts.iterdir())
    result = run_script(
        "create_pretraining_data.py",
        "--input_file=good.txt",
        "--spm_model_file=good.model",
        "--output_file=rows.tfrecord",
        "--max_seq_length=32",
        *wrong,
        cwd=texts,
    )
    assert_one_line(result, code, *parts)
    assert set(texts.iterdir()) == before


VOCABULARY_ERRORS = {
    "too large": (["--vocab_size=3000"], 1, ["at most 33", "3000"]),
    "too small": (["--vocab_size=9"], 1, ["9"]),
    "missing input": (["--input_file=no.txt"], 1, ["no.txt"]),
    "unwritable": (["--model_prefix=file/vocabulary"], 1, ["file"]),
}


@pytest.mark.parametrize("case", VOCABULARY_ERRORS)
def test_vocabulary_training_says_what_is_wrong_in_one_line(case, texts):
    wrong, code, parts = VOCABULARY_ERRORS[case]
    before = set(texts.iterdir())
    right = ["--input_file=good.txt", "--model_prefix=new", "--vocab_size=30"]
    result = run_script("train_sentencepiece.py", *right, *wrong, cwd=texts)
    assert_one_line(result, code, *parts)
    assert set(texts.iterdir()) == before


EXPORT_ERRORS = {
    "no checkpoint": (["--model=no"], 1, ["'no'"]),
    "no flags": (None, 2, ["model"]),
    "in use": (["--export_dir=served", "--model_version=7"], 1, ["served/7 is in use"]),
    "no ONNX in bfloat16": (
        ["--onnx=toy.onnx", "--precision=bfloat16"],
        1,
        ["ONNX file are float32", "leave out --precision"],
    ),
    "no ONNX in float16": (
        ["--onnx=toy.onnx", "--precision=float16"],
        1,
        ["ONNX file are float32", "Received float16: leave out --precision"],
    ),
    "no vocabulary": (["--text_signature"], 1, ["holds no vocabulary"]),
    "other shape": (
        ["--albert_config_file=tiny.json"],
        1,
        ["tiny.json says", "embedding_size=6", "embedding_size=8"],
    ),
}


@pytest.mark.parametrize("case", EXPORT_ERRORS)
def test_export_says_what_is_wrong_in_one_line(case, files, reference):
    wrong, code, parts = EXPORT_ERRORS[case]
    (files / "served" / "7").mkdir(parents=True, exist_ok=True)
    before = set(files.iterdir())
    right = [f"--model={reference / 'encoder_shared'}", "--export_dir=new"]
    arguments = [] if wrong is None else [*right, *wrong]
    result = run_script("export_saved_model.py", *arguments, cwd=files)
    assert_one_line(result, code, *parts)
    assert set(files.iterdir()) == before


def test_tensorflow_reads_little_ahead_of_each_open_file_of_a_bucket(files):
    run_script("inspect_records.py", files / "rows.tfrecord", cwd=files)
    # Of 256 lanes.
    assert 256 * int(os.environ["GCS_READ_CACHE_BLOCK_SIZE_MB"]) <= 1024


def test_a_reader_that_goes_away_ends_a_command_quietly(files):
    command = [sys.executable, str(SCRIPTS / "inspect_records.py"), "rows.tfrecord"]
    with subprocess.Popen(
        command, cwd=files, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        errors = process.stderr.read()
    assert process.returncode == 141 and errors == b""
