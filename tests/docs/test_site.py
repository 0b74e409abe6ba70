"""The documentation site: it builds without a warning and shows every module."""

import re
import subprocess
import sys

import pytest

from helpers.docs_pages import ROOT

pytest.importorskip("mkdocs", reason="needs pip install --editable '.[docs]'")
griffe = pytest.importorskip("griffe")
sys.path.insert(0, str(ROOT / "docs"))

import api_pages  # noqa: E402
import docstrings  # noqa: E402


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    done = subprocess.run(
        [*command, "--site-dir", str(folder)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_module_is_on_the_page_of_its_package(site):
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for root in api_pages.PACKAGES
        for path in (ROOT / root).rglob("*.py")
        if path.stem != "__init__"
    }
    shown = set()
    for page in (site / "api").glob("*.html"):
        text = page.read_text(encoding="utf-8")
        ids = set(re.findall(r'<h\d id="([\w.]+)"', text))
        assert page.stem in ids
        shown |= {each for each in ids if each in modules}
    assert shown == modules


def test_docstrings_are_adapted_to_the_parser():
    docstring = "\n".join(
        [
            "Packs a, b: rows.",
            "",
            "Args:",
            "  a, b: ids,",
            "    of a row.",
            "  c: more.",
            "Returns:",
            "  x, y: as they are.",
        ]
    )
    assert docstrings.adapt(docstring).split("\n")[3:] == [
        "  a: ids,",
        "    of a row.",
        "  b: ids,",
        "    of a row.",
        "  c: more.",
        "",
        "Returns:",
        "  x, y: as they are.",
    ]
