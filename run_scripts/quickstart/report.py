"""Prints what the quick start made: a table, answers of the export, a filled blank."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from albert_tf.files import read_json
from albert_tf.text.vocabulary import MASK
from flags import common_flags

FLAGS = flags.FLAGS

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
    """Asks the export by text, as a server does: with TensorFlow and the operations of
    tensorflow-text alone."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    sentence = " ".join(read_texts(folder, "eval")[0].split()[:12])
    results = read_json(folder / "model" / "results.json")
    exported = folder / "saved_model" / str(results["global_step"])
    served = tf.saved_model.load(str(exported)).signatures["text"]
    [vector] = served(text=tf.constant([sentence]))["pooled_output"].numpy()
    numbers = " ".join(f"{number:.3f}" for number in vector[:6])
    print(f"\nThe exported model, asked by text:\n  {sentence!r}")
    print(f"  pooled_output: {len(vector)} numbers: {numbers} ...")


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
    ask_model(folder)
    fill_blank(folder)


if __name__ == "__main__":
    common_flags.define_output_dir_flag("The quick start's folder.")
    common_flags.run(main)
