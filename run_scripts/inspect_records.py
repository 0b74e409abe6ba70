r"""Shows rows of a pretraining record file and checks the whole file.

    python run_scripts/inspect_records.py data/train.tfrecord-00000-of-00064 \
        --vocabulary=vocabulary.model --rows=2

Exit code 1 if a row breaks the record contract; the first such rows are named.
"""

import itertools

from absl import flags

from albert_tf.records.reader import read_rows
from albert_tf.records.sidecar import expand_paths, read_metadata
from data_prep.pretraining.inspection import describe_row, find_problems
from flags import common_flags, data_flags

FLAGS = flags.FLAGS

_SHOWN_PROBLEMS = 10


def main(files):
    tokenizer = data_flags.inspection_tokenizer()
    for path in expand_paths(",".join(files)):
        metadata = read_metadata(path)
        print(f"{path}: {metadata['rows']:,} rows, {metadata['bytes']:,} bytes")
        end = FLAGS.first_row + FLAGS.rows
        shown = itertools.islice(read_rows(path), FLAGS.first_row, end)
        for number, row in enumerate(shown, start=FLAGS.first_row):
            print(f"row {number}: {describe_row(row, metadata, tokenizer)}")
        if FLAGS.check:
            check(path, tokenizer)


def check(path, tokenizer):
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
    data_flags.define_inspection_flags()
    common_flags.run(main, words="FILE ... [--vocabulary=...]")
