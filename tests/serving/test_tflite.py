"""TensorFlow Lite files give the model's numbers, or are not written."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from albert_tf.checkpoints.model_dir import ModelDir
from albert_tf.serving import export, tflite
from albert_tf.serving.create import create_served_model, load_model
from albert_tf.serving.tflite import TfliteSettings
from albert_tf.serving.tflite_check import DevelopmentSet, LabelledRows
from albert_tf.serving.tflite_model import TfliteModel
from albert_tf.task_config import Classification, MultipleChoice, Squad, Tagging
from albert_tf.tasks import create_task
from albert_tf.tasks.answers import NO_SCORE
from helpers.fine_tuning_toys import config
from helpers.served_models import (
    FILE_LENGTH,
    LABELS,
    filled,
    signature,
    write_classifier,
    write_model,
)

SPANS = {"max_seq_length": 17, "max_query_length": 5, "max_answer_length": 4}
TASKS = {
    "multiple choice": MultipleChoice(max_seq_length=17, max_qa_length=6),
    "v1.1": Squad(False, n_best_size=30, **SPANS),
    "v2.0": Squad(True, start_n_top=7, end_n_top=6, threshold=1.5, **SPANS),
}
UNFIT = (
    ("input_ids", 27),
    ("input_ids", -1),
    ("input_mask", 2),
    ("segment_ids", 2),
    ("segment_ids", -1),
)


def exported_from(folder, **options):
    return export.from_model_dir(ModelDir.read(folder), text=False, **options)


def files_in(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def converted(pair_file, monkeypatch):
    """Takes the file of the classifier of pairs instead of converting again."""
    content = pair_file[0].read_bytes()
    monkeypatch.setattr(tflite, "_convert", lambda *_: content)


def test_tflite_gives_the_models_numbers(pair_model, pair_file):
    path, report = pair_file
    differences = report["largest_differences"]
    assert set(differences) == {"probabilities"} and differences["probabilities"] < 1e-5
    runner = Interpreter(str(path)).get_signature_runner()
    row = filled((1, FILE_LENGTH))
    for name, value in UNFIT:
        with pytest.raises(RuntimeError, match="index out of bounds"):
            runner(**{**row, name: np.full((1, FILE_LENGTH), value, np.int32)})
    served = signature(pair_model[1], "ids")(
        **{n: tf.constant(v) for n, v in row.items()}
    )
    np.testing.assert_allclose(
        runner(**row)["probabilities"], served["probabilities"], atol=1e-5
    )


def random_rows(shape, seed, vocab_size):
    """Rows of pairs without padding."""
    rng = np.random.default_rng(seed)
    second = np.arange(shape[-1]) >= rng.integers(2, shape[-1] - 3)
    return {
        "input_ids": rng.integers(0, vocab_size, shape).astype(np.int32),
        "input_mask": np.ones(shape, np.int32),
        "segment_ids": np.broadcast_to(second, shape).astype(np.int32),
    }


def test_taggers_answer_shorter_rows(tmp_path):
    shape = config(initializer_range=0.5)
    task_config = Tagging("toy", ["O", "B-a", "I-a"], max_seq_length=17)
    model = create_task(task_config).build_model(shape, seed=7, rematerialize="none")
    write_model(tmp_path, task_config, model, shape)
    tflite.export_tflite(
        exported_from(tmp_path), tmp_path / "toy.tflite", TfliteSettings(FILE_LENGTH)
    )
    file = TfliteModel(tmp_path / "toy.tflite", num_threads=1)
    served = create_served_model(model, shape, task_config)
    rows = random_rows((2, FILE_LENGTH - 3), 1, shape.vocab_size)
    expected = served.answer({n: tf.constant(v) for n, v in rows.items()})
    [(name, found)] = file(rows).items()
    assert found.shape == (2, FILE_LENGTH, 3) and not found[:, -3:].any()
    np.testing.assert_allclose(found[:, :-3], expected[name], atol=1e-4)


@pytest.mark.parametrize("name", TASKS)
def test_other_tasks_answer_shorter_rows_and_fewer_options(name, tmp_path):
    task_config, shape = TASKS[name], config(initializer_range=0.5)
    model = create_task(task_config).build_model(shape, seed=7, rematerialize="none")
    for variable in model.trainable_variables:
        if "output_weights" in variable.name:
            variable.assign(tf.random.stateless_normal(variable.shape, [1, 2]))
    write_model(tmp_path, task_config, model, shape)
    options = 5 if name == "multiple choice" else None
    report = tflite.export_tflite(
        exported_from(tmp_path),
        tmp_path / "toy.tflite",
        TfliteSettings(FILE_LENGTH, options=options),
    )
    assert report["input_shape"] == [1, *([5] if options else []), FILE_LENGTH]
    assert max(report["largest_differences"].values()) < 1e-4

    file = TfliteModel(tmp_path / "toy.tflite", num_threads=1)
    served = create_served_model(model, shape, task_config)
    for seed, width in enumerate((FILE_LENGTH, FILE_LENGTH - 1, FILE_LENGTH - 4)):
        sizes = (2, 3, width) if options else (2, width)
        rows = random_rows(sizes, seed, shape.vocab_size)
        expected = served.answer({n: tf.constant(v) for n, v in rows.items()})
        answers = file(rows)
        assert set(answers) == set(expected)
        if options:
            assert not answers["probabilities"][:, 3:].any()
            answers["probabilities"] = answers["probabilities"][:, :3]
            np.testing.assert_array_equal(answers["choice"], expected["choice"])
        else:
            valid = expected["span_scores"].numpy() > NO_SCORE
            assert 0 < valid.sum() < valid.size or width == FILE_LENGTH
            for place in ("span_starts", "span_ends"):
                given, known = answers[place][valid], expected[place].numpy()[valid]
                np.testing.assert_array_equal(given, known)
        for output in {"probabilities", "span_scores", "null_scores"} & set(answers):
            np.testing.assert_allclose(answers[output], expected[output], atol=1e-4)
    if options:
        with pytest.raises(ValueError, match="a mask that is 0 throughout"):
            file(filled((1, 3, FILE_LENGTH), input_mask=0))
    for unfit, value in UNFIT:
        with pytest.raises(ValueError, match="does not read a row with an id outside"):
            file(filled((1, *sizes[1:]), **{unfit: value}))


def test_a_quantized_file_has_all_kernels_once_in_8_bits(tmp_path):
    """Kernels of fewer than 1,024 numbers stay in float32, so these have more."""
    sizes = {"hidden_size": 48, "intermediate_size": 66, "embedding_size": 42}
    folder = write_classifier(tmp_path, LABELS, pair=True, **sizes)
    # The file has no bfloat16, whatever the SavedModel has.
    exported = exported_from(folder, precision="bfloat16")
    vocab_size = exported.config.vocab_size
    task = create_task(exported.task_config)
    rows = [
        {
            "input_ids": np.arange(2, 2 + width),
            "segment_ids": np.arange(width) > 3,
            "label_ids": np.int64(width % 3),
        }
        for width in range(5, 12)
    ]
    card = tmp_path / "9" / "assets.extra" / "model_card.json"
    card.parent.mkdir(parents=True)
    card.write_text('{"task": "toy"}')
    report = tflite.export_tflite(
        exported,
        tmp_path / "toy.tflite",
        TfliteSettings(FILE_LENGTH, "dynamic"),
        development_set=DevelopmentSet(task, {"dev": LabelledRows(rows, 1)}),
        version=tmp_path / "9",
    )
    assert json.loads(card.read_text()) == {"task": "toy", "tflite": report}
    assert report["weights"] == "int8"
    assert report["bytes"] == (tmp_path / "toy.tflite").stat().st_size
    assert report["largest_differences"]["probabilities"] < 0.2

    details = Interpreter(str(tmp_path / "toy.tflite")).get_tensor_details()
    found = sorted(
        (tuple(each["shape"]), len(each["quantization_parameters"]["scales"]))
        for each in details
        if each["dtype"] == np.int8 and len(each["shape"]) == 2
    )
    # Query, key, value and output of attention, and the pooler: each once, for two
    # layers. A kernel has a scale for each output; the table of tokens has one.
    square = ((48, 48), 48)
    kernels = [((48, 42), 48), ((48, 66), 48), ((66, 48), 66), *[square] * 5]
    assert found == sorted([*kernels, ((vocab_size, 42), 1)])

    model, _ = load_model(exported.config, exported.checkpoint, exported.task_config)
    served = create_served_model(model, exported.config, exported.task_config)
    accuracy = {}
    for name, answer in (
        ("model", lambda batch: served.answer(batch)["probabilities"].numpy()),
        ("tflite", lambda b: TfliteModel(tmp_path / "toy.tflite")(b)["probabilities"]),
    ):
        right = [
            answer(
                {
                    "input_ids": row["input_ids"][np.newaxis].astype(np.int32),
                    "input_mask": np.ones((1, len(row["input_ids"])), np.int32),
                    "segment_ids": row["segment_ids"][np.newaxis].astype(np.int32),
                }
            ).argmax()
            == row["label_ids"]
            for row in rows
        ]
        accuracy[name] = np.mean(right)
    measured = report["accuracy"]["dev"]
    assert measured["rows"] == 7 and measured["truncated_rows"] == 1
    for name, expected in accuracy.items():
        assert measured[name]["eval_accuracy"] == pytest.approx(expected)


def test_a_conversion_that_fails_says_so_and_writes_nothing(
    pair_model, tmp_path, monkeypatch
):
    exported = exported_from(pair_model[0])

    def fail(_):
        raise RuntimeError("no such operation\nand more")

    monkeypatch.setattr(
        tf.lite.TFLiteConverter,
        "from_concrete_functions",
        lambda *_: type("C", (), {"convert": fail})(),
    )
    with pytest.raises(ValueError, match=r"TFLite file: no such operation\.$"):
        tflite.export_tflite(
            exported, tmp_path / "toy.tflite", TfliteSettings(FILE_LENGTH)
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("quantize", "error", "message"),
    [
        ("none", 0.01, r"differs from the model by 0\.01 .*: it is not written"),
        ("dynamic", np.nan, "differs from the model by nan"),
        ("dynamic", 0.01, None),
    ],
)
def test_a_file_of_other_numbers_is_not_written(
    quantize, error, message, pair_model, tmp_path, monkeypatch, converted
):
    class Wrong(TfliteModel):
        def __call__(self, rows):
            return {n: v + np.float32(error) for n, v in super().__call__(rows).items()}

    monkeypatch.setattr(tflite, "TfliteModel", Wrong)
    exported, path = exported_from(pair_model[0]), tmp_path / "toy.tflite"
    settings = TfliteSettings(FILE_LENGTH, quantize)
    if message is None:
        report = tflite.export_tflite(exported, path, settings)
        assert report["largest_differences"]["probabilities"] == pytest.approx(
            error, abs=1e-5
        )
        return
    with pytest.raises(ValueError, match=message):
        tflite.export_tflite(exported, path, settings)
    assert files_in(tmp_path) == []


def test_without_its_card_a_file_is_not_written(pair_model, tmp_path, converted):
    exported = exported_from(pair_model[0])
    with pytest.raises(FileNotFoundError, match=r"model_card\.json"):
        tflite.export_tflite(
            exported,
            tmp_path / "toy.tflite",
            TfliteSettings(FILE_LENGTH),
            version=tmp_path,
        )
    assert files_in(tmp_path) == []


UNKNOWN = export.ExportedModel(config(), "nowhere")
CHOICES = dataclasses.replace(UNKNOWN, task_config=TASKS["multiple choice"])
TOY = dataclasses.replace(UNKNOWN, task_config=Classification("toy", LABELS))


@pytest.mark.parametrize(
    ("exported", "settings", "message"),
    [
        (TOY, TfliteSettings(0), r"1 to max_position_embeddings, 24\. Received 0\."),
        (TOY, TfliteSettings(25), r"1 to max_position_embeddings, 24\. Received 25\."),
        (TOY, TfliteSettings(8, "int4"), "by one of none, dynamic. Received 'int4'"),
        (TOY, TfliteSettings(8, options=3), "Received 3 for another model: leave"),
        (UNKNOWN, TfliteSettings(8, options=3), "Options are for models of multiple"),
        (CHOICES, TfliteSettings(8, options=0), "Received --tflite_options=0"),
    ],
)
def test_settings_that_a_model_cannot_have_are_refused(
    exported, settings, message, tmp_path
):
    with pytest.raises(ValueError, match=message):
        tflite.export_tflite(exported, tmp_path / "toy.tflite", settings)
    assert files_in(tmp_path) == []


def test_a_place_that_cannot_be_written_is_refused_before_the_conversion(tmp_path):
    (tmp_path / "file").write_text("in the way")
    for place, message in {
        "file/toy.tflite": r"file/toy\.tflite cannot be written: .*file is no folder",
        "file": "is there already and holds something else",
        ".": "is a folder",
        "toy.json": r"files that end in \.json hold",
    }.items():
        with pytest.raises((OSError, ValueError), match=message):
            tflite.export_tflite(TOY, tmp_path / place, TfliteSettings(8))
    with pytest.raises(ValueError, match=r"hdfs://b/toy\.tflite is not a path"):
        tflite.check_output("hdfs://b/toy.tflite")
    assert files_in(tmp_path) == ["file"]
