"""The client against servers that hold requests to TensorFlow Serving's own protos."""

import contextlib
import http.server
import json
import socketserver
import threading
from concurrent import futures

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from helpers.scripts import assert_one_line, run_script

QUESTION = {"text": ["worda", "wordé"], "text_pair": ["", "b"]}
ANSWER = {
    "probabilities": [[0.25, 0.75], [0.5, 0.5]],
    "label": ["good", "schön"],
}


class _Servicer(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self):
        self.requests = []

    def Predict(self, request, context):
        self.requests.append(request)
        if request.model_spec.signature_name == "ids":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "ids must be below 27")
        response = predict_pb2.PredictResponse()
        for name, values in ANSWER.items():
            values = np.array(values, np.float32 if name != "label" else object)
            response.outputs[name].CopyFrom(tf.make_tensor_proto(values))
        return response


@pytest.fixture
def grpc_server():
    servicer = _Servicer()
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        servicer, server
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}", servicer.requests
    server.stop(None)


@contextlib.contextmanager
def rest_server(status, answer):
    """Answers every request alike; gives its address and what it was asked."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            size = int(self.headers["Content-Length"])
            asked.append((self.path, json.loads(self.rfile.read(size))))
            self._answer()

        def do_GET(self):
            asked.append((self.path, None))
            self._answer()

        def _answer(self):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(server, *flags, cwd):
    inputs = f"--inputs={json.dumps(QUESTION)}"
    arguments = [f"--server={server}", "--model_name=toy", inputs, *flags]
    return run_script("serving_client.py", *arguments, cwd=cwd)


def test_rest_requests_are_in_columns_and_answers_come_back(tmp_path):
    with rest_server(200, {"outputs": ANSWER}) as (server, asked):
        result = ask(server, "--model_version=3", cwd=tmp_path)
    assert json.loads(result.stdout) == ANSWER
    expected = {"signature_name": "text", "inputs": QUESTION}
    assert asked == [("/v1/models/toy/versions/3:predict", expected)]


def test_metadata_is_asked_for(tmp_path):
    with rest_server(200, {"metadata": {"x": 1}}) as (server, asked):
        result = ask(server, "--metadata", cwd=tmp_path)
    assert json.loads(result.stdout) == {"metadata": {"x": 1}}
    assert asked == [("/v1/models/toy/metadata", None)]


def test_a_rest_refusal_is_one_line(tmp_path):
    with rest_server(400, {"error": "no such signature"}) as (server, _):
        assert_one_line(ask(server, cwd=tmp_path), 1, "refuses", "no such signature")


def test_grpc_requests_are_the_servers_protos(grpc_server, tmp_path):
    server, requests = grpc_server
    result = ask(server, "--protocol=grpc", "--model_version=3", cwd=tmp_path)
    assert json.loads(result.stdout) == ANSWER
    [request] = requests
    assert request.model_spec.name == "toy"
    assert request.model_spec.version.value == 3
    assert request.model_spec.signature_name == "text"
    sent = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
    assert {n: [each.decode() for each in v] for n, v in sent.items()} == QUESTION


def test_a_grpc_refusal_is_one_line(grpc_server, tmp_path):
    server, _ = grpc_server
    result = ask(server, "--protocol=grpc", "--signature=ids", cwd=tmp_path)
    assert_one_line(result, 1, "refuses", "ids must be below 27")


@pytest.mark.parametrize("protocol", ["rest", "grpc"])
def test_a_server_that_is_not_there_is_named(protocol, tmp_path):
    result = ask("127.0.0.1:1", f"--protocol={protocol}", cwd=tmp_path)
    assert_one_line(result, 1, "127.0.0.1:1", "is it running")


def test_inputs_that_are_no_object_are_refused(tmp_path):
    assert_one_line(ask("x:1", "--inputs=[1]", cwd=tmp_path), 2, "JSON object")


@contextlib.contextmanager
def raw_server(content):
    """Answers every request with these bytes."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.recv(1 << 16)
            self.request.sendall(content)

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


_HEAD = b"HTTP/1.0 200 OK\r\nContent-Length: "


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x00\x00\x06\x04 SETTINGS of gRPC\n\n", "is this its REST port"),
        (_HEAD + b"99\r\n\r\n{", "is this its REST port"),
        (_HEAD + b"6\r\n\r\n<html>", "b'<html>', not a JSON object"),
        (_HEAD + b"2\r\n\r\n[]", "b'[]', not a JSON object"),
        (_HEAD + b"2\r\n\r\n{}", "without 'outputs'"),
        (b"HTTP/1.0 500 no\r\n\r\n\xff", "refuses"),
    ],
)
def test_a_server_of_another_kind_is_told_in_one_line(content, message, tmp_path):
    with raw_server(content) as server:
        assert_one_line(ask(server, cwd=tmp_path), 1, server, message)


def test_an_address_that_is_none_is_told_in_one_line(tmp_path):
    assert_one_line(ask("localhost:rest", cwd=tmp_path), 1, "localhost:rest")


@pytest.mark.parametrize(
    "ids", ["[1, 'a']", "[[1, 2], [3]]", "[null]", "{'a': 1}", f"[{10**30}]"]
)
def test_what_is_no_tensor_is_named(ids, tmp_path):
    inputs = f"--inputs={{'ids': {ids}}}".replace("'", '"')
    result = ask("x:1", "--protocol=grpc", inputs, cwd=tmp_path)
    assert_one_line(result, 2, "'ids' must be a list")
