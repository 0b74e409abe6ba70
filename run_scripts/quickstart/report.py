"""Prints what the quick start made: a table, and answers of its models."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from absl import flags

from albert_tf.files import read_json
from albert_tf.text.vocabulary import MASK
from flags import common_flags

FLAGS = flags.FLAGS

_QUESTION = "Who went up to the house of the LORD?"
_SHORT_WORDS = {"the", "a", "an", "of", "to", "in", "is", "and", "be", "by", "with"}


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


def commonest_label_accuracy(folder: Path) -> float:
    """Accuracy of always guessing the label that training rows have most often."""
    labels = {
        part: Counter(row["label"] for row in read_rows_of(folder, part))
        for part in ("train", "eval")
    }
    [(commonest, _)] = labels["train"].most_common(1)
    return labels["eval"][commonest] / labels["eval"].total()


def read_rows_of(folder: Path, part: str) -> list[dict[str, str]]:
    """The documents of train.jsonl or eval.jsonl: `text`, and `label` if it has one."""
    with open(folder / "text" / f"{part}.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def read_texts(folder: Path, part: str) -> list[str]:
    """The texts of train.jsonl or eval.jsonl."""
    return [row["text"] for row in read_rows_of(folder, part)]


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
    rows["  by chance"] = "50.0%"
    classified = read_json(folder / "classifier" / "results.json", missing_ok=True)
    if classified.get("sets"):
        accuracy = classified["sets"]["dev"]["eval_accuracy"]
        rows["classifier's accuracy"] = f"{accuracy:.1%}"
        rows["  commonest label"] = f"{commonest_label_accuracy(folder):.1%}"
    for name, value in rows.items():
        print(f"{name:<25}{value:>10}")


def ask_model(folder: Path) -> None:
    """Asks an export by text, as a server does: with TensorFlow and the operations of
    tensorflow-text alone."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    first = read_rows_of(folder, "eval")[0]
    results = read_json(folder / "model" / "results.json")
    exported = folder / "saved_model" / str(results["global_step"])
    classifier = folder / "saved_classifier" / "1"
    if classifier.is_dir():
        exported = classifier
    served = tf.saved_model.load(str(exported)).signatures["text"]
    answer = served(text=tf.constant([first["text"]]))
    print(f"\n{exported}, asked by text:\n  {first['text'][:300]}")
    if exported == classifier:
        names = read_json(folder / "classifier" / "task.json")["labels"]
        [shares] = answer["probabilities"].numpy()
        best = np.argsort(-shares)[:3]
        print("  " + ", ".join(f"{names[n]} {shares[n]:.0%}" for n in best), end="")
        print(f"  (it is from: {first['label']})")
        return
    [vector] = answer["pooled_output"].numpy()
    numbers = " ".join(f"{number:.3f}" for number in vector[:6])
    print(f"  pooled_output: {len(vector)} numbers: {numbers} ...")


def find_nearest(folder: Path) -> None:
    """Lists the sentences kept for evaluation whose vectors are nearest to a
    question's."""
    from albert_tf.checkpoints.model_dir import ModelDir
    from albert_tf.serving.nearest import nearest
    from albert_tf.serving.text_vectors import TextVectors
    from albert_tf.task_config import Embedding

    rows = read_rows_of(folder, "eval")
    sentences = [
        sentence
        for row in rows
        for sentence in re.split(r"(?<=[.!?])\s", row["text"])
        if 6 <= len(sentence.split()) <= 40
    ]
    query = _QUESTION if "label" in rows[0] else sentences.pop(0)
    model = TextVectors.from_model_dir(
        ModelDir.read(folder / "model"), Embedding(task_name="quickstart")
    )
    blocks = [block.vectors for block in model.encode([query, *sentences])]
    vectors = np.concatenate(blocks)
    # What all sentences have in common says nothing about any of them.
    vectors -= vectors.mean(axis=0)
    print(f"\nThe nearest of {len(sentences):,} sentences to {query!r}:")
    for place, cosine in nearest(vectors[0], vectors[1:], 3):
        print(f"  {cosine:.2f}  {sentences[place]}")
    print(
        f"Your own: python run_scripts/embed.py --model={folder / 'model'} "
        "--input_file=TEXTS.txt --output_file=TEXTS.npy"
    )


def fill_blank(folder: Path) -> None:
    """Masks a word of a sentence that was kept for evaluation, and lists what the
    model puts there."""
    from albert_tf.checkpoints.model_dir import ModelDir
    from albert_tf.serving.fill_mask import ServedFillMask

    word, blank = blank_sentence(read_texts(folder, "eval"))
    model = ServedFillMask.from_model_dir(ModelDir.read(folder / "model"), top_k=3)
    [[candidates]] = model.fill([blank])
    print(f"\nA blank in a sentence that was kept for evaluation ({word!r}), filled:")
    print(f"  {blank}")
    for each in candidates:
        print(f"  {each.token}  ({each.probability:.1%})")
    print(
        f"Your own: python run_scripts/fill_mask.py --model={folder / 'model'} "
        '"... [MASK] ..."'
    )


def blank_sentence(texts: Sequence[str]) -> tuple[str, str]:
    """The second short word of a sentence, and the sentence with [MASK] in its place.

    Short words are frequent ones, of which a small model knows something.
    """
    for text in texts:
        words = re.split(r"(?<=[.!?])\s", text)[0].split()[:20]
        short = [place for place, word in enumerate(words) if word in _SHORT_WORDS]
        if len(words) > 6 and len(short) > 1:
            place = short[1]
            blank = [*words[:place], MASK, *words[place + 1 :]]
            return words[place], " ".join(blank)
    return "?", f"{' '.join(texts[0].split()[:6])} {MASK}"


def main():
    folder = Path(FLAGS.output_dir)
    print_table(folder)
    fill_blank(folder)
    find_nearest(folder)
    ask_model(folder)
    curves = sorted(folder.glob("*/curves.png"))
    print(f"\nLearning curves: {', '.join(map(str, curves))}")


if __name__ == "__main__":
    common_flags.define_output_dir_flag("The quick start's folder.")
    common_flags.run(main)
