"""Reads sentences with a tag for each word, and writes those that a model tags.

Three formats, told apart by the name and by the keys of an object. The last two may be
rows of Parquet or of a folder of Hugging Face's `datasets`, whose `ner_tags` are tags:

    EU       NNP   B-ORG         columns of CoNLL, between tabs or white space; an
    rejects  VBZ   O             empty line ends a sentence

    {"tokens": ["EU", "rejects"], "tags": ["B-ORG", "O"]}               in *.jsonl
    {"text": "EU rejects", "entities": [{"start": 0, "end": 2, "label": "ORG"}]}

Tags may be of any scheme of `albert_tf.text.entities`; they become those of IOB2. Tags
without prefixes, as those of parts of speech, stay as they are. A text is split into
words as `albert_tf.text.words` does. `tagging.py` makes rows of the sentences.
"""

import dataclasses
from collections import Counter
from collections.abc import Sequence

from albert_tf.storage import AnyPath, PathLike, as_path
from albert_tf.text import entities
from data_prep import packed_files
from data_prep.column_files import COLUMN_FILES, is_dataset_folder
from data_prep.fine_tuning.tagged_sentences import (
    Sentence,
    TagColumns,
    read_columns,
    read_objects,
)

JSON_SUFFIXES = (".jsonl", ".json")
_SCHEMES = "O, or B-TYPE, I-TYPE and the like"


@dataclasses.dataclass(frozen=True)
class TaggedFile:
    """The sentences of a file.

    Attributes:
      path: the file.
      columns: that were read, if it is of CoNLL.
      sentences: in their order.
      has_tags: whether every word has a tag.
      scheme: of the tags in the file; empty: there are none.
      counts: what was read, and what of it was left out, by name.
      needs_tags: whether tags were asked for.
    """

    path: AnyPath
    columns: TagColumns
    sentences: Sequence[Sentence]
    has_tags: bool
    scheme: str
    counts: Counter
    needs_tags: bool = True

    def is_plain(self) -> bool:
        """True if its tags have no prefixes."""
        return self.scheme == "plain"

    def of_model(self, labels: Sequence[str]) -> "TaggedFile":
        """Returns the file, without its tags if they are not of a model's kind.

        A file to predict may have other values in the last column.

        Args:
          labels: the model's.
        """
        has_types = any(map(entities.is_prefixed, labels))
        if not self.has_tags or not self.types() or has_types != self.is_plain():
            return self
        if self.needs_tags:
            kinds = ("plain", "of entities")[:: 1 if self.is_plain() else -1]
            raise ValueError(
                f"{self.path}: its tags are {kinds[0]}, the model's are {kinds[1]}: "
                "name the column of the tags, --tag_column."
            )
        bare = [sentence._replace(tags=None) for sentence in self.sentences]
        return dataclasses.replace(self, sentences=bare, has_tags=False, scheme="")

    def types(self) -> list[str]:
        """The types of entities in it, or its plain tags."""
        tags = {tag for sentence in self.sentences for tag in sentence.tags or ()}
        return sorted({entities.type_of(tag) for tag in tags - {entities.OUTSIDE}})

    def labels(self) -> list[str]:
        """The labels of a model that learns from it.

        Raises:
          ValueError: there is nothing to learn.
        """
        types = self.types()
        if not types:
            raise ValueError(
                f"{self.path}: all words are {entities.OUTSIDE}, so there is nothing "
                "to learn: name the column of the tags, --tag_column."
            )
        if not self.is_plain():
            return entities.label_set(types)
        tags = {tag for sentence in self.sentences for tag in sentence.tags or ()}
        return [*([entities.OUTSIDE] if entities.OUTSIDE in tags else []), *types]


def read_tagged_file(
    path: PathLike, columns: TagColumns | None = None, need_tags: bool = True
) -> TaggedFile:
    """Reads a file of one of the formats above.

    Of CoNLL, lines of "-DOCSTART-" are left out, and so is a line in front of a
    sentence that begins with "#" and white space, and has other columns than the words
    have or an empty one: it is a comment.

    Args:
      path: the file.
      columns: of a CoNLL file; None: the first and the last one.
      need_tags: whether a file without tags is an error.
    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is not of these formats, or has no sentences; the file and the line
        are named.
    """
    path = as_path(path)
    if not (path.is_file() or is_dataset_folder(path)):
        raise FileNotFoundError(f"There is no file {path}: check the path.")
    columns = columns or TagColumns()
    counts: Counter = Counter()
    kind = packed_files.kind(path)
    if kind in (*JSON_SUFFIXES, *COLUMN_FILES) or path.is_dir():
        sentences = list(read_objects(path, counts))
    else:
        sentences = list(read_columns(path, columns, counts))
    if not any(sentence.words for sentence in sentences):
        raise ValueError(f"{path} holds no words: give a file that does.")
    sentences, scheme = _with_tags(path, sentences, need_tags)
    counts["sentences"] = len(sentences)
    counts["words"] = sum(len(sentence.words) for sentence in sentences)
    counts["empty_sentences"] = sum(not sentence.words for sentence in sentences)
    if scheme and scheme != "plain":
        counts["entities"] = sum(
            len(entities.entities(sentence.tags or ())) for sentence in sentences
        )
    return TaggedFile(path, columns, sentences, bool(scheme), scheme, counts, need_tags)


def _with_tags(
    path: AnyPath, sentences: Sequence[Sentence], need_tags: bool
) -> tuple[list[Sentence], str]:
    """The sentences with tags of IOB2 or plain ones, and the scheme in the file.

    Without tags, or with other values in their place, the scheme is empty.

    Raises:
      ValueError: they are needed, and one is missing or damaged.
    """
    try:
        _check_tags(path, sentences)
    except ValueError:
        if need_tags:
            raise
        return [sentence._replace(tags=None) for sentence in sentences], ""
    scheme = entities.scheme(sentence.tags or () for sentence in sentences)
    if scheme == "plain":
        return list(sentences), scheme
    return [
        sentence._replace(
            tags=tuple(
                entities.iob2(
                    entities.entities(sentence.tags or ()), len(sentence.words)
                )
            )
        )
        for sentence in sentences
    ], scheme


def _check_tags(path: AnyPath, sentences: Sequence[Sentence]) -> None:
    prefixed, plain = None, None
    for sentence in sentences:
        if sentence.tags is None:
            raise ValueError(
                f"{path}, line {sentence.line}: there are no tags, which training and "
                "evaluation need: give a file with tags, or predict."
            )
        for place, tag in enumerate(sentence.tags):
            line = sentence.line + place * bool(sentence.columns)
            if not tag.strip():
                raise ValueError(
                    f"{path}, line {line}: the tag of {sentence.words[place]!r} is "
                    f"empty: it must be {_SCHEMES}."
                )
            if entities.is_prefixed(tag):
                prefixed = prefixed or (line, tag)
            elif tag != entities.OUTSIDE:
                plain = plain or (line, tag)
    if prefixed and plain:
        raise ValueError(
            f"{path}, line {plain[0]}: the tag {plain[1]!r} has no prefix, but "
            f"{prefixed[1]!r} of line {prefixed[0]} has one: tags must be {_SCHEMES}, "
            "or all plain."
        )
