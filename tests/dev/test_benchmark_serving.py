"""`benchmark.py serving` measures every form, and names those that are missing."""

import json
import sys

import pytest
import tensorflow as tf

from dev import benchmark_serving
from dev.serving_contestant import Contestant
from helpers.fine_tuning_toys import config, write_vocabulary
from helpers.scripts import assert_one_line, run_script, succeed

SINGLE = ["1 x 9", "1 x 128", "16 x 62", "16 texts", "one by one"]


@pytest.fixture
def arguments(tmp_path):
    path = tmp_path / "albert_config.json"
    config(num_hidden_layers=1, max_position_embeddings=128).to_json(path)
    return [
        "serving",
        f"--albert_config_file={path}",
        f"--vocab_file={write_vocabulary(tmp_path)}",
        "--tokens=9",
        "--repeats=1",
    ]


def test_all_rows_are_measured_and_missing_runtimes_named(
    arguments, tmp_path, monkeypatch
):
    for name in ("torch", "openvino"):
        monkeypatch.setitem(sys.modules, name, None)
    joined = []
    real = tf.nondifferentiable_batch_function

    def record(**parameters):
        joined.append(parameters)
        return real(**parameters)

    monkeypatch.setattr(tf, "nondifferentiable_batch_function", record)
    printed = succeed(
        "benchmark.py",
        *arguments,
        "--peers=openvino,torch",
        "--clients=3,5",
        "--requests=37",
        "--load=1",
        cwd=tmp_path,
    )
    for form, name in (
        ("OpenVINO, our ONNX file", "openvino"),
        ("OpenVINO, transformers' ONNX file", "openvino"),
        ("PyTorch, eager", "torch"),
    ):
        line = f"Without {form}: {name} is not installed (extra `peers`).\n"
        assert line in printed
    assert "\nMilliseconds, and ratio to the SavedModel's time: float32, " in printed
    assert "p99 / p50  load reached   most rows/s\n" in printed
    report = json.loads(printed.splitlines()[-1])
    assert len(report["missing"]) == 3 and report["precision"] == "float32"
    assert list(report["single_ms"]) == SINGLE
    assert all(list(row) == ["SavedModel"] for row in report["single_ms"].values())
    assert len(report["parts_ms"]) == 5
    forms = ["SavedModel", "SavedModel, batched"]
    rows = [(row["clients"], row["form"]) for row in report["server"]]
    assert rows == [(clients, form) for clients in (3, 5) for form in forms]
    for row in report["server"]:
        # Joined or not, a text gets the answer that it gets alone.
        assert row["largest_difference"] < 1e-5
        assert row["p50_ms"] <= row["p99_ms"] and row["rows_per_second"] > 0
    # As the file that is exported for the server says.
    assert joined[0].pop("num_batch_threads") >= 1
    assert joined == [
        {
            "max_batch_size": 32,
            "batch_timeout_micros": 2000,
            "allowed_batch_sizes": None,
            "max_enqueued_batches": 1000,
            "autograph": False,
        }
    ]


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--peers=torch,jax", "--peers are of tflite, onnxruntime, openvino, torch. "),
        ("--clients=4,0", "Received 4,0."),
        ("--clients=four", "Received four."),
        ("--precision=float16", "float16 is for GPUs: pass --precision=float32 or bf"),
        ("--config_override=max_position_embeddings=127", "128 tokens, the model "),
        (
            "--config_override=vocab_size=26",
            "The vocabulary has 27 tokens, the model's vocab_size is 26: pass "
            "--config_override=vocab_size=27.",
        ),
    ],
)
def test_wrong_values_are_refused(arguments, flag, text, tmp_path):
    assert_one_line(run_script("benchmark.py", *arguments, flag, cwd=tmp_path), 2, text)


def test_clients_get_the_fastest_form_of_each_library():
    def form(library, name, texts=len):
        return Contestant(library, name, ids=len, texts=texts)

    forms = [
        form("Own", ""),
        form("Other", "slow"),
        form("Other", "fast"),
        form("Other", "rows only", texts=None),
        form("Third", "a"),
        form("Third", "b"),
    ]
    times = {"Own": 5.0, "Other, slow": 3.0, "Other, fast": 2.0}
    times |= {"Third, a": 7.0, "Third, b": 8.0}
    chosen = benchmark_serving._fastest(forms, {"one by one": times})
    assert [each.name for each in chosen] == ["Own", "Other, fast", "Third, a"]


def test_a_median_is_of_the_calls_after_the_first_two(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(benchmark_serving.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(benchmark_serving.time, "sleep", lambda _: None)
    steps = {"a": [900, 800, 3, 1, 8], "b": [700, 600, 20, 40, 30]}
    order = []

    def function(name):
        def call():
            order.append(name)
            clock[0] += steps[name].pop(0)

        return call

    medians = benchmark_serving.time_in_turns({n: function(n) for n in "ab"}, 3)
    assert medians == {"a": 3000, "b": 30000} and order == list("ab" * 5)
