"""Prints what the quick start made: a table, and an answer of the exported model.

The SavedModel is called by TensorFlow's own `saved_model_cli`, which knows no code of
this project.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from absl import flags

from albert_tf.files import read_json
from flags import common_flags

FLAGS = flags.FLAGS


def commonest_piece_accuracy(folder: Path) -> float:
    """Accuracy of always guessing the piece that training rows mask most often."""
    from albert_tf.records.reader import read_rows

    labels = {
        part: Counter(
            int(piece)
            for row in read_rows(folder / f"{part}.tfrecord")
            for piece, weight in zip(
                row["masked_lm_ids"], row["masked_lm_weights"], strict=True
            )
            if weight
        )
        for part in ("train", "eval")
    }
    [(commonest, _)] = labels["train"].most_common(1)
    return labels["eval"][commonest] / labels["eval"].total()


def read_texts(folder: Path, part: str) -> list[str]:
    """The documents of train.jsonl or eval.jsonl."""
    with open(folder / "text" / f"{part}.jsonl", encoding="utf-8") as file:
        return [json.loads(line)["text"] for line in file]


def load_tokenizer(folder: Path):
    from albert_tf.text.tokenizer import AlbertTokenizer

    return AlbertTokenizer(spm_model_file=str(folder / "vocabulary.model"))


def unknown_share(folder: Path) -> float:
    """Share of the evaluation text's tokens that the vocabulary lacks."""
    tokenizer = load_tokenizer(folder)
    pieces = Counter(
        piece
        for ids in tokenizer.encode_batch(read_texts(folder, "eval"))
        for piece in ids
    )
    return pieces[tokenizer.unk_id] / pieces.total()


def print_table(folder: Path) -> None:
    from albert_tf.records.sidecar import read_metadata

    results = read_json(folder / "model" / "results.json")
    sidecars = {
        part: read_metadata(folder / f"{part}.tfrecord") for part in ("train", "eval")
    }
    rows = {
        "rows, training": f"{sidecars['train']['rows']:,}",
        "rows, evaluation": f"{sidecars['eval']['rows']:,}",
        "unknown tokens": f"{unknown_share(folder):.2%}",
        "steps": f"{results['global_step']:,}",
    }
    if results.get("train"):
        batch_size = results["settings"]["train"]["train_batch_size"]
        speed = results["train"]["examples_per_second"] / batch_size
        rows["steps a second"] = f"{speed:.1f}"
    rows["masked-LM accuracy"] = f"{results['masked_lm_accuracy']:.1%}"
    rows["  commonest piece"] = f"{commonest_piece_accuracy(folder):.1%}"
    rows["sentence-order accuracy"] = f"{results['sentence_order_accuracy']:.1%}"
    for name, value in rows.items():
        print(f"{name:<25}{value:>10}")


def ask_model(folder: Path) -> None:
    from albert_tf.text import packing

    sentence = " ".join(read_texts(folder, "eval")[0].split()[:12])
    tokenizer = load_tokenizer(folder)
    ids = tokenizer.encode(sentence)
    inputs = packing.pack_segments(
        ids,
        None,
        max_seq_length=len(ids) + packing.SPECIAL_TOKENS_OF_SINGLE,
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        pad_id=tokenizer.pad_id,
    )
    expressions = ";".join(f"{n}=[{v.tolist()}]" for n, v in inputs.items())
    command = [str(Path(sys.executable).with_name("saved_model_cli")), "run"]
    results = read_json(folder / "model" / "results.json")
    exported = folder / "saved_model" / str(results["global_step"])
    command += ["--dir", str(exported), "--tag_set", "serve"]
    command += ["--signature_def", "serving_default", "--input_exprs", expressions]
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    answer = subprocess.run(command, capture_output=True, text=True, env=quiet)
    if answer.returncode:
        raise ValueError(f"saved_model_cli failed: {answer.stderr.splitlines()[-1]}")
    vector = answer.stdout.split("pooled_output:")[1].split("Result")[0]
    numbers = vector.replace("[", " ").replace("]", " ").split()
    print(f"\nThe exported model, asked through saved_model_cli:\n  {sentence!r}")
    print(f"  pooled_output: {len(numbers)} numbers: {' '.join(numbers[:6])} ...")


def main():
    folder = Path(FLAGS.output_dir)
    print_table(folder)
    ask_model(folder)


if __name__ == "__main__":
    common_flags.define_output_dir_flag("The quick start's folder.")
    common_flags.run(main)
