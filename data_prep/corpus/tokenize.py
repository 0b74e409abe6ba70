"""Tokenizes input files into segments in a work folder, with several processes.

    files.divide             files -> groups of parts of about equal size
    encode_group             a group -> segments in the folder (work_folder.py)
    prepare_text             all groups -> a TokenizedText

A group that the folder holds already is not made again, neither by a run that continues
a killed one nor by a run on another machine that shares the folder.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from albert_tf.files import digest
from data_prep.corpus.files import (
    FileSnapshot,
    Part,
    check_unchanged,
    divide,
    part_bytes,
)
from data_prep.corpus.reader import ReadingConfig, no_sentence_error, read_parts
from data_prep.corpus.segmenter import SEGMENTERS, RowTokenizer
from data_prep.corpus.statistics import Statistics
from data_prep.corpus.tokenized_corpus import (
    WITHOUT_TOKEN,
    Segment,
    TokenizedText,
    tokenize_sentences,
)
from data_prep.corpus.work_folder import read_group, read_groups, write_group
from data_prep.parallel import Call, Executor


@dataclass(frozen=True)
class TextConfig(ReadingConfig):
    """Configuration of reading and tokenizing text; flags of the same names set it.

    The attributes of `ReadingConfig` are first.

    Attributes:
      chinese_segmenter: finder of words of several Chinese characters, so that these
        are masked together. none: each character is a word. jieba: the library of that
        name (pip install --editable '.[jieba]').
    """

    chinese_segmenter: str = field(default="none", metadata={"choices": SEGMENTERS})

    def __post_init__(self):
        super().__post_init__()
        if self.chinese_segmenter not in SEGMENTERS:
            raise ValueError(
                f"chinese_segmenter must be one of {', '.join(SEGMENTERS)}. "
                f"Received {self.chinese_segmenter!r}."
            )


@dataclass(frozen=True)
class Encoder:
    """Values that a process needs to encode text; see `tokenize_sentences`.

    Attributes:
      tokenizer: turns text into ids.
      config: how files are read.
      max_sentence_tokens: longer sentences are cut.
      folder: the work folder.
    """

    tokenizer: RowTokenizer
    config: TextConfig
    max_sentence_tokens: int
    folder: str

    def text_identity(self, files: Sequence[FileSnapshot]) -> dict[str, Any]:
        """Returns the JSON values that tell a tokenized text from another one."""
        return {
            "files": [
                [file.size, file.modified, *([file.version] if file.version else [])]
                for file in files
            ],
            **asdict(self.config),
            **self.tokenizer.metadata(),
            "max_sentence_pieces": self.max_sentence_tokens,
            # Of the segments' files, which say where sentences were cut.
            "format": 2,
        }


def prepare_text(
    files: Sequence[FileSnapshot],
    encoder: Encoder,
    workers: Executor,
    progress: Callable[[int], object],
    own_share: tuple[float, float] = (0.0, 1.0),
) -> TokenizedText:
    """Encodes the input, except for groups that the folder holds already.

    Args:
      files: the input.
      encoder: shared with the workers; `work_folder.hold_folder` holds its folder.
      workers: the processes that encode.
      progress: called with bytes of input that are done.
      own_share: half-open range of the text, from 0 to 1, to begin with. Machines that
        share the folder begin with different ones. The rest comes in random order, so
        that machines which help a slower one take different groups.
    Raises:
      ValueError: bad text, or none.
      OSError: a file cannot be read or has changed; the folder cannot be written.
    """
    groups = divide(files, encoder.config.input_format)
    first, end = (int(share * len(groups)) for share in own_share)
    rest = [*range(first), *range(end, len(groups))]
    random.Random(first).shuffle(rest)
    order = iter([*range(first, end), *rest])

    def next_call() -> Call | None:
        for number in order:
            size = part_bytes(groups[number])
            if read_group(encoder.folder, number) is not None:
                progress(size)
                continue
            return Call(encode_group, (number, groups[number]), size)
        return None

    workers.share(encoder)
    workers.run(next_call, lambda call, _: progress(call.note))
    check_unchanged(files)
    return _gather(encoder, groups)


def encode_group(encoder: Encoder, number: int, parts: Sequence[Part]) -> None:
    """Encodes a group of parts and writes its segments, then their list."""
    statistics = Statistics()
    segments = encode_parts(encoder, parts, statistics)
    write_group(encoder.folder, number, segments, statistics)


def encode_parts(
    encoder: Encoder,
    parts: Sequence[Part],
    statistics: Statistics,
    progress: Callable[[int], object] | None = None,
) -> Iterator[Segment]:
    """Yields the segments of parts of files; counts are added to `statistics`."""
    sentences = read_parts(parts, encoder.config, statistics.skipped, progress)
    return tokenize_sentences(
        sentences, encoder.tokenizer, encoder.max_sentence_tokens, statistics
    )


def check_text(statistics: Statistics, config: ReadingConfig) -> None:
    """Raises ValueError if a text holds no token."""
    if not statistics.pieces:
        if statistics.skipped[WITHOUT_TOKEN]:
            raise ValueError("The input has no text that the vocabulary can represent.")
        raise no_sentence_error(config.input_format)


def _gather(encoder: Encoder, groups: Sequence[Sequence[Part]]) -> TokenizedText:
    """Joins the lists of all groups."""
    statistics = Statistics()
    segments: list[dict[str, Any]] = []
    last_file = None
    found = read_groups(encoder.folder, range(len(groups)))
    for group, parts in zip(found, groups, strict=True):
        if group is None:
            raise OSError(
                f"Files in {encoder.folder} vanished or changed: start again."
            )
        statistics.merge(Statistics.from_dict(group["statistics"]))
        group_segments = group["segments"]
        if not group_segments:
            continue
        # A raw file is one document, however many parts it is read in.
        if encoder.config.input_format == "raw" and parts[0].path == last_file:
            group_segments[0]["continues"] = True
            group_segments[0]["new_documents"] -= 1
            statistics.documents -= 1
        last_file = parts[-1].path
        segments.extend(group_segments)
    check_text(statistics, encoder.config)
    new = np.array([segment["new_documents"] for segment in segments])
    continues = np.array([segment["continues"] for segment in segments])
    before = np.cumsum(new) - new - continues
    return TokenizedText(
        folder=encoder.folder,
        names=tuple(segment["name"] for segment in segments),
        tokens=np.array([segment["pieces"] for segment in segments]),
        first_documents=np.append(before, new.sum()),
        continues=np.append(continues[1:], False),
        statistics=statistics,
        sha256=digest("".join(segment["sha256"] for segment in segments).encode()),
    )
