"""Files beside a SavedModel that TensorFlow Serving reads."""

import tensorflow as tf

from albert_tf.serving.server_files import BATCHING_FILE
from helpers.served_models import warmup_requests


def test_warm_up_requests_are_what_the_server_reads(pair_model):
    _, exported = pair_model
    loaded = tf.saved_model.load(str(exported))
    seen = set()
    for name, inputs in warmup_requests(exported):
        answer = loaded.signatures[name](**inputs)
        rows = {len(value) for value in answer.values()}
        assert rows == {len(next(iter(inputs.values())))}
        seen.add((name, rows.pop()))
    names = ("serving_default", "examples", "text")
    assert seen == {(name, size) for name in names for size in (1, 2, 4)}


def test_the_server_pads_neither_ids_nor_batches(pair_model):
    text = (pair_model[1] / "assets.extra" / BATCHING_FILE).read_text()
    assert "pad_variable_length_inputs: false\n" in text
    assert "max_batch_size { value: 32 }\n" in text
    assert "allowed_batch_sizes" not in text
