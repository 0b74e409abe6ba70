"""Rows of one text or two."""

from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning import classification, tables


def test_rows_have_the_layout_and_truncation_of_the_original(tmp_path):
    words = [f"w{number}" for number in range(30)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(vocabulary))
    tokenizer = AlbertTokenizer(vocab_file=path)
    pairs = [
        ("w0 w1", "w2"),
        ("w0 w1 w2 w3 w4", "w5 w6 w7"),
        ("w0", ""),
        ("w9 q", "w8"),
    ]
    examples = [
        tables.Example(str(i), a, b, None, "") for i, (a, b) in enumerate(pairs)
    ]
    statistics = {}
    rows = list(
        classification.classification_rows(
            examples, [0, 1, 1, 0], tokenizer, 8, statistics
        )
    )
    first = tokenizer.token_to_id("w0")
    assert rows[0]["input_ids"] == [2, first, first + 1, 3, first + 2, 3]
    assert rows[0]["segment_ids"] == [0, 0, 0, 0, 1, 1]
    # Eight pieces, three of them special: three of five and two of three.
    kept = [2, *range(first, first + 3), 3, first + 5, first + 6, 3]
    assert rows[1]["input_ids"] == kept
    # An empty second text is a segment still.
    assert rows[2]["input_ids"] == [2, first, 3, 3]
    assert [row["label_ids"] for row in rows] == [0, 1, 1, 0]
    expected = {"rows": 4, "pieces": 12, "unknown_pieces": 1, "truncated_rows": 1}
    assert statistics == expected
    warnings = classification.row_warnings("train", statistics)
    assert len(warnings) == 2
    assert "8.3%" in warnings[0] and "25.0% of the rows of train" in warnings[1]
    warnings = classification.row_warnings("dev", {**expected, "skipped_rows": 2})
    assert warnings[-1] == "2 bad rows of dev were skipped."
