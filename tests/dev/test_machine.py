"""Facts about a machine."""

import importlib.metadata

import pytest

from dev import machine

CPU = """processor : 0
model name : Fast CPU
flags : fpu avx2 avx512f amx_bf16

processor : 1
flags : fpu
"""


def test_packages_that_do_not_fit_are_named():
    version = importlib.metadata.version("numpy")
    versions, problems = machine.packages(
        ["numpy>=1", "absl-py>=999", "no-such-package>=2", 'odd>1; extra == "odd"']
    )
    assert versions["numpy"] == version and "odd" not in versions
    assert [problem.split()[0] for problem in problems] == [
        "absl-py",
        "no-such-package",
    ]
    assert "does not fit >=999" in problems[0] and "is missing" in problems[1]
    found, problems = machine.packages()
    assert {"tensorflow", "sentencepiece"} <= found.keys() and not problems


def test_packages_of_tensorflow_are_of_one_release():
    same = {"tensorflow": "2.20.1", "tensorflow-text": "2.20.0", "numpy": "1.0"}
    assert not machine.family_problems(same)
    [problem] = machine.family_problems({**same, "tf_keras": "2.19.0"})
    assert "tensorflow 2.20" in problem and "tf_keras 2.19" in problem


def test_the_processor_is_read():
    found = machine.processor(CPU)
    assert found["processor"] == "Fast CPU" and int(found["cores"]) >= 1
    has = [part.split()[0] for part in found["instructions"].split("), ")]
    assert has == ["avx2", "avx512f", "amx_bf16"] and found["without"] == "avx512_bf16"
    assert "instructions" not in machine.processor("")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MemTotal: 4194304 kB\nMemAvailable: 1048576 kB\n", "4.0 GiB, 1.0 GiB free"),
        ("", "not known"),
    ],
)
def test_memory_is_in_gibibytes(text, expected):
    assert machine.memory(text) == expected


def test_a_tpu_of_the_environment_is_named(monkeypatch):
    monkeypatch.setattr(machine, "_TPU_DEVICES", ())
    monkeypatch.delenv("TPU_NAME", raising=False)
    assert machine.tpu_hint() == "none found"
    monkeypatch.setenv("TPU_NAME", "mine")
    assert "--tpu=mine" in machine.tpu_hint()
