"""Rows of all blocks -> shuffled record files."""

import itertools
import os
import tempfile
from collections.abc import Iterator, Sequence

import numpy as np
from tqdm import tqdm

from albert_tf import records
from albert_tf.tokenization import AlbertTokenizer
from data_prep.pretraining import (
    ASSIGNMENT,
    ROWS,
    SHUFFLE,
    PretrainingDataConfig,
    make_rows,
)
from data_prep.statistics import Statistics
from data_prep.store import TokenizedCorpus

# Blocks this long fill about a hundred rows of 512 pieces: enough for numpy to work on
# many rows at once, few enough to stay in the processor's caches.
_PIECES_PER_BLOCK = 1 << 16


def expand_outputs(outputs: str) -> list[str]:
    """Turns a comma list into the files to write, and proves that they can be written.

    It is called before the work starts, which may take hours.

    Raises:
      ValueError: no file is named, or one twice, or a folder.
      OSError: a folder cannot be made or written.
    """
    paths = [path.strip() for path in outputs.split(",") if path.strip()]
    if not paths or len({os.path.abspath(path) for path in paths}) < len(paths):
        raise ValueError(
            "The output files must be named, separated by commas, each once. "
            f"Received {outputs!r}."
        )
    for path in paths:
        if os.path.isdir(path):
            raise ValueError(f"{path} is a folder: name a file to write in it.")
        _check_writable(os.path.dirname(path) or ".")
    return paths


def _check_writable(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
        # Permission bits do not tell everything (read-only disks): try.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(
            f"The output folder {folder} cannot be made or written "
            f"({error.strerror}): choose another --output_file."
        ) from error


def write_record_files(
    corpus: TokenizedCorpus,
    tokenizer: AlbertTokenizer,
    config: PretrainingDataConfig,
    paths: Sequence[str],
) -> Statistics:
    """Makes all rows and writes them, shuffled, to record files.

    Which blocks go to which file is a random but even deal. A file's rows are held in
    memory until they are shuffled.

    Args:
      corpus: the text.
      tokenizer: the vocabulary that the text was encoded with.
      config: settings; they go into the files' sidecars, with the vocabulary's.
      paths: files to write.
    Returns:
      Statistics of the rows.
    Raises:
      ValueError: the text is too short to give each file a row.
      OSError: a file cannot be written.
    """
    # Short text gets smaller blocks, so that there are some for each file.
    pieces_per_file = len(corpus.ids) * config.dupe_factor // len(paths)
    blocks = corpus.cut(min(_PIECES_PER_BLOCK, max(1, pieces_per_file // 2)))
    parts = list(itertools.product(range(len(blocks)), range(config.dupe_factor)))
    if len(parts) < len(paths):
        raise ValueError(
            f"The text is too short for {len(paths)} output files: name at most "
            f"{len(parts)}."
        )
    dealt = config.rng(ASSIGNMENT).permutation(len(parts))
    total = Statistics()
    with tqdm(total=len(parts), unit="block", desc="rows", disable=None) as progress:
        for index, path in enumerate(paths):
            statistics = Statistics()
            made = []
            for part in dealt[index :: len(paths)]:
                block, duplicate = parts[part]
                rng = config.rng(ROWS, block, duplicate)
                text = corpus.block(*blocks[block])
                made.append(make_rows(text, tokenizer, config, rng, statistics))
                progress.update()
            _write_file(path, made, tokenizer, config, index, statistics)
            total.merge(statistics)
    return total


def _write_file(
    path: str,
    made: list[dict[str, np.ndarray]],
    tokenizer: AlbertTokenizer,
    config: PretrainingDataConfig,
    index: int,
    statistics: Statistics,
) -> None:
    if not statistics.rows:
        raise ValueError(
            f"No row for {path}: every document is a single word or there are more "
            "files than rows. Give longer text or fewer files."
        )
    features = records.pretraining_features(
        config.max_seq_length, config.masking.max_predictions_per_seq
    )
    order = config.rng(SHUFFLE, index).permutation(statistics.rows)
    metadata = {
        **tokenizer.metadata(),
        **config.settings(),
        "statistics": {k: v for k, v in statistics.as_dict().items() if v},
    }
    records.write_records(path, _shuffled(made, order), features, metadata)


def _shuffled(
    made: list[dict[str, np.ndarray]], order: np.ndarray
) -> Iterator[dict[str, np.ndarray]]:
    """Yields the rows of several blocks in the given order of all of them."""
    columns = {
        name: np.concatenate([block[name] for block in made]) for name in made[0]
    }
    for row in order:
        yield {name: values[row] for name, values in columns.items()}
