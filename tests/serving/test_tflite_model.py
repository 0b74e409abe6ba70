"""Running TensorFlow Lite files on rows, and what is refused."""

import pytest
import tensorflow as tf

from albert_tf.serving.tflite_model import TfliteModel
from helpers.served_models import LABELS, filled


def test_no_rows_have_no_answers(pair_file):
    answers = TfliteModel(pair_file[0])(filled((0, 4)))
    assert answers["probabilities"].shape == (0, len(LABELS))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            filled((2, 12)),
            r"at least 1 and at most \[11\] each. Received \[\(2, 12\)\]",
        ),
        (filled((2, 0)), r"Received \[\(2, 0\)\]"),
        (filled((4,)), r"Received \[\(4,\)\]"),
        (filled((1, 2, 3)), r"Received \[\(1, 2, 3\)\]"),
        ({**filled((2, 3)), "input_mask": [[1, 1]]}, r"\[\(1, 2\), \(2, 3\)\]"),
        ({"input_ids": [[1]]}, "segment_ids. Received input_ids"),
        (
            {**filled((1, 2)), "input_ids": [[1.0, 2.0]]},
            "whole numbers. Received float",
        ),
        ({**filled((1, 1)), "input_ids": [[2**32 + 5]]}, "Received 4294967301"),
        (filled((1, 2), input_ids=27), "an id outside the vocabulary"),
    ],
)
def test_rows_that_a_file_cannot_read_are_refused(rows, message, pair_file):
    with pytest.raises(ValueError, match=message):
        TfliteModel(pair_file[0])(rows)


def test_files_of_others_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file nowhere"):
        TfliteModel("nowhere")
    (tmp_path / "damaged.tflite").write_bytes(b"\x1c\0\0\0TFL3" + b"\0" * 40)
    with pytest.raises(ValueError, match=r"damaged\.tflite is not a TensorFlow Lite"):
        TfliteModel(tmp_path / "damaged.tflite")

    @tf.function(input_signature=[tf.TensorSpec([1, 3], tf.int32, name="input_ids")])
    def double(input_ids):
        return {"twice": 2 * input_ids}

    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [double.get_concrete_function()], tf.Module()
    )
    with pytest.raises(ValueError, match="The file is not a TensorFlow Lite file of"):
        TfliteModel(converter.convert())
