"""Corpus -> SentencePiece vocabulary, by the paper's recipe (sections 3.1 and 4.1).

A unigram model of 30,000 pieces whose first ids are <pad>, <unk>, [CLS], [SEP] and
[MASK], then the symbols `( ) " - . – £ €`, each a piece of its own. Everything else
(normaliser nmt_nfkc, character coverage 0.99995, pieces of at most 16 characters that
do not cross words, scripts or digits) is as in the released English vocabulary.

Differences from how the released one was trained:

- Text is cleaned by the tokenizer's own `normalize`, so that the vocabulary fits what
  the tokenizer sees.
- The sample of sentences is drawn here, from a seed, in one pass; SentencePiece's own
  sampling is off. The same text and settings give the same bytes, on any number of
  cores: the number of threads is fixed, since sums of floats depend on it.
- No sentence is dropped for its length: corpus.py has cut long ones.

SentencePiece holds the sample in memory, 25 bytes a character measured on English
novels: 3.6 GB, and a minute, for the default million sentences.
"""

import functools
import io
import itertools
import math
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sentencepiece
from tqdm import tqdm

from albert_tf.files import write_whole
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.corpus.reader import LOSSES

CONTROL_SYMBOLS = ("[CLS]", "[SEP]", "[MASK]")
PUNCTUATION_SYMBOLS = ("(", ")", '"', "-", ".", "–", "£", "€")
RESERVED_PIECES = ("<pad>", "<unk>", *CONTROL_SYMBOLS)

# Of the text this share may be lost, in bad lines and sentences that cleaning empties.
MAX_LOST_SHARE = 0.05
VANISHED = "sentences that cleaning leaves empty"

# SentencePiece skips a whole sentence that holds the sign it marks unknowns with.
_UNKNOWN_MARK = "\u2585"

# More threads than cores do no harm; another number gives other bytes.
_THREADS = 16

# Bytes. Above any sentence that corpus.py yields, even where cleaning lengthens it.
_MAX_SENTENCE_BYTES = 1 << 20


@dataclass(frozen=True)
class VocabularyConfig:
    """How to train a vocabulary.

    Attributes:
      vocab_size: pieces, the reserved ones and all symbols included.
      lower_case, strip_accents: how the tokenizer cleans text.
      character_coverage: share of the text's characters that must be in the vocabulary;
        the rarest others become <unk>.
      sample_sentences: train on at most this many sentences, drawn from all.
      random_seed: draws them.
      extra_symbols: further strings that are each one piece wherever they appear.
    """

    vocab_size: int = 30_000
    lower_case: bool = True
    strip_accents: bool = True
    character_coverage: float = 0.99995
    sample_sentences: int = 1_000_000
    random_seed: int = 12345
    extra_symbols: tuple[str, ...] = ()

    def __post_init__(self):
        smallest = len(RESERVED_PIECES) + len(self.symbols) + 1
        if self.vocab_size < smallest:
            raise ValueError(
                f"vocab_size must be at least {smallest}, for the reserved pieces and "
                f"symbols. Received {self.vocab_size}."
            )
        if not 0.9 <= self.character_coverage <= 1:
            raise ValueError(
                "character_coverage must be a share from 0.9 to 1. Received "
                f"{self.character_coverage}."
            )
        if self.sample_sentences < 1:
            raise ValueError(
                f"sample_sentences must be positive. Received {self.sample_sentences}."
            )
        if self.random_seed < 0:
            raise ValueError(
                f"random_seed must not be negative. Received {self.random_seed}."
            )
        for symbol in self.extra_symbols:
            self._check_symbol(symbol)

    @property
    def symbols(self) -> tuple[str, ...]:
        """All symbols that are pieces of their own, in order of id, from 5 on."""
        return PUNCTUATION_SYMBOLS + self.extra_symbols

    def clean(self, text: str) -> str:
        """Cleans text as the tokenizer will."""
        tokenizer = _throwaway_tokenizer(self.lower_case, self.strip_accents)
        return tokenizer.normalize(text).replace(_UNKNOWN_MARK, " ").strip()

    def _check_symbol(self, symbol: str) -> None:
        if self.symbols.count(symbol) > 1 or symbol in RESERVED_PIECES:
            raise ValueError(f"Symbol {symbol!r} is in the vocabulary already.")
        if not symbol or symbol != "".join(symbol.split()):
            raise ValueError(f"A symbol holds no white space. Received {symbol!r}.")
        if self.clean(symbol) != symbol:
            raise ValueError(
                f"Symbol {symbol!r} is never met, since cleaning turns it into "
                f"{self.clean(symbol)!r}: give that, or change --do_lower_case or "
                "--strip_accents."
            )


def sample_sentences(
    sentences: Iterable[str], size: int, rng: np.random.Generator
) -> tuple[list[str], int]:
    """Draws sentences in one pass, each equally likely; holds only the sample.

    Reservoir sampling that draws how many sentences to skip rather than one number a
    sentence (Li 1994, "Reservoir-sampling algorithms of time complexity
    O(n(1 + log(N/n)))", algorithm L).

    Args:
      sentences: any number.
      size: at most this many are returned, at least 1; all if there are fewer.
      rng: the only source of randomness.
    Returns:
      The sample, and the number of sentences seen.
    """
    sentences = iter(sentences)
    sample = list(itertools.islice(sentences, size))
    seen = len(sample)
    log_weight = 0.0
    while True:
        # 1 - random() is in (0, 1], where the logarithm is finite.
        log_weight += math.log(1 - rng.random()) / size
        weight = min(math.exp(log_weight), 1 - 2**-53)
        skip = int(math.log(1 - rng.random()) / math.log1p(-weight))
        skipped = sum(1 for _ in itertools.islice(sentences, skip))
        replacement = next(sentences, None)
        seen += skipped + (replacement is not None)
        if replacement is None:
            return sample, seen
        sample[rng.integers(size)] = replacement


class Vocabulary(NamedTuple):
    """A trained vocabulary, and what it was trained on.

    Attributes:
      model: the SentencePiece model, serialised.
      sentences: number of sentences in the text.
      sampled_sentences, sampled_characters: those the model was trained on.
    """

    model: bytes
    sentences: int
    sampled_sentences: int
    sampled_characters: int


def train_vocabulary(
    sentences: Iterable[str], config: VocabularyConfig, counts: Counter
) -> Vocabulary:
    """Trains a SentencePiece model, and checks it with `check_vocabulary`.

    Args:
      sentences: text, from `corpus.read_sentences`.
      config: how.
      counts: the counter that `corpus.read_sentences` adds to; VANISHED is added.
    Raises:
      ValueError: a vocabulary size that the text does not support, with the one that it
        does; more than MAX_LOST_SHARE of the text lost.
    """
    rng = np.random.default_rng(config.random_seed)
    sample, seen = sample_sentences(sentences, config.sample_sentences, rng)
    progress = tqdm(sample, desc="cleaning", unit=" sentences", disable=None)
    cleaned = [text for text in map(config.clean, progress) if text]
    counts[VANISHED] += len(sample) - len(cleaned)
    _check_losses(counts, seen, len(sample))
    model = _train(cleaned, config)
    check_vocabulary(model, config.symbols)
    return Vocabulary(model, seen, len(cleaned), sum(map(len, cleaned)))


def _train(cleaned: Iterable[str], config: VocabularyConfig) -> bytes:
    try:
        return _run_sentencepiece(
            cleaned,
            vocab_size=config.vocab_size,
            character_coverage=config.character_coverage,
            # A list, since a quote within a comma string glues symbols together.
            user_defined_symbols=list(config.symbols),
        )
    except RuntimeError as error:
        raise ValueError(_explain(str(error), config)) from error


def _run_sentencepiece(sentences: Iterable[str], **settings) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        model_type="unigram",
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=list(CONTROL_SYMBOLS),
        max_sentence_length=_MAX_SENTENCE_BYTES,
        num_threads=_THREADS,
        minloglevel=2,
        **settings,
    )
    return model.getvalue()


@functools.cache
def _throwaway_tokenizer(lower_case: bool, strip_accents: bool) -> AlbertTokenizer:
    """A tokenizer to clean text with, before there is a vocabulary.

    How a tokenizer cleans depends on these two settings and the kind of vocabulary, not
    on its pieces, so the smallest possible vocabulary will do.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "throwaway.model")
        path.write_bytes(_run_sentencepiece(["a"], hard_vocab_limit=False))
        return AlbertTokenizer(
            spm_model_file=path, lower_case=lower_case, strip_accents=strip_accents
        )


def check_vocabulary(model: bytes, symbols: Sequence[str]) -> None:
    """Raises ValueError unless the first ids are the reserved pieces, then the symbols.

    Args:
      model: a serialised SentencePiece model.
      symbols: strings that must each be a piece, and be cut out of any text.
    """
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    expected = [*RESERVED_PIECES, *symbols]
    first = min(len(expected), processor.get_piece_size())
    pieces = [processor.id_to_piece(i) for i in range(first)]
    if pieces != expected:
        raise ValueError(
            f"The first pieces must be {expected}. Received {pieces}: train the "
            "vocabulary anew."
        )
    for symbol in symbols:
        pieces = processor.encode(f"a{symbol}b", out_type=str)
        if not any(symbol in piece and piece in symbols for piece in pieces):
            raise ValueError(
                f"Symbol {symbol!r} must be a piece of its own, but text with it is "
                f"cut into {pieces}: train the vocabulary anew."
            )


def write_vocabulary(model: bytes, model_prefix: str | os.PathLike) -> None:
    """Writes `PREFIX.model` and `PREFIX.vocab`; each appears whole or not at all.

    The second is for reading: a piece and its log probability a line, in order of id.
    """
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    lines = (
        f"{processor.id_to_piece(i)}\t{processor.get_score(i):g}\n"
        for i in range(processor.get_piece_size())
    )
    # The model last: where it is, its .vocab is too.
    write_whole(Path(f"{model_prefix}.vocab"), "".join(lines).encode())
    write_whole(Path(f"{model_prefix}.model"), model)


def check_writable(model_prefix: str | os.PathLike) -> None:
    """Makes the folder of the files, and checks that they can be written.

    To be called before hours are spent on them.

    Raises:
      ValueError: the prefix names a folder only.
      OSError: the folder cannot be made or written.
    """
    if not os.path.basename(model_prefix):
        raise ValueError(
            f"model_prefix must end in a file name. Received {str(model_prefix)!r}."
        )
    folder = Path(model_prefix).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(
            f"Cannot write to folder {folder} ({error.strerror}): give another "
            "--model_prefix."
        ) from error


def _check_losses(counts: Counter, seen: int, sampled: int) -> None:
    bad = sum(counts[reason] for reason in LOSSES)
    share = bad / max(1, bad + seen) + counts[VANISHED] / max(1, sampled)
    if share > MAX_LOST_SHARE:
        details = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        raise ValueError(
            f"At most {MAX_LOST_SHARE:.0%} of the text may be lost. Received "
            f"{share:.1%} ({details}): correct the input files."
        )


def _explain(message: str, config: VocabularyConfig) -> str:
    """Turns SentencePiece's error into the rule, the value and the way out."""
    too_high = re.search(r"too high .* value <= (\d+)", message)
    if too_high:
        return (
            f"vocab_size must be at most {too_high[1]} with this text. Received "
            f"{config.vocab_size}: lower --vocab_size or give more text."
        )
    too_low = re.search(r"smaller than required_chars\. \d+ vs (\d+)", message)
    if too_low:
        return (
            f"vocab_size must be at least {too_low[1]} to hold the characters of this "
            f"text. Received {config.vocab_size}: raise --vocab_size or lower "
            "--character_coverage."
        )
    return f"SentencePiece could not train on this text: {message}"
