"""Trains a SentencePiece vocabulary by the paper's recipe (sections 3.1 and 4.1).

A unigram model of 30,000 tokens whose first ids are <pad>, <unk>, [CLS], [SEP] and
[MASK], then the symbols `( ) " - . – £ €`, each a token of its own. Everything else
(normalizer nmt_nfkc, character coverage 0.99995, tokens of at most 16 characters that
do not cross words, scripts or digits) is as in the released English vocabulary.

Differences from the training of the released one:

- Text is cleaned by the tokenizer's own `normalize`, so that the vocabulary fits the
  text that the tokenizer sees.
- The sample of sentences is drawn here, from a seed, in one pass; SentencePiece's own
  sampling is off. The same text and configuration give the same bytes on any number of
  cores: the number of threads is fixed, since sums of floats depend on it.
- No sentence is dropped for its length: reader.py has cut long ones.

SentencePiece holds the sample in memory, 25 bytes a character measured on English
novels: 3.6 GB, and a minute, for the default million sentences.
"""

import functools
import io
import itertools
import math
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sentencepiece
from tqdm import tqdm

from albert_tf.file_kinds import check_replaceable
from albert_tf.files import write_together, writing
from albert_tf.storage import AnyPath, PathLike, as_path
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.corpus.files import make_writable_folder
from data_prep.corpus.reader import LOSSES

CONTROL_SYMBOLS = ("[CLS]", "[SEP]", "[MASK]")
PUNCTUATION_SYMBOLS = ("(", ")", '"', "-", ".", "–", "£", "€")
RESERVED_TOKENS = ("<pad>", "<unk>", *CONTROL_SYMBOLS)

# Share of the text that may be lost, in bad lines and sentences that cleaning empties.
MAX_LOST_SHARE = 0.05
VANISHED = "sentences that cleaning leaves empty"

# SentencePiece's sign for unknown text; it skips a sentence that holds the sign.
_UNKNOWN_MARK = "\u2585"

# More threads than cores do no harm; another number changes the bytes.
_THREADS = 16

# In bytes. Above any sentence of reader.py, even if cleaning lengthens it.
_MAX_SENTENCE_BYTES = 1 << 20

# First bytes of a model: the message of the first token.
_MODEL_START = b"\n\x0e\n\x05<pad>\x15"


@dataclass(frozen=True)
class VocabularyConfig:
    """Configuration of a vocabulary; most flags of the same names set it.

    Attributes:
      vocab_size: number of tokens, reserved ones and symbols included.
      lower_case, strip_accents: how the tokenizer cleans text.
      character_coverage: share of the text's characters that the vocabulary must hold;
        the rarest others become unknown.
      sample_sentences: sentences to train on, drawn from all. A million take about 3.6
        GB of memory.
      random_seed: draws the sentences; same seed and text: same bytes.
      extra_symbols: further strings that are each one token wherever they appear.
    """

    vocab_size: int = 30_000
    lower_case: bool = True
    strip_accents: bool = True
    character_coverage: float = 0.99995
    sample_sentences: int = 1_000_000
    random_seed: int = 12345
    extra_symbols: tuple[str, ...] = ()

    def __post_init__(self):
        smallest = len(RESERVED_TOKENS) + len(self.symbols) + 1
        if self.vocab_size < smallest:
            raise ValueError(
                f"vocab_size must be at least {smallest}, for the reserved tokens and "
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
        """All symbols that are tokens of their own, in order of id, from 5 on."""
        return PUNCTUATION_SYMBOLS + self.extra_symbols

    def clean(self, text: str) -> str:
        """Cleans text as the tokenizer does."""
        tokenizer = _throwaway_tokenizer(self.lower_case, self.strip_accents)
        return tokenizer.normalize(text).replace(_UNKNOWN_MARK, " ").strip()

    def _check_symbol(self, symbol: str) -> None:
        if self.symbols.count(symbol) > 1 or symbol in RESERVED_TOKENS:
            raise ValueError(f"Symbol {symbol!r} is in the vocabulary already.")
        if not symbol or symbol != "".join(symbol.split()):
            raise ValueError(f"A symbol holds no white space. Received {symbol!r}.")
        if self.clean(symbol) != symbol:
            raise ValueError(
                f"Symbol {symbol!r} never occurs, since cleaning turns it into "
                f"{self.clean(symbol)!r}: give that, or change --do_lower_case or "
                "--strip_accents."
            )


def sample_sentences(
    sentences: Iterable[str], size: int, rng: np.random.Generator
) -> tuple[list[str], int]:
    """Draws sentences in one pass, each equally likely; holds only the sample.

    Reservoir sampling that draws the number of sentences to skip, not one number for
    each sentence (Li 1994, "Reservoir-sampling algorithms of time complexity
    O(n(1 + log(N/n)))", algorithm L).

    Args:
      sentences: any number of them.
      size: largest number to return, at least 1.
      rng: the only source of randomness.
    Returns:
      The sample, and the number of all sentences.
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


class TrainedVocabulary(NamedTuple):
    """A trained vocabulary and the size of its text.

    Attributes:
      model: the serialized SentencePiece model.
      sentences: number of sentences in the text.
      sampled_sentences, sampled_characters: number of those the model was trained on.
    """

    model: bytes
    sentences: int
    sampled_sentences: int
    sampled_characters: int


def train_vocabulary(
    sentences: Iterable[str], config: VocabularyConfig, counts: Counter
) -> TrainedVocabulary:
    """Trains a SentencePiece model and checks it with `check_vocabulary`.

    Args:
      sentences: text, from `reader.read_sentences`.
      config: size, cleaning and sampling.
      counts: the counter that `reader.read_sentences` adds to; VANISHED is added.
    Raises:
      ValueError: the text does not support the vocabulary size (the message has one
        that it does); more than MAX_LOST_SHARE of the text is lost.
    """
    rng = np.random.default_rng(config.random_seed)
    sample, seen = sample_sentences(sentences, config.sample_sentences, rng)
    progress = tqdm(sample, desc="cleaning", unit=" sentences", disable=None)
    cleaned = [text for text in map(config.clean, progress) if text]
    counts[VANISHED] += len(sample) - len(cleaned)
    _check_losses(counts, seen, len(sample))
    model = _train(cleaned, config)
    check_vocabulary(model, config.symbols)
    return TrainedVocabulary(model, seen, len(cleaned), sum(map(len, cleaned)))


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


def _run_sentencepiece(sentences: Iterable[str], **options: Any) -> bytes:
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
        **options,
    )
    return model.getvalue()


@functools.cache
def _throwaway_tokenizer(lower_case: bool, strip_accents: bool) -> AlbertTokenizer:
    """Makes a tokenizer that cleans text before there is a vocabulary.

    Cleaning depends on these two values and the kind of vocabulary, not on its tokens,
    so the smallest possible vocabulary will do.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "throwaway.model")
        with writing(path):
            path.write_bytes(_run_sentencepiece(["a"], hard_vocab_limit=False))
        return AlbertTokenizer(
            spm_model_file=path, lower_case=lower_case, strip_accents=strip_accents
        )


def check_vocabulary(model: bytes, symbols: Sequence[str]) -> None:
    """Checks that the first ids are the reserved tokens, then the symbols.

    Args:
      model: a serialized SentencePiece model.
      symbols: strings that must each be a token and be cut out of any text.
    Raises:
      ValueError: they are not, or a symbol is not cut out.
    """
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    expected = [*RESERVED_TOKENS, *symbols]
    first = min(len(expected), processor.get_piece_size())
    tokens = [processor.id_to_piece(i) for i in range(first)]
    if tokens != expected:
        raise ValueError(
            f"The first tokens must be {expected}. Received {tokens}: train the "
            "vocabulary again."
        )
    for symbol in symbols:
        tokens = processor.encode(f"a{symbol}b", out_type=str)
        if not any(symbol in token and token in symbols for token in tokens):
            raise ValueError(
                f"Symbol {symbol!r} must be a token of its own, but text with it is "
                f"cut into {tokens}: train the vocabulary again."
            )


def write_vocabulary(model: bytes, model_prefix: PathLike) -> None:
    """Writes `PREFIX.model` and `PREFIX.vocab`: both or none.

    The second is for people: a token and its log probability a line, in order of id.
    """
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    lines = (
        f"{processor.id_to_piece(i)}\t{processor.get_score(i):g}\n"
        for i in range(processor.get_piece_size())
    )
    # The model last: if it is there, so is its .vocab.
    vocab, target = _vocabulary_paths(model_prefix)
    write_together({vocab: "".join(lines).encode(), target: model})


def _vocabulary_paths(model_prefix: PathLike) -> tuple[AnyPath, AnyPath]:
    return as_path(f"{model_prefix}.vocab"), as_path(f"{model_prefix}.model")


def check_model_prefix(model_prefix: PathLike) -> None:
    """Makes the folder of the files and proves that they can be written.

    Call it before hours are spent on the files.

    Raises:
      ValueError: the prefix names a folder only.
      FileExistsError: a file of another kind would be replaced.
      OSError: the folder cannot be made or written.
    """
    vocab, model = _vocabulary_paths(model_prefix)
    if model.name in (".model", ""):  # in a folder; or a bucket of that name
        raise ValueError(
            f"model_prefix must end in a file name. Received {str(model_prefix)!r}."
        )
    make_writable_folder(model.parent, "model_prefix")
    check_replaceable(vocab, f"{RESERVED_TOKENS[0]}\t0\n".encode())
    check_replaceable(model, _MODEL_START)


def _check_losses(counts: Counter, seen: int, sampled: int) -> None:
    """Raises ValueError if too much of the text was lost."""
    bad = sum(counts[reason] for reason in LOSSES)
    share = bad / max(1, bad + seen) + counts[VANISHED] / max(1, sampled)
    if share > MAX_LOST_SHARE:
        details = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        raise ValueError(
            f"At most {MAX_LOST_SHARE:.0%} of the text may be lost. Received "
            f"{share:.1%} ({details}): correct the input files."
        )


def _explain(message: str, config: VocabularyConfig) -> str:
    """Turns SentencePiece's error into a message with rule, value and way out."""
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
