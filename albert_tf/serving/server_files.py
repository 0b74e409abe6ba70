"""Files beside a SavedModel that TensorFlow Serving reads: warm-up requests and
batching parameters."""

import os
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from albert_tf.files import write_whole
from albert_tf.serving.base import ServedModel

WARMUP_FILE = "tf_serving_warmup_requests"
BATCHING_FILE = "batching_parameters.txt"
# Most rows that a server joins to one request.
_MAX_BATCH_SIZE = 32
_WARMUP_BATCH_SIZES = (1, 2, 4)
_WARMUP_LENGTH = 32


def write_server_files(folder: Path, served: ServedModel) -> None:
    """Writes both files into a version's `assets.extra/`."""
    _write_warmup(folder / WARMUP_FILE, served)
    write_whole(folder / BATCHING_FILE, _batching_parameters().encode())


def _write_warmup(path: Path, served: ServedModel) -> None:
    """Writes requests that the server runs before it answers any."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for size in _WARMUP_BATCH_SIZES:
            for name, inputs in served.example_requests(size, _WARMUP_LENGTH).items():
                request = predict_pb2.PredictRequest()
                request.model_spec.signature_name = name
                for key, value in inputs.items():
                    proto = tf.make_tensor_proto(value, shape=np.shape(value))
                    request.inputs[key].CopyFrom(proto)
                log = prediction_log_pb2.PredictionLog(
                    predict_log=prediction_log_pb2.PredictLog(request=request)
                )
                writer.write(log.SerializeToString())


def _batching_parameters() -> str:
    """Parameters for `tensorflow_model_server --batching_parameters_file`.

    The server is not told to pad inputs of different lengths, because it pads with
    their first element, which is a 1 in `input_mask`. So it joins ids of equal lengths
    only, and texts and examples, which the graph pads, always. There is no list of
    allowed batch sizes, to which the server would add rows that have to be computed:
    the graph takes any number.
    """
    return (
        f"max_batch_size {{ value: {_MAX_BATCH_SIZE} }}\n"
        "batch_timeout_micros { value: 2000 }\n"
        "max_enqueued_batches { value: 1000 }\n"
        f"num_batch_threads {{ value: {os.cpu_count()} }}\n"
        "pad_variable_length_inputs: false\n"
    )
