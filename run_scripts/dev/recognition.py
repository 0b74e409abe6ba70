"""Recognizes a file or folder: what it is, what may be done with it, what is wrong."""

import csv
from typing import NamedTuple

from albert_tf.files import parse_json
from albert_tf.records.sidecar import read_metadata, sidecar_path
from albert_tf.storage import AnyPath, as_path
from albert_tf.task_config import (
    Classification,
    Embedding,
    MultiLabel,
    MultipleChoice,
    Regression,
    Squad,
    Tagging,
)
from data_prep.column_files import (
    COLUMN_FILES,
    column_names,
    is_dataset_folder,
    rows,
)
from data_prep.corpus.files import read_content
from data_prep.fine_tuning.tables import Columns, read_table
from data_prep.fine_tuning.text_lists import TABLES
from data_prep.packed_files import kind

# Kind of a task -> the script of it.
_SCRIPTS = {
    Classification.kind: "run_classifier.py",
    MultiLabel.kind: "run_classifier.py",
    Regression.kind: "run_classifier.py",
    MultipleChoice.kind: "run_race.py",
    Squad.kind: "run_squad.py",
    Tagging.kind: "run_tagging.py",
    Embedding.kind: "run_embedding.py",
}
_RECORD_SCRIPTS = ("run_pretraining.py --input_file={}", "inspect_records.py {}")


class Recognized(NamedTuple):
    """Facts about a path.

    Attributes:
      facts: what it is, a line each.
      uses: commands that take it.
      problems: what is wrong with it, a line each.
    """

    facts: list[str]
    uses: list[str]
    problems: list[str]


def recognize(path: str) -> Recognized:
    """Recognizes a path: records, a table, text, weights or an exported model.

    Raises:
      FileNotFoundError: there is no such path.
    """
    place = as_path(path)
    if place.is_file() and _is_records(place):
        return _records(place)
    if is_dataset_folder(place) or (place.is_file() and kind(place) in TABLES):
        return _table(place)
    try:
        return _model(path)
    except FileNotFoundError:
        pass
    except ValueError as error:
        return Recognized(["A model."], [], [str(error)])
    if place.is_file():
        size = place.stat().st_size
        uses = [
            f"train_sentencepiece.py --input_file={path}",
            f"create_pretraining_data.py --input_file={path}",
            f"embed.py --input_file={path}",
        ]
        return Recognized([f"A file of {size:,} bytes, read as text."], uses, [])
    if place.is_dir():
        found = sorted(entry.name for entry in place.iterdir())
        return Recognized(
            [f"A folder of {len(found):,} entries: {', '.join(found[:8])!s:.200}."],
            [],
            ["It holds no weights and no records that this project knows."],
        )
    raise FileNotFoundError(f"There is no {path}: check the path.")


def _is_records(place: AnyPath) -> bool:
    return ".tfrecord" in place.name or sidecar_path(place).is_file()


def _records(place: AnyPath) -> Recognized:
    try:
        metadata = read_metadata(place)
    except (FileNotFoundError, ValueError) as error:
        return Recognized(["Records."], [], [str(error)])
    facts = [
        f"Records of {metadata.get('kind', 'an unknown kind')}: {metadata['rows']:,} "
        f"rows of at most {metadata.get('max_seq_length')} tokens.",
        f"Made with a vocabulary of {metadata.get('vocab_size')} tokens.",
        f"Features: {', '.join(sorted(metadata['features']))}.",
    ]
    uses = []
    if metadata.get("kind") == "pretraining":
        uses = [use.format(place) for use in _RECORD_SCRIPTS]
    return Recognized(facts, uses, [])


def _table(place: AnyPath) -> Recognized:
    problems = []
    try:
        if place.is_dir() or kind(place) in COLUMN_FILES:
            header = column_names(place)
            count = sum(1 for _ in rows(place))
        else:
            first = read_content(place).split(b"\n", 1)[0]
            line = first.decode("utf-8-sig", "replace").rstrip("\r")
            header = _header(line, kind(place))
            count = len(read_table(place, Columns(header[0])).examples)
        facts = [f"A table of {count:,} rows; columns {', '.join(header)!s:.200}."]
    except (OSError, ValueError) as error:
        facts, problems = ["A table."], [str(error)]
    uses = [
        f"run_classifier.py --task_name=custom --train_file={place} --text_column=...",
        f"embed.py --input_file={place} --text_column=...",
    ]
    return Recognized(facts, uses, problems)


def _header(line: str, suffix: str) -> list[str]:
    """The columns that the first line of a table tells."""
    if suffix == ".jsonl":
        return list(parse_json(line))
    return line.split("\t") if suffix == ".tsv" else next(csv.reader([line]))


def _model(path: str) -> Recognized:
    from albert_tf.checkpoints import heads
    from albert_tf.checkpoints.formats import read_weights
    from albert_tf.checkpoints.model_dir import ModelDir

    folder = ModelDir.read(path)
    stored = read_weights(folder.checkpoint)
    found = sorted(heads.heads_of(stored.weights))
    count = sum(value.size for value in stored.weights.values())
    facts = [
        f"Weights {folder.checkpoint}, {stored.format.value}: {count:,} numbers.",
        f"Heads: {', '.join(found) or 'none'}.",
    ]
    problems = []
    if config := folder.config or stored.config:
        facts.append(
            f"{config.num_hidden_layers} layers of width {config.hidden_size}, rows of "
            f"at most {config.max_position_embeddings} tokens, {config.vocab_size:,} "
            "tokens in the vocabulary."
        )
    else:
        problems.append("There is no configuration beside it: --albert_config_file.")
    if folder.vocabulary is None:
        problems.append(
            "There is no vocabulary beside it: pass --spm_model_file or --vocab_file; "
            "an export has no signature `text` without."
        )
    else:
        facts.append(f"Vocabulary: {folder.vocabulary}.")
    task = folder.task_config
    uses = [f"export_saved_model.py --model={path} --export_dir=..."]
    if task is not None:
        facts.append(f"Trained for {task.task_name}, {task.kind}.")
        script = _SCRIPTS[task.kind]
        uses.insert(0, f"{script} --nodo_train --do_predict --init_checkpoint={path}")
    else:
        uses.insert(0, f"run_classifier.py --init_checkpoint={path}")
        uses.append(f"embed.py --model={path}")
    if heads.MASKED_LM in found:
        uses.append(f'fill_mask.py --model={path} "... [MASK] ..."')
    return Recognized(facts, uses, problems)
