"""The devices of the flags, and precisions that they do not have."""

import types

import pytest

from albert_tf.training import devices
from flags import device_flags
from helpers.scripts import assert_one_line, run_script
from helpers.tiny import tiny_config


def test_the_strategy_is_that_of_the_flags(monkeypatch):
    given = types.SimpleNamespace(tpu="name", tpu_zone="zone", gcp_project="project")
    monkeypatch.setattr(device_flags, "FLAGS", given)
    monkeypatch.setattr(devices, "create_strategy", lambda *values: values)
    assert device_flags.create_strategy() == ("name", "zone", "project")


REFUSAL = "TPUs multiply in bfloat16 and float32. Received float16: pass --precision="


@pytest.mark.parametrize(
    "name", ["run_classifier.py", "run_race.py", "run_squad.py", "run_tagging.py"]
)
def test_float16_on_tpus_is_refused_while_flags_are_read(name, tmp_path):
    arguments = ["--output_dir=out", "--tpu_name=local", "--precision=float16"]
    result = run_script(name, *arguments, cwd=tmp_path)
    assert_one_line(result, 2, REFUSAL)
    assert not any(tmp_path.iterdir())


def test_the_preflight_refuses_it_too(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")  # as the script does
    tiny_config().to_json(tmp_path / "tiny.json")
    arguments = ["--albert_config_file=tiny.json", "--max_seq_length=24"]
    arguments += ["--precision=float16"]
    result = run_script("tpu_preflight.py", *arguments, cwd=tmp_path)
    assert_one_line(result, 1, REFUSAL)
