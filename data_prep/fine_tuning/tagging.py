"""Makes rows for tagging: a sentence, or a window of a long one.

    [CLS] EU re ##jects Ger ##man call [SEP]       tag_ids 0 4 1 0 2 0 1 0

Each word is tokenized alone, so that a word has the same tokens wherever it stands. Its
first token carries its tag. Of the windows of a long sentence one tags a word: the one
that shows most context of its first token.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.records.features import unseen_tag_ids
from albert_tf.text import entities, packing
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning.squad_windows import split_windows
from data_prep.fine_tuning.tagged_sentences import Sentence

_SENTENCES_PER_BLOCK = 1000
_SMALLEST_ROW = packing.SPECIAL_TOKENS_OF_SINGLE + 1
_COUNTED = ("pieces", "unknown_pieces", "words_without_token", "long_sentences")
_MOST_LISTED = 8


def tagging_rows(
    sentences: Sequence[Sentence],
    labels: Sequence[str],
    tokenizer: AlbertTokenizer,
    max_seq_length: int,
    doc_stride: int,
    statistics: dict[str, Any],
) -> Iterator[dict[str, Any]]:
    """Yields rows of `features.tagging_features`, in the sentences' order.

    A word without a token, as one of a control character, is an unknown token. A
    sentence without words has no row.

    Args:
      sentences: the sentences; words without a tag are to be predicted.
      labels: the model's labels; a tag that is not among them is counted.
      tokenizer: tokenizes the words.
      max_seq_length: most tokens of a row, special tokens included.
      doc_stride: tokens from the start of a window to the start of the next.
      statistics: receives `pieces` (tokens), `unknown_pieces`, `words_without_token`,
        `long_sentences` (that have several rows) and `unseen_tags`, tag -> words.
    Raises:
      ValueError: the lengths leave no room.
    """
    if max_seq_length < _SMALLEST_ROW or doc_stride < 1:
        raise ValueError(
            f"max_seq_length must be at least {_SMALLEST_ROW} and doc_stride at least "
            f"1. Received {max_seq_length} and {doc_stride}."
        )
    unseen: Counter = Counter()
    statistics |= {**dict.fromkeys(_COUNTED, 0), "unseen_tags": unseen}
    ids_of = {label: place for place, label in enumerate(labels, start=1)}
    room = max_seq_length - packing.SPECIAL_TOKENS_OF_SINGLE
    number = itertools.count()
    for first in range(0, len(sentences), _SENTENCES_PER_BLOCK):
        block = sentences[first : first + _SENTENCES_PER_BLOCK]
        words = sorted({word for sentence in block for word in sentence.words})
        encoded = dict(zip(words, tokenizer.encode_batch(words), strict=True))
        for sentence in block:
            tokens = _tokens(sentence, encoded, tokenizer, statistics)
            tags = _tag_ids(sentence, ids_of, unseen)
            # Where no word begins there is no tag.
            tag_ids = [
                tag
                for ids, tag in zip(tokens, tags, strict=True)
                for tag in (tag, *[0] * (len(ids) - 1))
            ]
            yield from _windows(
                next(number),
                list(itertools.chain.from_iterable(tokens)),
                np.array(tag_ids, np.int64),
                (room, doc_stride),
                tokenizer,
                statistics,
            )


def _tokens(
    sentence: Sentence,
    encoded: Mapping[str, list[int]],
    tokenizer: AlbertTokenizer,
    statistics: dict[str, Any],
) -> list[list[int]]:
    """The tokens of each word, at least one."""
    tokens = [encoded[word] for word in sentence.words]
    statistics["words_without_token"] += sum(not ids for ids in tokens)
    for ids in tokens:
        statistics["pieces"] += len(ids)
        statistics["unknown_pieces"] += ids.count(tokenizer.unk_id)
    return [ids or [tokenizer.unk_id] for ids in tokens]


def _tag_ids(
    sentence: Sentence, ids_of: Mapping[str, int], unseen: Counter
) -> list[int]:
    if sentence.tags is None:
        return [1] * len(sentence.words)
    begin, inside = unseen_tag_ids(len(ids_of))
    unseen.update(tag for tag in sentence.tags if tag not in ids_of)
    return [
        ids_of.get(tag, inside if tag.startswith("I-") else begin)
        for tag in sentence.tags
    ]


def _windows(
    sentence: int,
    tokens: Sequence[int],
    tag_ids: np.ndarray,
    lengths: tuple[int, int],
    tokenizer: AlbertTokenizer,
    statistics: dict[str, Any],
) -> Iterator[dict[str, Any]]:
    """Yields the windows that have a word to tag."""
    if not tokens:
        return
    windows = split_windows(len(tokens), *lengths)
    statistics["long_sentences"] += len(windows) > 1
    for (start, end), is_best in windows:
        tagged = np.where(is_best, tag_ids[start:end], 0)
        if not tagged.any():
            continue
        row = packing.join_segments(
            tokens[start:end], None, cls_id=tokenizer.cls_id, sep_id=tokenizer.sep_id
        )
        yield {**row, "tag_ids": [0, *tagged.tolist(), 0], "sentence": sentence}


def row_warnings(name: str, statistics: Mapping[str, Any]) -> list[str]:
    """Returns warnings about the rows of a split: tags that training had none of, and
    words without a token.

    Args:
      name: the split.
      statistics: what was counted when its rows were made; counts may be missing.
    """
    warnings = []
    unseen = statistics.get("unseen_tags") or {}
    if unseen:
        types = sorted({entities.type_of(tag) for tag in unseen})
        dots = ", ..." if len(types) > _MOST_LISTED else ""
        warnings.append(
            f"{sum(unseen.values())} words of {name} have tags that the model does not "
            f"know ({', '.join(types[:_MOST_LISTED])}{dots}): each counts as an error."
        )
    empty = statistics.get("words_without_token", 0)
    if empty:
        warnings.append(
            f"{empty} words of {name} have no token, as those of control characters: "
            "they are tagged as unknown ones."
        )
    return warnings
