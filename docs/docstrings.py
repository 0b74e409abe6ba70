"""Adapts this project's docstrings to the parser of Google's style.

    Args:
      cls_id, sep_id: the vocabulary's special ids.
    Returns:
      The row.

The parser takes "cls_id, sep_id" for one name, and sees a section only below a blank
line. This extension gives each argument an entry of its own, so that it is shown with
its type and a misspelled name is still an error, and puts the blank lines in.
`mkdocs.yml` names this file.
"""

import re

import griffe

_SECTION = re.compile(r"(Args|Attributes|Returns|Yields|Raises):$")
_ENTRY = re.compile(r"( +)(\*{0,2}\w+(?:, \*{0,2}\w+)+): ")


def adapt(docstring: str) -> str:
    """The docstring as the parser wants it."""
    result: list[str] = []
    section = ""
    lines = docstring.split("\n")
    place = 0
    while place < len(lines):
        line = lines[place]
        place += 1
        heading = _SECTION.match(line)
        if heading or (line and not line.startswith(" ")):
            section = heading[1] if heading else ""
        if heading and result and result[-1]:
            result.append("")
        entry = _ENTRY.match(line) if section in ("Args", "Attributes") else None
        if not entry:
            result.append(line)
            continue
        start = place
        while place < len(lines) and lines[place].startswith(entry[1] + " "):
            place += 1
        for name in entry[2].split(", "):
            result.append(f"{entry[1]}{name}: {line[entry.end() :]}")
            result += lines[start:place]
    return "\n".join(result)


class ProjectDocstrings(griffe.Extension):
    """Adapts every docstring once its object is loaded."""

    def on_object(self, *, obj: griffe.Object, **kwargs) -> None:
        """Adapts the docstring of a module, class, function or attribute."""
        if obj.docstring:
            obj.docstring.value = adapt(obj.docstring.value)
