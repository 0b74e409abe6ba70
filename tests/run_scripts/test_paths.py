"""No output is an input, and paths of unknown schemes are refused."""

import re

import pytest
from absl import app, flags

from flags import paths
from helpers.bucket_files import new_bucket, upload
from helpers.paths import SCRIPTS
from helpers.scripts import assert_one_line, run_script

HELPED = sorted(
    path.name
    for path in SCRIPTS.glob("*.py")
    if "common_flags.run(" in path.read_text(encoding="utf-8")
)

# Flags with texts and lists that name no file or folder.
NOT_PATHS = {
    *("batch_sizes", "class_weights", "clients", "label_separator", "extra_symbol"),
    *("candidate_labels", "config_override", "gcp_project", "hypothesis_template"),
    *(
        "inputs",
        "label_column",
        "language",
        "languages",
        "train_language",
        "model_name",
        "negative_column",
        "peers",
        "precisions",
        "query",
        "score_bounds",
    ),
    *("cores", "depth_schedule", "freeze", "phases", "question", "scheduler"),
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
    kinds = ("data", "input", "train", "classifier", "serving", "attention")
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
    for value in ("hdfs://bucket/x", ["a", "http://b/x"], "a,hdfs://b/x"):
        with pytest.raises(flags.Error, match=f"--{name}: .*://b.*begins with none of"):
            paths.check_paths({name: value})


def test_a_program_is_local_and_other_paths_may_be_of_buckets():
    bucket = new_bucket()
    with pytest.raises(flags.Error, match=r"--compiler_python: .* mounted disk"):
        paths.check_paths({"compiler_python": f"{bucket}/python"})
    for name in set(paths.PATH_FLAGS) - {"compiler_python"}:
        paths.check_paths({name: f"{bucket}/x"})


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


# Cases that a bucket does not have.
LINKS = ("a link", "linked", "a hard link", "start, linked", "export into")


def in_bucket(values, bucket):
    """The values with each path below a bucket."""

    def moved(value):
        return ",".join(
            part if part in ("-", "") else f"{bucket}/{part}"
            for part in value.split(",")
        )

    return {
        name: value
        if isinstance(value, bool) or name == "shard_range"
        else [*map(moved, value)]
        if isinstance(value, list)
        else moved(value)
        for name, value in values.items()
    }


@pytest.mark.parametrize("case", [name for name in REFUSED if name not in LINKS])
def test_an_output_in_a_bucket_that_would_change_an_input_is_refused(case, folder):
    values = REFUSED[case]
    if "do_train" in values:
        values = {"output_dir": "out", **values}
    for link in ("other", "link.txt", "hard.txt"):
        (folder / link).unlink()
    bucket = upload(folder, new_bucket())
    with pytest.raises(flags.Error, match=r"give another|name another") as caught:
        paths.check_paths(in_bucket(values, bucket))
    assert "\n" not in str(caught.value) and bucket in str(caught.value)


@pytest.mark.parametrize("case", ALLOWED)
def test_other_outputs_in_a_bucket_are_allowed(case, folder):
    values = ALLOWED[case]
    if "do_train" in values:
        values = {"output_dir": "out", **values}
    for link in ("other", "link.txt", "hard.txt"):
        (folder / link).unlink()
    (folder / "out/init/x").write_text("a bucket has no empty folders")
    paths.check_paths(in_bucket(values, upload(folder, new_bucket())))


def test_a_bucket_and_a_disk_are_never_one_place(folder):
    bucket = upload(folder / "glue", f"{new_bucket()}{folder}/glue")
    for values in (
        {**DATA, "input_file": "a.txt", "output_file": f"{bucket}/a.txt"},
        {**TRAIN, "data_dir": "glue", "output_dir": bucket},
        {**TRAIN, "data_dir": bucket, "output_dir": "glue"},
    ):
        paths.check_paths(values)
    twice = {"input_file": f"{bucket}/x/../a", "output_file": f"{bucket}//./a"}
    with pytest.raises(flags.Error, match="would replace"):
        paths.check_paths({**DATA, **twice})


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
