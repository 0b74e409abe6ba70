"""Text as ids: one flat array for all pieces, and where sentences and documents start.

Everything after tokenization works on such arrays: they are small (4 bytes a piece, so
about as large as the text), need no Python object for a piece, and their parts are
views, not copies.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from albert_tf.tokenization import AlbertTokenizer
from data_prep.corpus import Sentence
from data_prep.statistics import Statistics

_SENTENCES_PER_BATCH = 4096


@dataclass(frozen=True)
class TokenizedCorpus:
    """Text as ids: N pieces, in sentences, in documents.

    Attributes:
      ids: int32 [N].
      sentence_offsets: int64 [sentences + 1], where each sentence starts in `ids`, and
        N. No sentence is empty or longer than a row's text.
      document_offsets: int64 [documents + 1], index of each document's first sentence,
        and the number of sentences.
    """

    ids: np.ndarray
    sentence_offsets: np.ndarray
    document_offsets: np.ndarray

    def cut(self, pieces_per_block: int) -> list[tuple[int, int]]:
        """Half-open ranges of sentences: blocks of at most so many pieces each.

        A block holds whole documents; only a document that is longer than a block is
        cut, between sentences. A sentence longer than a block is a block.
        """
        document_starts = self.sentence_offsets[self.document_offsets]
        blocks, first, count = [], 0, len(self.sentence_offsets) - 1
        while first < count:
            limit = self.sentence_offsets[first] + pieces_per_block
            document = np.searchsorted(document_starts, limit, side="right") - 1
            end = int(self.document_offsets[document])
            if end <= first:
                sentence = np.searchsorted(self.sentence_offsets, limit, side="right")
                end = max(first + 1, int(sentence) - 1)
            blocks.append((first, end))
            first = end
        return blocks

    def block(self, first: int, end: int) -> "TokenizedCorpus":
        """The sentences of a range, as a corpus of its own."""
        offsets = self.sentence_offsets[first : end + 1]
        documents = np.unique(np.clip(self.document_offsets, first, end))
        return TokenizedCorpus(
            ids=self.ids[offsets[0] : offsets[-1]],
            sentence_offsets=offsets - offsets[0],
            document_offsets=documents - first,
        )


def tokenize_sentences(
    sentences: Iterable[Sentence],
    tokenizer: AlbertTokenizer,
    max_sentence_pieces: int,
    statistics: Statistics,
) -> TokenizedCorpus:
    """Encodes text, in batches.

    Args:
      sentences: in text order; a document is a run of one `file` and `line`.
      tokenizer: gives the ids.
      max_sentence_pieces: a longer sentence becomes several, cut before a word where
        that is possible, so that no text is lost to truncation later.
      statistics: documents, sentences, pieces and what was skipped are added to it.
    Raises:
      ValueError: no sentence has a piece.
    """
    ids, lengths, document_offsets = [np.zeros(0, np.int32)], [], []
    document = None
    sentences = iter(sentences)
    while batch := list(itertools.islice(sentences, _SENTENCES_PER_BATCH)):
        encoded = tokenizer.encode_batch([sentence.text for sentence in batch])
        ids.append(np.fromiter(itertools.chain.from_iterable(encoded), np.int32))
        for sentence, pieces in zip(batch, encoded, strict=True):
            if not pieces:
                statistics.skipped["sentences without a piece"] += 1
                continue
            if (sentence.file, sentence.line) != document:
                document = sentence.file, sentence.line
                document_offsets.append(len(lengths))
            statistics.sentences += 1
            if len(pieces) <= max_sentence_pieces:
                lengths.append(len(pieces))
            else:
                statistics.skipped["long sentences, cut"] += 1
                starts = tokenizer.word_start_table[pieces]
                lengths.extend(_cut_lengths(starts, max_sentence_pieces))
    if not lengths:
        raise ValueError("The input has no text that the vocabulary can represent.")
    corpus = TokenizedCorpus(
        ids=np.concatenate(ids),
        sentence_offsets=np.concatenate([[0], np.cumsum(lengths)]),
        document_offsets=np.array([*document_offsets, len(lengths)]),
    )
    statistics.documents += len(document_offsets)
    statistics.pieces += len(corpus.ids)
    statistics.unknown_pieces += int(np.sum(corpus.ids == tokenizer.unk_id))
    return corpus


def _cut_lengths(word_starts: np.ndarray, limit: int) -> list[int]:
    """Lengths of the parts of a sentence: as many whole words as fit into `limit`."""
    places = np.flatnonzero(word_starts)
    bounds = [0]
    while len(word_starts) - bounds[-1] > limit:
        furthest = bounds[-1] + limit
        word = places[np.searchsorted(places, furthest, side="right") - 1]
        bounds.append(int(word) if word > bounds[-1] else furthest)
    return np.diff([*bounds, len(word_starts)]).tolist()
