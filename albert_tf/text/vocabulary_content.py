"""The content of a vocabulary's file, in the form that models store.

A WordPiece vocabulary of `transformers` may lie in a `tokenizer.json` alone. Its tokens
become the lines of a `vocab.txt`, and the digest is that of these lines.
"""

import json
from typing import Any

from albert_tf.files import digest, parse_json
from albert_tf.storage import AnyPath, PathLike, as_path

TOKENIZER_JSON = "tokenizer.json"
_CONTINUES, _UNKNOWN = "##", "[UNK]"


def read_vocabulary(path: PathLike) -> bytes:
    """Reads a SentencePiece model, or the lines of a WordPiece vocabulary.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is empty, or a `tokenizer.json` of another kind.
    """
    file = as_path(path)
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no vocabulary file {path}.") from None
    if not content:
        raise ValueError(f"The vocabulary file {path} is empty.")
    if file.suffix != ".json":
        return content
    try:
        values = parse_json(content.decode())
        return "".join(f"{token}\n" for token in _tokens(values)).encode()
    except ValueError as error:
        raise ValueError(f"{path} is no WordPiece vocabulary: {error}") from error


def vocabulary_digest(path: PathLike) -> str:
    """The digest of `read_vocabulary`, which tells vocabularies apart."""
    return digest(read_vocabulary(path))


def is_wordpiece_tokenizer(file: AnyPath) -> bool:
    """True if a `tokenizer.json` is one of `transformers` with a WordPiece vocabulary.

    Our file of that name holds no vocabulary, and that of ALBERT there is the copy of a
    SentencePiece model.
    """
    try:
        model = json.loads(file.read_bytes()).get("model")
    except (ValueError, AttributeError):
        return False
    return isinstance(model, dict) and model.get("type") == "WordPiece"


def _tokens(values: Any) -> list[str]:
    """The tokens of a `tokenizer.json` in the order of their ids.

    Raises:
      ValueError: it splits text in another way than BERT, or ids are missing.
    """
    model = values.get("model") if isinstance(values, dict) else None
    if not isinstance(model, dict) or not isinstance(model.get("vocab"), dict):
        raise ValueError('its "model" has no "vocab".')
    for part, key, expected in (
        (model, "type", "WordPiece"),
        (model, "continuing_subword_prefix", _CONTINUES),
        (model, "unk_token", _UNKNOWN),
        (values.get("normalizer") or {}, "type", "BertNormalizer"),
        (values.get("pre_tokenizer") or {}, "type", "BertPreTokenizer"),
    ):
        if part.get(key, expected) != expected:
            raise ValueError(
                f"it has {key}={part[key]!r}, expected {expected!r}, as BERT has."
            )
    ids = dict(model["vocab"])
    for added in values.get("added_tokens") or ():
        ids.setdefault(added["content"], added["id"])
    by_id = {index: token for token, index in ids.items()}
    tokens = [by_id.get(index) for index in range(len(ids))]
    missing = [index for index, token in enumerate(tokens) if token is None]
    if missing:
        raise ValueError(
            f"its {len(ids)} tokens have no id {missing[0]}, or two have one id: ids "
            "must be consecutive."
        )
    return [token for token in tokens if token is not None]
