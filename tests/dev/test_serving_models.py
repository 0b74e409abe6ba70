"""Requests that are joined get their own rows; the measured model tells rows apart."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.model_dir import ModelDir
from albert_tf.text.tokenizer import AlbertTokenizer
from dev import serving_models, serving_requests
from helpers.fine_tuning_toys import config, write_vocabulary

PARAMETERS = """\
max_batch_size { value: 4 }
batch_timeout_micros { value: 3000 }
max_enqueued_batches { value: 100 }
num_batch_threads { value: 2 }
pad_variable_length_inputs: false
allowed_batch_sizes: 1
allowed_batch_sizes: 3
allowed_batch_sizes: 4
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    tokenizer = AlbertTokenizer(vocab_file=write_vocabulary(folder))
    return serving_models.write_model(
        folder / "model",
        config(max_position_embeddings=128, num_hidden_layers=1),
        tokenizer,
        "float32",
    )


def ask_from_threads(function, requests):
    with ThreadPoolExecutor(16) as threads:
        return list(threads.map(lambda text: function([text]), requests))


def test_joined_requests_get_their_own_rows_in_batches_of_allowed_sizes():
    sizes = []

    def numbers(texts):
        note = tf.py_function(lambda n: sizes.append(int(n)), [tf.size(texts)], [])
        with tf.control_dependencies([note]):
            return tf.strings.to_number(texts)

    # Two at once: each has a queue of its own.
    functions = [
        serving_models.join_requests(numbers, PARAMETERS),
        serving_models.join_requests(lambda t: -tf.strings.to_number(t), PARAMETERS),
    ]
    requests = [str(number) for number in range(97)]
    both = ask_from_threads(
        lambda text: [float(f(tf.constant(text))[0]) for f in functions], requests
    )
    assert both == [[number, -number] for number in range(97)]
    assert {*sizes} <= {1, 3, 4} and max(sizes) > 1 and len(sizes) < 97


def test_the_folder_of_the_model_can_be_read(exported):
    found = ModelDir.read(exported.checkpoint.rpartition("/")[0])
    assert found.config == exported.config
    assert found.task_config.labels == exported.task_config.labels


def test_the_model_answers_alike_in_a_function_and_tells_rows_apart(exported):
    rng = np.random.default_rng(4)
    batch = serving_requests.random_ids(exported.tokenizer, 3, 7, rng)
    parts = serving_models.parts(exported, batch)
    answers = {name: part() for name, part in parts.items()}
    assert answers.pop("matrix products").shape == (exported.config.hidden_size,)
    function, eager = answers.values()
    np.testing.assert_allclose(function, eager, atol=1e-5)
    chances = tf.nn.softmax(eager).numpy()
    gaps = [abs(a - b).max() for i, a in enumerate(chances) for b in chances[:i]]
    assert chances.shape == (3, 2) and min(gaps) > 1e-3
