r"""Fills in the blanks of texts, at the terminal, with a pretrained model.

    python run_scripts/fill_mask.py --model=albert_base \
        "The capital of France is [MASK]." "He [MASK] the [MASK]."

Write [MASK], in capitals, in place of a word, any number of times; all the rest is
text. For each the likeliest tokens of the vocabulary are listed, with their
probabilities. A text that is longer than the model reads is refused.
"""

import dataclasses
import json

from absl import flags

from flags import common_flags, text_files

FLAGS = flags.FLAGS


def define_flags() -> None:
    """Defines a pretrained model, its texts and what is printed."""
    common_flags.define_model_flag(
        "The pretrained model: output folder of run_pretraining.py, or weights of any "
        "format with their configuration next to them."
    )
    common_flags.define_vocabulary_flag("Default: the one next to the weights.")
    common_flags.define_input_file_flag(
        "File of texts, one a line, besides those on the command line; -: standard "
        "input.",
        required=False,
    )
    common_flags.define_top_k_flag()
    flags.DEFINE_enum(
        "output_format",
        "text",
        ["text", "jsonl"],
        "text: for people. jsonl: a JSON object a text, with `text` and `masks`, for "
        "each mask a list of `token`, `token_id` and `probability`.",
    )


def main(texts: list[str]) -> None:
    if FLAGS.input_file:
        texts = texts + text_files.read_text("input_file", FLAGS.input_file).split("\n")
        if not texts[-1]:  # the end of the last line
            texts.pop()
    if not texts:
        raise flags.Error('Pass a text, as "The capital of France is [MASK].".')
    from albert_tf.checkpoints.model_dir import ModelDir
    from albert_tf.serving.fill_mask import ServedFillMask

    folder = ModelDir.read(FLAGS.model, FLAGS.vocabulary)
    model = ServedFillMask.from_model_dir(folder, FLAGS.top_k)
    show = _print_json if FLAGS.output_format == "jsonl" else _print_text
    for text, masks in zip(texts, model.fill(texts), strict=True):
        show(text, masks)


def _print_json(text: str, masks: list) -> None:
    values = [[dataclasses.asdict(each) for each in mask] for mask in masks]
    print(json.dumps({"text": text, "masks": values}, ensure_ascii=False), flush=True)


def _print_text(text: str, masks: list) -> None:
    print(text)
    for number, candidates in enumerate(masks, start=1):
        if len(masks) > 1:
            print(f"[MASK] {number}:")
        for candidate in candidates:
            print(f"  {candidate.token}  ({candidate.probability:.1%})", flush=True)


if __name__ == "__main__":
    define_flags()
    common_flags.run(main, texts="TEXT ...")
