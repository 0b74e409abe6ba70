"""SentencePiece vocabularies, with ALBERT's digit-comma rule."""

import unicodedata
from array import array
from collections.abc import Sequence

import numpy as np
from sentencepiece import SentencePieceProcessor

from albert_tf.storage import AnyPath
from albert_tf.text.vocabulary import SPECIAL_NAMES, WORD_MARKER, Span

# First words of the Unicode names of letters whose languages put no space between
# words. Without this a Chinese sentence would be a single word to whole-word masking.
_SCRIPTS_WITHOUT_SPACES = frozenset(
    ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
)


class SentencePieceVocabulary:
    """A SentencePiece model, with ALBERT's digit-comma rule. Implements `Vocabulary`.

    The rule: a token that ends in a digit and a comma is split again without the
    comma, which follows as a token of its own ("▁2013," -> "▁2013" ","), so that a
    number is the same token whatever follows it. The original means to keep the inside
    of a word unmarked ("13," after "▁20" -> "13" ","), but fails to under Python 3;
    here, as in every later port, it does. The rule depends on the token alone, so it is
    a table.
    """

    def __init__(self, path: AnyPath, content: bytes):
        """Loads the content of a `.model` file.

        Args:
          path: the file's name, for messages.
          content: the file's bytes.
        Raises:
          ValueError: it is not a SentencePiece model, or lacks a special token.
        """
        try:
            self._processor = SentencePieceProcessor(model_proto=content)
        except (RuntimeError, ValueError, OSError):
            raise ValueError(
                f"{path} is not a SentencePiece model: give the .model file, or a "
                "WordPiece vocabulary as vocab_file."
            ) from None
        processor = self._processor
        self.tokens = [processor.id_to_piece(i) for i in range(len(processor))]
        self.special_ids = self._find_special_ids(path)
        kinds = [self._kind(i) for i in range(len(self.tokens))]
        self.word_start_table = np.array(
            [
                kind == "control" or (kind == "ordinary" and starts_word(token))
                for kind, token in zip(kinds, self.tokens, strict=True)
            ]
        )
        self.ordinary_ids = np.array(
            [i for i, kind in enumerate(kinds) if kind == "ordinary"], np.int32
        )
        self.byte_ids = [i for i in range(len(self.tokens)) if processor.is_byte(i)]
        self.split_tokens = {
            i: self._split_digit_comma(token)
            for i, token in enumerate(self.tokens)
            if len(token) > 1 and token[-1] == "," and token[-2].isdigit()
        }
        self.expansions = {
            i: [processor.piece_to_id(token) for token in tokens]
            for i, tokens in self.split_tokens.items()
        }

    def _find_special_ids(self, path: AnyPath) -> tuple[int, ...]:
        processor = self._processor
        named = {"padding": processor.pad_id(), "unknown text": processor.unk_id()}
        for name in SPECIAL_NAMES:
            token_id = processor.piece_to_id(name)
            # A user-defined symbol would be found in ordinary text.
            named[name] = token_id if processor.is_control(token_id) else -1
        for name, token_id in named.items():
            if token_id < 0:
                raise ValueError(
                    f"{path} has no control symbol for {name}: train the vocabulary "
                    "with pad_id=0, unk_id=1 and control_symbols=[CLS],[SEP],[MASK], "
                    "as run_scripts/train_sentencepiece.py does."
                )
        return tuple(named.values())

    def _kind(self, token_id: int) -> str:
        processor = self._processor
        if processor.is_control(token_id):
            return "control"
        special = (
            processor.is_unknown(token_id)
            or processor.is_unused(token_id)
            or processor.is_byte(token_id)
        )
        return "special" if special else "ordinary"

    def _split_digit_comma(self, token: str) -> list[str]:
        """Splits a token that ends in a digit and a comma."""
        number = token[:-1].replace(WORD_MARKER, "")
        tokens = self._processor.encode(number, out_type=str)
        if not token.startswith(WORD_MARKER) and tokens[0].startswith(WORD_MARKER):
            unmarked = tokens[0][1:]
            tokens = [unmarked, *tokens[1:]] if unmarked else tokens[1:]
        return [*tokens, ","]

    def tokenize(self, text: str) -> list[str]:
        """Returns the tokens of a cleaned text; unknown stretches stay as they are."""
        ids = self._processor.encode(text, out_type=int)
        tokens = self._processor.encode(text, out_type=str)
        split = [
            self.split_tokens.get(i, [token])
            for i, token in zip(ids, tokens, strict=True)
        ]
        return [token for tokens in split for token in tokens]

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a cleaned text."""
        return self._expand(self._processor.encode(text, out_type=int))

    def encode_batch(self, texts: list[str], threads: int) -> list[list[int]]:
        """Returns the ids of cleaned texts, made by `threads` threads."""
        batch = self._processor.encode(texts, out_type=int, num_threads=threads)
        return [self._expand(ids) for ids in batch]

    def _expand(self, ids: list[int]) -> list[int]:
        """Applies the digit-comma rule."""
        if self.expansions.keys().isdisjoint(ids):
            return ids
        return [new for i in ids for new in self.expansions.get(i, (i,))]

    def encode_with_spans(self, text: str) -> tuple[list[int], list[Span]]:
        """Returns the ids of a cleaned text, and each token's half-open range in it.

        SentencePiece normalizes the text once more (it composes letters and marks and
        drops control characters), so ranges are mapped through that step. The library
        offers ranges itself (`immutable_proto`), but they are wrong where one character
        becomes several: of "schön ½" it gives the token "▁1" the range of the space.
        """
        ids = self._processor.encode(text, out_type=int)
        tokens = self._processor.encode(text, out_type=str)
        normalized, offsets = self._processor.normalize(text, with_offsets=True)
        # A list takes five times as much memory, which counts for a text of megabytes.
        origins = array("q", offsets)
        del offsets
        ends = self._ends(text, origins)
        spans = []
        cursor = 0  # in `normalized`
        bytes_left = 0  # of a character that is spelled in byte tokens
        for i, token in zip(ids, tokens, strict=True):
            if self._processor.is_byte(i):
                bytes_left = (bytes_left or len(normalized[cursor].encode())) - 1
                spans.append((origins[cursor], ends[cursor]))
                cursor += bytes_left == 0
                continue
            parts = self.split_tokens.get(i, (token,))
            cursor += len(token) - sum(map(len, parts))
            for part in parts:
                start, end = cursor, cursor + len(part)
                cursor = end
                while start < end and normalized[start] == WORD_MARKER:
                    start += 1
                while start < end and normalized[end - 1] == WORD_MARKER:
                    end -= 1
                end_in_text = ends[end - 1] if start < end else origins[start]
                spans.append((origins[start], end_in_text))
        return self._expand(ids), spans

    def _ends(self, text: str, origins: Sequence[int]) -> "array[int]":
        """Returns the ends of the stretches that normalized characters come from.

        Args:
          text: the text before normalization.
          origins: index in `text` of each normalized character, and one more for the
            end. Characters made from one character share its index.
        Returns:
          An index in `text` for each normalized character.
        """
        ends = array("q")
        end = origins[-1]
        for position in range(len(origins) - 2, -1, -1):
            if origins[position] < origins[position + 1]:
                end = origins[position + 1]
                # Dropped characters belong to no token, composed ones do.
                while end - 1 > origins[position] and self._is_dropped(text[end - 1]):
                    end -= 1
            ends.append(end)
        return ends[::-1]

    def _is_dropped(self, character: str) -> bool:
        return not self.normalize_characters([character])[0]

    def normalize_characters(self, characters: Sequence[str]) -> list[str]:
        """Returns SentencePiece's normalization of single characters, without spaces
        around it."""
        normalized = map(self._processor.normalize, characters)
        return [text.replace(WORD_MARKER, " ").strip(" ") for text in normalized]

    def decode(self, ids: list[int]) -> str:
        """Returns the text of ids; control tokens leave nothing."""
        return self._processor.decode(ids)

    def model_proto(self, starts_word: bool = True) -> bytes:
        """Returns the content of the model's file.

        Args:
          starts_word: False for a model that splits a text as the rest of a word: it
            puts no space before it.
        """
        content = self._processor.serialized_model_proto()
        if starts_word:
            return content
        from sentencepiece.sentencepiece_model_pb2 import ModelProto

        model = ModelProto.FromString(content)
        model.normalizer_spec.add_dummy_prefix = False
        return model.SerializeToString()


def starts_word(token: str) -> bool:
    """True if an ordinary token starts a word; see `AlbertTokenizer`."""
    first = token[0]
    if first == WORD_MARKER:
        return True
    if all(unicodedata.category(c)[0] in "PS" for c in token):
        return True
    script = unicodedata.name(first, "").split(" ")[0]
    return unicodedata.category(first)[0] == "L" and script in _SCRIPTS_WITHOUT_SPACES
