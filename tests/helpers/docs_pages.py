"""The README and the pages of docs/, cut into their parts, for the tests here."""

import re
from pathlib import Path

from helpers.paths import ROOT

README = ROOT / "README.md"
SITE_PAGES = sorted((ROOT / "docs").glob("*.md"))
# Pages that users read on the repository's host.
ROOT_PAGES = [README, *(ROOT / f"{n}.md" for n in ("CONTRIBUTING", "SECURITY"))]
PAGES = [*ROOT_PAGES, ROOT / "CHANGELOG.md", *SITE_PAGES]
REPOSITORY = "https://github.com/albert-tf/albert-tf"

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def name_of(page: Path) -> str:
    """A page as test reports name it."""
    return str(page.relative_to(ROOT))


def read(page: Path) -> str:
    """The text of a page."""
    return page.read_text(encoding="utf-8")


def blocks(page: Path, *languages: str) -> list[str]:
    """The code blocks of a page in some languages."""
    return [code for kind, code in _BLOCK.findall(read(page)) if kind in languages]


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return _BLOCK.sub("", read(page))


def code_spans(page: Path) -> list[str]:
    """The `code` in a page's prose."""
    return [" ".join(c.split()) for c in re.findall(r"`([^`]+)`", prose(page))]


def headings(page: Path) -> list[str]:
    """The headings of a page, without their signs."""
    return re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
