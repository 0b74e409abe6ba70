"""Text cleaning as the files of `transformers` state it."""

from collections.abc import Mapping
from typing import Any

from albert_tf.checkpoints.vocabulary_file import VocabularyFile
from albert_tf.files import read_json
from albert_tf.storage import AnyPath
from albert_tf.text.vocabulary_content import TOKENIZER_JSON, is_wordpiece_tokenizer

CONFIG_FILE = "tokenizer_config.json"
# Keys of the configuration -> the only value that is computed here.
_FIXED = {
    "tokenize_chinese_chars": True,
    "do_basic_tokenize": True,
    "word_tokenizer_type": "basic",
}


def read_cleaning(folder: AnyPath) -> dict[str, bool]:
    """Reads `lower_case` and `strip_accents`, as far as the files of a folder say.

    `tokenizer_config.json` counts before the normalizer of a `tokenizer.json`.

    Raises:
      ValueError: text is split in another way than BERT splits it.
    """
    values = read_json(folder / CONFIG_FILE, missing_ok=True)
    _check(folder / CONFIG_FILE, values)
    cleaning = {}
    if values.get("do_lower_case") is not None:
        cleaning["lower_case"] = values["do_lower_case"]
    if values.get("keep_accents") is not None:
        cleaning["strip_accents"] = not values["keep_accents"]
    elif values.get("strip_accents") is not None:
        cleaning["strip_accents"] = values["strip_accents"]
    if "do_lower_case" in values:
        return cleaning
    return _of_normalizer(folder / TOKENIZER_JSON) | cleaning


def config_values(vocabulary: VocabularyFile) -> dict[str, Any]:
    """Makes the values of a `tokenizer_config.json`."""
    values: dict[str, Any] = {"do_lower_case": vocabulary.lower_case}
    if vocabulary.is_wordpiece:
        values["strip_accents"] = vocabulary.strip_accents
        values["tokenizer_class"] = "BertTokenizer"
    else:
        values["keep_accents"] = not vocabulary.strip_accents
        values["tokenizer_class"] = "AlbertTokenizer"
    return values


def _of_normalizer(file: AnyPath) -> dict[str, bool]:
    if not (file.is_file() and is_wordpiece_tokenizer(file)):
        return {}
    stated = read_json(file).get("normalizer") or {}
    chinese = stated.get("handle_chinese_chars")
    _check(file, {} if chinese is None else {"tokenize_chinese_chars": chinese})
    names = {"lower_case": "lowercase", "strip_accents": "strip_accents"}
    return {
        here: stated[there]
        for here, there in names.items()
        if stated.get(there) is not None
    }


def _check(file: AnyPath, values: Mapping[str, Any]) -> None:
    for key, only in _FIXED.items():
        if values.get(key) not in (None, only):
            raise ValueError(
                f"{file} says {key}={values[key]!r}, but text is always split as with "
                f"{only!r} here: tokens would differ. Change the value if the "
                "difference does not concern your texts."
            )
