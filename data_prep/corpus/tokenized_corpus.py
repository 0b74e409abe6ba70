"""Text as flat arrays of ids, with the offsets of sentences and documents.

All steps after tokenization work on such arrays: they need no Python object for each
token, and their parts are views, not copies. A long text is cut into segments of
bounded size, each a file, so that memory does not grow with the text.
"""

import io
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from upath import UPath

from albert_tf.storage import PathLike, as_path
from data_prep.corpus.files import open_bytes
from data_prep.corpus.reader import Sentence
from data_prep.corpus.segmenter import RowTokenizer
from data_prep.corpus.statistics import Statistics

_SENTENCES_PER_BATCH = 2048
TOKENS_PER_SEGMENT = 1 << 19
# Bytes of a segment that hold the offsets, about.
_BYTES_OF_OFFSETS = 1 << 18

# Reasons that `tokenize_sentences` counts, as a report prints them.
WITHOUT_TOKEN = "sentences without a piece"
LONG_SENTENCE = "long sentences, cut"


@dataclass(frozen=True)
class TokenizedCorpus:
    """Text as ids: N tokens, in sentences, in documents.

    Attributes:
      ids: uint16 or int32 [N]; in [0, V) with a vocabulary of V tokens, or in [0, 2V)
        if a segmenter finds words (segmenter.py).
      sentence_offsets: int64 [sentences + 1], the start of each sentence in `ids`, then
        N. No sentence is empty or longer than the text of a row: longer ones are cut.
      document_offsets: int64 [documents + 1], index of each document's first sentence,
        then the number of sentences. The first document of a segment may continue one
        of the segment before.
      is_cut: bool [sentences + 1], True where the offset is inside a sentence that was
        cut.
    """

    ids: np.ndarray
    sentence_offsets: np.ndarray
    document_offsets: np.ndarray
    is_cut: np.ndarray

    def block(self, first: int, end: int) -> "TokenizedCorpus":
        """Returns a range of sentences as a corpus with int32 ids."""
        offsets = self.sentence_offsets[first : end + 1]
        documents = np.unique(np.clip(self.document_offsets, first, end))
        return TokenizedCorpus(
            ids=self.ids[offsets[0] : offsets[-1]].astype(np.int32),
            sentence_offsets=offsets - offsets[0],
            document_offsets=documents - first,
            is_cut=self.is_cut[first : end + 1],
        )

    def to_bytes(self) -> bytes:
        """Returns the arrays as bytes, ids last so that offsets can be read alone."""
        file = io.BytesIO()
        offsets = self.sentence_offsets, self.document_offsets
        for array in (*offsets, self.is_cut, self.ids):
            np.save(file, array)
        return file.getvalue()


def load_corpus(path: PathLike) -> TokenizedCorpus:
    """Reads a file of `TokenizedCorpus.to_bytes`."""
    place = as_path(path)
    is_remote = isinstance(place, UPath)
    with io.BytesIO(place.read_bytes()) if is_remote else place.open("rb") as file:
        sentences, documents, is_cut, ids = (np.load(file) for _ in range(4))
    return TokenizedCorpus(ids, sentences, documents, is_cut)


def load_offsets(path: PathLike) -> tuple[np.ndarray, np.ndarray]:
    """Reads only the sentence and document offsets of such a file."""
    with open_bytes(path, _BYTES_OF_OFFSETS) as file:
        return np.load(file), np.load(file)


def cut_blocks(
    sentence_offsets: np.ndarray,
    document_offsets: np.ndarray,
    tokens_per_row: int,
    rows_per_block: int,
) -> list[tuple[int, int]]:
    """Cuts a corpus into blocks that fill about `rows_per_block` rows, or fewer.

    Each document fills at least one row, so a block of many short documents has few
    tokens. A block holds whole documents; only a document that fills more than a block
    is cut, between sentences. Its end shares a block with the documents after it.

    Args:
      sentence_offsets, document_offsets: see `TokenizedCorpus`.
      tokens_per_row: tokens of text in a full row.
      rows_per_block: at least 1.
    Returns:
      Half-open ranges of sentences.
    """
    starts = sentence_offsets[document_offsets]
    rows = np.concatenate([[0], np.cumsum(-(-np.diff(starts) // tokens_per_row))])
    blocks, first, count = [], 0, len(sentence_offsets) - 1
    while first < count:
        document = int(np.searchsorted(document_offsets, first, side="right"))
        left = int(starts[document] - sentence_offsets[first])
        rows_left = rows_per_block - -(-left // tokens_per_row)
        if rows_left < 0:
            reach = sentence_offsets[first] + rows_per_block * tokens_per_row
            sentence = np.searchsorted(sentence_offsets, reach, side="right")
            end = max(first + 1, int(sentence) - 1)
        else:
            # The last document that ends within the remaining rows.
            reach = rows[document] + rows_left
            document = np.searchsorted(rows, reach, side="right") - 1
            end = int(document_offsets[document])
        blocks.append((first, end))
        first = end
    return blocks


@dataclass(frozen=True)
class TokenizedText:
    """A long tokenized text: segments in a folder.

    Attributes:
      folder: the folder of their files.
      names: the segments' files, in text order.
      tokens: int64 [segments], tokens of each segment.
      first_documents: int64 [segments + 1], number of the document with which each
        segment begins, then the number of documents.
      continues: bool [segments], whether the segment after each begins inside a
        document; False for the last.
      statistics: of the whole text.
      sha256: digest of the ids and offsets.
    """

    folder: str
    names: tuple[str, ...]
    tokens: np.ndarray
    first_documents: np.ndarray
    continues: np.ndarray
    statistics: Statistics
    sha256: str

    def load(self, segment: int) -> TokenizedCorpus:
        """Reads a segment."""
        return load_corpus(self.path(segment))

    def path(self, segment: int) -> str:
        """Returns the file of a segment."""
        return f"{self.folder}/{self.names[segment]}"


@dataclass(frozen=True)
class Segment:
    """One part of a long text.

    Attributes:
      corpus: its text.
      continues: whether it begins inside a document of the segment before.
    """

    corpus: TokenizedCorpus
    continues: bool

    @property
    def new_documents(self) -> int:
        """Number of documents that begin in the segment."""
        return len(self.corpus.document_offsets) - 1 - self.continues


def tokenize_sentences(
    sentences: Iterable[Sentence],
    tokenizer: RowTokenizer,
    max_sentence_tokens: int,
    statistics: Statistics,
    tokens_per_segment: int = TOKENS_PER_SEGMENT,
) -> Iterator[Segment]:
    """Encodes text in batches and yields it in segments.

    Args:
      sentences: in text order; sentences of one document have equal `file` and `line`.
      tokenizer: turns text into ids.
      max_sentence_tokens: a longer sentence is cut into several, before a word if
        possible, so that truncation loses no text later.
      statistics: documents, sentences, tokens and skipped text are added to it.
      tokens_per_segment: a segment ends with the batch that fills it.
    """
    builder = _SegmentBuilder(tokenizer, max_sentence_tokens, statistics)
    sentences = iter(sentences)
    while batch := list(itertools.islice(sentences, _SENTENCES_PER_BATCH)):
        builder.add(batch)
        if builder.tokens >= tokens_per_segment:
            yield builder.finish()
    if builder.tokens:
        yield builder.finish()


class _SegmentBuilder:
    """Gathers encoded sentences until they are a segment."""

    def __init__(
        self, tokenizer: RowTokenizer, max_sentence_tokens: int, statistics: Statistics
    ):
        self._tokenizer = tokenizer
        self._limit = max_sentence_tokens
        self._statistics = statistics
        # Not the vocabulary's size: see segmenter.py.
        kinds = len(tokenizer.word_start_table)
        self._dtype = np.uint16 if kinds <= 1 << 16 else np.int32
        self._document: tuple[str, int] | None = None
        self._begin()

    def _begin(self) -> None:
        self.tokens = 0
        self._continues = False
        self._ids: list[np.ndarray] = []
        self._lengths: list[int] = []
        self._is_cut: list[bool] = []
        self._documents: list[int] = []

    def add(self, batch: list[Sentence]) -> None:
        """Encodes sentences and adds them to the segment."""
        encoded = self._tokenizer.encode_batch([sentence.text for sentence in batch])
        ids = np.fromiter(itertools.chain.from_iterable(encoded), self._dtype)
        self._ids.append(ids)
        self.tokens += len(ids)
        statistics = self._statistics
        statistics.pieces += len(ids)
        is_unknown = ids % self._tokenizer.vocab_size == self._tokenizer.unk_id
        statistics.unknown_pieces += int(np.count_nonzero(is_unknown))
        for sentence, sentence_ids in zip(batch, encoded, strict=True):
            if not sentence_ids:
                statistics.skipped[WITHOUT_TOKEN] += 1
                continue
            self._note_document((sentence.file, sentence.line))
            statistics.sentences += 1
            lengths = [len(sentence_ids)]
            if len(sentence_ids) > self._limit:
                statistics.skipped[LONG_SENTENCE] += 1
                starts = self._tokenizer.word_start_table[sentence_ids]
                lengths = _cut_lengths(starts, self._limit)
            self._lengths.extend(lengths)
            self._is_cut.extend(number > 0 for number in range(len(lengths)))

    def _note_document(self, document: tuple[str, int]) -> None:
        is_new = document != self._document
        if is_new or not self._lengths:
            self._documents.append(len(self._lengths))
            self._continues = self._continues or not is_new
            self._statistics.documents += is_new
        self._document = document

    def finish(self) -> Segment:
        """Returns the segment and begins the next one."""
        corpus = TokenizedCorpus(
            ids=np.concatenate(self._ids),
            sentence_offsets=np.concatenate([[0], np.cumsum(self._lengths)]),
            document_offsets=np.array([*self._documents, len(self._lengths)]),
            is_cut=np.array([*self._is_cut, False]),
        )
        segment = Segment(corpus, self._continues)
        self._begin()
        return segment


def _cut_lengths(word_starts: np.ndarray, limit: int) -> list[int]:
    """Cuts a sentence into parts of as many whole words as fit into `limit` tokens.

    Returns:
      The lengths of the parts.
    """
    places = np.flatnonzero(word_starts)
    bounds = [0]
    while len(word_starts) - bounds[-1] > limit:
        furthest = bounds[-1] + limit
        word = places[np.searchsorted(places, furthest, side="right") - 1]
        bounds.append(int(word) if word > bounds[-1] else furthest)
    return np.diff([*bounds, len(word_starts)]).tolist()
