"""Writes sentences with the tags that a model predicts: CoNLL columns, and spans."""

import json
from collections.abc import Iterator, Mapping, Sequence

from albert_tf.file_kinds import not_ours
from albert_tf.files import make_folder, write_whole
from albert_tf.storage import AnyPath
from albert_tf.text import entities
from data_prep.fine_tuning.tagged_files import TaggedFile, read_tagged_file
from data_prep.fine_tuning.tagged_sentences import Sentence

# Number of a sentence -> the tag of each word, and its probability.
Tags = Mapping[int, tuple[Sequence[str], Sequence[float]]]


def write_tags(file: TaggedFile, tags: Tags, columns: AnyPath, spans: AnyPath) -> None:
    """Writes two files, each atomically.

    Args:
      file: the sentences.
      tags: those of each sentence that has words.
      columns: gets the columns of each word as given, between tabs, and the predicted
        tag as the last one; sentences without words are left out.
      spans: gets a JSON object a line for each sentence: its `text`, and `entities`,
        each with `start` and `end`, half-open, in characters of the text, `label`,
        `text`, and `score`, the mean probability of its words' tags.
    """
    for path, lines in (
        (columns, _column_lines(file, tags)),
        (spans, _span_lines(file, tags)),
    ):
        make_folder(path.parent)
        write_whole(path, "".join(f"{line}\n" for line in lines).encode())


def check_outputs(*paths: AnyPath) -> None:
    """Checks that `write_tags` would replace no files but such with tags.

    Raises:
      FileExistsError: it would.
    """
    for path in paths:
        if not path.exists() or (path.is_file() and not path.stat().st_size):
            continue
        try:
            read_tagged_file(path)
        except (ValueError, OSError):
            raise not_ours(path) from None


def _column_lines(file: TaggedFile, tags: Tags) -> Iterator[str]:
    for number, sentence in enumerate(file.sentences):
        if not sentence.words:
            continue
        predicted, _ = tags[number]
        columns = sentence.columns or [(word,) for word in sentence.words]
        for cells, tag in zip(columns, predicted, strict=True):
            yield "\t".join((*cells, tag))
        yield ""


def _span_lines(file: TaggedFile, tags: Tags) -> Iterator[str]:
    for number, sentence in enumerate(file.sentences):
        predicted, probabilities = tags.get(number, ((), ()))
        text, _ = sentence.as_text()
        spans = _spans(sentence, predicted, probabilities)
        yield json.dumps({"text": text, "entities": spans}, ensure_ascii=False)


def _spans(
    sentence: Sentence, tags: Sequence[str], probabilities: Sequence[float]
) -> list[dict[str, str | int | float]]:
    text, ranges = sentence.as_text()
    found: list[dict[str, str | int | float]] = []
    for entity in entities.entities(tags):
        start, end = ranges[entity.start][0], ranges[entity.end - 1][1]
        scores = probabilities[entity.start : entity.end]
        found.append(
            {
                "start": start,
                "end": end,
                "label": entity.label,
                "text": text[start:end],
                "score": round(sum(scores) / len(scores), 6),
            }
        )
    return found
