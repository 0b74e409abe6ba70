"""The report of the TPU preflight, its search, and the compiler if it is installed.

The last test needs jax and libtpu, in this environment or in that of the Python which
the variable ALBERT_COMPILER_PYTHON names.
"""

import importlib.util
import json
import os
import sys
import venv

import pytest

from albert_tf.analysis import costs, step_lowering
from dev import tpu_program, tpu_report
from helpers.lowered_steps import lower
from helpers.scripts import assert_one_line, run_script
from helpers.tiny import tiny_config
from helpers.tpu_programs import PROGRAM

FIGURES = {
    "device": "TPU v3",
    "hbm_bytes": 3 * 2**30,
    "temporary_bytes": 2 * 10**9,
    "flops": 123e12,
    "bytes_accessed": 90e9,
    "gradient_bytes": 85 * 10**9,
    "row_bytes": 6000,
}


def report(topology="v3:2x2", rows=32, cores=(8,), **changes):
    return tpu_report.Report(topology, rows, cores, FIGURES | changes)


def test_a_step_takes_the_longer_of_computing_and_moving():
    computing = report().values()
    assert computing["step_seconds"] == pytest.approx(2.0)
    # Both parts are there, whichever is longer.
    assert computing["computing_seconds"] == pytest.approx(2.0)
    assert computing["moving_seconds"] == pytest.approx(0.2)
    assert computing["bound_by"] == "matrices"
    moving = report("v5e:2x2", bytes_accessed=819e9).values()
    assert moving["step_seconds"] == pytest.approx(1.0)
    assert moving["bound_by"] == "memory"


def test_a_report_has_the_training_on_each_slice():
    found = report(cores=(8, 32)).values()["slices"]
    assert [values["cores"] for values in found] == [8, 32]
    # 8 cores compute 256 rows in 2 s; four chips with two links each sum 85 GB.
    summing = 2 * 3 / 4 * 85e9 / (2 * 340e12 / 4096)
    assert found[0]["all_reduce_seconds"] == pytest.approx(summing)
    assert found[0]["batch_seconds"] == pytest.approx(16 * 2 + summing)
    assert found[1]["batch_seconds"] == pytest.approx(
        4 * 2 + found[1]["all_reduce_seconds"]
    )
    lines = report(cores=(8, 32)).tables().splitlines()
    assert lines[0] == "Slices of v3; a sum of gradients has 85.000 GB:"
    assert [line.split()[0] for line in lines[1:]] == ["cores", "8", "32"]


def test_a_line_has_the_time_of_computing_and_of_moving():
    cells = report().line()
    columns = dict(
        zip(
            tpu_report.HEADER.replace("HBM GiB", "HBM")
            .replace("temporary GB", "temporary")
            .replace("GB moved", "moved")
            .replace(" ms", "")
            .replace("bound by", "bound")
            .split(),
            cells.split(),
            strict=True,
        )
    )
    assert columns["compute"] == "2000" and columns["move"] == "200"
    assert columns["step"] == "2000" and columns["bound"] == "matrices"


def test_a_report_has_tables_of_the_largest_tensors_and_operations():
    summary = tpu_program.summarize(PROGRAM)
    before = report().tables().splitlines()
    lines = report(**summary).tables().splitlines()
    assert lines[: len(before)] == before
    lines = lines[len(before) :]
    assert lines[0] == "Largest temporaries when they need the most memory:"
    assert lines[2].split() == ["0.000", "1", "bf16[3,30,100]", "block/einsum"]
    number = len(summary["largest_temporaries"])
    assert lines[number + 2].startswith("Operations that move the most bytes (GB")
    assert "matrix products 0.00" in lines[number + 2]
    assert len(lines) == number + len(summary["largest_traffic"]) + 4


def test_a_step_that_does_not_fit_has_no_time():
    figures = {"device": "TPU v3", "hbm_bytes": 2**35, "hbm_limit_bytes": 2**34}
    found = tpu_report.Report("v3:2x2", 32, (8,), figures)
    assert not found.fits and "slices" not in found.values() and found.tables() == ""
    assert found.line().split() == ["v3:2x2", "32", "32.00", "no"]


@pytest.mark.parametrize("start", [1, 8, 24, 512])
@pytest.mark.parametrize("most", [1, 3, 8, 23, 24, 100, 511])
def test_the_search_finds_the_largest_batch_that_fits(start, most):
    def measure(topology, rows):
        figures = FIGURES if rows <= most else {"hbm_bytes": 2**40}
        return tpu_report.Report(topology, rows, (8,), figures)

    found = tpu_report.find_largest(measure, measure("v3:2x2", start)).rows
    if most < 8:
        assert found == {1: 1, 3: 2}[most]
    else:
        assert found == most // 8 * 8


def test_the_search_says_that_one_row_is_too_many():
    def measure(topology, rows):
        return tpu_report.Report(topology, rows, (8,), {"hbm_bytes": 2**40})

    with pytest.raises(ValueError, match="rematerialize=block"):
        tpu_report.find_largest(measure, measure("v3:2x2", 4))


@pytest.mark.parametrize("name", ["v3", "v9:2x2", ""])
def test_an_unknown_topology_is_refused_before_anything_is_built(name):
    with pytest.raises(ValueError, match="v5e:2x2"):
        tpu_report.check_topology(name, [8])


def test_a_slice_that_does_not_exist_is_refused_before_anything_is_built(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")  # as the script does
    tiny_config().to_json(tmp_path / "tiny.json")
    arguments = ["--albert_config_file=tiny.json", "--max_seq_length=24"]
    arguments += ["--topology=v3:2x2,v5e:2x2"]
    result = run_script("tpu_preflight.py", *arguments, "--cores=8,512", cwd=tmp_path)
    sizes = "1, 4, 8, 16, 32, 64, 128, 256"
    message = f"v5e has no slice of 512 cores: --cores are of {sizes}."
    assert_one_line(result, 1, message)
    result = run_script("tpu_preflight.py", *arguments, "--cores=8,pod", cwd=tmp_path)
    assert_one_line(result, 2, "--cores are whole numbers. Received 8,pod.")


def test_a_python_that_cannot_compile_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"compiler_python '/no/python'"):
        tpu_report.check_compiler("/no/python")
    with pytest.raises(ValueError, match=r"compiler_python '/bin/echo' is no Python"):
        tpu_report.check_compiler("/bin/echo")
    venv.create(tmp_path, with_pip=False)
    with pytest.raises(ValueError, match=r"needs jax and libtpu.*compiler_python"):
        tpu_report.check_compiler(str(tmp_path / "bin" / "python"))


def test_the_preflight_prints_slices_beside_the_compilers_figures(
    tmp_path, monkeypatch
):
    compiled = {
        k: FIGURES[k] for k in FIGURES if k not in ("gradient_bytes", "row_bytes")
    }
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")  # as the script does
    monkeypatch.setattr(tpu_report, "check_compiler", lambda python: None)
    monkeypatch.setattr(tpu_report, "compile_step", lambda *arguments: compiled)
    monkeypatch.setattr(step_lowering, "lower_step", lambda step, specs: "")
    tiny_config().to_json(tmp_path / "tiny.json")
    arguments = ["--albert_config_file=tiny.json", "--max_seq_length=24"]
    arguments += ["--max_predictions_per_seq=3", "--cores=8,1024"]
    result = run_script("tpu_preflight.py", *arguments, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    values = json.loads(lines[-1])
    weights = 4 * sum(costs.parameter_counts(tiny_config()).values())
    assert values["gradient_bytes"] == weights
    assert values["row_bytes"] == 4 * (4 * 24 + 3 * 3 + 1)
    assert [part["shape"] for part in values["slices"]] == ["2x2", "16x32"]
    assert [line.split()[1] for line in lines[-3:-1]] == ["2x2", "16x32"]


@pytest.fixture(scope="module")
def compiler_python():
    named = os.environ.get("ALBERT_COMPILER_PYTHON")
    here = all(importlib.util.find_spec(name) for name in ("jax", "libtpu"))
    if not named and not here:
        pytest.skip("the TPU compiler is not installed: pip install jax libtpu")
    return named or sys.executable


@pytest.mark.slow
def test_the_tpu_compiler_takes_the_step(compiler_python, tmp_path):
    text, step = lower(precision="bfloat16", rematerialize="attention")
    file = tmp_path / "step.mlir"
    file.write_text(text, encoding="utf-8")
    tpu_report.check_compiler(compiler_python)
    figures = tpu_report.compile_step(file, "v3:2x2", compiler_python)
    assert figures["device"] == "TPU v3"
    # Weights and two moments come in and, in their place, go out.
    weights = sum(4 * v.shape.num_elements() for v in step.model.trainable_variables)
    assert figures["alias_bytes"] >= 3 * weights
    assert figures["hbm_bytes"] > figures["argument_bytes"] >= 3 * weights
    # Their sizes add up to the compiler's, and to what it says that is moved.
    live = figures["largest_temporaries"]
    assert 0.5 < sum(row["bytes"] for row in live) / figures["temporary_bytes"] <= 1.1
    moved = sum(figures["traffic_bytes"].values())
    assert moved == pytest.approx(figures["bytes_accessed"], rel=0.2)
    with pytest.raises(ValueError, match="refuses v3:7"):
        tpu_report.compile_step(file, "v3:7", compiler_python)
