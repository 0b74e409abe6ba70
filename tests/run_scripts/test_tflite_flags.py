"""The export of a TensorFlow Lite file: its flags, its data, and what it refuses."""

import json

import pytest
import tensorflow as tf

from albert_tf.files import read_json
from albert_tf.serving import server_files, tflite
from albert_tf.serving.tflite_model import TfliteModel
from albert_tf.task_config import Classification, MultipleChoice, Regression, Squad
from albert_tf.tasks import create_task
from helpers.fine_tuning_toys import config, write_table
from helpers.questions import question, write_squad
from helpers.scripts import assert_one_line, run_script, succeed
from helpers.served_models import write_model

COLUMNS = {"text": "text", "text_pair": None, "label": "label"}
WINDOWS = {"max_seq_length": 19, "max_query_length": 4, "doc_stride": 6}
TASKS = {
    "custom": Classification("custom", ["bad", "good"], columns=COLUMNS),
    "rte": Classification("rte", ["no", "yes"], max_seq_length=19),
    "sts-b": Regression("sts-b", max_seq_length=19),
    "race": MultipleChoice("race", ["middle", "high"], 19, max_qa_length=6),
    "squad_v1": Squad(False, **WINDOWS),
    "squad_v2": Squad(True, **WINDOWS),
}


def write_lines(path, lines):
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text("\n".join(lines) + "\n")


def choice(options, **more):
    asked = {"article": "worda", "question": "wordb", "options": options}
    return json.dumps({**asked, "answer": "A", **more})


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a model of each task, and with data, right and wrong."""
    folder = tmp_path_factory.mktemp("files")
    shape = config()
    for name, task_config in TASKS.items():
        (folder / name).mkdir()
        model = create_task(task_config).build_model(shape, seed=7)
        write_model(folder / name, task_config, model, shape)
    write_table(folder / "dev.tsv", 9, seed=3)
    write_lines(folder / "labels.tsv", ["text\tlabel", "worda\tgood", "wordb\tfine"])
    write_lines(folder / "columns.tsv", ["body\tlabel", "worda\tgood"])
    write_lines(folder / "bare.tsv", ["text", "worda"])
    pairs = ["index\tsentence1\tsentence2\tlabel"]
    pairs += [f"{i}\tworda wordb\twordc\t{i % 2}" for i in range(4)]
    labels = ["not_entailment", "entailment"]
    pairs[1:] = [f"{line[:-1]}{labels[int(line[-1])]}" for line in pairs[1:]]
    write_lines(folder / "glue" / "RTE" / "dev.tsv", pairs)
    write_lines(folder / "quiz.jsonl", [choice(["wordc", "wordd"])] * 3)
    write_lines(folder / "long.jsonl", [choice(list("abcdef"))])
    write_lines(folder / "blind.jsonl", [choice(["a", "b"], answer=None)])
    text = "worda wordb wordc "
    asked = question("a", "wordb", [("wordb", 6)])
    write_squad(folder / "v1.json", [(text * 9, [asked])])
    impossible = question("b", "wordd", is_impossible=True)
    write_squad(folder / "v2.json", [(text, [asked, impossible])])
    write_squad(folder / "unknown.json", [(text, [question("c", "wordd")])])
    (folder / "file").write_text("in the way")
    return folder


@pytest.fixture
def no_graph(monkeypatch):
    """Writes the folder of a SavedModel and its card alone."""
    monkeypatch.setattr(
        tf.saved_model, "save", lambda _, folder, *__: tf.io.gfile.makedirs(folder)
    )
    monkeypatch.setattr(server_files, "_write_warmup", lambda *_: None)


@pytest.fixture
def no_graphs(no_graph, monkeypatch):
    """Writes no TensorFlow Lite file either; returns what it would be made of."""
    seen = {}

    def report(exported, path, settings, *, development_set, version):
        seen.update(settings=settings, rows=development_set)
        accuracy = {"dev": {"rows": 3, "model": {"f1": 0.5}, "tflite": {"f1": 0.25}}}
        accuracy["dev"]["largest_differences"] = {"a": 0.0, "b": 0.0625}
        return {
            "bytes": 1_230_000,
            "weights": "float32",
            "largest_differences": {"values": 1e-7, "choice": 0.0},
            "accuracy": accuracy if development_set else tflite.NOT_MEASURED,
        }

    monkeypatch.setattr(tflite, "export_tflite", report)
    return seen


def test_a_quantized_classifier_is_measured_and_its_card_says_so(files, no_graph):
    printed = succeed(
        "export_saved_model.py",
        *("--model=custom", "--export_dir=served", "--precision=bfloat16"),
        *("--tflite=out/toy.tflite", "--tflite_length=9", "--quantize=dynamic"),
        "--tflite_eval_data=dev.tsv",
        cwd=files,
    )
    card = read_json(files / "served/1/assets.extra/model_card.json")
    report = card["tflite"]
    assert card["precision"] == "bfloat16"
    assert report["file"] == "toy.tflite" and report["input_shape"] == [1, 9]
    assert report["bytes"] == (files / "out/toy.tflite").stat().st_size
    measured = report["accuracy"]["dev"]
    assert measured["rows"] == 9 and 0 < measured["truncated_rows"] < 9
    for name in ("model", "tflite"):
        assert measured[name].keys() == {"eval_accuracy", "predicted_labels"}
    accuracy = measured["tflite"]["eval_accuracy"]
    truncated = f"dev, 9 rows, {measured['truncated_rows']} truncated: eval_accuracy"
    assert f"{truncated} {accuracy:.6g} (the model: " in printed
    assert "int8 weights, within" in printed
    assert "activations are float32, --precision=bfloat16 is not used." in printed
    assert "raise --tflite_length" in printed
    assert TfliteModel(files / "out/toy.tflite").shape == [9]


@pytest.mark.parametrize(
    ("model", "data", "flags", "rows"),
    [
        ("race", "quiz.jsonl", ["--tflite_length=11", "--tflite_options=2"], 3),
        ("race", "long.jsonl", ["--tflite_length=11", "--tflite_options=6"], 1),
        # A long text is cut into windows of the file's length; of 19 it has 3.
        ("squad_v1", "v1.json", ["--tflite_length=13"], 4),
        ("squad_v2", "v2.json", ["--tflite_length=23"], 2),
    ],
)
def test_each_task_reads_its_development_data(
    model, data, flags, rows, files, tmp_path, no_graphs
):
    printed = succeed(
        "export_saved_model.py",
        *(f"--model={files / model}", f"--export_dir={tmp_path}", "--notext_signature"),
        *("--tflite=x.tflite", f"--tflite_eval_data={files / data}", *flags),
        cwd=tmp_path,
    )
    labelled = no_graphs["rows"].splits["dev"]
    length = no_graphs["settings"].length
    assert len(labelled.rows) == rows
    longest = 0
    for batch in labelled.batches(2, no_graphs["settings"].options):
        longest = max(longest, batch["input_ids"].shape[-1])
    assert longest <= min(length, 19)
    assert no_graphs["rows"].task.host_metrics is not None
    line = "x.tflite: dev, 3 rows: f1 0.25 (the model: 0.5); outputs within 0.062."
    assert line in printed


def test_without_data_the_accuracy_is_said_to_be_unknown(files, tmp_path, no_graphs):
    flags = [f"--export_dir={tmp_path}", "--tflite=x.tflite", "--tflite_length=9"]
    printed = succeed(
        "export_saved_model.py", f"--model={files}/sts-b", *flags, cwd=tmp_path
    )
    assert "x.tflite: 1.23 MB, float32 weights, within 1e-07 of the model" in printed
    assert "of the model on rows of random ids, not text." in printed
    assert "x.tflite: accuracy not measured: pass --tflite_eval_data." in printed
    assert no_graphs["rows"] is None


EVAL = "--tflite_eval_data="
ERRORS = {
    "quantize alone": (
        "custom",
        ["--quantize=none"],
        2,
        ["--quantize is"],
    ),
    "length alone": ("custom", ["--tflite_length=9"], 2, ["--tflite_le"]),
    "data alone": ("custom", [f"{EVAL}dev.tsv"], 2, ["--tflite_eval_d"]),
    "other bits": ("custom", ["--quantize=int4"], 2, ["none|dynamic"]),
    "no length": ("custom", ["--tflite_length=0"], 2, ["--tflite_length", "0"]),
    "too long": ("custom", ["--tflite_length=25"], 1, ["24. Received 25."]),
    "options": ("custom", ["--tflite_options=3"], 1, ["Received 3 for another"]),
    "no options": ("race", ["--tflite_options=0"], 2, ["--tflite_options"]),
    "place": ("custom", ["--tflite=file/x.tflite"], 1, ["file is no folder to write"]),
    "folder": ("custom", ["--tflite=glue"], 1, ["glue is a folder"]),
    "suffix": ("custom", ["--tflite=x.json"], 1, ["files that end in .json hold"]),
    "bucket": ("custom", [f"{EVAL}x3://b/x"], 2, ["--tflite_eval_data: x3://b/x is"]),
    "no data": ("custom", [f"{EVAL}no.tsv"], 1, ["no file no.tsv"]),
    "over the data": (
        "custom",
        ["--tflite=dev.tsv", f"{EVAL}dev.tsv"],
        2,
        ["--tflite would replace dev.tsv, an input (--tflite_eval_data)"],
    ),
    "labels": ("custom", [f"{EVAL}labels.tsv"], 1, ["'fine' is none of 'bad', 'good'"]),
    "columns": ("custom", [f"{EVAL}columns.tsv"], 1, ["no column 'text'"]),
    "no label": (
        "custom",
        [f"{EVAL}bare.tsv"],
        1,
        [
            "bare.tsv has no column 'label' for the label; it has 'text': the model "
            "was trained on 'label' for the label, 'text' for the text; rename the "
            "table's."
        ],
    ),
    "table without known columns": (
        "sts-b",
        [f"{EVAL}dev.tsv"],
        1,
        ["dev.tsv is a table", "which columns it was trained on: leave --tflite_eval"],
    ),
    "folder for a table": ("custom", [f"{EVAL}glue"], 1, ["glue"]),
    "questions for a table": ("custom", [f"{EVAL}v1.json"], 1, ["v1.json"]),
    "GLUE's labels": ("rte", [f"{EVAL}glue"], 1, ["('no', 'yes')", "'entailment'"]),
    "other task of GLUE": ("sts-b", [f"{EVAL}glue"], 1, ["STS-B"]),
    "table for questions": ("squad_v1", [f"{EVAL}dev.tsv"], 1, ["dev.tsv"]),
    "choices for questions": ("squad_v2", [f"{EVAL}quiz.jsonl"], 1, ["quiz.jsonl"]),
    "v2.0 for v1.1": ("squad_v1", [f"{EVAL}v2.json"], 1, ["v2.json", "b"]),
    "no answers": ("squad_v2", [f"{EVAL}unknown.json"], 1, ["without gold answers"]),
    "no room": ("squad_v1", [f"{EVAL}v1.json", "--tflite_length=7"], 1, ["no room"]),
    "table for choices": ("race", [f"{EVAL}dev.tsv"], 1, ["dev.tsv"]),
    "folder for choices": ("race", [f"{EVAL}glue"], 1, ["glue"]),
    "unanswered": ("race", [f"{EVAL}blind.jsonl"], 1, ["blind.jsonl", "no answer"]),
    "in a version": (
        "custom",
        ["--tflite=new/2/x.tflite"],
        2,
        ["lies in what a server"],
    ),
    "ONNX in a version": (
        "custom",
        ["--onnx=new/5/x.onnx"],
        2,
        ["--onnx=new/5/x.onnx lies"],
    ),
    "one file": ("custom", ["--tflite=x", "--onnx=./x"], 2, ["are one file, ./x"]),
    "ONNX over other data": ("custom", ["--onnx=file"], 1, ["file is there already"]),
    "ONNX's place": (
        "custom",
        ["--onnx=file/x.onnx"],
        1,
        ["file is no folder to write"],
    ),
    "infinite": (
        "squad_v2",
        ["--threshold_to_export=inf"],
        1,
        ["finite threshold", "--threshold_to_export=inf: pass a number"],
    ),
    "many options": ("race", [f"{EVAL}long.jsonl"], 1, ["--tflite_options=6"]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_is_wrong_is_said_in_one_line_before_anything_is_written(case, files):
    model, wrong, code, parts = ERRORS[case]
    before = set(files.rglob("*"))
    right = [f"--model={model}", "--export_dir=new"]
    if not case.endswith(" alone"):
        right += ["--tflite=x.tflite", "--tflite_length=9"]
    done = run_script("export_saved_model.py", *right, *wrong, cwd=files)
    assert_one_line(done, code, *parts)
    assert set(files.rglob("*")) == before


def test_an_encoder_has_no_accuracy(reference, files):
    flags = [f"--model={reference / 'encoder_shared'}", "--export_dir=new"]
    flags += ["--tflite=x.tflite", "--tflite_length=8", "--tflite_eval_data=dev.tsv"]
    done = run_script("export_saved_model.py", *flags, cwd=files)
    assert_one_line(done, 1, "trained for no task", "leave out --tflite_eval_data")


def test_a_file_that_fails_leaves_the_saved_model_whole(
    files, tmp_path, no_graph, monkeypatch
):
    def fail(*_, **__):
        raise ValueError("The TFLite model differs from the model by 3.")

    monkeypatch.setattr(tflite, "export_tflite", fail)
    done = run_script(
        "export_saved_model.py",
        *(f"--model={files}/custom", "--export_dir=served", "--tflite=x.tflite"),
        "--tflite_length=9",
        cwd=tmp_path,
    )
    assert_one_line(done, 1, "differs from the model by 3.")
    card = read_json(tmp_path / "served/1/assets.extra/model_card.json")
    assert "tflite" not in card and not (tmp_path / "x.tflite").exists()
