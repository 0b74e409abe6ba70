"""The whole way from text to a served model, with every path in a bucket."""

import json
import os
import signal
import subprocess
import sys
import uuid

import fsspec
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from albert_tf import storage
from helpers.fine_tuning_toys import texts, write_table
from helpers.object_stores import BUCKET, environment, gcs_server, s3_server
from helpers.paths import SCRIPTS
from helpers.pretraining_jobs import write_text
from helpers.scripts import assert_one_line, run_script, succeed
from helpers.tiny import tiny_config

STORES = ("memory", "s3", "gs")
# The library of gs:// sends small files as bytes.
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Text, tables and a model's shape, on the disk of this machine."""
    folder = tmp_path_factory.mktemp("sources")
    documents = [
        [f"{text}, {other}." for text, _ in texts(9, 2 * seed)]
        for seed in range(40)
        for other in [texts(1, 2 * seed + 1)[0][0]]
    ]
    write_text(folder / "text.txt", documents)
    write_table(folder / "train.tsv", 41, 1)
    write_table(folder / "dev.tsv", 11, 2)
    tiny_config(vocab_size=60, max_position_embeddings=40).to_json(folder / "toy.json")
    return folder


@pytest.fixture(scope="module", params=STORES)
def place(request, tmp_path_factory, sources):
    """A folder of a store that holds the sources."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "memory":
        bucket = f"memory://{uuid.uuid4().hex}"
        _put(sources, bucket)
        yield bucket
        return
    server = {"s3": s3_server, "gs": gcs_server}[request.param]
    with server(folder) as variables, environment(variables):
        if request.param == "s3":
            fsspec.filesystem("s3").mkdir(BUCKET)
        bucket = f"{request.param}://{BUCKET}/all"
        _put(sources, bucket)
        yield bucket


def _put(sources, place):
    for file in sources.iterdir():
        (storage.as_path(place) / file.name).write_bytes(file.read_bytes())


def make_data(place, cwd):
    """A vocabulary and records."""
    succeed(
        "train_sentencepiece.py",
        f"--input_file={place}/text.txt",
        f"--model_prefix={place}/vocab",
        "--vocab_size=60",
        cwd=cwd,
    )
    succeed(
        "create_pretraining_data.py",
        f"--input_file={place}/text.txt",
        f"--output_file={place}/rows/train@3",
        f"--spm_model_file={place}/vocab.model",
        "--max_seq_length=32",
        "--max_predictions_per_seq=5",
        "--dupe_factor=2",
        "--num_workers=1",
        cwd=cwd,
    )
    succeed("inspect_records.py", f"{place}/rows/train-00000-of-00003", cwd=cwd)


def pretraining(place):
    return [
        f"--input_file={place}/rows/train*",
        f"--output_dir={place}/pretrained",
        f"--albert_config_file={place}/toy.json",
        "--max_seq_length=32",
        "--max_predictions_per_seq=5",
        "--train_batch_size=6",
        "--num_train_steps=12",
        "--save_checkpoints_steps=3",
        "--iterations_per_loop=3",
    ]


def fine_tune(place, cwd):
    """A classifier, evaluated, then predictions by its folder."""
    succeed(
        "run_classifier.py",
        "--task_name=custom",
        f"--train_file={place}/train.tsv",
        f"--dev_file={place}/dev.tsv",
        f"--test_file={place}/dev.tsv",
        f"--init_checkpoint={place}/pretrained",
        f"--spm_model_file={place}/vocab.model",
        f"--output_dir={place}/classifier",
        f"--cache_dir={place}/cache",
        "--max_seq_length=16",
        "--train_batch_size=8",
        "--num_train_steps=4",
        "--do_eval",
        "--do_predict",
        cwd=cwd,
    )


def serve(place, cwd):
    """A SavedModel and a folder of Hugging Face's, of the classifier."""
    model = f"--model={place}/classifier"
    succeed("export_saved_model.py", model, f"--export_dir={place}/served", cwd=cwd)
    arguments = [f"--from={place}/classifier", f"--to={place}/converted"]
    succeed("convert_checkpoint.py", *arguments, "--format=hugging_face", cwd=cwd)


CONVERTED = "converted/model.safetensors"
FILES = (
    "vocab.model",
    "rows/train-00000-of-00003",
    "rows/train-00002-of-00003.json",
    "pretrained/albert_config.json",
    "classifier/test_predictions.tsv",
    "classifier/test_results.tsv",
    "converted/config.json",
    "served/1/saved_model.pb",
)


@pytest.fixture(scope="module")
def local(sources, tmp_path_factory):
    """The folder that the same commands make on a disk."""
    folder = tmp_path_factory.mktemp("local")
    _put(sources, folder)
    make_data(folder, folder)
    succeed("run_pretraining.py", *pretraining(folder), cwd=folder)
    fine_tune(folder, folder)
    serve(folder, folder)
    return folder


@pytest.mark.slow
def test_every_command_makes_in_a_bucket_what_it_makes_on_a_disk(
    place, local, tmp_path
):
    cwd = tmp_path / "nothing"
    cwd.mkdir()
    make_data(place, cwd)
    if place.startswith("memory"):
        succeed("run_pretraining.py", *pretraining(place), cwd=cwd)
    else:
        kill_after(place, "Saved checkpoint", cwd)
        out = succeed("run_pretraining.py", *pretraining(place), cwd=cwd)
        assert "resum" in out
    fine_tune(place, cwd)
    serve(place, cwd)
    # Nothing is written here, as into a folder named "s3:".
    assert not list(cwd.iterdir())
    for name in FILES:
        found = (storage.as_path(place) / name).read_bytes()
        expected = (local / name).read_bytes()
        if name.endswith(".json"):
            found, expected = json.loads(found), json.loads(expected)
        if name != "served/1/saved_model.pb":
            assert found == expected, name
    with storage.local_checkpoint(f"{place}/pretrained/model.ckpt-12") as prefix:
        found = weights(prefix)
    assert_equal(found, weights(local / "pretrained" / "model.ckpt-12"))
    files = [storage.as_path(f"{each}/{CONVERTED}") for each in (place, local)]
    assert_equal(*(safetensors.numpy.load(file.read_bytes()) for file in files))
    left = [name for name in storage.find(f"{place}/**") if "partial" in name]
    assert not left


def assert_equal(found, expected):
    assert found.keys() == expected.keys() and len(found) > 20
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def weights(prefix):
    reader = tf.train.load_checkpoint(str(prefix))
    names = [n for n in reader.get_variable_to_shape_map() if n[0] not in "_t"]
    return {name: reader.get_tensor(name) for name in names}


def kill_after(place, words, cwd):
    """Kills a pretraining once it prints some words for the second time."""
    command = [sys.executable, str(SCRIPTS / "run_pretraining.py"), *pretraining(place)]
    with subprocess.Popen(
        command, cwd=cwd, env=os.environ, stdout=subprocess.PIPE, text=True
    ) as process:
        seen = 0
        for line in process.stdout:
            seen += words in line
            if seen == 2:
                process.send_signal(signal.SIGKILL)
                break
    assert seen == 2


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_a_bucket_that_does_not_exist_is_one_line(scheme, tmp_path):
    server = {"s3": s3_server, "gs": gcs_server}[scheme]
    with server(tmp_path) as variables, environment(variables):
        text = f"--input_file={scheme}://nowhere/text.txt"
        done = run_script(
            "train_sentencepiece.py", text, "--model_prefix=x", cwd=tmp_path
        )
        assert_one_line(done, 1, f"{scheme}://nowhere/text.txt")
        (tmp_path / "text.txt").write_text("a b c\n" * 99)
        done = run_script(
            "train_sentencepiece.py",
            "--input_file=text.txt",
            f"--model_prefix={scheme}://nowhere/x",
            "--vocab_size=30",
            cwd=tmp_path,
        )
        assert_one_line(done, 1, f"{scheme}://nowhere")


def test_a_store_that_does_not_answer_is_one_line(tmp_path):
    dead = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_MAX_ATTEMPTS": "1",
    }
    with environment(dead):
        done = run_script(
            "train_sentencepiece.py",
            "--input_file=s3://bucket/text.txt",
            "--model_prefix=x",
            cwd=tmp_path,
        )
    assert_one_line(done, 1, "127.0.0.1:9")
