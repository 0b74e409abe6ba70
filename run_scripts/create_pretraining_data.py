"""Makes pretraining records of text: sentence-order pairs with n-gram masks.

    python run_scripts/create_pretraining_data.py --input_file='text/*.txt' \
        --input_format=raw --spm_model_file=vocabulary.model --output_file=a.tfrecord

Each output file gets a sidecar FILE.json with its settings and numbers.
"""

import os

from absl import flags, logging
from tqdm import tqdm

import common_flags
from data_prep import corpus
from data_prep.masking import MaskingConfig
from data_prep.pretraining import PretrainingDataConfig
from data_prep.shards import expand_outputs, write_record_files
from data_prep.statistics import Statistics
from data_prep.store import tokenize_sentences

FLAGS = flags.FLAGS

# More unknown pieces than this share mean that vocabulary and text do not fit.
MAX_UNKNOWN_SHARE = 0.02


def config_from_flags() -> PretrainingDataConfig:
    return PretrainingDataConfig(
        max_seq_length=FLAGS.max_seq_length,
        short_seq_prob=FLAGS.short_seq_prob,
        dupe_factor=FLAGS.dupe_factor,
        random_seed=FLAGS.random_seed,
        masking=MaskingConfig(
            max_predictions_per_seq=FLAGS.max_predictions_per_seq,
            masked_lm_prob=FLAGS.masked_lm_prob,
            ngram=FLAGS.ngram,
            favor_shorter_ngram=FLAGS.favor_shorter_ngram,
            do_whole_word_mask=FLAGS.do_whole_word_mask,
        ),
    )


def read_corpus(tokenizer, config, statistics):
    """Reads and encodes the input, with a bar over its bytes."""
    paths = corpus.expand_inputs(FLAGS.input_file)
    size = sum(os.path.getsize(path) for path in paths)
    bar = tqdm(total=size, unit="B", unit_scale=True, desc="text", disable=None)
    with bar as progress:
        sentences = corpus.read_sentences(
            paths,
            FLAGS.input_format,
            on_bad_text=FLAGS.on_bad_text,
            language=FLAGS.language,
            counts=statistics.skipped,
            progress=progress.update,
        )
        return tokenize_sentences(
            sentences, tokenizer, config.max_text_pieces, statistics
        )


def main():
    config = config_from_flags()
    output_files = expand_outputs(FLAGS.output_file)
    tokenizer = common_flags.make_tokenizer()
    statistics = Statistics()
    text = read_corpus(tokenizer, config, statistics)
    statistics.merge(write_record_files(text, tokenizer, config, output_files))
    print(statistics.table())
    unknown = statistics.unknown_pieces / statistics.pieces
    if unknown > MAX_UNKNOWN_SHARE:
        logging.warning(
            "%.1f %% of the pieces are unknown to the vocabulary: check that it was "
            "made for this text, and --do_lower_case.",
            100 * unknown,
        )


if __name__ == "__main__":
    common_flags.define_corpus_flags()
    common_flags.define_tokenizer_flags()
    common_flags.define_pretraining_data_flags()
    common_flags.run(main)
