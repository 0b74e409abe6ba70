"""Who may import whom, so that every module can be read and tested on its own."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# A module imports modules of lower levels only, and the siblings named below.
LEVELS = {
    "config": 0,
    "records": 0,
    "locks": 0,
    "stopping": 0,
    "record_bytes": 0,
    "record_features": 0,
    "tokenization": 0,
    "tokenization_subwords": 0,
    "tokenization_graph": 0,
    "tokenization_offsets": 0,
    "packing": 0,
    "losses": 0,
    "metrics": 0,
    "layers": 0,
    "rematerialize": 0,
    "sharing": 0,
    "answers": 0,
    "brightmart": 1,
    "checkpoint_files": 1,
    "hugging_face": 1,
    "beside_weights": 1,
    "model_garden": 1,
    "layouts": 1,
    "answer_metrics": 0,
    "encoder": 1,
    "models": 1,
    "spans": 1,
    "optimization": 1,
    "checkpoints": 1,
    "batches": 1,
    "graph_packing": 1,
    "length_batches": 1,
    "strategies": 1,
    "model_weights": 2,
    "numeric_check": 2,
    "similarity": 2,
    "costs": 2,
    "tasks": 2,
    "best": 2,
    "prediction": 2,
    "train_step": 2,
    "loop": 2,
    "training": 2,
    "serving": 3,
    "serving_choice": 3,
    "serving_squad": 3,
    "export": 4,
    "tflite": 5,
    "model_folder": 3,
    "conversion": 4,
    "fine_tuning": 3,
    "span_tasks": 3,
    "ensembles": 3,
}
SIBLINGS = {
    "layers": {"rematerialize"},
    "tokenization": {"tokenization_subwords", "tokenization_graph"},
    "tokenization_graph": {"tokenization_offsets"},
    "records": {"record_bytes", "record_features"},
    "beside_weights": {"hugging_face"},
    "model_garden": {"checkpoint_files"},
    "layouts": {
        "beside_weights",
        "brightmart",
        "checkpoint_files",
        "hugging_face",
        "model_garden",
    },
    "checkpoints": {"checkpoint_files", "layouts"},
    "models": {"encoder"},
    "spans": {"encoder", "models"},
    "answer_metrics": {"answers"},
    "batches": {"length_batches"},
    "prediction": {"tasks", "loop", "train_step"},
    "serving_choice": {"serving"},
    "serving_squad": {"serving", "span_tasks"},
    "train_step": {"tasks"},
    "loop": {"tasks", "train_step"},
    "training": {"tasks", "loop", "train_step", "best", "prediction"},
    "fine_tuning": {"model_folder"},
    "ensembles": {"fine_tuning", "model_folder"},
}
# Parts of one module: nobody else imports them.
PRIVATE = {
    "tokenization_subwords",
    "tokenization_graph",
    "tokenization_offsets",
    "record_bytes",
    "record_features",
}
FOR_DATA_PREP = {"tokenization", "packing", "records", "locks"}
# What of tf-models-official is a library; its registries and trainers are not used.
OFFICIAL = (
    "official.common.distribute_utils",
    "official.modeling.performance",
    # Its encoder, whose checkpoints are read and written.
    "official.nlp.modeling.networks",
    "official.modeling.activations",
    "official.nlp.tools.squad_evaluate_v1_1",
    "official.nlp.tools.squad_evaluate_v2_0",
)
# Data workers are many processes: none of these loads TensorFlow (about 700 MB each).
LIGHT = ("albert_tf", *(f"albert_tf.{m}" for m in ("config", *sorted(FOR_DATA_PREP))))

FOLDERS = ("albert_tf", "data_prep", "run_scripts", "tests")


def sources(*folders):
    return sorted(path for name in folders for path in (ROOT / name).glob("**/*.py"))


def parse(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path):
    """Full names of all that a file imports, anywhere in it."""
    names = set()
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import: name the package."
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def within(package, path):
    """The modules of a package that a file imports."""
    prefix = f"{package}."
    return {
        name.removeprefix(prefix).split(".")[0]
        for name in imported(path)
        if name.startswith(prefix)
    }


def name_of(path):
    return str(path.relative_to(ROOT))


LIBRARY = sources("albert_tf")
DATA_PREP = sources("data_prep")


@pytest.mark.parametrize("path", LIBRARY, ids=name_of)
def test_a_library_module_imports_lower_levels_only(path):
    module = path.stem
    if module == "__init__":
        assert not imported(path), "importing albert_tf must load nothing else"
        return
    assert module in LEVELS, f"{path.name} has no level: add it to the table."
    allowed = {name for name, level in LEVELS.items() if level < LEVELS[module]}
    allowed = (allowed - PRIVATE) | SIBLINGS.get(module, set())
    assert within("albert_tf", path) <= allowed


@pytest.mark.parametrize("path", LIBRARY, ids=name_of)
def test_the_library_knows_neither_data_preparation_nor_scripts(path):
    scripts = {script.stem for script in sources("run_scripts")}
    roots = {name.split(".")[0] for name in imported(path)}
    assert not roots & {"data_prep", "run_scripts", "tests", *scripts}


@pytest.mark.parametrize("path", DATA_PREP, ids=name_of)
def test_data_preparation_imports_light_modules_of_the_library_and_no_model(path):
    assert within("albert_tf", path) <= FOR_DATA_PREP
    roots = {name.split(".")[0] for name in imported(path)}
    assert not roots & {"official", "orbit", "tf_keras", "run_scripts", "common_flags"}


@pytest.mark.parametrize("path", [*LIBRARY, *DATA_PREP], ids=name_of)
def test_only_scripts_know_flags_and_the_command_line(path):
    names = imported(path)
    assert not any(name.startswith(("absl.flags", "absl.app")) for name in names)
    assert not names & {"argparse", "sys.argv"}
    attributes = {ast.unparse(n) for n in ast.walk(parse(path)) if is_attribute(n)}
    assert "sys.argv" not in attributes


@pytest.mark.parametrize("path", sources("run_scripts"), ids=name_of)
def test_scripts_define_flags_through_functions_under_main(path):
    """One process may import two scripts; a flag defined twice there is an error."""
    tree = parse(path)
    at_import = [node for node in tree.body if not is_definition_or_main(node)]
    calls = {
        ast.unparse(node.func)
        for statement in at_import
        for node in ast.walk(statement)
        if isinstance(node, ast.Call)
    }
    assert not {call for call in calls if "define" in call.lower()}


def is_definition_or_main(node):
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "__name__ == '__main__'"
    return isinstance(node, ast.FunctionDef | ast.ClassDef)


def is_attribute(node):
    return isinstance(node, ast.Attribute)


@pytest.mark.parametrize("path", sources(*FOLDERS), ids=name_of)
def test_keras_is_tf_keras(path):
    """`tf.keras` is Keras 3 here, whose layers and names are others."""
    attributes = {ast.unparse(n) for n in ast.walk(parse(path)) if is_attribute(n)}
    assert not attributes & {"tf.keras", "tensorflow.keras", "tf.compat.v1.keras"}
    assert not any(
        name == "keras" or name.startswith(("keras.", "tensorflow.keras"))
        for name in imported(path)
    )


@pytest.mark.parametrize("path", sources(*FOLDERS), ids=name_of)
def test_only_the_library_parts_of_official_are_used(path):
    names = {name for name in imported(path) if name.split(".")[0] == "official"}
    assert {name for name in names if not name.startswith(OFFICIAL)} == set()


def test_the_library_imports_only_what_setup_installs():
    """A library that another one happens to bring along is gone with that one."""
    installed = {
        ast.unparse(keyword.value)
        for node in ast.walk(parse(ROOT / "setup.py"))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg in ("install_requires", "extras_require")
    }
    installed = "".join(installed)
    distributions = {
        "official": "tf-models-official",
        # Installed with tf-models-official, of the same repository and release.
        "orbit": "tf-models-official",
        "absl": "absl-py",
        "google_crc32c": "google-crc32c",
        "grpc": "grpcio",
        "jaxlib": "jax",
        "sklearn": "scikit-learn",
        "tensorflow_serving": "tensorflow-serving-api",
        "tensorflow_text": "tensorflow-text",
    }
    own = {*FOLDERS, *(script.stem for script in sources("run_scripts"))}
    for path in sources("albert_tf", "data_prep", "run_scripts"):
        roots = {name.split(".")[0] for name in imported(path)}
        for root in roots - own - sys.stdlib_module_names:
            wanted = distributions.get(root, root)
            assert f"'{wanted}>" in installed, f"{path} imports {root}"


def test_light_modules_load_no_tensorflow():
    modules = [*LIGHT, *(f"data_prep.{p.stem}" for p in DATA_PREP)]
    program = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name.removesuffix('.__init__'))\n"
        "    if 'tensorflow' in sys.modules:\n"
        "        sys.exit(f'importing {name} loads TensorFlow')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *modules],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
