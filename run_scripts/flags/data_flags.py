"""Flags of making a vocabulary and pretraining data, and of looking at it; see
`common_flags.py`."""

from absl import flags

from data_prep.corpus.segmenter import SEGMENTERS
from data_prep.pretraining.config import PAIR_OBJECTIVES
from flags import common_flags

FLAGS = flags.FLAGS


def define_pretraining_data_flags(output_file: str | None = None) -> None:
    """How pretraining rows are made; the original's names and defaults."""
    flags.DEFINE_string(
        "output_file",
        output_file,
        "TFRecord files to write, separated by commas; NAME@64 stands for 64 files "
        "NAME-00000-of-00064 and so on. A sidecar FILE.json is written beside each.",
        required=output_file is None,
    )
    common_flags.define_max_seq_length_flag(512)
    common_flags.define_max_predictions_flag()
    flags.DEFINE_float(
        "masked_lm_prob", 0.15, "Share of a row's pieces to mask, up to the maximum."
    )
    flags.DEFINE_integer("ngram", 3, "Longest run of words that is masked together.")
    flags.DEFINE_bool(
        "favor_shorter_ngram",
        True,
        "Probability of a run of n words is proportional to 1/n; if false, the same "
        "weights are given out in reverse.",
    )
    flags.DEFINE_bool(
        "do_whole_word_mask",
        True,
        "Mask all pieces of a word; if false, each piece counts as a word.",
    )
    flags.DEFINE_enum(
        "chinese_segmenter",
        "none",
        SEGMENTERS,
        "What finds words of several Chinese characters, so that these are masked "
        "together. none: each character is a word. jieba: the library of that name "
        "(pip install --editable '.[jieba]').",
    )
    flags.DEFINE_float(
        "short_seq_prob", 0.1, "Share of rows that are made shorter at random."
    )
    flags.DEFINE_integer(
        "dupe_factor", 40, "Times each document is used, with other pairs and masks."
    )
    flags.DEFINE_enum(
        "pair_objective",
        "sop",
        sorted(PAIR_OBJECTIVES),
        "What a row's two segments are. sop: consecutive text, swapped in half of the "
        "rows. nsp: the second one is of another document in half of the rows. none: "
        "consecutive text in order.",
    )
    flags.DEFINE_bool(
        "random_next_sentence", False, "The original's name of --pair_objective=nsp."
    )
    common_flags.define_random_seed_flag(
        "Same seed, text and settings: same bytes in the output."
    )


def pair_objective() -> str:
    """What `--pair_objective` or its old name says."""
    if not FLAGS.random_next_sentence:
        return FLAGS.pair_objective
    if FLAGS["pair_objective"].present and FLAGS.pair_objective != "nsp":
        raise flags.Error(
            "--random_next_sentence means --pair_objective=nsp, not "
            f"{FLAGS.pair_objective}: give one of them."
        )
    return "nsp"


def define_num_workers_flag() -> None:
    """`--num_workers`."""
    flags.DEFINE_integer(
        "num_workers",
        None,
        "Processes that share the work; default: all processors that may be used. The "
        "output is the same for any number.",
        lower_bound=1,
    )


def define_data_run_flags() -> None:
    """How and where the work of making pretraining data is done."""
    define_num_workers_flag()
    flags.DEFINE_string(
        "shard_range",
        "",
        "FIRST:END: make only these of the output files, the end not included, so that "
        "several machines share the work.",
    )
    flags.DEFINE_string(
        "work_dir",
        "",
        "Folder for tokenized text (half as large as the text) and unshuffled rows (of "
        "the files in work); default: beside the output. Cleared when all files are "
        "made. Machines that share it share the tokenization.",
    )
    flags.DEFINE_bool(
        "dry_run",
        False,
        "Write nothing; predict rows and bytes from a sample of the text.",
    )


def define_inspection_flags() -> None:
    """Which rows of a record file are shown, and how."""
    flags.DEFINE_string(
        "vocabulary",
        None,
        "SentencePiece model, or a WordPiece vocabulary whose name ends in .txt. "
        "Without it rows are shown as ids.",
    )
    flags.DEFINE_integer("rows", 3, "Rows to show.", lower_bound=0)
    flags.DEFINE_integer("first_row", 0, "The first row to show.", lower_bound=0)
    flags.DEFINE_bool("check", True, "Check all rows against the record contract.")


def inspection_tokenizer():
    """The tokenizer of `--vocabulary`, or None."""
    from albert_tf.text.tokenizer import AlbertTokenizer

    return AlbertTokenizer.from_file(FLAGS.vocabulary) if FLAGS.vocabulary else None


def define_data_benchmark_flags() -> None:
    """How `benchmark.py data` measures."""
    flags.DEFINE_integer(
        "max_workers", 2, "Processes to compare with one.", lower_bound=1
    )
    flags.DEFINE_integer("repeats", 3, "Runs of each kind; the best counts.")
    flags.DEFINE_integer(
        "text_copies",
        1,
        "Times the text is read: more for a short text, or starting takes the time.",
        lower_bound=1,
    )


def define_vocabulary_flags() -> None:
    """How a vocabulary is trained; the paper's values."""
    flags.DEFINE_string(
        "model_prefix",
        None,
        "Where to write: PREFIX.model and PREFIX.vocab.",
        required=True,
    )
    flags.DEFINE_integer(
        "vocab_size", 30_000, "Pieces, reserved ones and symbols included."
    )
    flags.DEFINE_float(
        "character_coverage",
        0.99995,
        "Share of the text's characters that the vocabulary must hold; the rarest "
        "others become unknown.",
    )
    flags.DEFINE_integer(
        "sample_sentences",
        1_000_000,
        "Sentences to train on, drawn from all. A million take about 3.6 GB of memory.",
    )
    flags.DEFINE_multi_string(
        "extra_symbol",
        [],
        "A string that shall be one piece wherever it stands, besides the usual "
        "punctuation. May be repeated.",
    )
    common_flags.define_random_seed_flag(
        "Draws the sentences; same seed and text: same bytes."
    )
