"""Commands that use a model read it from a bucket, and write there, as on a disk."""

import json
import shutil
from pathlib import Path

import botocore.exceptions
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
from fsspec.implementations.memory import MemoryFileSystem

import albert_tf
from albert_tf.files import digest
from albert_tf.serving.tflite_model import TfliteModel
from albert_tf.storage import as_path
from albert_tf.task_config import Squad
from albert_tf.tasks import create_task
from albert_tf.training import stored_predictions
from helpers.bucket_files import copies_of, files_of, new_bucket, upload
from helpers.fine_tuning_toys import WORDS, config, write_vocabulary
from helpers.scripts import assert_one_line, run_script, succeed
from helpers.served_models import LABELS, write_classifier, write_model
from helpers.tiny_weights import assert_same_weights

PARTS = ["model.ckpt-3.data-00000-of-00001", "model.ckpt-3.index"]


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    """A classifier, a model that answers questions, and what commands read besides."""
    folder = tmp_path_factory.mktemp("disk")
    for name in ("model", "squad"):
        (folder / name).mkdir()
    write_classifier(folder / "model", LABELS, pair=False)
    settings = Squad(
        False, max_seq_length=23, max_query_length=5, start_n_top=7, end_n_top=6
    )
    shape = config(initializer_range=0.5)
    model = create_task(settings).build_model(shape, seed=7, rematerialize="none")
    write_model(folder / "squad", settings, model, shape)
    (folder / "text.txt").write_text(" ".join(WORDS) * 3 + "\n", encoding="utf-8")
    (folder / "table.tsv").write_text("text\tlabel\nworda\tgood\nwordb\tbad\n")
    write_vocabulary(folder)
    return folder


@pytest.fixture(scope="module")
def bucket(disk):
    return upload(disk, new_bucket())


def test_a_question_is_answered_with_a_model_of_a_bucket(disk, bucket, monkeypatch):
    def ask(place):
        flags = [f"--model={place}/squad", f"--context={place}/text.txt", "--n_best=3"]
        return succeed("ask.py", *flags, "--question=worda wordb?", cwd=disk)

    expected = ask(disk)
    copied = copies_of(monkeypatch)
    assert ask(bucket) == expected and len(expected.splitlines()) == 3
    assert sorted(copied) == PARTS


def test_a_context_that_is_not_there_is_named(disk, bucket):
    flags = [f"--model={disk}/squad", f"--context={bucket}/none.txt", "--question=a?"]
    done = run_script("ask.py", *flags, cwd=disk)
    assert_one_line(done, 1, f"--context={bucket}/none.txt cannot be read: ")


def test_all_files_of_an_export_go_to_a_bucket(disk, bucket, monkeypatch):
    def save(_, folder, *__):
        Path(folder).mkdir(exist_ok=True)
        Path(folder, "saved_model.pb").write_bytes(b"graph")

    monkeypatch.setattr(tf.saved_model, "save", save)
    copied, target = copies_of(monkeypatch), new_bucket()
    printed = succeed(
        "export_saved_model.py",
        f"--model={bucket}/model",
        f"--albert_config_file={bucket}/model/albert_config.json",
        f"--export_dir={target}/served",
        f"--tflite={target}/files/toy.tflite",
        "--tflite_length=17",
        f"--tflite_eval_data={bucket}/table.tsv",
        f"--onnx={target}/files/toy.onnx",
        cwd=disk,
    )
    assert f"Exported {bucket}/model/model.ckpt-3 to {target}/served/1: " in printed
    assert sorted(copied) == PARTS
    files = files_of(target)
    card = json.loads(files["served/1/assets.extra/model_card.json"])
    assert card["tflite"]["sha256"] == digest(files["files/toy.tflite"])
    assert card["tflite"]["accuracy"]["dev"]["rows"] == 2
    assert set(files) == {
        *("files/toy.tflite", "files/toy.onnx", "served/1/saved_model.pb"),
        *(f"served/1/assets.extra/{each.name}" for each in served_files(target)),
    }
    assert TfliteModel(f"{target}/files/toy.tflite").shape == [17]
    with pytest.raises(FileNotFoundError, match="There is no file memory://"):
        TfliteModel(f"{target}/files/none.tflite")


def served_files(target):
    return list((as_path(target) / "served/1/assets.extra").iterdir())


def test_a_conversion_takes_all_files_from_a_bucket(disk, bucket, tmp_path):
    def convert(place, target):
        flags = [f"--from={place}/model", f"--to={target}", "--layout=hugging_face"]
        flags += [f"--albert_config_file={place}/model/albert_config.json"]
        flags += [f"--vocab_file={place}/vocab.txt"]
        return succeed("convert_checkpoint.py", *flags, cwd=tmp_path)

    target = f"{new_bucket()}/theirs"
    printed, there = convert(disk, tmp_path / "theirs"), convert(bucket, target)
    there = there.replace(target, str(tmp_path / "theirs"))
    assert there.replace(bucket, str(disk)) == printed
    files, expected = files_of(target), files_of(tmp_path / "theirs")
    report = files.pop("conversion.json").decode().replace(bucket, str(disk))
    assert report.encode() == expected.pop("conversion.json")
    # The library does not write its header in the same order twice.
    weights = [each.pop("model.safetensors") for each in (files, expected)]
    assert_same_weights(*map(safetensors.numpy.load, weights))
    assert files == expected and "config.json" in files


def test_layers_of_models_of_a_bucket_are_compared(bucket, tmp_path):
    target = new_bucket()
    succeed(
        "layer_similarity.py",
        f"--checkpoints={bucket}/model",
        f"--input_file={bucket}/te*.txt",
        f"--vocab_file={bucket}/vocab.txt",
        f"--output_file={target}/s.csv",
        "--max_seq_length=17",
        cwd=tmp_path,
    )
    files = files_of(target)
    assert files.pop("s.png").startswith(b"\x89PNG")
    [(name, table)] = files.items()
    assert name == "s.csv" and f"\n{bucket}/model,1,".encode() in table


def test_a_half_written_model_is_named_by_every_command(disk, bucket):
    place = f"{new_bucket()}/cut"
    upload(disk / "squad", place)
    listed = {"token": "1", "files": [*PARTS, "conversion.json"]}
    (as_path(place) / ".unfinished").write_text(json.dumps(listed))
    words = "cut is not complete: what wrote it was cut off, or still writes"
    for command in (
        ["ask.py", f"--model={place}", "--context=text.txt", "--question=a?"],
        ["export_saved_model.py", f"--model={place}", "--export_dir=served"],
        ["convert_checkpoint.py", f"--from={place}", "--to=to", "--layout=own"],
    ):
        assert_one_line(run_script(*command, cwd=disk), 1, words)


def test_errors_of_a_storage_are_one_line_with_the_path(disk, bucket, monkeypatch):
    command = ["ask.py", f"--model={bucket}/squad", "--context=text.txt"]
    refused = {"Error": {"Code": "403", "Message": "Forbidden"}}
    for error, words in (
        (botocore.exceptions.ClientError(refused, "GetObject"), "(403)"),
        (PermissionError("Access Denied"), "PermissionError: Access Denied"),
        (FileNotFoundError("The specified bucket does not exist"), "does not exist"),
        (botocore.exceptions.HTTPClientError(error="reset by peer"), "reset by peer"),
    ):

        def fail(*_, error=error, **__):
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(MemoryFileSystem, "get_file", fail)
            done = run_script(*command, "--question=a?", cwd=disk)
        assert_one_line(done, 1, f"{bucket}/squad/model.ckpt-3", words)
        assert "check the path, your permissions and the connection" in done.stderr


def test_an_encoder_is_loaded_from_a_bucket_in_python(disk, bucket):
    found = albert_tf.ModelDir.read(f"{bucket}/model")
    assert str(found.vocabulary) == f"{bucket}/model/vocab.txt"
    encoder = albert_tf.AlbertEncoder(found.config, seed=1)
    heads = r"^output_"
    report = albert_tf.load_weights(encoder, f"{bucket}/model", unused_ok=heads)
    expected = albert_tf.AlbertEncoder(found.config, seed=2)
    albert_tf.load_weights(expected, disk / "model", unused_ok=heads)
    assert report.global_step == 3 and len(report.loaded) > 20
    for ours, theirs in zip(encoder.variables, expected.variables, strict=True):
        assert (ours.numpy() == theirs.numpy()).all()
    assert found.tokenizer().vocab_size == found.config.vocab_size


def test_predictions_of_a_bucket_are_averaged_to_the_same_bytes(disk, tmp_path):
    rng = np.random.default_rng(3)
    for name in ("one", "two"):
        shutil.copytree(disk / "model", tmp_path / name)
        predicted = {
            "label_ids": np.array([1, 0, 2]),
            "index": np.array(["4", "5", "6"]),
            "probabilities": rng.dirichlet([1, 1, 1], 3).astype(np.float32),
            "content_sha256": np.array("0f"),
            "labelled": np.array(True),
        }
        stored_predictions.write(tmp_path / name, {"dev": predicted})
    bucket = upload(tmp_path, new_bucket())
    for place in (tmp_path, bucket):
        models = f"--models={place}/one,{place}/two"
        output = f"--output_dir={place}/mean"
        succeed("ensemble.py", models, output, "--select_by=dev", cwd=tmp_path)
    there, here = files_of(f"{bucket}/mean"), files_of(tmp_path / "mean")
    report = there.pop("results.json").decode().replace(bucket, str(tmp_path))
    assert report.encode() == here.pop("results.json")
    assert there == here != {}
