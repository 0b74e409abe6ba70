"""Trains a SentencePiece vocabulary on text, by the paper's recipe.

    python run_scripts/train_sentencepiece.py --input_file='text/*.txt' \\
        --input_format=raw --model_prefix=vocabulary/english

Writes PREFIX.model, which the other scripts take as --spm_model_file, and
PREFIX.vocab, for people to read.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from absl import flags

from albert_tf.progress import progress_bar
from data_prep.corpus.files import stat_files
from data_prep.corpus.inputs import expand_inputs
from data_prep.corpus.reader import ReadingConfig, read_sentences
from data_prep.corpus.vocabulary import (
    VocabularyConfig,
    check_model_prefix,
    train_vocabulary,
    write_vocabulary,
)
from flags import common_flags, fields

FLAGS = flags.FLAGS


def define_vocabulary_flags() -> None:
    """Defines the configuration of a vocabulary; the defaults are the paper's."""
    flags.DEFINE_string(
        "model_prefix",
        None,
        "Where to write: PREFIX.model and PREFIX.vocab.",
        required=True,
    )
    fields.define(
        VocabularyConfig,
        "vocab_size",
        "character_coverage",
        "sample_sentences",
        "random_seed",
    )
    flags.DEFINE_multi_string(
        "extra_symbol",
        [],
        "A string that is one token wherever it appears, like the usual punctuation. "
        "May be repeated.",
    )


def read_text(paths: Sequence[str], counts: Counter) -> Iterator[str]:
    """Streams the text of all sentences, with a bar over the bytes of the files."""
    size = sum(file.size for file in stat_files(paths))
    with progress_bar(size, "B", "text") as progress:
        config = fields.read(ReadingConfig)
        for sentence in read_sentences(paths, config, counts, progress.update):
            yield sentence.text


def main() -> None:
    config = fields.read(
        VocabularyConfig,
        lower_case=FLAGS.do_lower_case,
        extra_symbols=tuple(FLAGS.extra_symbol),
    )
    paths = expand_inputs(FLAGS.input_file)
    check_model_prefix(FLAGS.model_prefix)
    counts: Counter = Counter()
    vocabulary = train_vocabulary(read_text(paths, counts), config, counts)
    write_vocabulary(vocabulary.model, FLAGS.model_prefix)
    for reason, count in counts.items():
        if count:
            print(f"{reason}: {count:,}")
    print(
        f"{FLAGS.model_prefix}.model: {config.vocab_size:,} tokens, of "
        f"{vocabulary.sampled_sentences:,} sentences "
        f"({vocabulary.sampled_characters:,} characters) drawn from "
        f"{vocabulary.sentences:,}"
    )


if __name__ == "__main__":
    common_flags.define_corpus_flags()
    common_flags.define_text_cleaning_flags()
    define_vocabulary_flags()
    common_flags.run(main)
