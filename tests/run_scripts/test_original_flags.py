"""Flags beside the original's: names and defaults, and the table of what differs."""

import json
import re

import pytest

from helpers.docs_pages import ROOT
from helpers.scripts import run_script

ORIGINAL = json.loads(
    (ROOT / "tests" / "reference" / "original_flags.json").read_text("utf-8")
)
_ROW = re.compile(r"^\| (\w+) \| (\w+) \| (\S+) \| (.+) \|$", re.MULTILINE)
_FLAG = re.compile(
    r"^  --(?:\[no\])?(\w+)(?:=(\S+)| \(default: (\w+)\)| \(required\))?$"
)


def documented():
    """(script, flag) -> the original's default and ours, as the page says them."""
    page = (ROOT / "docs" / "differences.md").read_text("utf-8")
    rows = _ROW.findall(page.split("## Flags")[1])
    return {(script, flag): (theirs, ours) for script, flag, theirs, ours in rows}


def flags_of(script, folder):
    """Name -> default, as `--help` lists them; empty: no default."""
    lines = run_script(f"{script}.py", "--help", cwd=folder).stdout.splitlines()
    found = [match for line in lines if (match := _FLAG.match(line))]
    return {name: value or boolean or "" for name, value, boolean in map(groups, found)}


def groups(match):
    return match.groups()


def text(value):
    return "" if value is None else str(value)


def same(ours, theirs):
    """True if defaults are the same number, truth value or text."""
    try:
        return float(ours) == float(theirs)
    except ValueError:
        return ours.lower() == text(theirs).lower()


@pytest.mark.parametrize("script", ORIGINAL)
def test_the_table_lists_the_flags_that_differ_and_no_other(script, tmp_path):
    ours = flags_of(script, tmp_path)
    table = {flag: row for (s, flag), row in documented().items() if s == script}
    for flag, default in ORIGINAL[script].items():
        if flag not in ours:
            assert table[flag][1].startswith("gone: "), flag
        elif not same(ours[flag], text(default)):
            shown = table[flag][1]
            assert re.match(rf"{ours[flag] or 'none'}\b", shown, re.I), (flag, shown)
        else:
            assert flag not in table, flag
        if flag in table:
            assert same(table[flag][0].replace("none", ""), text(default)), flag
    assert set(table) <= set(ORIGINAL[script])
