"""Writes the quick start's corpus: English prose that comes with every CPython.

    python run_scripts/quickstart_corpus.py --output_dir=DIR

The text is that of `help()`: the topics of `pydoc_data.topics`, a document each.
Headings, code, grammar and tables are left out. Topics quote each other at length, so
a paragraph is kept only the first time: otherwise most of the evaluation documents
would stand in the training text too. Long documents are cut, so that even one book
leaves some to evaluate on, and topics are met in training before. Writes
DIR/train.jsonl and DIR/eval.jsonl (whole documents, about a tenth of the characters),
to be read with --input_format=jsonl.
"""

import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

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
# A document is ended after so many characters.
DOCUMENT_CHARACTERS = 4_000
_NOT_PROSE = re.compile(r"::=|>>>|\.\.\. |^[|+]", re.MULTILINE)
_SENTENCE_END = re.compile(r"[.!?:;][)\"'”]*( \[\d+\])?$")
_EMPHASIS = re.compile(r"(?<![\w*])\*{1,2}([^\s*][^*]*?)\*{1,2}(?![\w*])")


def prose(topic: str) -> Iterator[str]:
    """Yields the paragraphs of a topic that are prose, each as one line."""
    for block in re.split(r"\n\s*\n", topic):
        if _NOT_PROSE.search(textwrap.dedent(block)):
            continue
        # The text was wrapped after hyphens too; `*` marks a list's items and emphasis.
        text = " ".join(re.sub(r"(?<=\w-)\n\s*(?=\w)", "", block).split())
        text = _EMPHASIS.sub(r"\1", text.removeprefix("* "))
        letters = sum(c.isalpha() or c == " " for c in text)
        is_long = len(text.split()) >= 6
        if is_long and _SENTENCE_END.search(text) and letters > 0.75 * len(text):
            yield text


def make_documents(topics: Mapping[str, str]) -> list[str]:
    """Turns topics into documents of paragraphs, a blank line between them.

    No two documents share a paragraph: the longest topic that has it keeps it.
    """
    seen, documents = set(), []
    for name in sorted(topics, key=lambda name: (-len(topics[name]), name)):
        new = [p for p in dict.fromkeys(prose(topics[name])) if p not in seen]
        seen.update(new)
        if new:
            documents.extend(cut(new, "\n\n"))
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


def split(
    documents: list[str], eval_share: float, rng: np.random.Generator
) -> tuple[list[str], list[str]]:
    """Draws documents for evaluation, up to a share of all characters.

    Returns:
      Training and evaluation documents, both in random order.
    """
    room = eval_share * sum(map(len, documents))
    train, evaluation = [], []
    for index in rng.permutation(len(documents)):
        document = documents[index]
        if len(document) <= room:
            room -= len(document)
            evaluation.append(document)
        else:
            train.append(document)
    return train, evaluation


def embedded_documents() -> list[str]:
    """The documents of the default text."""
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise ValueError(
            "This Python comes without pydoc_data.topics: install its whole standard "
            "library, or use text of your own."
        ) from error
    return make_documents(topics)


def own_documents(input_file: str, config: ReadingConfig, counts: Counter) -> list[str]:
    """Reads the user's documents and cuts them short; see `reader.read_documents`."""
    whole = read_documents(expand_inputs(input_file), config, counts)
    return [part for document in whole for part in cut(document.sentences, " ")]


def write(path: Path, documents: list[str]) -> None:
    """Writes documents as JSON lines, whole or not at all, and never over others."""
    lines = [json.dumps({"text": text}, ensure_ascii=False) for text in documents]
    content = "".join(line + "\n" for line in lines).encode("utf-8")
    if path.exists() and path.read_bytes() != content:
        raise ValueError(f"{path} holds other text: give another --output_dir.")
    write_whole(path, content)
    print(f"{path}: {len(documents)} documents, {len(content):,} bytes")


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
    fields.define(VocabularyConfig, "vocab_size", vocab_size=2000)
    common_flags.run(main)
