"""Texts and small vocabularies to test the tokenizer with."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from sentencepiece import SentencePieceTrainer

from albert_tf.text.tokenizer import AlbertTokenizer

CONTROL_SYMBOLS = ["[CLS]", "[SEP]", "[MASK]"]
WORD_STARTS = {"--": True, "…": True, "€": True, "中文": True, "ก็": True, "がー": True}
WORD_INSIDES = {"über": False, "'s": False, "ーが": False, "5%": False, "ัส": False}
SETTINGS = [(True, True), (True, False), (False, True), (False, False)]

# Characters that go wrong in tokenizers, by kind.
NASTY = [
    "abcdefghijklm",
    "ABCXYZ",
    "0123456789,,..",
    "  \t\n\r\u00a0\u3000\u2028\x85\x1c\x0b",
    "\u0301\u0308\u0323\u3099\u309a\u0345\u20dd",
    "ﬁﬂﬀ½…№™ﷺ㎙ＦｕｌｌＡ，！",
    "😀👩\u200d👧\ufe0f🏽",
    "한국어각문장각",
    "สวัสดีก็น้ำ",
    "\x00\x01\x07\x1f\x7f\x9f\u00ad",
    "\u200b\u200c\u2060\ufeff\u202e",
    "ΑΣΟΔςσΣ𝚺ʰ",
    "İıßẞŒœÅñö",
    "中文字符がぎカﾞｶﾞ々ー",
    "مرحبا\u064e\u0651हिन्दी",
    "'\"`“”’—–-()[]<>£€",
    "ΙΔ΄´¨᾿ῼ΅ \u0301\ufffd",
]


def nasty_texts(count: int, seed: int) -> list[str]:
    """Makes random texts of characters that go wrong in tokenizers."""
    rng = np.random.default_rng(seed)
    texts = []
    for _ in range(count):
        kinds = [NASTY[k] for k in rng.integers(len(NASTY), size=rng.integers(1, 5))]
        size = rng.integers(23)
        kinds = [kinds[k] for k in rng.integers(len(kinds), size=size)]
        texts.append("".join(kind[rng.integers(len(kind))] for kind in kinds))
    return texts


def train(path: Path, **changes: Any) -> str:
    """Trains a small vocabulary with tokens that end in digit and comma.

    Args:
      path: the `.model` file to write.
      **changes: of SentencePiece's options.
    Returns:
      The path.
    """
    rng = np.random.default_rng(11)
    letters = list("etaoinshrdlu")
    words = ["".join(rng.choice(letters, rng.integers(2, 7))) for _ in range(900)]
    lines = [
        f"{' '.join(rng.choice(words, 9))} in 2013,{rng.choice(words)} "
        f"{rng.choice(words)}13, ({rng.integers(9)}%, κοσμος σας, für die größe"
        for _ in range(1500)
    ]
    settings = {
        "vocab_size": 420,
        "num_threads": 1,
        "pad_id": 0,
        "unk_id": 1,
        "bos_id": -1,
        "eos_id": -1,
        "control_symbols": CONTROL_SYMBOLS,
        "user_defined_symbols": [*WORD_STARTS, *WORD_INSIDES],
        "minloglevel": 2,
    }
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, **(settings | changes)
    )
    path.write_bytes(model.getvalue())
    return str(path)


def write_wordpieces(path: Path) -> str:
    """Writes a small WordPiece vocabulary and returns its path."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    tokens = ["[PAD]", "[unused1]", "[UNK]", *CONTROL_SYMBOLS, "<S>", "...", "##ing"]
    tokens += [*letters, *(f"##{c}" for c in letters), *"0123456789,.!?中文字符（"]
    path.write_text("\n".join(tokens) + "\n", encoding="utf-8")
    return str(path)


def every_tokenizer(spm_model_file: str, vocab_file: str) -> list[AlbertTokenizer]:
    """Loads both kinds of vocabulary with every way of text cleaning."""
    return [
        AlbertTokenizer(**files, lower_case=lower_case, strip_accents=strip_accents)
        for files in ({"spm_model_file": spm_model_file}, {"vocab_file": vocab_file})
        for lower_case, strip_accents in SETTINGS
    ]


def is_same(python: list[int], graph: list[int]) -> bool:
    """Tells whether ids are equal, or differ only in how a tie was decided.

    If two orders of the same tokens score alike ("f" "ff" or "ff" "f"), rounding
    decides. sentencepiece 0.2.2 rounds differently than its earlier versions and than
    the copy in tensorflow-text.
    """
    version = tuple(int(number) for number in sentencepiece.__version__.split("."))
    is_tie = version >= (0, 2, 2) and sorted(python) == sorted(graph)
    return python == graph or is_tie
