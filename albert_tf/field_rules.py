"""Rules for the values of configurations, in words and as functions.

A field of a configuration holds its rule as `metadata`; values of a JSON file are
checked by the same rules.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

# Bound of whole numbers, as TensorFlow stores them.
LIMIT = 2**63


def number(value: Any) -> bool:
    """True for a finite number."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < LIMIT
    return isinstance(value, float) and math.isfinite(value)


def whole(value: Any, lowest: int, highest: int = LIMIT - 1) -> bool:
    """True for a whole number within bounds, both inclusive."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return is_whole and lowest <= value <= highest


def text(value: Any) -> bool:
    """True for a text that is not empty."""
    return isinstance(value, str) and bool(value)


def rule(words: str, holds: Callable[[Any], bool]) -> dict[str, Any]:
    """Metadata of a field: what its values must be, in words and as a function."""
    return {"rule": words, "holds": holds}


def choices(*allowed: str) -> dict[str, Any]:
    """Metadata of a field whose values are fixed: these, as "choices", and the rule."""
    holds = rule(f"one of {', '.join(allowed)}", lambda value: value in allowed)
    return {"choices": allowed, **holds}


def count(lowest: int, highest: int | None = None) -> dict[str, Any]:
    """Metadata of a field that holds a whole number within bounds, both inclusive."""
    if highest is None:
        words = f"a whole number of at least {lowest} and below 2**63"
        return rule(words, lambda value: whole(value, lowest))
    words = f"a whole number from {lowest} to {highest:,}"
    return rule(words, lambda value: whole(value, lowest, highest))


def optional(known: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata of a field that may also be None."""
    return rule(known["rule"], lambda value: value is None or known["holds"](value))


COUNT, COUNT_OR_ZERO = count(1), count(0)
POSITIVE = rule("a number above 0", lambda v: number(v) and v > 0)
NOT_NEGATIVE = rule("a number of at least 0", lambda v: number(v) and v >= 0)
BELOW_ONE = rule("a number in [0, 1)", lambda v: number(v) and 0 <= v < 1)
BOOL = rule("true or false", lambda v: isinstance(v, bool))
TEXT = rule("a text that is not empty", text)
TEXTS = rule(
    "a list of texts that are not empty",
    lambda v: isinstance(v, list) and all(map(text, v)),
)


def check(name: str, value: Any, known: Mapping[str, Any]) -> None:
    """Raises ValueError unless a value keeps a rule."""
    if not known["holds"](value):
        raise ValueError(f"{name} must be {known['rule']}. Received {value!r:.80}.")


def check_fields(config: Any) -> None:
    """Raises ValueError unless all fields of a dataclass keep their rules."""
    for field in dataclasses.fields(config):
        if "holds" in field.metadata:
            check(field.name, getattr(config, field.name), field.metadata)
