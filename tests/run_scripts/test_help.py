"""`--help`: every flag has a group, a help text and one definition."""

import ast
from collections import Counter

import pytest

from flags.help import GROUPS
from helpers.paths import SCRIPTS
from helpers.scripts import run_script

NAMES = [name for group in GROUPS.values() for name in group]
HELPED = sorted(
    path.name
    for path in SCRIPTS.glob("*.py")
    if "common_flags.run(main" in path.read_text(encoding="utf-8")
)


def definitions():
    """Names of the flags that calls with a literal name define, one a call."""
    found = []
    for path in sorted(SCRIPTS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and ast.unparse(node.func).startswith("flags.DEFINE_")
                and node.func.attr != "DEFINE_alias"
                and isinstance(node.args[0], ast.Constant)
            ):
                found.append(node.args[0].value)
    return found


def test_a_flag_is_in_one_group():
    assert not [name for name, count in Counter(NAMES).items() if count > 1]


def test_a_flag_has_one_definition():
    assert not [name for name, count in Counter(definitions()).items() if count > 1]


def test_every_flag_that_is_defined_is_in_a_group():
    assert set(definitions()) <= set(NAMES)


@pytest.mark.parametrize("script", HELPED)
def test_help_lists_flags_in_groups_with_a_text(script, tmp_path):
    kind = ["train"] if script == "benchmark.py" else []
    done = run_script(script, *kind, "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    titles = [line[:-1] for line in lines if line[:-1] in GROUPS]
    assert titles == [title for title in GROUPS if title in titles] and titles
    for place, line in enumerate(lines):
        if line.startswith("  --"):
            assert lines[place + 1].startswith("      ") and lines[place + 1].strip()
