"""Lets docstrings describe several arguments in one entry.

    Args:
      cls_id, sep_id: the vocabulary's special ids.

The parser of Google's style takes "cls_id, sep_id" for one name. This extension gives
each name an entry of its own before it parses, so that each is shown with its type and
a misspelled name is still an error. `mkdocs.yml` names this file.
"""

import re

import griffe

_ENTRY = re.compile(r"( +)(\*{0,2}\w+(?:, \*{0,2}\w+)+): ")
_SECTION = re.compile(r" *(Args|Attributes):$")


def separate(docstring: str) -> str:
    """The docstring with an entry for each argument or attribute."""
    lines = docstring.split("\n")
    result, place, in_section = [], 0, False
    while place < len(lines):
        line = lines[place]
        if _SECTION.match(line):
            in_section = True
        elif line.strip() and not line.startswith(" "):
            in_section = False
        entry = _ENTRY.match(line) if in_section else None
        place += 1
        if not entry:
            result.append(line)
            continue
        more = []
        deeper = entry[1] + " "
        while place < len(lines) and lines[place].startswith(deeper):
            more.append(lines[place])
            place += 1
        text = line[entry.end() :]
        for name in entry[2].split(", "):
            result += [f"{entry[1]}{name}: {text}", *more]
    return "\n".join(result)


class GroupedArguments(griffe.Extension):
    """Separates the entries of every docstring."""

    def on_object(self, *, obj: griffe.Object, **kwargs) -> None:
        """Rewrites the docstring of a function, class or module, once it is loaded."""
        if obj.docstring:
            obj.docstring.value = separate(obj.docstring.value)
