"""Trains a SentencePiece vocabulary on text, by the paper's recipe.

    python run_scripts/train_sentencepiece.py --input_file='text/*.txt' \\
        --input_format=raw --model_prefix=vocabulary/english

Writes PREFIX.model, which the other scripts take as --spm_model_file, and
PREFIX.vocab, for people to read.
"""

import os
from collections import Counter

from absl import flags
from tqdm import tqdm

from data_prep.corpus.reader import expand_inputs, read_sentences
from data_prep.corpus.vocabulary import (
    VocabularyConfig,
    check_writable,
    train_vocabulary,
    write_vocabulary,
)
from flags import common_flags, data_flags

FLAGS = flags.FLAGS


def config_from_flags() -> VocabularyConfig:
    return VocabularyConfig(
        vocab_size=FLAGS.vocab_size,
        lower_case=FLAGS.do_lower_case,
        strip_accents=FLAGS.strip_accents,
        character_coverage=FLAGS.character_coverage,
        sample_sentences=FLAGS.sample_sentences,
        random_seed=FLAGS.random_seed,
        extra_symbols=tuple(FLAGS.extra_symbol),
    )


def read_text(paths, counts):
    """Streams the text of all sentences, with a bar over the bytes of the files."""
    size = sum(os.path.getsize(path) for path in paths)
    bar = tqdm(total=size, unit="B", unit_scale=True, desc="text", disable=None)
    with bar as progress:
        sentences = read_sentences(
            paths,
            FLAGS.input_format,
            on_bad_text=FLAGS.on_bad_text,
            language=FLAGS.language,
            counts=counts,
            progress=progress.update,
        )
        for sentence in sentences:
            yield sentence.text


def main():
    config = config_from_flags()
    paths = expand_inputs(FLAGS.input_file)
    check_writable(FLAGS.model_prefix)
    counts = Counter()
    vocabulary = train_vocabulary(read_text(paths, counts), config, counts)
    write_vocabulary(vocabulary.model, FLAGS.model_prefix)
    for reason, count in counts.items():
        if count:
            print(f"{reason}: {count:,}")
    print(
        f"{FLAGS.model_prefix}.model: {config.vocab_size:,} pieces, of "
        f"{vocabulary.sampled_sentences:,} sentences "
        f"({vocabulary.sampled_characters:,} characters) drawn from "
        f"{vocabulary.sentences:,}"
    )


if __name__ == "__main__":
    common_flags.define_corpus_flags()
    common_flags.define_text_cleaning_flags()
    data_flags.define_vocabulary_flags()
    common_flags.run(main)
