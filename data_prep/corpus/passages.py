"""Reads the passages of SQuAD and RACE files as documents of a development set.

The paper (section 4.2.1) evaluates pretraining on the passages of both development
sets; their questions are not used.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from albert_tf.files import RepeatedKeyError, unique_keys
from albert_tf.storage import as_path
from data_prep.corpus.files import Source, is_unicode

BAD_PASSAGES = "files that are not of their format"

_WHITE_SPACE = re.compile(r"\s*")


def squad_passages(source: Source) -> Iterator[tuple[int, str]]:
    """Yields (1-based number, text) of the paragraphs of a SQuAD file, v1.1 or v2.0."""
    yield from _passages(source, "SQuAD", _squad_contexts)


def race_passages(source: Source) -> Iterator[tuple[int, str]]:
    """Yields (1-based number, text) of the RACE articles, one or more, of a file."""
    yield from _passages(source, "RACE", lambda value: [value["article"]])


def _squad_contexts(value: dict) -> list[str]:
    return [
        paragraph["context"]
        for article in value["data"]
        for paragraph in article["paragraphs"]
    ]


def _passages(
    source: Source, kind: str, find: Callable[[Any], list[str]]
) -> Iterator[tuple[int, str]]:
    content = as_path(source.part.path).read_bytes()
    if source.progress:
        source.progress(len(content))
    try:
        texts = [text for _, value in json_values(content) for text in find(value)]
        if not is_unicode("".join(texts)):
            raise ValueError
    except json.JSONDecodeError as error:
        source.reject(error.lineno, f"not JSON ({error.msg})", BAD_PASSAGES)
    except UnicodeDecodeError as error:
        line = 1 + content.count(b"\n", 0, error.start)
        source.reject(line, "not UTF-8", BAD_PASSAGES)
    except RepeatedKeyError as error:
        source.reject(1, f"JSON, but {error}", BAD_PASSAGES)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        source.reject(1, f"JSON, but not of a {kind} file", BAD_PASSAGES)
    else:
        yield from enumerate(texts, start=1)


def json_values(content: bytes) -> Iterator[tuple[int, Any]]:
    """Yields the values of a file of one or more, with or without white space between.

    Args:
      content: the file, UTF-8 with or without a byte order mark.
    Yields:
      (1-based line on which a value starts, the value).
    Raises:
      UnicodeDecodeError: the content is not UTF-8.
      json.JSONDecodeError: a value is not JSON; the error holds its line.
      RepeatedKeyError: an object has a key twice.
    """
    text = content.decode("utf-8-sig")
    decoder = json.JSONDecoder(object_pairs_hook=unique_keys)
    line, counted = 1, 0
    position = _skip_white_space(text, 0)
    while position < len(text):
        line, counted = line + text.count("\n", counted, position), position
        value, end = decoder.raw_decode(text, position)
        yield line, value
        position = _skip_white_space(text, end)


def _skip_white_space(text: str, position: int) -> int:
    match = _WHITE_SPACE.match(text, position)
    return match.end() if match else position
