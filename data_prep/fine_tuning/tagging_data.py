"""Turns files of sentences with tags into splits, as `datasets.py` does for others.

files = tagging_files("ner")        # train.txt, dev.txt or valid.txt, test.txt
data = tagging(files, tokenizer)
"""

from collections.abc import Mapping, Sequence

from albert_tf.storage import AnyPath, PathLike, as_path
from albert_tf.task_config import Tagging
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning import datasets, split_rows
from data_prep.fine_tuning.datasets import CACHE_DIR, MAX_SEQ_LENGTH, TaskData
from data_prep.fine_tuning.tagged_files import (
    JSON_SUFFIXES,
    TaggedFile,
    read_tagged_file,
)
from data_prep.fine_tuning.tagged_sentences import TagColumns

TASK_NAME = "tagging"
_SPLITS = ("train", "dev", "test")
# Split -> other names of its file.
_STEMS = {"dev": ("dev", "valid", "validation")}
SUFFIXES = (".txt", ".conll", ".tsv", ".bio", ".iob", ".iob2", *JSON_SUFFIXES)


def tagging_files(
    data_dir: PathLike, splits: Sequence[str] = ("train", "dev")
) -> dict[str, AnyPath]:
    """Finds the file of each split in a folder: TRAIN.SUFFIX and the like.

    Args:
      data_dir: the folder.
      splits: of "train", "dev" (or valid, validation) and "test".
    Raises:
      FileNotFoundError: the folder has no file for a split.
      ValueError: it has several.
    """
    folder, files = as_path(data_dir), {}
    for split in splits:
        stems = _STEMS.get(split, (split,))
        names = [f"{stem}{suffix}" for stem in stems for suffix in SUFFIXES]
        found = [name for name in names if (folder / name).is_file()]
        if not found:
            raise FileNotFoundError(
                f"{folder} has no file {' or '.join(stems)} that ends in one of "
                f"{', '.join(SUFFIXES)}: name it with --{split}_file."
            )
        if len(found) > 1:
            raise ValueError(
                f"{folder} has {' and '.join(found)}: name the one to read with "
                f"--{split}_file."
            )
        files[split] = folder / found[0]
    return files


def read_files(
    files: Mapping[str, PathLike], columns: TagColumns | None = None
) -> dict[str, TaggedFile]:
    """Reads the file of each split; those of "train" and "dev" need tags."""
    return {
        name: read_tagged_file(path, columns, need_tags=name != "test")
        for name, path in files.items()
    }


def tagging(
    files: Mapping[str, PathLike | TaggedFile],
    tokenizer: AlbertTokenizer,
    task_config: Tagging | None = None,
    *,
    max_seq_length: int = MAX_SEQ_LENGTH,
    doc_stride: int = Tagging.doc_stride,
    cache_dir: PathLike = CACHE_DIR,
) -> TaskData:
    """Reads sentences with a tag for each word.

    Args:
      files: "train", "dev" or "test" -> file, as `tagged_files.py` shows them, or one
        that `read_files` has read. The first two need tags; with tags, "test" is
        scored, too.
      tokenizer: the model's.
      task_config: labels and lengths of a model that is trained already; None: the
        labels are those of "train".
      max_seq_length: without a task configuration: longest row in tokens, special
        tokens included.
      doc_stride: without one: tokens from the start of a window of a longer sentence
        to the start of the next.
      cache_dir: folder for the converted rows.
    Raises:
      FileNotFoundError: a file is missing.
      ValueError: a file that is not of these formats, tags that cannot be learned, or
        lengths without room.
    """
    if unknown := set(files) - set(_SPLITS):
        raise ValueError(
            f"Splits of tagging are {', '.join(_SPLITS)}. Received {min(unknown)!r}."
        )
    paths = {n: file for n, file in files.items() if not isinstance(file, TaggedFile)}
    read = {n: file for n, file in files.items() if isinstance(file, TaggedFile)}
    read |= read_files(paths)
    if task_config is None:
        if "train" not in read:
            raise ValueError(
                "Sentences to train on are needed, whose tags become the model's. "
                "Received none: add 'train', or a trained model's task configuration."
            )
        labels = read["train"].labels()
        task_config = Tagging(TASK_NAME, labels, max_seq_length, doc_stride)
    splits, notes = {}, []
    for name in (name for name in _SPLITS if name in read):
        file = read[name].of_model(task_config.labels)
        conversion = split_rows.Conversion(tokenizer, cache_dir)
        splits[name] = split_rows.of_tagged_file(name, file, task_config, conversion)
        tags = f"tags of {file.scheme}" if file.has_tags else "no tags"
        notes.append(f"{name}: {split_rows.listed(file.counts)}, {tags}")
    return datasets.task_data(task_config, splits, notes)
