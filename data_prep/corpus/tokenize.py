"""Input files -> tokenized segments in a work folder, made by several processes.

    parts.divide            files -> groups of parts of about equal size
    encode_group            a group -> segments (store.py), each a file, and their list
    prepare_text            all groups -> a Text

The list of a group (`text-00012.json`) is written last, so a group that has one is
whole, and is not made again by a run that starts where another was killed, nor by one
on another machine that shares the folder.
"""

import contextlib
import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from albert_tf.files import digest, read_json, share_lock, try_lock, write_shared
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.corpus.files import Part
from data_prep.corpus.input_splits import InputFile, check_unchanged, divide
from data_prep.corpus.reader import check_options, no_sentence_error, read_parts
from data_prep.corpus.segmenter import SEGMENTERS, SegmentingTokenizer
from data_prep.corpus.statistics import Statistics
from data_prep.corpus.tokenized_corpus import (
    Segment,
    TokenizedCorpus,
    load_corpus,
    tokenize_sentences,
)
from data_prep.parallel import Task, Workers

_SETTINGS = "settings.json"


@dataclass(frozen=True)
class TextConfig:
    """How input files are read; see `corpus.read_sentences`, and `segmenter.py`."""

    input_format: str = "lines"
    on_bad_text: str = "error"
    language: str = "en"
    chinese_segmenter: str = "none"

    def __post_init__(self):
        check_options(*self.reading().values())
        if self.chinese_segmenter not in SEGMENTERS:
            raise ValueError(
                f"chinese_segmenter must be one of {', '.join(SEGMENTERS)}. "
                f"Received {self.chinese_segmenter!r}."
            )

    def reading(self) -> dict[str, str]:
        """The options of `corpus.read_parts`."""
        names = ("input_format", "on_bad_text", "language")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Encoder:
    """What a process needs to encode text; see `tokenize_sentences`."""

    tokenizer: AlbertTokenizer | SegmentingTokenizer
    config: TextConfig
    max_sentence_pieces: int
    folder: str


@dataclass(frozen=True)
class Text:
    """A tokenized text: segments in a folder.

    Attributes:
      folder: where they lie.
      names: the segments' files, in text order.
      pieces: pieces in each segment, int64.
      first_documents: int64 [segments + 1], number of the document with which each
        segment begins, and how many documents there are.
      continues: bool [segments], whether the segment after each begins inside a
        document; False for the last.
      statistics: of the whole text.
      sha256: of the ids and of where sentences and documents start.
    """

    folder: str
    names: tuple[str, ...]
    pieces: np.ndarray
    first_documents: np.ndarray
    continues: np.ndarray
    statistics: Statistics
    sha256: str

    def load(self, segment: int) -> TokenizedCorpus:
        """Reads a segment."""
        return load_corpus(self.path(segment))

    def path(self, segment: int) -> str:
        """The file of a segment."""
        return os.path.join(self.folder, self.names[segment])


@contextlib.contextmanager
def text_folder(
    folder: str, files: Sequence[InputFile], encoder: Encoder
) -> Iterator[None]:
    """Holds a folder for a text, together with other runs of the same text.

    What an ended run of another text left in it is removed.

    Raises:
      OSError: a run of another text goes on in it, or may do so.
    """
    settings = {
        "files": [[file.size, file.modified] for file in files],
        **asdict(encoder.config),
        **encoder.tokenizer.metadata(),
        "max_sentence_pieces": encoder.max_sentence_pieces,
    }
    with open(os.path.join(folder, "lock"), "a") as lock:
        alone = try_lock(lock)
        if alone is False:
            # Waits for a run that is just setting it up.
            share_lock(lock)
        noted = _read_if_whole(os.path.join(folder, _SETTINGS)) or {}
        differing = [key for key in settings if noted.get(key) != settings[key]]
        if noted and differing and not alone:
            raise OSError(
                f"{folder} is in use by a run whose {differing[0]} differs: let it "
                "end, or name another --output_file or --work_dir."
            )
        if differing:
            _clear(folder)
            write_shared(os.path.join(folder, _SETTINGS), json.dumps(settings).encode())
        share_lock(lock)
        yield


def discard_folder(folder: str) -> None:
    """Removes a folder of `text_folder`, unless another run holds it."""
    with (
        contextlib.suppress(FileNotFoundError),
        open(os.path.join(folder, "lock"), "a") as lock,
    ):
        if try_lock(lock) is not False:
            shutil.rmtree(folder, ignore_errors=True)


def prepare_text(
    files: Sequence[InputFile],
    encoder: Encoder,
    workers: Workers,
    progress: Callable[[int], object],
    start_at: float = 0.0,
) -> Text:
    """Encodes the input, but for what the folder holds already.

    Args:
      files: the input.
      encoder: shared with the workers; its folder is held by `text_folder`.
      workers: the processes that do it.
      progress: called with bytes of input that are done.
      start_at: share of the text, from 0 to 1, at which to start. Machines that share
        the folder start at different places, so that each finds the others' work done.
    Raises:
      ValueError: bad text, or none.
      OSError: a file cannot be read or changed meanwhile; the folder cannot be
        written.
    """
    groups = divide(files, encoder.config.input_format)
    first = int(start_at * len(groups))
    order = itertools.chain(range(first, len(groups)), range(first))

    def next_task():
        for number in order:
            size = sum(part.end - part.start for part in groups[number])
            if _is_encoded(encoder.folder, number):
                progress(size)
                continue
            return Task(encode_group, (number, groups[number]), size)
        return None

    workers.share(encoder)
    workers.run(next_task, lambda task, _: progress(task.note))
    check_unchanged(files)
    return _gather(encoder, groups)


def encode_group(encoder: Encoder, number: int, parts: Sequence[Part]) -> None:
    """Encodes parts of files and writes their segments, then their list."""
    statistics = Statistics()
    segments = []
    for index, segment in enumerate(encode_parts(encoder, parts, statistics)):
        content = segment.corpus.save()
        name = f"text-{number:05d}-{index:05d}.npy"
        write_shared(os.path.join(encoder.folder, name), content)
        segments.append(
            {
                "name": name,
                "bytes": len(content),
                "sha256": digest(content),
                "pieces": len(segment.corpus.ids),
                "new_documents": segment.new_documents,
                "continues": segment.continues,
            }
        )
    group = {"segments": segments, "statistics": statistics.as_dict()}
    path = os.path.join(encoder.folder, _list_name(number))
    write_shared(path, json.dumps(group).encode())


def encode_parts(
    encoder: Encoder,
    parts: Sequence[Part],
    statistics: Statistics,
    progress: Callable[[int], object] | None = None,
) -> Iterator[Segment]:
    """Yields the segments of parts of files; numbers are added to `statistics`."""
    sentences = read_parts(
        parts, **encoder.config.reading(), counts=statistics.skipped, progress=progress
    )
    return tokenize_sentences(
        sentences, encoder.tokenizer, encoder.max_sentence_pieces, statistics
    )


def check_text(text_statistics: Statistics, config: TextConfig) -> None:
    """Raises ValueError for a text without a piece."""
    if not text_statistics.pieces:
        if text_statistics.skipped["sentences without a piece"]:
            raise ValueError("The input has no text that the vocabulary can represent.")
        raise no_sentence_error(config.input_format)


def _is_encoded(folder: str, number: int) -> bool:
    group = _read_if_whole(os.path.join(folder, _list_name(number)))
    return group is not None and all(
        _size(os.path.join(folder, segment["name"])) == segment["bytes"]
        for segment in group["segments"]
    )


def _gather(encoder: Encoder, groups: Sequence[Sequence[Part]]) -> Text:
    """Joins the lists of all groups."""
    statistics = Statistics()
    segments: list[dict[str, Any]] = []
    last_file = None
    for number, parts in enumerate(groups):
        group = _read_if_whole(os.path.join(encoder.folder, _list_name(number)))
        statistics.merge(Statistics.from_dict(group["statistics"]))
        found = group["segments"]
        # A raw file is one document, however many parts it is read in.
        is_one = encoder.config.input_format == "raw" and parts[0].path == last_file
        if found and is_one:
            found[0]["continues"] = True
            found[0]["new_documents"] -= 1
            statistics.documents -= 1
        if found:
            last_file = parts[-1].path
        segments.extend(found)
    check_text(statistics, encoder.config)
    new = np.array([segment["new_documents"] for segment in segments])
    continues = np.array([segment["continues"] for segment in segments])
    before = np.cumsum(new) - new - continues
    return Text(
        folder=encoder.folder,
        names=tuple(segment["name"] for segment in segments),
        pieces=np.array([segment["pieces"] for segment in segments]),
        first_documents=np.append(before, new.sum()),
        continues=np.append(continues[1:], False),
        statistics=statistics,
        sha256=digest("".join(segment["sha256"] for segment in segments).encode()),
    )


def _clear(folder: str) -> None:
    for entry in list(os.scandir(folder)):
        if entry.is_dir():
            shutil.rmtree(entry.path)
        elif entry.name != "lock":
            os.unlink(entry.path)


def _list_name(number: int) -> str:
    return f"text-{number:05d}.json"


def _read_if_whole(path: str) -> dict | None:
    """Reads a file that a power failure may have spoiled; None: make it again."""
    try:
        return read_json(path)
    except (FileNotFoundError, ValueError):
        return None


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return -1
