"""Running TensorFlow Lite files on rows, and what is refused."""

import concurrent.futures

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.serving.base import IDS
from albert_tf.serving.tflite_model import TfliteModel
from helpers import docs_pages
from helpers.served_models import LABELS, filled


def test_no_rows_have_no_answers(pair_file):
    answers = TfliteModel(pair_file[0])(filled((0, 4)))
    assert answers["probabilities"].shape == (0, len(LABELS))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            filled((2, 12)),
            r"at most 11 tokens a row. Received 12: cut the row, or export with a "
            r"larger --tflite_length\.$",
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
        (filled((1, 2), input_mask=0), "or a mask that is 0 throughout"),
    ],
)
def test_rows_that_a_file_cannot_read_are_refused(rows, message, pair_file):
    with pytest.raises(ValueError, match=message):
        TfliteModel(pair_file[0])(rows)


def test_threads_get_their_own_answers(pair_file):
    model = TfliteModel(pair_file[0])
    rng = np.random.default_rng(4)
    batches = [filled((3, 7), input_ids=rng.integers(5, 27, (3, 7))) for _ in range(8)]
    alone = [model(batch)["probabilities"] for batch in batches]
    with concurrent.futures.ThreadPoolExecutor(len(batches)) as pool:
        together = pool.map(
            lambda n: model(batches[n % 8])["probabilities"], range(160)
        )
    for number, answer in enumerate(together):
        np.testing.assert_array_equal(answer, alone[number % 8])
    assert not np.array_equal(alone[0], alone[1])


def test_a_file_needs_a_thread(pair_file):
    with pytest.raises(ValueError, match=r"at least 1\. Received -1"):
        TfliteModel(pair_file[0], num_threads=-1)


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


def test_the_pages_rows_get_the_answers_of_the_texts(
    pair_model, pair_file, tmp_path, monkeypatch
):
    """The programs of docs/serving.md that read texts, on a toy in RTE's place."""
    folder, version = pair_model
    (tmp_path / "serving" / "rte").mkdir(parents=True)
    for name, target in (
        ("rte", folder),
        ("rte.tflite", pair_file[0]),
        ("serving/rte/1", version),
    ):
        (tmp_path / name).symlink_to(target)
    monkeypatch.chdir(tmp_path)
    page = docs_pages.ROOT / "docs" / "serving.md"
    programs = [code for code in docs_pages.blocks(page, "python") if "rains" in code]
    names: list[dict] = [{} for _ in programs]
    for code, found in zip(programs, names, strict=True):
        # The toy's vocabulary has other words.
        code = code.replace("He sleeps", "lovely worda").replace("wet", "awful")
        exec(compile(code, "serving.md", "exec"), found)
    by_text, by_ids = names
    answers = by_ids["model"](by_ids["ids"])["probabilities"]
    np.testing.assert_allclose(
        answers, by_text["answers"]["probabilities"], rtol=0, atol=1e-5
    )
    assert np.ptp(answers, axis=0).max() > 1e-3
    single = by_ids["row"]("worda " * 20)
    assert [*single] == [*IDS] and single["input_mask"].tolist() == [1] * 11
    for name in IDS:
        assert by_ids["ids"][name].dtype == np.int32
        assert by_ids["ids_of_onnx"][name].dtype == np.int64
