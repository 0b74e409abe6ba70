"""The README tells the truth: its commands, its file map, its Python."""

import re
import shlex
import subprocess
import sys

import pytest

from helpers.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands():
    """Every command of the README's shell blocks, as lists of words."""
    blocks = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines if line.strip()]


def test_commands_name_scripts_that_are_there():
    assert len(commands()) >= 7
    for words in commands():
        script = words[1] if words[0] == "python" else words[0]
        assert (ROOT / script).is_file(), script


def scripts():
    return sorted({words[1] for words in commands() if words[0] == "python"})


@pytest.mark.parametrize("script", scripts())
def test_commands_use_flags_that_are_there(script):
    printed = subprocess.run(
        [sys.executable, script, "--help"], cwd=ROOT, capture_output=True, text=True
    ).stdout
    found = re.findall(r"^  --(\[no\])?(\w+)", printed, re.MULTILINE)
    known = {name for _, name in found} | {f"no{name}" for no, name in found if no}
    known.add("flagfile")  # absl's own, of every script
    for words in commands():
        if script in words:
            used = {word[2:].split("=")[0] for word in words if word.startswith("--")}
            # absl's own.
            used.discard("flagfile")
            assert used <= known, used - known


def test_every_source_file_stands_in_the_map_and_no_other():
    block = README.split("## Files")[1]
    named = set(re.findall(r"^  (\w+\.(?:py|sh)) ", block, re.MULTILINE))
    folders = ("albert_tf", "data_prep", "run_scripts")
    there = {p.name for f in folders for p in (ROOT / f).iterdir() if p.is_file()}
    assert named == there - {"__init__.py"}


def test_its_python_imports():
    [code] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    compile(code, "README.md", "exec")
    kinds = ("from", "impo")
    imports = "".join(line + "\n" for line in code.splitlines() if line[:4] in kinds)
    namespace = {}
    exec(imports, namespace)
    assert "AlbertTokenizer" in namespace
