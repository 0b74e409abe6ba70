"""Text of other documents, for pairs whose second segment comes from elsewhere."""

import itertools
from typing import NamedTuple

import numpy as np

from data_prep.corpus.tokenize import Text
from data_prep.corpus.tokenized_corpus import TokenizedCorpus

# A block draws its documents from so many segments at random: a segment holds hundreds
# of documents, and reading another one for each row would take most of the time.
_SEGMENTS = 4
_ATTEMPTS = 20


class _Candidate(NamedTuple):
    """A document, or its part in one segment: sentences `first` to `end`."""

    number: int
    corpus: TokenizedCorpus
    first: int
    end: int


class OtherDocuments:
    """Draws text of documents other than a given one of a block."""

    def __init__(
        self,
        text: Text,
        first_document: int,
        word_start_table: np.ndarray,
        rng: np.random.Generator,
    ):
        """Chooses where to draw from.

        Args:
          text: at least two documents.
          first_document: number in the text of the block's first document.
          word_start_table: bool [V], whether a piece starts a word.
          rng: the only source of randomness.
        """
        self._text = text
        self._first_document = first_document
        self._word_start_table = word_start_table
        # The number of each segment's last document, which the next one may share.
        following = text.first_documents[1:]
        self._first = text.first_documents[:-1]
        self._last = np.maximum(following - ~text.continues, self._first)
        self._candidates = self._choose_candidates(None, rng)
        self._for_document: dict[int, list[_Candidate]] = {}

    def draw(
        self, document: int, pieces: int, inside: bool, rng: np.random.Generator
    ) -> np.ndarray:
        """Text of another document, from a random sentence on.

        Args:
          document: counted from the block's first one.
          pieces: whole sentences are taken until there are so many, or to the
            document's end.
          inside: whether to start at a word inside the sentence, if it has several.
          rng: the only source of randomness.
        Returns:
          int32, at least one piece.
        """
        number = self._first_document + document
        corpus, first, end = self._choose(number, rng)[1:]
        sentence = int(rng.integers(first, end))
        offsets = corpus.sentence_offsets
        begin = offsets[sentence]
        if inside:
            ids = corpus.ids[begin + 1 : offsets[sentence + 1]]
            words = np.flatnonzero(self._word_start_table[ids])
            begin += 1 + rng.choice(words) if len(words) else 0
        reach = np.searchsorted(offsets, begin + pieces)
        return corpus.ids[begin : offsets[min(reach, end)]].astype(np.int32)

    def _choose(self, number: int, rng: np.random.Generator) -> _Candidate:
        for _ in range(_ATTEMPTS):
            candidate = self._candidates[rng.integers(len(self._candidates))]
            if candidate.number != number:
                return candidate
        # The segments chosen hold little else, as where a novel fills several.
        if number not in self._for_document:
            self._for_document[number] = self._choose_candidates(number, rng)
        candidates = self._for_document[number]
        return candidates[rng.integers(len(candidates))]

    def _choose_candidates(
        self, excluded: int | None, rng: np.random.Generator
    ) -> list[_Candidate]:
        """Documents of some segments, likelier of those with many; one is left out."""
        weights = self._last - self._first + 1
        if excluded is not None:
            weights = weights - ((self._first <= excluded) & (excluded <= self._last))
        places = rng.choice(len(weights), _SEGMENTS, p=weights / weights.sum())
        candidates = []
        for segment in np.unique(places):
            corpus = self._text.load(segment)
            bounds = itertools.pairwise(corpus.document_offsets.tolist())
            candidates.extend(
                _Candidate(number, corpus, *sentences)
                for number, sentences in enumerate(bounds, self._first[segment])
                if number != excluded
            )
        return candidates
