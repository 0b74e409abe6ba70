"""`benchmark.py training` measures all of its table, and names what is left out."""

import json
import sys

import pytest

from dev import benchmark_train, benchmark_training, training_table
from helpers.fine_tuning_toys import config, texts, write_vocabulary
from helpers.scripts import assert_one_line, run_script, succeed


class Here:
    """A `Process` without one, which saves the start of TensorFlow."""

    peak_megabytes = 321.0

    def __init__(self, make, *arguments):
        self._function = make(*arguments)

    def __call__(self, *arguments):
        return self._function(*arguments)

    def close(self):
        pass


@pytest.fixture
def arguments(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark_training, "Process", Here)
    monkeypatch.setattr(benchmark_training, "_SETTLE", 0)
    monkeypatch.setattr(benchmark_train, "_YARDSTICK_SIDE", 32)
    path = tmp_path / "toy.json"
    config(num_hidden_layers=1).to_json(path)
    return [
        "training",
        f"--albert_config_file={path}",
        f"--output_dir={tmp_path / 'out'}",
        "--precisions=float32",
        "--benchmark_steps=2",
        "--max_seq_length=11",
        "--max_predictions_per_seq=3",
    ]


def write_glue(folder):
    """A few rows of RTE."""
    names = {"good": "entailment", "bad": "not_entailment"}
    lines = ["index\tsentence1\tsentence2\tlabel"]
    rows = enumerate(texts(19, 3))
    lines += [f"{n}\t{text}\t{text}\t{names[label]}" for n, (text, label) in rows]
    (folder / "RTE").mkdir()
    (folder / "RTE" / "train.tsv").write_text("\n".join(lines) + "\n")


def test_everything_is_measured_and_written(arguments, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    # A graph for each task would take half of the test's time.
    monkeypatch.setattr(benchmark_training, "_TASKS", {"rte": 8})
    write_glue(tmp_path)
    printed = succeed(
        "benchmark.py",
        *arguments,
        "--peers=pytorch",
        f"--data_dir={tmp_path}",
        f"--vocab_file={write_vocabulary(tmp_path)}",
        "--short_steps=2",
        "--padded_steps=1",
        "--eval_batch_size=3",
        cwd=tmp_path,
    )
    reason = "torch is not installed (extra `peers`)"
    assert f"Without PyTorch, eager: {reason}.\n" in printed
    report = json.loads((tmp_path / "out" / "training.json").read_text())
    table = (tmp_path / "out" / "training.md").read_text()
    assert table == training_table.render(report) and table in printed
    assert report["missing"] == {"PyTorch, eager": reason}
    assert report["machine"]["cores"] >= 1 and report["machine"]["processor"]
    assert {"Python", "tensorflow", "numpy"} <= report["versions"].keys()
    [step] = report["steps"]
    assert (step["rows"], step["max_seq_length"]) == (8, 11)
    [(name, ours)] = step["contestants"].items()
    assert name == "albert-tf" and ours["peak_memory_megabytes"] == 321.0
    assert ours["examples_per_second"] == pytest.approx(8e3 / step["step_ms"])
    assert ours["median_examples_per_second"] <= ours["examples_per_second"]
    assert step["optimizer_ms"] > 0 and ours["share_of_matmul"] > 0
    [epoch] = report["fine_tuning"]
    assert (epoch["task"], epoch["batch"], epoch["rows"]) == ("rte", 8, 19)
    assert epoch["max_seq_length"] == 24 and epoch["largest_loss_difference"] < 1e-5
    [evaluation] = report["evaluation"]
    assert (evaluation["rows"], evaluation["length"]) == (3, 24)
    assert len(evaluation["rows_per_second"]) == 3


def test_without_data_fine_tuning_is_named(arguments, tmp_path):
    only = "--measures=fine_tuning"
    printed = succeed("benchmark.py", *arguments, only, cwd=tmp_path)
    # An earlier report is replaced.
    assert succeed("benchmark.py", *arguments, only, cwd=tmp_path) == printed
    assert printed.startswith("Without fine_tuning: no --data_dir was given.\n")
    report = json.loads((tmp_path / "out" / "training.json").read_text())
    assert report["missing"] == {"fine_tuning": "no --data_dir was given"}
    assert report["steps"] == report["fine_tuning"] == report["evaluation"] == []


@pytest.mark.parametrize(
    ("flag", "code", "text"),
    [
        (
            "--measures=step,speed",
            2,
            "--measures are of step, fine_tuning, evaluation.",
        ),
        ("--peers=jax", 2, "--peers are of pytorch, tf_models. Received jax."),
        ("--precisions=float8", 2, "--precisions are of float32, bfloat16."),
        ("--max_seq_length=25", 2, "Received 25 and 24: lower it."),
        ("--config_override=num_hidden_groups=1", 2, "hidden_act (1, 1, 'gelu_erf')"),
        ("--data_dir=.", 2, "Name the vocabulary"),
    ],
)
def test_wrong_values_are_refused(arguments, flag, code, text, tmp_path):
    more = [flag]
    if "groups" in flag:
        more.append("--config_override=hidden_act=gelu_erf")
    done = run_script("benchmark.py", *arguments, *more, cwd=tmp_path)
    assert_one_line(done, code, text)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "text"), [("training.json", '{"mine": 1}'), ("training.md", "# Mine")]
)
def test_a_file_of_another_kind_is_not_replaced(arguments, tmp_path, name, text):
    (tmp_path / "out").mkdir()
    file = tmp_path / "out" / name
    file.write_text(text)
    done = run_script("benchmark.py", *arguments, cwd=tmp_path)
    assert_one_line(done, 1, str(file))
    assert file.read_text() == text


def test_contestants_are_timed_in_turns(monkeypatch):
    monkeypatch.setattr(benchmark_training, "_SETTLE", 0)
    order = []

    def function(name):
        def run():
            order.append(name)
            return float(len(order)), 0.5

        return run

    times = benchmark_training.time_in_turns({n: function(n) for n in "ab"}, 2)
    assert times == {"a": [(1.0, 0.5), (3.0, 0.5)], "b": [(2.0, 0.5), (4.0, 0.5)]}
    assert order == list("abab") and benchmark_training._fastest(times["b"]) == 2.0
