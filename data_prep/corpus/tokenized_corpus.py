"""Text as ids: flat arrays of pieces, and where sentences and documents start.

Everything after tokenization works on such arrays: they need no Python object for a
piece, and their parts are views, not copies. A long text is a row of segments of
bounded size, each a file, so that memory does not grow with it.
"""

import io
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.corpus.reader import Sentence
from data_prep.corpus.statistics import Statistics

_SENTENCES_PER_BATCH = 2048
PIECES_PER_SEGMENT = 1 << 19


@dataclass(frozen=True)
class TokenizedCorpus:
    """Text as ids: N pieces, in sentences, in documents.

    Attributes:
      ids: uint16 or int32 [N]; of a vocabulary's V pieces, or in [0, 2V) where words
        are found by a segmenter (segmenter.py).
      sentence_offsets: int64 [sentences + 1], where each sentence starts in `ids`, and
        N. No sentence is empty or longer than a row's text.
      document_offsets: int64 [documents + 1], index of each document's first sentence,
        and the number of sentences. In a segment, the first may go on with a document
        of the segment before.
    """

    ids: np.ndarray
    sentence_offsets: np.ndarray
    document_offsets: np.ndarray

    def block(self, first: int, end: int) -> "TokenizedCorpus":
        """The sentences of a range, as a corpus of its own, with int32 ids."""
        offsets = self.sentence_offsets[first : end + 1]
        documents = np.unique(np.clip(self.document_offsets, first, end))
        return TokenizedCorpus(
            ids=self.ids[offsets[0] : offsets[-1]].astype(np.int32),
            sentence_offsets=offsets - offsets[0],
            document_offsets=documents - first,
        )

    def save(self) -> bytes:
        """The arrays as bytes; the ids come last, so that offsets are read alone."""
        file = io.BytesIO()
        for array in (self.sentence_offsets, self.document_offsets, self.ids):
            np.save(file, array)
        return file.getvalue()


def load_corpus(path: str) -> TokenizedCorpus:
    """Reads what `TokenizedCorpus.save` gave."""
    with open(path, "rb") as file:
        sentences, documents, ids = (np.load(file) for _ in range(3))
    return TokenizedCorpus(ids, sentences, documents)


def load_offsets(path: str) -> tuple[np.ndarray, np.ndarray]:
    """The sentence and document offsets of a file that `load_corpus` reads."""
    with open(path, "rb") as file:
        return np.load(file), np.load(file)


def cut_blocks(
    sentence_offsets: np.ndarray,
    document_offsets: np.ndarray,
    pieces_per_row: int,
    rows_per_block: int,
) -> list[tuple[int, int]]:
    """Cuts a corpus into blocks that fill about so many rows, or fewer.

    A document fills a row at least, so a block of many short documents has few pieces.
    A block holds whole documents; only a document that fills more than a block is cut,
    between sentences. The end of such a one shares a block with the documents after.

    Args:
      sentence_offsets, document_offsets: see `TokenizedCorpus`.
      pieces_per_row: pieces of text in a full row.
      rows_per_block: at least 1.
    Returns:
      Half-open ranges of sentences.
    """
    starts = sentence_offsets[document_offsets]
    rows = np.concatenate([[0], np.cumsum(-(-np.diff(starts) // pieces_per_row))])
    blocks, first, count = [], 0, len(sentence_offsets) - 1
    while first < count:
        document = int(np.searchsorted(document_offsets, first, side="right"))
        left = int(starts[document] - sentence_offsets[first])
        rows_left = rows_per_block - -(-left // pieces_per_row)
        if rows_left < 0:
            reach = sentence_offsets[first] + rows_per_block * pieces_per_row
            sentence = np.searchsorted(sentence_offsets, reach, side="right")
            end = max(first + 1, int(sentence) - 1)
        else:
            # The furthest document whose end is within the rows that are left.
            reach = rows[document] + rows_left
            document = np.searchsorted(rows, reach, side="right") - 1
            end = int(document_offsets[document])
        blocks.append((first, end))
        first = end
    return blocks


@dataclass(frozen=True)
class Segment:
    """A piece of a long text.

    Attributes:
      corpus: its ids.
      continues: whether it begins inside a document, which the segment before holds.
    """

    corpus: TokenizedCorpus
    continues: bool

    @property
    def new_documents(self) -> int:
        """Documents that begin in the segment."""
        return len(self.corpus.document_offsets) - 1 - self.continues


def tokenize_sentences(
    sentences: Iterable[Sentence],
    tokenizer: AlbertTokenizer,
    max_sentence_pieces: int,
    statistics: Statistics,
    pieces_per_segment: int = PIECES_PER_SEGMENT,
) -> Iterator[Segment]:
    """Encodes text, in batches.

    Args:
      sentences: in text order; a document is a run of one `file` and `line`.
      tokenizer: gives the ids.
      max_sentence_pieces: a longer sentence becomes several, cut before a word where
        that is possible, so that no text is lost to truncation later.
      statistics: documents, sentences, pieces and what was skipped are added to it.
      pieces_per_segment: a segment ends with the batch that fills it.
    """
    builder = _SegmentBuilder(tokenizer, max_sentence_pieces, statistics)
    sentences = iter(sentences)
    while batch := list(itertools.islice(sentences, _SENTENCES_PER_BATCH)):
        builder.add(batch)
        if builder.pieces >= pieces_per_segment:
            yield builder.finish()
    if builder.pieces:
        yield builder.finish()


class _SegmentBuilder:
    def __init__(self, tokenizer, max_sentence_pieces: int, statistics: Statistics):
        self._tokenizer = tokenizer
        self._limit = max_sentence_pieces
        self._statistics = statistics
        # Not the vocabulary's size: see segmenter.py.
        kinds = len(tokenizer.word_start_table)
        self._dtype = np.uint16 if kinds <= 1 << 16 else np.int32
        self._document = None
        self._begin()

    def _begin(self):
        self.pieces = 0
        self._continues = False
        self._ids, self._lengths, self._documents = [], [], []

    def add(self, batch: list[Sentence]) -> None:
        encoded = self._tokenizer.encode_batch([sentence.text for sentence in batch])
        ids = np.fromiter(itertools.chain.from_iterable(encoded), self._dtype)
        self._ids.append(ids)
        self.pieces += len(ids)
        statistics = self._statistics
        statistics.pieces += len(ids)
        is_unknown = ids % self._tokenizer.vocab_size == self._tokenizer.unk_id
        statistics.unknown_pieces += int(np.count_nonzero(is_unknown))
        for sentence, pieces in zip(batch, encoded, strict=True):
            if not pieces:
                statistics.skipped["sentences without a piece"] += 1
                continue
            self._note_document((sentence.file, sentence.line))
            statistics.sentences += 1
            if len(pieces) <= self._limit:
                self._lengths.append(len(pieces))
            else:
                statistics.skipped["long sentences, cut"] += 1
                starts = self._tokenizer.word_start_table[pieces]
                self._lengths.extend(_cut_lengths(starts, self._limit))

    def _note_document(self, document: tuple[str, int]) -> None:
        is_new = document != self._document
        if is_new or not self._lengths:
            self._documents.append(len(self._lengths))
            self._continues = self._continues or not is_new
            self._statistics.documents += is_new
        self._document = document

    def finish(self) -> Segment:
        corpus = TokenizedCorpus(
            ids=np.concatenate(self._ids),
            sentence_offsets=np.concatenate([[0], np.cumsum(self._lengths)]),
            document_offsets=np.array([*self._documents, len(self._lengths)]),
        )
        segment = Segment(corpus, self._continues)
        self._begin()
        return segment


def _cut_lengths(word_starts: np.ndarray, limit: int) -> list[int]:
    """Lengths of the parts of a sentence: as many whole words as fit into `limit`."""
    places = np.flatnonzero(word_starts)
    bounds = [0]
    while len(word_starts) - bounds[-1] > limit:
        furthest = bounds[-1] + limit
        word = places[np.searchsorted(places, furthest, side="right") - 1]
        bounds.append(int(word) if word > bounds[-1] else furthest)
    return np.diff([*bounds, len(word_starts)]).tolist()
