"""Writes the API pages of the site: one page for each package that is on disk.

`mkdocs.yml` names this file under `hooks`. The pages are never written to a folder;
they list a package's modules, and mkdocstrings fills them from the docstrings.
"""

from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("albert_tf", "data_prep")


def packages() -> dict[str, list[str]]:
    """Dotted name of each package that has modules -> dotted names of these."""
    found = {}
    for root in PACKAGES:
        for file in sorted((ROOT / root).rglob("__init__.py")):
            folder = file.parent
            name = ".".join(folder.relative_to(ROOT).parts)
            modules = sorted(path.stem for path in folder.glob("*.py"))
            modules.remove("__init__")
            if modules:
                found[name] = [f"{name}.{module}" for module in modules]
    return found


def page(package: str, modules: list[str]) -> str:
    """The Markdown of a package's page."""
    options = "    options: {heading_level: 1, members: false}\n"
    parts = [f"::: {package}\n{options}", *(f"::: {module}\n" for module in modules)]
    return "\n".join(parts)


def on_config(config):
    """Appends the pages to the navigation."""
    pages = [{name: f"api/{name}.md"} for name in packages()]
    config.nav.append({"API": pages})
    return config


def on_files(files, config):
    """Adds the pages to the site."""
    for name, modules in packages().items():
        content = page(name, modules)
        files.append(File.generated(config, f"api/{name}.md", content=content))
    return files
