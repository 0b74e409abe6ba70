"""The README and the pages: short, linked, complete, and of nobody's own machine."""

import re
import unicodedata
from pathlib import Path

import pytest
import yaml

from helpers import docs_pages
from helpers.docs_pages import PAGES, README, REPOSITORY, ROOT, SITE_PAGES, name_of

LINK = re.compile(r"\]\(([^)\s]+)\)|<(https?://[^>\s]+)>")
# Paths of this project as a page writes them.
PATH = re.compile(
    r"(?:albert_tf|data_prep|run_scripts|tests|configs|docs)/[\w/.-]*[\w/]"
)


def test_the_readme_is_short():
    assert len(docs_pages.read(README).splitlines()) <= 220


def host_anchor(heading):
    """The anchor that the repository's host gives a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.lower())
    return kept.replace(" ", "-")


def site_anchor(heading):
    """The anchor that the site gives it."""
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    plain = re.sub(r"[^\w\s-]", "", plain).strip().lower()
    return re.sub(r"[-\s]+", "-", plain)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_headings_have_one_anchor_everywhere(page):
    if page.name == "CHANGELOG.md":
        return  # every version has the same headings
    found = [site_anchor(heading) for heading in docs_pages.headings(page)]
    assert found == [host_anchor(heading) for heading in docs_pages.headings(page)]
    assert len(set(found)) == len(found)


def anchors(page):
    return {site_anchor(heading) for heading in docs_pages.headings(page)}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_resolve(page):
    for pair in LINK.findall(docs_pages.prose(page)):
        link = "".join(pair)
        target, _, anchor = link.partition("#")
        if target.startswith(REPOSITORY):
            rest = target.removeprefix(REPOSITORY).strip("/")
            if rest.startswith(("compare/", "releases/")):
                continue
            file = ROOT / (rest.removeprefix("blob/main/") if rest else "README.md")
            anchor = "" if anchor == "readme" else anchor
        elif target.startswith(("http://", "https://")):
            continue
        else:
            file = page.parent / target if target else page
            if page in SITE_PAGES:
                is_on_site = file in SITE_PAGES or file.suffix == ".png"
                assert is_on_site, f"{link} is not on the site"
        assert file.is_file(), link
        assert not anchor or anchor in anchors(file), link


def nav_pages(nav):
    """The files of a navigation."""
    for entry in nav:
        [value] = entry.values()
        if isinstance(value, list):
            yield from nav_pages(value)
        else:
            yield value


def test_every_page_is_in_the_navigation_and_no_other():
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = list(nav_pages(config["nav"]))
    assert sorted(listed) == [page.name for page in SITE_PAGES]


def test_the_readme_and_the_index_link_every_page():
    index = ROOT / "docs" / "index.md"
    for page in SITE_PAGES:
        if page != index:
            assert f"]({page.name})" in docs_pages.read(index), page.name
            assert f"](docs/{page.name}" in docs_pages.read(README), page.name


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_has_a_path_of_someones_machine(page):
    text = docs_pages.read(page)
    assert not re.findall(r"/(?:home|root|tmp|Users|work|mnt)/\S*", text)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_vocabularies_are_of_tokens(page):
    """SentencePiece's own word is explained, and used nowhere else."""
    for line in docs_pages.read(page).splitlines():
        if re.search(r"\bpieces?\b", line):
            assert "SentencePiece" in line or "not piece" in line, line


def test_statuses_that_pages_name_are_written_by_the_library():
    source = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "albert_tf").rglob("*.py")
    )
    named = {
        status
        for page in PAGES
        for status in re.findall(r'"status": "([^"]+)"', docs_pages.read(page))
    }
    assert named
    for status in named:
        assert f'"{status}"' in source, status


def paths_of(page):
    for code in docs_pages.code_spans(page):
        # A placeholder or a user's own file is no path of the project.
        if not re.search(r"[<>*{ ]", code) and (match := PATH.fullmatch(code)):
            yield match[0]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_paths_of_the_project_are_there(page):
    for path in paths_of(page):
        assert (ROOT / path).exists(), path


def layout():
    """The README's layout, as path -> its line."""
    block = docs_pages.read(README).split("## Layout")[1].split("```")[1]
    found, folder = {}, ""
    for line in block.strip("\n").splitlines():
        name = line.split()[0]
        if not line.startswith(" "):
            folder = name
        found[name if name == folder else folder + name] = line
    return found


def test_the_layout_lists_folders_that_are_there():
    named = [path for path in layout() if path.count("/") == 1 and path[-1] == "/"]
    assert sorted(named) == [
        f"{name}/"
        for name in (
            "albert_tf",
            "configs",
            "data_prep",
            "docs",
            "run_scripts",
            "tests",
        )
    ]
    for path in named:
        assert (ROOT / path).is_dir(), path


@pytest.mark.parametrize("root", ["albert_tf", "data_prep", "run_scripts"])
def test_the_layout_lists_every_package_and_no_other(root):
    listed = {path for path in layout() if path.startswith(f"{root}/")} - {f"{root}/"}
    there = {
        f"{root}/{path.name}/"
        for path in (ROOT / root).iterdir()
        if path.is_dir() and path.name[0] not in "_."
    }
    if root == "albert_tf":
        there |= {
            f"{root}/{path.name}"
            for path in (ROOT / root).glob("*.py")
            # Old paths of modules hold imports only.
            if path.name != "__init__.py" and "Old path" not in path.read_text("utf-8")
        }
    assert listed == there


def test_the_license_is_whole():
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.split()[:4] == ["Apache", "License", "Version", "2.0,"]
    for number in range(1, 10):
        assert f"\n   {number}. " in text
    assert "The albert-tf authors" in text and "END OF TERMS AND CONDITIONS" in text


def test_versions_agree():
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    [version] = re.findall(r'version="([\d.]+)"', setup)
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == version
    changes = docs_pages.read(ROOT / "CHANGELOG.md")
    assert "## [Unreleased]" in changes
    assert f"## [{version}] - {citation['date-released']}" in changes
    assert citation["license"] == "Apache-2.0" and '"Apache-2.0"' in setup
    assert citation["url"] == REPOSITORY and f'"{REPOSITORY}"' in setup


def test_the_workflow_calls_what_is_there():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    runs = [
        step["run"] for job in jobs.values() for step in job["steps"] if "run" in step
    ]
    assert any("bash .ci/run" in run for run in runs)
    for path in (".ci/run", "run_scripts/docs.sh"):
        assert any(path in run for run in runs) and (ROOT / path).is_file()


def test_the_image_copies_what_is_there():
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = [
        word for line in lines if line[:5] == "COPY " for word in line.split()[1:-1]
    ]
    assert {"setup.py", "README.md", "albert_tf", "run_scripts"} <= set(copied)
    for name in copied:
        assert (ROOT / name).exists() and f"!{name}" in ignored, name


def test_hooks_are_the_checks_of_the_tests():
    text = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    hooks = [hook for repo in yaml.safe_load(text)["repos"] for hook in repo["hooks"]]
    checks = Path(ROOT / "run_scripts" / "test.sh").read_text(encoding="utf-8")
    for hook in hooks:
        assert " ".join(hook["entry"].split()[:2]) in checks
    assert len(hooks) == 2
