"""A toy vocabulary of letters, and text for it, whose rows can be read back."""

import numpy as np

from albert_tf.records.masking_config import MaskingConfig
from data_prep.corpus.reader import Sentence
from data_prep.corpus.statistics import Statistics
from data_prep.corpus.tokenized_corpus import tokenize_sentences
from data_prep.pretraining.config import PretrainingDataConfig


class LetterTokenizer:
    """One token a letter; a capital letter in the decoded text starts a word."""

    pad_id, unk_id, cls_id, sep_id, mask_id = range(5)
    first_id, letters = 5, 26
    word_start_table = np.arange(5 + 2 * 26) >= 5 + 26
    ordinary_ids = np.arange(5, 5 + 2 * 26, dtype=np.int32)

    def encode_batch(self, texts):
        return [[self._id(c) for c in self.words(text)] for text in texts]

    def words(self, text):
        """The text as `decode` gives it back: "a cat" -> "ACat"."""
        return text.title().replace(" ", "")

    def _id(self, letter):
        place = ord(letter.lower()) - ord("a")
        if not 0 <= place < self.letters:
            return self.unk_id
        return self.first_id + place + self.letters * letter.isupper()

    def decode(self, ids):
        alphabet = "abcdefghijklmnopqrstuvwxyz"
        return "".join((alphabet + alphabet.upper())[i - 5] for i in ids)

    vocab_size = 57

    def metadata(self):
        return {"vocabulary_sha256": "letters", "vocab_size": 57}


TOKENIZER = LetterTokenizer()


CONFIG = PretrainingDataConfig(
    max_seq_length=67, dupe_factor=3, masking=MaskingConfig(max_predictions_per_seq=11)
)


def make_documents(count, rng, sentences=(1, 13), words=(1, 9), letters=(1, 6)):
    """Documents of random words; every document has its own text."""

    def word():
        return "".join(
            chr(97 + c) for c in rng.integers(26, size=rng.integers(*letters))
        )

    return [
        [
            " ".join(word() for _ in range(rng.integers(*words)))
            for _ in range(rng.integers(*sentences))
        ]
        for _ in range(count)
    ]


def made_up_text(count, seed=3):
    """Sentences of random words over a small alphabet, with some punctuation."""
    rng = np.random.default_rng(seed)
    words = [
        "".join(rng.choice([*"aeioulmnrst"], rng.integers(2, 8))) for _ in range(90)
    ]
    marks = ["", "", "", ",", " (see it)", ' "so"', "-like", " – £ 5", " € 3"]
    return [
        " ".join(
            str(rng.choice(words)) + str(rng.choice(marks))
            for _ in range(rng.integers(3, 12))
        ).capitalize()
        + "."
        for _ in range(count)
    ]


def tokenize(documents, max_sentence_tokens=10_000, statistics=None):
    sentences = (
        Sentence(text, "file", line)
        for line, document in enumerate(documents)
        for text in document
    )
    statistics = Statistics() if statistics is None else statistics
    segments = list(
        tokenize_sentences(
            sentences, TOKENIZER, max_sentence_tokens, statistics, 1 << 40
        )
    )
    if not segments:
        return None
    corpus = segments[0].corpus
    return corpus.block(0, len(corpus.sentence_offsets) - 1)


def unmasked_ids(rows):
    """Each row's tokens without padding, masked ones put back."""
    for index, ids in enumerate(rows["input_ids"]):
        count = int(rows["masked_lm_weights"][index].sum())
        positions = rows["masked_lm_positions"][index, :count]
        ids = ids.copy()
        ids[positions] = rows["masked_lm_ids"][index, :count]
        yield ids[rows["input_mask"][index] == 1]


def unmasked_segments(rows):
    """The two segments of each row as text."""
    for index, ids in enumerate(unmasked_ids(rows)):
        segments = rows["segment_ids"][index, : len(ids)]
        first, second = ids[segments == 0], ids[segments == 1]
        assert first[0] == TOKENIZER.cls_id
        assert first[-1] == second[-1] == TOKENIZER.sep_id
        yield TOKENIZER.decode(first[1:-1]), TOKENIZER.decode(second[:-1])
