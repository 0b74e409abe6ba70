r"""Measures the similarity of each layer's input and output, as the paper's Figure 1.

    python run_scripts/layer_similarity.py --checkpoints=albert_large,bert_large \
        --input_file=text.txt --spm_model_file=english.model \
        --output_file=similarity.csv

It writes a CSV and a PNG. Every checkpoint has its albert_config.json (or
bert_config.json) next to it, and all have the same vocabulary.
"""

import csv
import io
import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from absl import flags
from tqdm import tqdm

from albert_tf.config import TrainConfig
from albert_tf.file_kinds import check_replaceable, check_suffix, not_ours
from albert_tf.files import write_together
from albert_tf.storage import as_path
from albert_tf.text import packing
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.corpus.inputs import expand_inputs
from data_prep.corpus.reader import ReadingConfig, read_documents
from flags import common_flags, fields

if TYPE_CHECKING:
    from albert_tf.analysis.layer_similarity import LayerSimilarity
    from albert_tf.model.encoder import AlbertEncoder

FLAGS = flags.FLAGS
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLUMNS = ("checkpoint", "layer", "l2_distance", "cosine_degrees")


def read_batches(tokenizer: AlbertTokenizer) -> list[dict[str, np.ndarray]]:
    """The first rows of the text in batches; a row has tokens of one document."""
    special = {n: getattr(tokenizer, n) for n in ("cls_id", "sep_id", "pad_id")}
    width = FLAGS.max_seq_length - packing.SPECIAL_TOKENS_OF_SINGLE
    rows = []
    paths = expand_inputs(FLAGS.input_file)
    for document in read_documents(paths, fields.read(ReadingConfig)):
        ids = [*itertools.chain(*tokenizer.encode_batch(document.sentences))]
        for start in range(0, len(ids), width):
            segment = ids[start : start + width]
            row = packing.pack_segments(segment, None, FLAGS.max_seq_length, **special)
            rows.append(row)
            if len(rows) == FLAGS.max_rows:
                return _batches(rows)
    return _batches(rows)


def _batches(rows: list[dict[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    starts = range(0, len(rows), FLAGS.eval_batch_size)
    groups = (rows[start : start + FLAGS.eval_batch_size] for start in starts)
    return [{k: np.stack([r[k] for r in group]) for k in group[0]} for group in groups]


def load_encoder(path: str, tokenizer: AlbertTokenizer) -> "AlbertEncoder":
    """The encoder of a checkpoint, with the configuration next to it.

    Raises:
      ValueError: it has another vocabulary or cleaning of text, or reads shorter rows.
    """
    from albert_tf.checkpoints import agreement, output_folders
    from albert_tf.checkpoints.load import HEADS, load_weights
    from albert_tf.model.encoder import AlbertEncoder

    weights = output_folders.locate_best(path)
    config = agreement.choose_config(weights)
    if config.vocab_size != tokenizer.vocab_size:
        raise ValueError(
            f"{path} has {config.vocab_size} tokens, the vocabulary "
            f"{tokenizer.vocab_size}: give the vocabulary that it was trained with."
        )
    if FLAGS.max_seq_length > config.max_position_embeddings:
        raise ValueError(
            f"{path} reads at most {config.max_position_embeddings} tokens. Received "
            f"--max_seq_length={FLAGS.max_seq_length}: lower it."
        )
    used = tokenizer.metadata()
    cleaning = (used["lower_case"], used["strip_accents"])
    named = (FLAGS.spm_model_file, FLAGS.vocab_file)
    agreement.choose_vocabulary(weights, *named, *cleaning)
    encoder = AlbertEncoder(config, seed=0)
    load_weights(encoder, weights, unused_ok=HEADS)
    return encoder


def draw(results: Mapping[str, "LayerSimilarity"]) -> bytes:
    """The figure's two panels as PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    titles = ("L2 distance", "cosine similarity (degree)")
    for axes, title, field in zip(figure.subplots(1, 2), titles, (0, 1), strict=True):
        for name, similarity in results.items():
            layers = range(1, len(similarity[field]) + 1)
            axes.plot(layers, similarity[field], marker=".", label=name)
        axes.set(xlabel="layer", ylabel=title, ylim=(0, None))
        axes.legend()
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=120)
    return image.getvalue()


def main() -> None:
    """Writes the CSV and the figure."""
    output = as_path(FLAGS.output_file)
    if FLAGS.max_seq_length <= packing.SPECIAL_TOKENS_OF_SINGLE:
        raise flags.Error(
            f"--max_seq_length must be above {packing.SPECIAL_TOKENS_OF_SINGLE}, the "
            f"special tokens of a row. Received {FLAGS.max_seq_length}."
        )
    figure = output.with_suffix(".png")
    check_suffix(output, "a table")
    check_replaceable(output, ",".join(COLUMNS).encode())
    check_replaceable(figure, PNG_SIGNATURE)
    # A figure is known by the table beside it.
    has_table = output.is_file() and output.stat().st_size
    if figure.is_file() and figure.stat().st_size and not has_table:
        raise not_ours(figure)
    tokenizer = common_flags.make_tokenizer()
    batches = read_batches(tokenizer)
    from albert_tf.analysis.layer_similarity import layer_similarity

    results = {}
    for path in FLAGS.checkpoints:
        encoder = load_encoder(path, tokenizer)
        bar = tqdm(batches, desc=path, unit="batch", disable=None)
        results[path] = layer_similarity(encoder, bar)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for path, similarity in results.items():
        for layer, values in enumerate(zip(*similarity, strict=True), start=1):
            writer.writerow([path, layer, *(f"{value:.6g}" for value in values)])
    write_together({output: text.getvalue().encode(), figure: draw(results)})
    print(f"Wrote {output} and {figure}.")


if __name__ == "__main__":
    flags.DEFINE_list(
        "checkpoints",
        None,
        "Checkpoints to compare, each by its path up to .index or by its folder; of an "
        "output folder the best weights count.",
        required=True,
    )
    common_flags.define_output_file_flag("CSV to write; the PNG is written next to it.")
    flags.DEFINE_integer(
        "max_rows", 256, "Rows of the text to measure at most.", lower_bound=1
    )
    fields.define(TrainConfig, "eval_batch_size", eval_batch_size=8)
    common_flags.define_corpus_flags(input_format="raw")
    common_flags.define_tokenizer_flags()
    common_flags.define_max_seq_length_flag(512)
    common_flags.run(main)
