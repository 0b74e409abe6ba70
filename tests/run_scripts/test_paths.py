"""No output is an input, replaces a file of another kind, or leaves the file system."""

import re
import shutil

import pytest
from absl import app, flags

from flags import paths
from helpers.disks import full_disk
from helpers.letters import made_up_text
from helpers.paths import SCRIPTS
from helpers.scripts import assert_one_line, run_script, succeed

HELPED = sorted(
    path.name
    for path in SCRIPTS.glob("*.py")
    if "common_flags.run(" in path.read_text(encoding="utf-8")
)

# Flags with texts and lists that name no file or folder.
NOT_PATHS = {
    *("batch_sizes", "clients", "config_override", "extra_symbol", "gcp_project"),
    *("inputs", "label_column", "language", "model_name", "peers", "precisions"),
    *("question",),
    *("rematerializations", "select_by", "server", "shard_range", "signature"),
    *("text_column", "text_pair_column", "topology", "tpu", "tpu_zone"),
}


# -- the table


def flag_types(script, monkeypatch, tmp_path):
    """Name -> type of the flags that a script defines."""
    found = {}

    def record(*_, **__):
        known = flags.FLAGS.flags_by_module_dict()
        libraries = {f.name for m, each in known.items() if "absl" in m for f in each}
        found.update({n: flags.FLAGS[n].flag_type() for n in flags.FLAGS})
        for name in libraries:
            found.pop(name, None)

    monkeypatch.setattr(app, "run", record)
    kinds = ("data", "train", "classifier", "serving")
    for kind in kinds if script == "benchmark.py" else ("",):
        run_script(script, *[kind] * bool(kind), cwd=tmp_path)
    assert "output_dir" in found or found
    return found


@pytest.mark.parametrize("script", HELPED)
def test_every_flag_of_a_path_is_in_the_table(script, monkeypatch, tmp_path):
    types = flag_types(script, monkeypatch, tmp_path)
    texts = {n for n, kind in types.items() if "string" in kind and "enum" not in kind}
    # Other names of flags, as tpu_name, are checked under their own.
    texts -= {"tpu_name"}
    assert texts - NOT_PATHS <= set(paths.PATH_FLAGS)
    assert not set(paths.PATH_FLAGS) & NOT_PATHS


def test_the_table_has_every_flag_once():
    assert len(set(paths.PATH_FLAGS)) == len(paths.PATH_FLAGS)


@pytest.mark.parametrize("name", paths.PATH_FLAGS)
def test_other_schemes_are_refused_in_every_flag(name):
    for value in ("gs://bucket/x", ["a", "s3://b/x"]):
        with pytest.raises(flags.Error, match=f"--{name}: .*://b.*mounted disk"):
            paths.check_paths({name: value})


# -- inputs and outputs


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (
        "a.txt",
        "b.txt",
        "rows.json",
        "a.vocab",
        "D/model.ckpt-1.index",
        "D/best/x",
        "glue/RTE/train.tsv",
        "race/train/high/1.txt",
        "race/test/2.txt",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    for name in (
        *("out/GLUE/RTE.tsv", "out/GLUE/mine.tsv", "out/predictions.json"),
        *("out/mine.tsv", "out/my_results.tsv", "out/dev_predictions.json"),
        *("out/my_results.json", "out/my_predictions.tsv"),
        *("out/test_results.tsv", "out/test_predictions.tsv"),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "D/results.json").write_text('{"best_run": "run_1"}')
    (tmp_path / "out/init").mkdir()
    (tmp_path / "link.txt").symlink_to("a.txt")
    (tmp_path / "hard.txt").hardlink_to(tmp_path / "a.txt")
    (tmp_path / "other").symlink_to("D")
    return tmp_path


DATA = {"shard_range": ""}
TRAIN = {"do_train": True}
REFUSED = {
    "same file": {**DATA, "input_file": "a.txt", "output_file": "a.txt"},
    "one of several": {**DATA, "input_file": "b.txt,a.txt", "output_file": "x,./a.txt"},
    "of a glob": {**DATA, "input_file": "*.txt", "output_file": "a.txt"},
    "a link": {**DATA, "input_file": "a.txt", "output_file": "link.txt"},
    "linked": {**DATA, "input_file": "link.txt", "output_file": "a.txt"},
    "a hard link": {**DATA, "input_file": "a.txt", "output_file": "hard.txt"},
    "sidecar": {**DATA, "input_file": "rows.json", "output_file": "rows"},
    "vocabulary": {**DATA, "spm_model_file": "a.txt", "output_file": "a.txt"},
    "report read by a glob": {**DATA, "input_file": "*", "output_file": ".rows"},
    "read next time": {**DATA, "input_file": "*.t*", "output_file": "new.tfrecord"},
    "sidecar read": {**DATA, "input_file": "*.json", "output_file": "new"},
    "report read": {**DATA, "input_file": "x/**/*.json", "output_file": "x/new"},
    "prefix": {"input_file": "a.vocab", "model_prefix": "a"},
    "figure": {"input_file": "x.png", "output_file": "x.csv"},
    "predictions": {**TRAIN, "predict_file": "out/predictions.json"},
    "submission": {**TRAIN, "dev_file": "out/GLUE/RTE.tsv"},
    "results": {**TRAIN, "predict_file": "out/test_results.tsv"},
    "predicted": {**TRAIN, "predict_file": "out/test_predictions.tsv"},
    "data folder": {**TRAIN, "data_dir": "glue", "output_dir": "glue"},
    "in the data": {**TRAIN, "data_dir": "race", "output_dir": "race/train/high"},
    "predicted folder": {**TRAIN, "predict_file": "race", "output_dir": "race/test"},
    "task folder": {**TRAIN, "data_dir": "glue", "output_dir": "glue/RTE"},
    "export into data": {**TRAIN, "data_dir": "glue", "export_dir": "glue"},
    "start": {**TRAIN, "init_checkpoint": "D", "output_dir": "D"},
    "start, linked": {**TRAIN, "init_checkpoint": "other", "output_dir": "D"},
    "start by file": {**TRAIN, "init_checkpoint": "D/model.ckpt-1", "output_dir": "D"},
    "its best": {**TRAIN, "init_checkpoint": "D/best", "output_dir": "D"},
    "becomes its best": {**TRAIN, "init_checkpoint": "D", "output_dir": "D/run_1"},
    "export over": {"model": "D", "export_dir": "D"},
    "export into a run": {"model": "D", "export_dir": "D/run_1"},
    "export into": {"model": "D", "export_dir": "other/best"},
    "convert into": {"from": "D", "to": "D/assets"},
    "ensemble over": {"models": ["x", "D"], "output_dir": "D/"},
}
ALLOWED = {
    "beside": {**DATA, "input_file": "*.txt", "output_file": "rows.tfrecord@3"},
    "deeper": {**DATA, "input_file": "*.t*", "output_file": "sub/new.tfrecord"},
    "again": {"input_file": "a.txt", "model_prefix": "b", "output_file": "c.csv"},
    "tables in the folder": {**TRAIN, "train_file": "out/mine.tsv"},
    "own names": {
        **{**TRAIN, "train_file": "out/my_predictions.tsv"},
        **{"dev_file": "out/dev_predictions.json", "test_file": "out/GLUE/mine.tsv"},
        **{"input_file": "out/my_results.json", "predict_file": "out/my_results.tsv"},
    },
    "below a task": {**TRAIN, "data_dir": "glue", "output_dir": "glue/RTE/out"},
    "below its folder": {**TRAIN, "data_dir": "glue/RTE", "output_dir": "glue/RTE/out"},
    "new in the data": {**TRAIN, "data_dir": "glue", "output_dir": "glue/test"},
    "below RACE": {**TRAIN, "data_dir": "race", "output_dir": "race/train/out"},
    "data here": {**TRAIN, "data_dir": ".", "output_dir": "out"},
    "below the data": {**TRAIN, "data_dir": "glue", "output_dir": "glue/rte"},
    "cache in the data": {**TRAIN, "data_dir": "glue", "cache_dir": "glue/RTE"},
    "start in it": {**TRAIN, "init_checkpoint": "D/best", "output_dir": "D/tuned"},
    "a run of a model": {**TRAIN, "init_checkpoint": "E/m", "output_dir": "E/run_1"},
    "export of a model": {"model": "out/init", "export_dir": "out/init/run_1"},
    "start below": {**TRAIN, "init_checkpoint": "out/init", "output_dir": "out"},
    "use": {"do_train": False, "init_checkpoint": "D", "output_dir": "D"},
    "use the best": {"do_train": False, "init_checkpoint": "D/best", "output_dir": "D"},
    "export below": {"model": "D", "export_dir": "D/served", "tflite": "D/x.tflite"},
    "onnx below": {"model": "D", "export_dir": "D/served", "onnx": "D/x.onnx"},
    "convert below": {"from": "D", "to": "D/hf"},
    "ensemble beside": {"models": ["out", "D"], "output_dir": "."},
    "standard input": {"context": "-"},
    "no files": {**DATA, "output_file": ",", "input_file": ","},
    "bad count": {**DATA, "output_file": "x@0", "input_file": "y@0"},
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_output_that_would_change_an_input_is_refused(case, folder):
    (folder / "x.png").write_text("figure")
    values = REFUSED[case]
    if "do_train" in values:
        values = {"output_dir": "out", **values}
    with pytest.raises(flags.Error) as caught:
        paths.check_paths(values)
    assert "\n" not in str(caught.value)
    assert re.search("give another|name another", str(caught.value))


def test_a_message_names_the_flag_and_not_its_other_name(folder):
    done = run_script(
        "export_saved_model.py", "--model=D", "--export_dir=D", cwd=folder
    )
    assert_one_line(done, 2, "--export_dir D is the folder of --model, an input")


@pytest.mark.parametrize("case", ALLOWED)
def test_other_outputs_are_allowed(case, folder):
    values = ALLOWED[case]
    if "do_train" in values:
        values = {"output_dir": "out", **values}
    paths.check_paths(values)


# -- what scripts did to files of others


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    """A text, its vocabulary and a model."""
    folder = tmp_path_factory.mktemp("toys")
    (folder / "text.txt").write_text("\n".join(made_up_text(150)), encoding="utf-8")
    succeed(
        "train_sentencepiece.py",
        "--input_file=text.txt",
        "--model_prefix=v",
        "--vocab_size=80",
        cwd=folder,
    )
    return folder


@pytest.fixture
def place(toys, tmp_path):
    """A copy of the toys."""
    shutil.copytree(toys, tmp_path, dirs_exist_ok=True)
    return tmp_path


def everything(folder):
    """Name -> content, of all files below a folder."""
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def make(place, output, text="text.txt", vocabulary="v.model", *more):
    return run_script(
        "create_pretraining_data.py",
        f"--input_file={text}",
        f"--spm_model_file={vocabulary}",
        f"--output_file={output}",
        "--max_seq_length=32",
        "--num_workers=1",
        "--dupe_factor=1",
        *more,
        cwd=place,
    )


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("text.txt", "would replace text.txt, an input (--input_file)"),
        ("v.model", "would replace v.model, an input (--spm_model_file)"),
        ("r/report.json", "end in .json hold JSON"),
        ("report", "report.json is the name of the report"),
        ("diary", "diary is there already"),
        ("diary2", "diary2.json is there already"),
        ("gs://bucket/rows", "--output_file: gs://bucket/rows is not a path"),
    ],
)
def test_records_replace_nothing_else(output, words, place):
    (place / "diary").write_text("Dear diary, it rains.")
    (place / "diary2.json").write_text('{"dear": {"diary": 1}}')
    before = everything(place)
    assert_one_line(make(place, output), 2 if "--" in words else 1, words)
    assert everything(place) == before
    assert not (place / "gs:").exists()


def test_a_report_of_others_is_kept(place):
    (place / "report.json").write_text('{"title": "mine", "pages": 7}')
    before = everything(place)
    assert_one_line(make(place, "rows"), 1, "report.json is there already")
    assert everything(place) == before


def test_a_linked_work_folder_is_not_emptied(place):
    (place / "home" / "inner").mkdir(parents=True)
    (place / "home" / "gold").write_text("gold")
    (place / "home" / "inner" / "s").write_text("s")
    (place / "out").mkdir()
    (place / "out" / ".x.work").symlink_to("../home")
    before = everything(place)
    assert_one_line(make(place, "out/x"), 1, ".x.work is there and was not made by")
    (place / "out" / ".x.work").unlink()
    (place / "home").rename(place / "out" / ".x.work")
    assert_one_line(make(place, "out/x"), 1, ".x.work is there and was not made by")
    after = everything(place)
    assert sorted(after.values()) == sorted(before.values())


def test_planted_links_of_partial_files_leave_their_target_alone(place):
    (place / "gold").write_text("gold")
    for name in (".rows.partial", ".rows.0123abcd.partial", ".u.model.partial"):
        (place / name).symlink_to("gold")
    assert make(place, "rows").returncode == 0
    train_vocabulary(place, "u")
    assert (place / "gold").read_text() == "gold"
    assert (place / ".rows.0123abcd.partial").is_symlink()


def train_vocabulary(place, prefix, text="text.txt"):
    return run_script(
        "train_sentencepiece.py",
        f"--input_file={text}",
        f"--model_prefix={prefix}",
        "--vocab_size=80",
        cwd=place,
    )


def test_a_vocabulary_replaces_vocabularies_only(place):
    (place / "t.vocab").write_bytes((place / "text.txt").read_bytes())
    (place / "w.vocab").write_text("a list of words\n")
    (place / "m.model").write_bytes(b"weights of a plane")
    before = everything(place)
    done = train_vocabulary(place, "t", "t.vocab")
    assert_one_line(done, 2, "--model_prefix would replace t.vocab, an input")
    done = train_vocabulary(place, "w")
    assert_one_line(done, 1, "w.vocab is there already")
    done = train_vocabulary(place, "m")
    assert_one_line(done, 1, "m.model is there already")
    assert everything(place) == before
    assert train_vocabulary(place, "v").returncode == 0
    assert everything(place) == before


def test_a_full_disk_leaves_no_half_of_a_vocabulary(place):
    before = everything(place)
    with full_disk(2_000):
        done = train_vocabulary(place, "new")
    assert_one_line(done, 1, "new.model cannot be written: File too large")
    assert everything(place) == before


@pytest.mark.parametrize("name", ["fig.png", "table.json", "v.model"])
def test_a_table_is_not_named_like_another_file(name, place):
    before = everything(place)
    done = run_script(
        "layer_similarity.py",
        "--checkpoints=model",
        "--input_file=text.txt",
        "--spm_model_file=v.model",
        f"--output_file={name}",
        cwd=place,
    )
    assert done.returncode in (1, 2) and len(done.stderr.splitlines()) == 1
    assert name in done.stderr
    assert everything(place) == before
