"""Turns tables of texts that are near each other into splits to train vectors on."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from albert_tf.records.features import embedding_features
from albert_tf.records.sidecar import RecordSet
from albert_tf.storage import PathLike, as_path
from albert_tf.task_config import Embedding
from albert_tf.text import packing
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning import glue as glue_tasks
from data_prep.fine_tuning import row_labels, split_rows, tables
from data_prep.fine_tuning.cache import cached_rows
from data_prep.fine_tuning.tables import Columns, Example
from data_prep.fine_tuning.task_data import CACHE_DIR, DEV_SPLITS, TaskData, task_data

STS_B = "sts-b"


def sts_b(
    data_dir: PathLike,
    tokenizer: AlbertTokenizer,
    task_config: Embedding,
    splits: Sequence[str] = ("train", "dev"),
    *,
    cache_dir: PathLike = CACHE_DIR,
    on_bad_row: str = "error",
) -> TaskData:
    """Reads STS-B of GLUE: pairs of sentences, and how near they are, from 0 to 5.

    Args:
      data_dir: folder of GLUE, or of the task.
      tokenizer: the model's.
      task_config: how vectors are made; its columns and bounds are those of the task.
      splits: of "train", "dev" and "test"; the last one has no scores.
      cache_dir: folder for the converted rows.
      on_bad_row: as `tables.read_table`.
    Raises:
      FileNotFoundError: a file is missing.
      ValueError: a row that cannot be read, or a length without room.
    """
    task = glue_tasks.GLUE[STS_B]
    folder = glue_tasks.task_folder(as_path(data_dir), task)
    names = {"train": task.train_file, "dev": task.dev_files["dev"]}
    names["test"] = task.test_files["STS-B"]
    assert task.bounds is not None
    task_config = dataclasses.replace(
        task_config, columns=task.train.to_dict(), bounds=task.bounds, has_scores=True
    )
    files = {split: folder / names[split] for split in splits}
    return pairs(
        files, tokenizer, task_config, cache_dir=cache_dir, on_bad_row=on_bad_row
    )


def pairs(
    files: Mapping[str, PathLike],
    tokenizer: AlbertTokenizer,
    task_config: Embedding,
    *,
    cache_dir: PathLike = CACHE_DIR,
    on_bad_row: str = "error",
) -> TaskData:
    """Reads tables of pairs, of pairs with scores, or of triplets.

    Args:
      files: split -> .tsv, .csv or .jsonl file; scores are those of "train" and "dev".
      tokenizer: the model's.
      task_config: its columns name the texts, and the scores if there are any.
      cache_dir: folder for the converted rows.
      on_bad_row: as `tables.read_table`.
    Raises:
      FileNotFoundError: a file is missing.
      ValueError: a row that cannot be read, a score out of bounds, or a length without
        room.
    """
    columns = Columns(
        **{"text": "text", "text_pair": "text_pair", **task_config.columns}
    )
    splits = {}
    for name, file in files.items():
        is_known = name == "train" or name in DEV_SPLITS
        read = columns
        if not (is_known and task_config.has_scores):
            read = dataclasses.replace(columns, label=None)
        conversion = split_rows.Conversion(tokenizer, cache_dir, on_bad_row)
        splits[name] = _rows(name, file, read, task_config, conversion, is_known)
    return task_data(task_config, splits)


def _rows(
    name: str,
    file: PathLike,
    columns: Columns,
    task_config: Embedding,
    conversion: split_rows.Conversion,
    is_known: bool,
) -> RecordSet:
    length = task_config.max_seq_length
    if length is None or length <= packing.SPECIAL_TOKENS_OF_SINGLE:
        raise ValueError(
            "Rows need a max_seq_length with room for a token. Received "
            f"{length} for {task_config.task_name}."
        )

    def make(statistics: dict[str, Any]):
        table = tables.read_table(file, columns, conversion.on_bad_row)
        statistics["skipped_rows"] = table.skipped_rows
        scores = _scores(table.examples, task_config, columns.label is not None)
        rows = _tuple_rows(
            table.examples, scores, conversion.tokenizer, length, statistics
        )
        num_texts = 2 if columns.negative is None else 3
        return embedding_features(num_texts), len(table.examples), rows

    settings = {
        "max_seq_length": length,
        # Partners are known wherever scores are not what counts.
        "labelled": is_known if task_config.has_scores else name != "test",
        "columns": columns.to_dict(),
        "bounds": list(task_config.bounds),
        "on_bad_row": conversion.on_bad_row,
        "kind_of_rows": "embedding",
    }
    kind = f"{task_config.task_name}-vectors-{name}"
    return cached_rows(
        conversion.cache_dir, kind, [file], conversion.tokenizer, settings, make
    )


def _scores(
    examples: Sequence[Example], task_config: Embedding, are_known: bool
) -> list[float]:
    """Scores from 0 to 1."""
    if not are_known:
        return [0.0] * len(examples)
    low, high = task_config.bounds
    values = row_labels.label_values(examples, None)
    for example, value in zip(examples, values, strict=True):
        if not low <= value <= high:
            raise ValueError(
                f"{example.place}: the score {value:g} is not between {low:g} and "
                f"{high:g}: correct it, or give the bounds as --score_bounds."
            )
    return [(value - low) / (high - low) for value in values]


def _tuple_rows(
    examples: Sequence[Example],
    scores: Sequence[float],
    tokenizer: AlbertTokenizer,
    max_seq_length: int,
    statistics: dict[str, Any],
) -> Iterator[dict[str, Any]]:
    """Yields rows of `features.embedding_features`, in the examples' order."""
    counted = ("pieces", "unknown_pieces", "truncated_rows")
    statistics |= dict.fromkeys(counted, 0)
    statistics["rows"] = len(examples)
    room = max_seq_length - packing.SPECIAL_TOKENS_OF_SINGLE
    keys: dict[str, int] = {}
    for example, score in zip(examples, scores, strict=True):
        texts = [example.text, example.text_pair or ""]
        texts += [] if example.negative is None else [example.negative]
        encoded = tokenizer.encode_batch(texts)
        statistics["pieces"] += sum(map(len, encoded))
        statistics["unknown_pieces"] += sum(
            ids.count(tokenizer.unk_id) for ids in encoded
        )
        statistics["truncated_rows"] += max(map(len, encoded)) > room
        rows = [
            packing.join_segments(
                ids[:room], None, cls_id=tokenizer.cls_id, sep_id=tokenizer.sep_id
            )
            for ids in encoded
        ]
        yield {
            **{name: [row[name] for row in rows] for name in rows[0]},
            "text_keys": [keys.setdefault(text, len(keys)) for text in texts],
            "label_ids": score,
            "index": example.index.encode("utf-8"),
        }
