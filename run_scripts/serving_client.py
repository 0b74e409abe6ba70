r"""Sends a request to a running TensorFlow Serving, by REST or by gRPC.

    python run_scripts/serving_client.py --server=localhost:8501 --model_name=rte \
        --inputs='{"text": ["It rains."], "text_pair": ["It is wet."]}'

prints its answer as JSON. The server's default ports are 8501 for REST and 8500 for
gRPC (`--protocol=grpc`). `--metadata` prints inputs and outputs of its signatures.
"""

import http.client
import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import flags

from flags import common_flags

if TYPE_CHECKING:
    from tensorflow_serving.apis import predict_pb2

FLAGS = flags.FLAGS


def main() -> None:
    inputs = _inputs()
    if FLAGS.metadata:
        print(json.dumps(_get(f"{_address()}/metadata"), indent=1))
    elif FLAGS.protocol == "rest":
        print(json.dumps(ask_rest(_address(), FLAGS.signature, inputs), indent=1))
    else:
        print(json.dumps(ask_grpc(FLAGS.server, _request(inputs)), indent=1))


def _inputs() -> dict[str, Any]:
    try:
        inputs = json.loads(FLAGS.inputs)
        if not isinstance(inputs, dict):
            raise ValueError("it is not an object")
    except ValueError as error:
        raise flags.Error(
            f"--inputs is a JSON object, name of an input -> list of rows: {error}."
        ) from None
    return inputs


def _address() -> str:
    version = f"/versions/{FLAGS.model_version}" if FLAGS.model_version else ""
    return f"http://{FLAGS.server}/v1/models/{FLAGS.model_name}{version}"


def _get(address: str, body: bytes | None = None) -> dict:
    request = urllib.request.Request(
        address, body, {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=FLAGS.timeout) as response:
            content = response.read()
    except urllib.error.HTTPError as error:
        reason = error.read().decode(errors="replace")[:500]
        raise ValueError(f"{address} refuses: {reason}") from error
    # HTTPException: the address is malformed, or the answer is not HTTP.
    except (OSError, http.client.HTTPException) as error:
        raise ConnectionError(
            f"No server answers at {address} ({getattr(error, 'reason', error)!s:.200}"
            "): is it running, and is this its REST port?"
        ) from error
    try:
        answer = json.loads(content)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise ValueError(
            f"{address} answers {content[:40]!r}, not a JSON object: is this the REST "
            "port of a TensorFlow Serving?"
        )
    return answer


def ask_rest(address: str, signature: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Requests the outputs of a signature by REST.

    Args:
      address: URL of the model.
      signature: name of the signature.
      inputs: name of an input -> list of rows.
    Returns:
      Name of an output -> list of rows.
    Raises:
      ConnectionError: no server answers there.
      ValueError: the server refuses the request, or is not a TensorFlow Serving.
    """
    body = json.dumps({"signature_name": signature, "inputs": inputs}).encode()
    answer = _get(f"{address}:predict", body)
    if "outputs" not in answer:
        raise ValueError(
            f"{address} answers without 'outputs', with {sorted(answer)} only: is it a "
            "TensorFlow Serving?"
        )
    outputs = answer["outputs"]
    # The server leaves out the name of a single output.
    return outputs if isinstance(outputs, dict) else {"output": outputs}


def _request(inputs: dict[str, Any]) -> "predict_pb2.PredictRequest":
    """Builds the request for gRPC; TensorFlow infers int32 or strings."""
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2

    request = predict_pb2.PredictRequest()
    request.model_spec.name = FLAGS.model_name
    request.model_spec.signature_name = FLAGS.signature
    if FLAGS.model_version:
        request.model_spec.version.value = FLAGS.model_version
    for name, values in inputs.items():
        try:
            request.inputs[name].CopyFrom(tf.make_tensor_proto(values))
        except (TypeError, ValueError):
            raise flags.Error(
                f"--inputs: {name!r} must be a list of numbers or of texts, in rows of "
                f"equal length. Received {values!s:.200}."
            ) from None
    return request


def ask_grpc(server: str, request: "predict_pb2.PredictRequest") -> dict[str, Any]:
    """Requests the outputs of a signature by gRPC; as `ask_rest`."""
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_service_pb2_grpc

    with grpc.insecure_channel(server) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        try:
            response = stub.Predict(request, timeout=FLAGS.timeout)
        except grpc.RpcError as error:
            if error.code() in (
                grpc.StatusCode.UNAVAILABLE,
                grpc.StatusCode.DEADLINE_EXCEEDED,
            ):
                raise ConnectionError(
                    f"No server answers at {server} ({error.details()}): is it "
                    "running, and is this its gRPC port?"
                ) from error
            raise ValueError(f"{server} refuses: {error.details()}") from error
    answers = {name: tf.make_ndarray(value) for name, value in response.outputs.items()}
    return {name: _plain(values) for name, values in sorted(answers.items())}


def _plain(values: np.ndarray) -> list:
    """Converts an array to lists of numbers or of texts, for JSON."""
    if values.dtype == object:
        values = np.vectorize(bytes.decode, otypes=[object])(values)
    return values.tolist()


if __name__ == "__main__":
    flags.DEFINE_string("server", "localhost:8501", "HOST:PORT of the server.")
    flags.DEFINE_enum("protocol", "rest", ["rest", "grpc"], "Protocol of the request.")
    flags.DEFINE_string("model_name", None, "The server's --model_name.", required=True)
    common_flags.define_model_version_flag("Version of the model; 0: the latest.")
    flags.DEFINE_string(
        "signature", "text", "Signature: text, examples, ids or serving_default."
    )
    flags.DEFINE_string(
        "inputs", "{}", "JSON object: name of an input -> list of rows."
    )
    flags.DEFINE_bool("metadata", False, "Print the signatures instead.")
    flags.DEFINE_float(
        "timeout", 30.0, "Seconds to wait for an answer.", lower_bound=0.001
    )
    common_flags.run(main)
