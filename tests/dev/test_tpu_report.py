"""The report of the TPU preflight, its search, and the compiler if it is installed.

The last test needs jax and libtpu, in this environment or in that of the Python which
the variable ALBERT_COMPILER_PYTHON names.
"""

import importlib.util
import os
import sys
import venv

import pytest

from dev import tpu_report
from helpers.lowered_steps import lower

FIGURES = {
    "device": "TPU v3",
    "hbm_bytes": 3 * 2**30,
    "temporary_bytes": 2 * 10**9,
    "flops": 123e12,
    "bytes_accessed": 90e9,
}


def test_a_step_takes_the_longer_of_computing_and_moving():
    computing = tpu_report.Report("v3:2x2", 32, 8, FIGURES).values()
    assert computing["step_seconds"] == pytest.approx(2.0)
    assert computing["bound_by"] == "matrices"
    # 125,000 steps of 4,096 rows; 8 cores do 256 rows in 2 s.
    assert computing["days"] == pytest.approx(125_000 * 16 * 2 / 86_400)
    moving = tpu_report.Report("v5e:2x2", 32, 8, FIGURES | {"bytes_accessed": 819e9})
    assert moving.values()["step_seconds"] == pytest.approx(1.0)
    assert moving.values()["bound_by"] == "memory"


def test_a_step_that_does_not_fit_has_no_time():
    figures = {"device": "TPU v3", "hbm_bytes": 2**35, "hbm_limit_bytes": 2**34}
    report = tpu_report.Report("v3:2x2", 32, 8, figures)
    assert not report.fits and "days" not in report.values()
    assert report.line().split() == ["v3:2x2", "32", "32.00", "no"]


@pytest.mark.parametrize("start", [1, 8, 24, 512])
@pytest.mark.parametrize("most", [1, 3, 8, 23, 24, 100, 511])
def test_the_search_finds_the_largest_batch_that_fits(start, most):
    def measure(topology, rows):
        figures = FIGURES if rows <= most else {"hbm_bytes": 2**40}
        return tpu_report.Report(topology, rows, 8, figures)

    found = tpu_report.find_largest(measure, measure("v3:2x2", start)).rows
    if most < 8:
        assert found == {1: 1, 3: 2}[most]
    else:
        assert found == most // 8 * 8


def test_the_search_says_that_one_row_is_too_many():
    def measure(topology, rows):
        return tpu_report.Report(topology, rows, 8, {"hbm_bytes": 2**40})

    with pytest.raises(ValueError, match="rematerialize=block"):
        tpu_report.find_largest(measure, measure("v3:2x2", 4))


@pytest.mark.parametrize("name", ["v3", "v9:2x2", ""])
def test_an_unknown_topology_is_refused_before_anything_is_built(name):
    with pytest.raises(ValueError, match="v5e:2x2"):
        tpu_report.check_topology(name)


def test_a_python_that_cannot_compile_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"compiler_python '/no/python'"):
        tpu_report.check_compiler("/no/python")
    venv.create(tmp_path, with_pip=False)
    with pytest.raises(ValueError, match=r"needs jax and libtpu.*compiler_python"):
        tpu_report.check_compiler(str(tmp_path / "bin" / "python"))


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
    with pytest.raises(ValueError, match="refuses v3:7"):
        tpu_report.compile_step(file, "v3:7", compiler_python)
