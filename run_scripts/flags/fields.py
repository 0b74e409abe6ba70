"""Flags that take name, type, default, choices and help from a dataclass's fields."""

import dataclasses
import functools
import types
import typing
from typing import Any

import docstring_parser
from absl import flags

FLAGS = flags.FLAGS


def define(config_class: type, *names: str, **defaults: Any) -> None:
    """Defines a flag for each named field of a dataclass.

    Args:
      config_class: a dataclass whose docstring describes each field under "Attributes".
        A field with fixed values has them as `metadata["choices"]`.
      *names: fields, in the order in which `--help` lists them.
      **defaults: defaults that a script changes, by field name.
    Raises:
      ValueError: a field is unknown, or its docstring entry or default is missing.
    """
    fields = {field.name: field for field in dataclasses.fields(config_class)}
    types_of = typing.get_type_hints(config_class)
    for name in names:
        if name not in fields:
            raise ValueError(f"{config_class.__name__} has no field {name!r}.")
        field = fields[name]
        default = defaults.get(name, field.default)
        if default is dataclasses.MISSING:
            raise ValueError(f"{name} has no default: pass one.")
        help_text = field_help(config_class, name)
        choices = field.metadata.get("choices")
        kind = _plain_type(types_of[name])
        if choices:
            flags.DEFINE_enum(name, default, list(choices), help_text)
        elif kind is bool:
            flags.DEFINE_bool(name, default, help_text)
        elif kind is int:
            flags.DEFINE_integer(name, default, help_text)
        elif kind is float:
            flags.DEFINE_float(name, default, help_text)
        else:
            flags.DEFINE_string(name, default, help_text)


def read(config_class: type, **values: Any) -> Any:
    """Builds a dataclass from the flags that have its fields' names.

    Args:
      config_class: the dataclass; fields without a flag keep their defaults.
      **values: values in place of flags.
    """
    names = [field.name for field in dataclasses.fields(config_class)]
    given = {name: FLAGS[name].value for name in names if name in FLAGS}
    return config_class(**(given | values))


def default_of(config_class: type, name: str) -> Any:
    """The default of a dataclass field."""
    fields = {field.name: field for field in dataclasses.fields(config_class)}
    return fields[name].default


def field_help(config_class: type, name: str) -> str:
    """The description of a field in its dataclass's docstring, as a sentence.

    Raises:
      ValueError: the docstring does not describe it.
    """
    text = _descriptions(config_class).get(name)
    if not text:
        raise ValueError(f"The docstring of {config_class.__name__} lacks {name!r}.")
    return text[0].upper() + text[1:]


@functools.cache
def _descriptions(config_class: type) -> dict[str, str]:
    parsed = docstring_parser.parse(config_class.__doc__ or "")
    descriptions = {}
    for entry in parsed.params:
        for name in entry.arg_name.split(", "):
            descriptions[name] = " ".join((entry.description or "").split())
    return descriptions


def _plain_type(annotation: Any) -> Any:
    """`int` of `int | None`."""
    if isinstance(annotation, types.UnionType):
        [annotation] = [arg for arg in annotation.__args__ if arg is not type(None)]
    return annotation
