r"""Makes vectors of texts with any model, and finds the texts nearest to a question.

    python run_scripts/embed.py --model=vectors --input_file=texts.txt \
        --output_file=texts.npy
    python run_scripts/embed.py --model=vectors --input_file=news.csv \
        --text_column=title --output_file=news.parquet --keep_text
    python run_scripts/embed.py --model=vectors --vectors=texts.npy \
        --texts=texts.txt --query="How do I return a parcel?"

The vectors are in the order of the texts. A model of run_embedding.py or of
sentence-transformers says itself how its vectors are made.
"""

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from absl import flags

from albert_tf.files import short_digest
from albert_tf.progress import progress_bar
from data_prep.fine_tuning.text_lists import read_texts
from flags import common_flags, embedding_flags, table_flags

if TYPE_CHECKING:
    from albert_tf.serving.text_vectors import TextVectors, Vectors

FLAGS = flags.FLAGS


def define_flags() -> None:
    """Defines the model, the texts, and how vectors are made of them."""
    common_flags.define_model_flag(
        "The model: output folder of a run, or weights of any format with their "
        "configuration next to them."
    )
    common_flags.define_vocabulary_flag("Default: the one next to the weights.")
    common_flags.define_use_ema_flag()
    common_flags.define_input_file_flag(
        "Texts: a text a line, or a table (.tsv, .csv, .jsonl, .parquet).",
        required=False,
    )
    table_flags.define_text_column_flag("Table: ")
    common_flags.define_output_file_flag(
        "File for the vectors: .npy, or .parquet with the columns index and vector.",
        default="",
    )
    flags.DEFINE_bool("keep_text", False, "Parquet: a column text, too.")
    embedding_flags.define_vector_flags()
    flags.DEFINE_integer(
        "layer",
        -1,
        "Layer whose outputs are pooled: 0 for the embeddings, 1 for the first layer "
        "and so on; -1 for the last one.",
    )
    flags.DEFINE_integer(
        "max_length", 0, "Most tokens of a text; 0: as the model was trained, or reads."
    )
    table_flags.define_batch_size_flag(32, "Texts")
    flags.DEFINE_string("query", "", "Find the texts nearest to this one.")
    flags.DEFINE_string("vectors", "", "With --query: vectors that this script made.")
    flags.DEFINE_string(
        "texts", "", "With --query: the file that they were made of, as --input_file."
    )
    common_flags.define_top_k_flag()


def main():
    if bool(FLAGS.query) == bool(FLAGS.output_file):
        raise flags.Error(
            "Pass texts and a file for their vectors, --input_file and --output_file, "
            "or a question, --query, with --vectors and --texts."
        )
    if FLAGS.query:
        _search()
    else:
        _embed()


def _embed() -> None:
    from albert_tf.serving import vector_files

    if not FLAGS.input_file:
        raise flags.Error("Name the texts: --input_file.")
    vector_files.check_output(FLAGS.output_file)
    is_table = FLAGS.output_file.lower().endswith(".parquet")
    if FLAGS.keep_text and not is_table:
        raise flags.Error("--keep_text is for files that end in .parquet.")
    texts = read_texts(FLAGS.input_file, FLAGS.text_column).texts
    model = _model()
    counts: dict[str, int] = {}
    vector_files.write(
        FLAGS.output_file,
        _with_progress(model.encode(texts, FLAGS.batch_size), len(texts), counts),
        len(texts),
        _settings(model),
        texts if FLAGS.keep_text else None,
    )
    for name, words in {"truncated": "were truncated", "empty": "are empty"}.items():
        if counts.get(name):
            print(
                f"WARNING: {counts[name]:,} of {len(texts):,} texts {words}.",
                flush=True,
            )
    print(
        f"{len(texts):,} vectors of {model.size} numbers: {FLAGS.output_file}",
        flush=True,
    )


def _with_progress(
    blocks: "Iterator[Vectors]", total: int, counts: dict[str, int]
) -> Iterator[np.ndarray]:
    with progress_bar(total, "texts", "vectors") as bar:
        for block in blocks:
            for name in ("truncated", "empty"):
                counts[name] = counts.get(name, 0) + getattr(block, name)
            yield block.vectors
            bar.update(len(block.vectors))


def _model() -> "TextVectors":
    from albert_tf.checkpoints.model_dir import ModelDir
    from albert_tf.serving.text_vectors import TextVectors

    folder = ModelDir.read(FLAGS.model, FLAGS.vocabulary)
    task = embedding_flags.task_of(FLAGS.model, folder.task_config)
    if FLAGS.max_length:
        task = dataclasses.replace(task, max_seq_length=FLAGS.max_length)
    return TextVectors.from_model_dir(folder, task, FLAGS.layer, FLAGS.use_ema)


def _settings(model: "TextVectors") -> dict:
    """The values that decide a vector."""
    return {
        "model": str(FLAGS.model),
        "pooling": model.task.pooling,
        "normalize": model.task.normalize,
        "layer": FLAGS.layer,
        "max_seq_length": model.task.max_seq_length,
        "dimension": model.size,
        "weights_sha256": model.digest(),
    }


def _search() -> None:
    from albert_tf.serving import vector_files
    from albert_tf.serving.nearest import nearest

    if not (FLAGS.vectors and FLAGS.texts):
        raise flags.Error("--query needs --vectors and --texts.")
    stored = vector_files.read(FLAGS.vectors)
    texts = read_texts(FLAGS.texts, FLAGS.text_column).texts
    if len(texts) != len(stored.vectors):
        raise ValueError(
            f"{FLAGS.texts} holds {len(texts):,} texts, {FLAGS.vectors} "
            f"{len(stored.vectors):,} vectors: name the file that they were made of."
        )
    model = _model()
    for name, value in _settings(model).items():
        if name != "model" and stored.settings.get(name) != value:
            known = short_digest(stored.settings.get(name))
            raise ValueError(
                f"{FLAGS.vectors} was made with {name}={known}, the question would be "
                f"with {name}={short_digest(value)}: pass the same model and flags."
            )
    [query] = model.encode([FLAGS.query])
    for place, cosine in nearest(query.vectors[0], stored.vectors, FLAGS.top_k):
        print(f"{cosine:6.3f}  {texts[place]}", flush=True)


if __name__ == "__main__":
    define_flags()
    common_flags.run(main)
