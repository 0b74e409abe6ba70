"""Every command of the README and of the pages is one that can be given."""

import os
import re
import shlex

import pytest
import yaml

from helpers import docs_pages
from helpers.docs_pages import PAGES, ROOT
from helpers.scripts import run_script

SCRIPT = re.compile(r"(?:python )?(run_scripts/[\w/]+\.(?:py|sh))")


def shell_lines(page):
    """The command lines of a page's blocks, continued lines joined."""
    text = "\n".join(docs_pages.blocks(page, "bash", "shell"))
    for block in docs_pages.blocks(page, "yaml"):
        text += "\n" + "\n".join(strings(list(yaml.safe_load_all(block))))
    return [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def strings(value):
    """All strings in what a YAML file holds."""
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    return [s for part in parts for s in strings(part)] if is_nested(value) else []


def is_nested(value):
    return isinstance(value, dict | list)


def commands(page):
    """The page's commands that run a script here, each as a list of words."""
    found = []
    for line in shell_lines(page):
        match = SCRIPT.search(line)
        if match:
            # A shell's variables and sums stand for numbers here.
            words = re.sub(r"\$\(\(.*?\)\)|\$\w+", "1", line[match.start() :])
            found.append(shlex.split(words, comments=True))
    return found


COMMANDS = [(page, words) for page in PAGES for words in commands(page)]


def run(script, *arguments):
    return run_script(script.removeprefix("run_scripts/"), *arguments, cwd=ROOT)


def test_the_pages_have_the_commands_that_they_are_about():
    named = {words[1] if words[0] == "python" else words[0] for _, words in COMMANDS}
    assert len(COMMANDS) >= 45
    for name in ("quickstart.sh", "test.sh", "run_race.py", "ask.py", "ensemble.py"):
        assert f"run_scripts/{name}" in named


@pytest.mark.parametrize(
    ("page", "words"), COMMANDS, ids=[f"{p.stem}-{w[:2][-1]}" for p, w in COMMANDS]
)
def test_a_command_names_a_script_and_flags_that_take_its_values(page, words, tmp_path):
    if words[0] != "python":
        check_shell_script(*words)
        return
    script, *arguments = words[1:]
    assert (ROOT / script).is_file()
    for place, argument in enumerate(arguments):
        flag, _, value = argument.partition("=")
        if flag == "--flagfile" and not (ROOT / value).is_file():
            # The user's own, as the page shows it.
            own = tmp_path / "own.flags"
            own.write_text("\n".join(docs_pages.blocks(page, "text")))
            arguments[place] = f"--flagfile={own}"
    # Unknown flags, values that do not parse and missing ones end with 2.
    done = run(script, *arguments, "--only_check_args")
    assert done.returncode == 0, done.stderr


def check_shell_script(script, *options):
    path = ROOT / script
    assert path.is_file() and os.access(path, os.X_OK)
    text = path.read_text(encoding="utf-8")
    for option in options:
        assert f"{option.split('=')[0]}=" in text, option


def helps():
    """Output of `--help` of each script of the pages, by its words."""
    starts = set()
    for _, words in COMMANDS:
        if words[0] == "python":
            size = 3 if words[1].endswith("benchmark.py") else 2
            starts.add(tuple(words[1:size]))
    return {start: run(*start, "--help").stdout for start in sorted(starts)}


def test_flags_in_the_prose_are_of_some_script():
    # absl's own.
    known = {"--help", "--flagfile", "--verbosity", "--only_check_args"}
    for printed in helps().values():
        for no, name in re.findall(r"^  --(\[no\])?(\w+)", printed, re.MULTILINE):
            known |= {f"--{name}", f"--no{name}"} if no else {f"--{name}"}
    for page in PAGES:
        for code in docs_pages.code_spans(page):
            if code.startswith(("pip ", "docker ")):
                continue
            used = set(re.findall(r"(?<![\w-])--\w+", code))
            assert used <= known, f"{docs_pages.name_of(page)}: {used - known}"


def test_extras_that_pages_install_are_in_setup():
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    named = {
        extra
        for page in PAGES
        for extra in re.findall(r"'\.\[([\w-]+)\]'", docs_pages.read(page))
    }
    assert {"jieba", "tpu-preflight"} <= named
    for extra in named:
        assert f'"{extra}": [' in setup, extra


def test_recipes_that_pages_name_are_there():
    for page in PAGES:
        for name in re.findall(r"configs/[\w/.-]+\.(?:json|flags)", read(page)):
            assert (ROOT / name).is_file(), name


def read(page):
    # {a,b} in a path stands for several files.
    return re.sub(r"\{.*?\}", "", docs_pages.read(page)).replace("_zh.json", "")
