"""The two kinds of vocabulary behind `tokenization.py`, which alone imports this.

Both split text that is already cleaned, and offer the same members:

    pieces              list of V strings
    special_ids         (pad, unk, cls, sep, mask)
    word_start_table    np.bool_ [V]; ordinary_ids np.int32: see `AlbertTokenizer`
    tokenize, encode, encode_batch, encode_with_spans, decode
    graph_model         the same splitter as TensorFlow ops
    expansions          id -> ids that replace it afterwards (the digit-comma rule)
    split_pieces        id -> texts of these
    byte_ids            ids of pieces that are one byte of a character
    normalize_each      what the splitter's own normaliser makes of single characters
"""

import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sentencepiece import SentencePieceProcessor

WORD_MARKER = "▁"
SPECIAL_NAMES = ("[CLS]", "[SEP]", "[MASK]")
# First words of the Unicode names of letters whose languages put no space between
# words. Without this a Chinese sentence would be a single word to whole-word masking.
_SCRIPTS_WITHOUT_SPACES = frozenset(
    ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
)

Span = tuple[int, int]


class SentencePieceVocabulary:
    """A SentencePiece model, with ALBERT's digit-comma rule.

    The rule: a piece that ends in a digit and a comma is split again without the
    comma, which follows as a piece of its own ("▁2013," -> "▁2013" ","), so that a
    number is the same piece whatever stands behind it. The original means to keep the
    inside of a word unmarked ("13," after "▁20" -> "13" ","), but fails to under
    Python 3; here, as in every later port, it is done. The rule depends on the piece
    alone, so it is a table.

    Only `encode`, `decode`, `normalize` and the look-ups of the sentencepiece library
    are used: other parts came and went between its versions.
    """

    def __init__(self, path: Path, content: bytes):
        """Raises ValueError: not a SentencePiece model, or a special piece missing."""
        try:
            self._processor = SentencePieceProcessor(model_proto=content)
        except (RuntimeError, ValueError, OSError):
            raise ValueError(
                f"{path} is not a SentencePiece model: give the .model file, or a "
                "WordPiece vocabulary as vocab_file."
            ) from None
        processor = self._processor
        self.pieces = [processor.id_to_piece(i) for i in range(len(processor))]
        self.special_ids = self._find_special_ids(path)
        kinds = [self._kind(i) for i in range(len(self.pieces))]
        self.word_start_table = np.array(
            [
                kind == "control" or (kind == "ordinary" and starts_word(piece))
                for kind, piece in zip(kinds, self.pieces, strict=True)
            ]
        )
        self.ordinary_ids = np.array(
            [i for i, kind in enumerate(kinds) if kind == "ordinary"], np.int32
        )
        self.byte_ids = [i for i in range(len(self.pieces)) if processor.is_byte(i)]
        self.split_pieces = {
            i: self._split_digit_comma(piece)
            for i, piece in enumerate(self.pieces)
            if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()
        }
        self.expansions = {
            i: [processor.piece_to_id(piece) for piece in pieces]
            for i, pieces in self.split_pieces.items()
        }

    def _find_special_ids(self, path: Path) -> tuple[int, ...]:
        processor = self._processor
        named = {"padding": processor.pad_id(), "unknown text": processor.unk_id()}
        for name in SPECIAL_NAMES:
            piece_id = processor.piece_to_id(name)
            # As a user-defined symbol it would come out of literal text.
            named[name] = piece_id if processor.is_control(piece_id) else -1
        for name, piece_id in named.items():
            if piece_id < 0:
                raise ValueError(
                    f"{path} has no control symbol for {name}: train the vocabulary "
                    "with pad_id=0, unk_id=1 and control_symbols=[CLS],[SEP],[MASK], "
                    "as run_scripts/train_sentencepiece.py does."
                )
        return tuple(named.values())

    def _kind(self, piece_id: int) -> str:
        processor = self._processor
        if processor.is_control(piece_id):
            return "control"
        special = (
            processor.is_unknown(piece_id)
            or processor.is_unused(piece_id)
            or processor.is_byte(piece_id)
        )
        return "special" if special else "ordinary"

    def _split_digit_comma(self, piece: str) -> list[str]:
        number = piece[:-1].replace(WORD_MARKER, "")
        pieces = self._processor.encode(number, out_type=str)
        if not piece.startswith(WORD_MARKER) and pieces[0].startswith(WORD_MARKER):
            unmarked = pieces[0][1:]
            pieces = [unmarked, *pieces[1:]] if unmarked else pieces[1:]
        return [*pieces, ","]

    def tokenize(self, text: str) -> list[str]:
        """Pieces of a cleaned text; unknown stretches as they are."""
        ids = self._processor.encode(text, out_type=int)
        pieces = self._processor.encode(text, out_type=str)
        split = [
            self.split_pieces.get(i, [piece])
            for i, piece in zip(ids, pieces, strict=True)
        ]
        return [piece for pieces in split for piece in pieces]

    def encode(self, text: str) -> list[int]:
        """Ids of a cleaned text."""
        return self._expand(self._processor.encode(text, out_type=int))

    def encode_batch(self, texts: list[str], threads: int) -> list[list[int]]:
        """Ids of cleaned texts."""
        batch = self._processor.encode(texts, out_type=int, num_threads=threads)
        return [self._expand(ids) for ids in batch]

    def _expand(self, ids: list[int]) -> list[int]:
        if self.expansions.keys().isdisjoint(ids):
            return ids
        return [each for i in ids for each in self.expansions.get(i, (i,))]

    def encode_with_spans(self, text: str) -> tuple[list[int], list[Span]]:
        """Ids of a cleaned text, and for each its half-open character range in it.

        SentencePiece normalises once more (it composes letters and marks, drops
        control characters), so ranges go through its map of that step.
        """
        ids = self._processor.encode(text, out_type=int)
        pieces = self._processor.encode(text, out_type=str)
        seen, origins = self._processor.normalize(text, with_offsets=True)
        ends = self._ends(text, origins)
        spans = []
        cursor = 0
        bytes_left = 0  # of a character that is spelled in byte pieces
        for i, piece in zip(ids, pieces, strict=True):
            if self._processor.is_byte(i):
                bytes_left = (bytes_left or len(seen[cursor].encode())) - 1
                spans.append((origins[cursor], ends[cursor]))
                cursor += bytes_left == 0
                continue
            parts = self.split_pieces.get(i, (piece,))
            cursor += len(piece) - sum(map(len, parts))
            for part in parts:
                start, end = cursor, cursor + len(part)
                cursor = end
                while start < end and seen[start] == WORD_MARKER:
                    start += 1
                while start < end and seen[end - 1] == WORD_MARKER:
                    end -= 1
                end_in_text = ends[end - 1] if start < end else origins[start]
                spans.append((origins[start], end_in_text))
        return self._expand(ids), spans

    def _ends(self, text: str, origins: Sequence[int]) -> list[int]:
        """Ends in `text` of the stretches that SentencePiece's characters came from.

        Args:
          text: what was normalised.
          origins: index in `text` of each normalised character, and one more for the
            end. Characters made from one (an expansion) share its index.
        """
        ends = []
        end = origins[-1]
        for position in range(len(origins) - 2, -1, -1):
            if origins[position] < origins[position + 1]:
                end = origins[position + 1]
                # Dropped characters belong to no piece, composed ones do.
                while end - 1 > origins[position] and self._is_dropped(text[end - 1]):
                    end -= 1
            ends.append(end)
        return ends[::-1]

    def _is_dropped(self, character: str) -> bool:
        return not self.normalize_each([character])[0]

    def normalize_each(self, characters: Sequence[str]) -> list[str]:
        """What SentencePiece makes of single characters, without spaces around."""
        normalized = map(self._processor.normalize, characters)
        return [each.replace(WORD_MARKER, " ").strip(" ") for each in normalized]

    def decode(self, ids: list[int]) -> str:
        """Text of ids; control pieces leave nothing."""
        return self._processor.decode(ids)

    def graph_model(self):
        """A tensorflow_text tokenizer: string [B] -> int32 ragged [B, (pieces)]."""
        import tensorflow as tf
        import tensorflow_text as tf_text

        return tf_text.SentencepieceTokenizer(
            self._processor.serialized_model_proto(), out_type=tf.int32
        )


def starts_word(piece: str) -> bool:
    first = piece[0]
    if first == WORD_MARKER:
        return True
    if all(unicodedata.category(c)[0] in "PS" for c in piece):
        return True
    script = unicodedata.name(first, "").split(" ")[0]
    return unicodedata.category(first)[0] == "L" and script in _SCRIPTS_WITHOUT_SPACES


def is_name(piece: str) -> bool:
    text = piece.removeprefix("##")
    has_punctuation = any(unicodedata.category(c)[0] == "P" or c in "<>" for c in text)
    return has_punctuation and any(c.isalpha() for c in text)
