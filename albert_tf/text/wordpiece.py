"""WordPiece vocabularies."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from albert_tf.text.sentencepiece import SPECIAL_NAMES, WORD_MARKER, Span, is_name

# BERT's limit is 400 characters of a word, here in bytes of the longest encoding.
_LONGEST_WORD_BYTES = 4 * 400

_CHINESE_INSIDE = re.compile("##[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


class WordPieceVocabulary:
    """A BERT vocabulary: one token a line, "##" continues a word.

    Splitting is tensorflow-text's, which is loaded on first use.
    """

    def __init__(self, path: Path, content: bytes):
        """Raises ValueError: not a WordPiece vocabulary, or a special piece missing."""
        self.pieces = _read_wordpieces(path, content)
        ids = {piece: i for i, piece in enumerate(self.pieces)}
        for name in ("[PAD]", "[UNK]", *SPECIAL_NAMES):
            if name not in ids:
                raise ValueError(
                    f"{path} has no line {name}: a WordPiece vocabulary needs [PAD], "
                    "[UNK], [CLS], [SEP] and [MASK]."
                )
        self.special_ids = tuple(
            ids[name] for name in ("[PAD]", "[UNK]", *SPECIAL_NAMES)
        )
        self.word_start_table = np.array(
            [not piece.startswith("##") for piece in self.pieces]
        )
        # Text is split at punctuation and around each Chinese character, so it cannot
        # give what has letters and punctuation in one piece ([MASK], [unused7], <S>: a
        # name), nor a Chinese character that goes on with a word (the released Chinese
        # vocabulary has 7,322 of these, a third of it).
        self.ordinary_ids = np.array(
            [
                i
                for i, piece in enumerate(self.pieces)
                if not (is_name(piece) or _CHINESE_INSIDE.match(piece))
            ],
            np.int32,
        )
        self.expansions: dict[int, list[int]] = {}
        self.split_pieces: dict[int, list[str]] = {}
        self.byte_ids: list[int] = []
        self._model = None

    def __getstate__(self) -> dict:
        return self.__dict__ | {"_model": None}

    def tokenize(self, text: str) -> list[str]:
        """Pieces of a cleaned text; a word that does not split is "[UNK]"."""
        return [self.pieces[i] for i in self.encode(text)]

    def encode(self, text: str) -> list[int]:
        """Ids of a cleaned text."""
        return self.encode_batch([text], 1)[0]

    def encode_batch(self, texts: list[str], threads: int) -> list[list[int]]:
        """Ids of cleaned texts; `threads` has no effect here."""
        if not texts:
            return []
        return self.graph_model().tokenize(texts).to_list()

    def encode_with_spans(self, text: str) -> tuple[list[int], list[Span]]:
        """Ids of a cleaned text, and for each its half-open character range in it."""
        ids, starts, ends = self.graph_model().tokenize_with_offsets([text])
        encoded = np.frombuffer(text.encode(), np.uint8)
        is_first_byte = (encoded & 0b1100_0000) != 0b1000_0000
        characters_before = np.concatenate([[0], np.cumsum(is_first_byte)])
        spans = zip(
            characters_before[starts.flat_values.numpy()].tolist(),
            characters_before[ends.flat_values.numpy()].tolist(),
            strict=True,
        )
        return ids.flat_values.numpy().tolist(), list(spans)

    def normalize_each(self, characters: Sequence[str]) -> list[str]:
        """Characters as they are."""
        return list(characters)

    def decode(self, ids: list[int]) -> str:
        """Words of ids, one space between them."""
        return " ".join(self.pieces[i] for i in ids).replace(" ##", "")

    def graph_model(self):
        """A tensorflow_text tokenizer: string [B] -> int32 ragged [B, (pieces)]."""
        if self._model is None:
            import tensorflow as tf
            import tensorflow_text as tf_text

            with tf.init_scope():
                self._model = tf_text.FastWordpieceTokenizer(
                    self.pieces,
                    max_bytes_per_word=_LONGEST_WORD_BYTES,
                    token_out_type=tf.int32,
                )
        return self._model


def _read_wordpieces(path: Path, content: bytes) -> list[str]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(
            f"{path} is not UTF-8 text: give a SentencePiece model as spm_model_file."
        ) from None
    pieces = [line.rstrip("\r") for line in text.rstrip("\r\n").split("\n")]
    # By their numbers, since a large WordPiece vocabulary may hold "▁" as a symbol and
    # a SentencePiece one "##".
    marked, continuing = (
        sum(piece.startswith(mark) for piece in pieces) for mark in (WORD_MARKER, "##")
    )
    if marked > continuing:
        raise ValueError(
            f'{path} marks words with "{WORD_MARKER}", so it belongs to a '
            "SentencePiece model: give its .model file as spm_model_file."
        )
    first_line: dict[str, int] = {}
    for number, piece in enumerate(pieces, start=1):
        if not piece or piece in first_line:
            raise ValueError(
                f"{path}, line {number}: every line must hold a token of its own. "
                f"Received {piece!r}"
                + (f", as on line {first_line[piece]}." if piece else ".")
            )
        first_line[piece] = number
    return pieces
