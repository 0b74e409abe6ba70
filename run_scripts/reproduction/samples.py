"""Small data sets in the published formats: samples of given ones, or made of the text
of the quick start.

What is made has the form of the tasks and can be learned; scores on it say that all
steps work, and no more.
"""

import json
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.files import make_folder, read_json, write_json, write_whole
from albert_tf.folders import whole_folder
from albert_tf.storage import AnyPath, as_path
from data_prep.fine_tuning import glue
from quickstart.corpus import embedded_documents
from reproduction.plan import data_flags
from reproduction.rows import AVERAGED
from reproduction.tasks import Task, tasks_for

# Rows for training and for development.
SIZES = {"train": 320, "dev": 96}
_SEED = 20
# The file that says where the data are from, and its value for those that are made.
_SOURCE, _MADE = "source.json", "the quick start's text"
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]{3,}\b")
_VERB = re.compile(r"\b(shall|is|was|were|are|will|did|hath|have|had)\b")
_LEVELS = ("middle", "high")


def prepare(data_dir: AnyPath | None, folder: AnyPath, tasks: Sequence[str]) -> AnyPath:
    """Makes the data of --small, unless they are there.

    Args:
      data_dir: folder of the published data; None: there is none.
      folder: where the data go.
      tasks: names of the tasks; without published data those that are made.
    Returns:
      The folder.
    Raises:
      ValueError: a task's data are not made, or the text's package is not installed.
      FileNotFoundError: the published data lack a file.
    """
    source = str(data_dir) if data_dir else _MADE
    if data_dir is None and not set(tasks) <= set(AVERAGED):
        lacking = ", ".join(sorted(set(tasks) - set(AVERAGED)))
        raise ValueError(
            f"Data of {lacking} are not made: give the published ones, --data_dir."
        )
    if folder.is_dir():
        if (before := read_json(folder / _SOURCE)["source"]) != source:
            raise ValueError(
                f"{folder} holds samples of {before}, not of {source}: give another "
                "--output_dir."
            )
        return folder
    with whole_folder(folder, _SOURCE) as partial:
        if data_dir is None:
            _make(partial)
        else:
            _sample(data_dir, partial, tasks_for(tasks))
        write_json(partial / _SOURCE, {"source": source})
    return folder


def _sample(data_dir: AnyPath, folder: Path, tasks: Sequence[Task]) -> None:
    """Draws rows, paragraphs or passages of each task's data."""
    data = data_flags(tasks, data_dir)
    rng = np.random.default_rng(_SEED)
    for task in tasks:
        paths = [as_path(flag.partition("=")[2]) for flag in data[task.name]]
        if task.script == "run_squad.py":
            for path, size in zip(paths, SIZES.values(), strict=True):
                _sample_squad(path, folder / "SQuAD" / path.name, size, rng)
        elif task.script == "run_race.py":
            _sample_race(paths[0], folder / "RACE", rng)
        else:
            _sample_tables(paths[0], folder, glue.GLUE[task.recipe], rng)


def _sample_squad(
    file: AnyPath, target: Path, size: int, rng: np.random.Generator
) -> None:
    """Draws paragraphs, with a question each."""
    content = read_json(file)
    paragraphs = [one for article in content["data"] for one in article["paragraphs"]]
    drawn = []
    for place in _draw(len(paragraphs), size, rng):
        asked = paragraphs[place]["qas"]
        questions = [asked[number] for number in _draw(len(asked), 1, rng)]
        drawn.append({"context": paragraphs[place]["context"], "qas": questions})
    data = [{"title": "sample", "paragraphs": drawn}]
    _write(target, [json.dumps({**content, "data": data})])


def _sample_race(source: AnyPath, target: Path, rng: np.random.Generator) -> None:
    """Draws passages of both levels."""
    for split, size in {**SIZES, "test": SIZES["dev"]}.items():
        for level in _LEVELS:
            files = sorted((source / split / level).glob("*.txt"))
            for place in _draw(len(files), size // 8, rng):
                passage = files[place].read_bytes()
                make_folder(target / split / level)
                write_whole(target / split / level / files[place].name, passage)


def _sample_tables(
    source: AnyPath, folder: Path, task: glue.GlueTask, rng: np.random.Generator
) -> None:
    """Draws lines of a task's tables, under their headers."""
    tables = glue.task_folder(source, task)
    for file in (task.train_file, *task.dev_files.values()):
        lines = (tables / file).read_text(encoding="utf-8").splitlines()
        header = lines[: int(task.train.header)]
        rows = lines[len(header) :]
        size = SIZES["train" if file == task.train_file else "dev"]
        drawn = [rows[place] for place in _draw(len(rows), size, rng)]
        _write(folder / task.folder / file, [*header, *drawn])


def _draw(count: int, size: int, rng: np.random.Generator) -> list[int]:
    """Places of at most so many rows, rising."""
    return sorted(rng.permutation(count)[:size].tolist())


def _make(folder: Path) -> None:
    """Makes SQuAD 1.1 and 2.0, MNLI, SST-2 and RACE of the quick start's text.

    Raises:
      ValueError: its package is not installed.
    """
    documents = embedded_documents()
    rng = np.random.default_rng(_SEED)
    texts = [documents[place] for place in rng.permutation(len(documents))]
    first = 0
    for split, size in SIZES.items():
        # Several are of no use for a task; no text is in two splits.
        part = texts[first : first + 3 * size]
        first += len(part)
        questions = list(_questions([one.text for one in part]))[:size]
        for version in ("1.1", "2.0"):
            file = folder / "SQuAD" / f"{split}-v{version}.json"
            _write_squad(file, questions, with_unanswerable=version == "2.0")
        _write_pairs(folder / "MNLI", split, [one.text for one in part], size)
        gospels = [(one.text, one.label in ("gospels", "letters")) for one in part]
        _write_labels(folder / "SST-2" / f"{split}.tsv", gospels[:size])
        _write_race(folder / "RACE" / split, questions[: size // 2], rng)
    shutil.copytree(folder / "RACE" / "dev", folder / "RACE" / "test")


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.?!])\s", text)


def _questions(texts: Iterable[str]) -> Iterable[tuple[str, str, str, int]]:
    """(context, question, answer, place of the answer) of texts with a name inside."""
    for text in texts:
        found = _NAME.search(text)
        if found:
            [sentence] = [each for each in _sentences(text) if found[0] in each][:1]
            question = sentence.replace(found[0], "who", 1).rstrip(".;:") + "?"
            yield text, question, found[0], found.start()


def _write_squad(
    file: Path,
    questions: Sequence[tuple[str, str, str, int]],
    with_unanswerable: bool,
) -> None:
    """Writes a file of SQuAD; of questions without an answer the text is another's."""
    paragraphs = []
    for number, (context, question, answer, place) in enumerate(questions):
        entry: dict[str, Any] = {"id": f"{file.stem}-{number}", "question": question}
        answers = [{"text": answer, "answer_start": place}]
        if with_unanswerable:
            entry["is_impossible"] = number % 2 == 1
            if entry["is_impossible"]:
                context, answers = questions[number - 1][0], []
        entry["answers"] = answers
        paragraphs.append({"context": context, "qas": [entry]})
    data = [{"title": "The quick start's text", "paragraphs": paragraphs}]
    _write(file, [json.dumps({"version": file.stem[-3:], "data": data})])


def _write_pairs(folder: Path, split: str, texts: Sequence[str], size: int) -> None:
    """Writes MNLI: a sentence of the text, of another text, or a denied one."""
    rows = ["index\tsentence1\tsentence2\tgold_label"]
    for number, text in enumerate(texts):
        sentences = _sentences(text)
        label = ("entailment", "neutral", "contradiction")[number % 3]
        hypothesis = sentences[-1]
        if label == "neutral":
            hypothesis = _sentences(texts[number - 1])[-1]
        if label == "contradiction":
            hypothesis = _VERB.sub(r"\1 not", hypothesis, count=1)
            if hypothesis == sentences[-1]:
                continue
        rows.append(f"{number}\t{text}\t{hypothesis}\t{label}")
    files = ["train"] if split == "train" else ["dev_matched", "dev_mismatched"]
    for file in files:
        _write(folder / f"{file}.tsv", rows[: size + 1])


def _write_labels(file: Path, rows: Iterable[tuple[str, bool]]) -> None:
    """Writes SST-2: is a text of the New Testament?"""
    lines = [f"{text}\t{int(label)}" for text, label in rows]
    _write(file, ["sentence\tlabel", *lines])


def _write_race(
    folder: Path,
    questions: Sequence[tuple[str, str, str, int]],
    rng: np.random.Generator,
) -> None:
    """Writes RACE: a name is missing in a sentence of the passage."""
    names = sorted({answer for _, _, answer, _ in questions})
    for number, (context, question, answer, _) in enumerate(questions):
        others = [name for name in names if name != answer]
        options = [answer, *rng.choice(others, 3, replace=False)]
        order = rng.permutation(4)
        level = _LEVELS[number % 2]
        passage = {
            "id": f"{level}{number}.txt",
            "article": context,
            "questions": [question.replace("who", "_", 1)],
            "options": [[str(options[place]) for place in order]],
            "answers": ["ABCD"[int(np.flatnonzero(order == 0)[0])]],
        }
        _write(folder / level / f"{number}.txt", [json.dumps(passage)])


def _write(file: Path, lines: Iterable[str]) -> None:
    make_folder(file.parent)
    write_whole(file, "".join(line + "\n" for line in lines).encode("utf-8"))
