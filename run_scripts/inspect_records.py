r"""Shows rows of a pretraining record file and checks the whole file.

    python run_scripts/inspect_records.py data/train.tfrecord-00000-of-00064 \
        --vocabulary=vocabulary.model --rows=2

Exit code 1 if a row breaks the record contract; the first such rows are named.
"""

import itertools

from absl import flags

from albert_tf.records.file_names import expand_paths
from albert_tf.storage import as_path
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.pretraining.inspection import (
    describe_row,
    find_problems,
    read_pretraining_metadata,
)
from flags import common_flags

FLAGS = flags.FLAGS

_SHOWN_PROBLEMS = 10


def define_inspection_flags() -> None:
    """Defines the rows of a record file that are shown."""
    common_flags.define_vocabulary_flag("Without it rows are shown as ids.")
    flags.DEFINE_integer("rows", 3, "Rows to show.", lower_bound=0)
    flags.DEFINE_integer("first_row", 0, "The first row to show.", lower_bound=0)
    flags.DEFINE_bool("check", True, "Check all rows against the record contract.")


def main(files: list[str]) -> None:
    # Loads TensorFlow.
    from albert_tf.records.reader import read_rows

    tokenizer = None
    if FLAGS.vocabulary:
        tokenizer = AlbertTokenizer.from_file(FLAGS.vocabulary)
    for path in expand_paths(",".join(files)):
        metadata = read_pretraining_metadata(path)
        size = as_path(path).stat().st_size
        print(f"{path}: {metadata['rows']:,} rows, {size:,} bytes")
        # No file has more rows, and islice takes no larger number.
        first = min(FLAGS.first_row, metadata["rows"])
        end = min(first + FLAGS.rows, metadata["rows"])
        shown = itertools.islice(read_rows(path), first, end)
        for number, row in enumerate(shown, start=first):
            print(f"row {number}: {describe_row(row, metadata, tokenizer)}")
        if FLAGS.check:
            check(path, tokenizer)


def check(path: str, tokenizer: AlbertTokenizer | None) -> None:
    """Prints the first rows that break the contract.

    Raises:
      ValueError: there are any.
    """
    problems = list(find_problems(path, tokenizer))
    for problem in problems[:_SHOWN_PROBLEMS]:
        print(f"row {problem.row}: {problem.text}")
    if problems:
        raise ValueError(
            f"{path}: {len(problems)} rows break the record contract, first row "
            f"{problems[0].row}: {problems[0].text}. Make or copy the file again."
        )
    print("checked: all rows keep the record contract")


if __name__ == "__main__":
    define_inspection_flags()
    common_flags.run(main, words="FILE ... [--vocabulary=...]")
