"""Every recipe names flags that exist, a possible model, and what a reader needs."""

import re

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.training.phases import parse
from dev import paper_tables
from helpers.paths import ROOT
from helpers.scripts import assert_one_line, run_script

FOLDER = ROOT / "configs" / "recipes"
FIGURES = sorted(FOLDER.glob("figure*.flags"))
RECIPES = sorted([*FOLDER.glob("table*.flags"), *FIGURES])
# Tables of GLUE's tasks and of test sets.
OTHER_SCORES = ("9", "10")
PHASES = ROOT / "configs" / "recipes" / "bert_phases.flags"
UNSHARING = sorted(FOLDER.glob("unsharing*.flags"))
FINE_TUNING = sorted(
    set(FOLDER.glob("*.flags")).difference([*RECIPES, *UNSHARING, PHASES])
)
# Table 14: learning rate, batch, ALBERT dropout, steps, warm-up.
TABLE_14 = {
    "cola": (1e-5, 16, 0, 5336, 320),
    "sts-b": (2e-5, 16, 0, 3598, 214),
    "sst-2": (1e-5, 32, 0, 20935, 1256),
    "mnli": (3e-5, 128, 0, 10000, 1000),
    "qnli": (1e-5, 32, 0, 33112, 1986),
    "qqp": (5e-5, 128, 0.1, 14000, 1000),
    "rte": (3e-5, 32, 0.1, 800, 200),
    "mrpc": (2e-5, 32, 0, 800, 200),
    "wnli": (2e-5, 16, 0.1, 2000, 250),
}


def read(path):
    """The text of a recipe, and its flags in order."""
    text = path.read_text(encoding="utf-8")
    flags = [line for line in text.splitlines() if line.startswith("--")]
    return text, [flag[2:].partition("=")[::2] for flag in flags]


def config_of(path):
    flags = read(path)[1]
    config = AlbertConfig.from_json(ROOT / dict(flags)["albert_config_file"])
    return config.override([v for name, v in flags if name == "config_override"])


def test_there_are_recipes_for_all_tables():
    found = [re.match(r"(table|figure)(\w+?)_", path.name)[2] for path in RECIPES]
    expected = {"2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13"}
    assert set(found) == expected | {"2a", "2b"}
    assert [found.count(name) for name in ("2", "6", "9", "2a")] == [5, 2, 2, 2]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_headed_by_command_cost_and_scores(path):
    text, flags = read(path)
    assert f"--flagfile=configs/recipes/{path.name} " in text
    kind, number = re.match(r"(table|figure)([0-9]+[ab]?)", path.stem).groups()
    assert f"{kind.title()} {number}: " in text.splitlines()[0]
    assert re.search(r"# Cost: .* parameters, .* operations: about .* days", text)
    if kind == "figure":
        assert "--do_eval" in text and "compare_runs.py" in text
    elif number in OTHER_SCORES:
        assert len(re.findall(r"\d\d\.\d\b", text)) >= 7
    else:
        assert len(re.findall(r"\d\d\.\d/\d\d\.\d", text)) == 2
        assert "average" in text
    assert all(line.startswith(("#", "--")) for line in text.splitlines())
    assert dict(flags)["num_train_steps"]
    config_of(path)


@pytest.mark.parametrize(
    ("name", "table", "row"),
    [
        ("table3_not_shared_e64", 3, "not-shared E=64"),
        ("table3_all_shared_e768", 3, "all-shared E=768"),
        ("table4_shared_attention_e768", 4, "shared-attention E=768"),
        ("table4_shared_ffn_e128", 4, "shared-FFN E=128"),
        ("table11_layers_48", 11, "48 layers"),
        ("table12_h6144", 12, "H=6144"),
    ],
)
def test_a_recipes_model_has_the_papers_parameters(name, table, row):
    (expected,) = (
        r.millions for r in paper_tables.ROWS if (r.table, r.name) == (table, row)
    )
    config = config_of(ROOT / "configs" / "recipes" / f"{name}.flags")
    assert round(paper_tables.as_the_paper_counts(config) / 1e6) == expected


def test_the_script_takes_the_flags_of_all_recipes():
    command = ["run_pretraining.py", "--output_dir=out", "--input_file=no.file"]
    command += ["--eval_input_file=other.file"]
    command += [f"--flagfile={path}" for path in RECIPES]
    # The values of one recipe, so that the model is possible.
    command += [f"--albert_config_file={ROOT / 'configs' / 'albert_base.json'}"]
    done = run_script(*command, cwd=ROOT)
    # 2 would be a wrong flag; 1 is the missing input, or an override that a later
    # recipe makes impossible.
    assert done.returncode == 1, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_phases_of_bert_are_nine_tenths_short():
    text, flags = read(PHASES)
    assert "--flagfile=configs/recipes/bert_phases.flags " in text
    short, long = parse(dict(flags)["phases"], 1)
    assert (short.length, long.length) == (128, 512)
    assert short.steps == 9 * long.steps == 112_500
    tokens = sum(one.steps * one.length * one.batch_size for one in (short, long))
    share = tokens / (125_000 * 512 * 4096)
    assert f"read {share:.1%}".replace("%", " %") in text
    config_of(PHASES)
    command = ["run_pretraining.py", f"--flagfile={PHASES}", "--input_file=no.file"]
    done = run_script(*command, "--output_dir=out", cwd=ROOT)
    assert_one_line(done, 1, "No record file matches 'no.file'")


def test_unsharing_takes_as_many_steps_as_its_ends(tmp_path):
    first, second = (read(path) for path in UNSHARING)
    for path, (text, _) in zip(UNSHARING, (first, second), strict=True):
        assert f"--flagfile=configs/recipes/{path.name} " in text
        assert re.search(r"# Cost: .* parameters, .* operations: about .* days", text)
    steps = [int(dict(flags)["num_train_steps"]) for _, flags in (first, second)]
    for name in re.findall(r"table3\w+\.flags", first[0]):
        assert int(dict(read(FOLDER / name)[1])["num_train_steps"]) == sum(steps)
    assert ("unshare", "") in second[1]
    assert "--init_checkpoint=models/unsharing_1_shared" in second[0]
    shared, ends = (
        config_of(UNSHARING[0]),
        config_of(FOLDER / "table3_not_shared_e128.flags"),
    )
    assert shared.unshared().groups == ends.groups
    for path in UNSHARING:
        command = [f"--flagfile={path}", "--input_file=no.file", "--output_dir=out"]
        done = run_script("run_pretraining.py", *command, cwd=ROOT)
        assert done.returncode == 1 or "--unshare needs" in done.stderr, done.stderr


def script_of(path):
    """The script that a recipe's command names."""
    name = re.search(r"run_scripts/(\w+\.py)", path.read_text(encoding="utf-8"))[1]
    return ROOT / "run_scripts" / name


@pytest.mark.parametrize("path", FINE_TUNING, ids=lambda path: path.stem)
def test_a_fine_tuning_recipe_is_headed_by_command_cost_and_score(path):
    text, _ = read(path)
    assert f"--flagfile=configs/recipes/{path.name} " in text
    assert "Table 14" in text.splitlines()[0] and script_of(path).is_file()
    assert "# Cost" in text and "floating-point operations" in text
    assert re.search(r"in the paper( |\n# )?\(", text)
    assert all(line.startswith(("#", "--")) for line in text.splitlines())


@pytest.mark.parametrize("name", TABLE_14)
def test_the_recipes_of_glue_are_the_papers(name):
    flags = dict(read(ROOT / "configs" / "recipes" / f"{name}.flags")[1])
    overrides = read(ROOT / "configs" / "recipes" / f"{name}.flags")[1]
    rate, batch, dropout, steps, warmup = TABLE_14[name]
    assert flags["task_name"] == name and flags["max_seq_length"] == "512"
    assert float(flags["learning_rate"]) == rate
    assert int(flags["train_batch_size"]) == batch
    assert [v for n, v in overrides if n == "config_override"] == [
        f"hidden_dropout_prob={dropout}",
        f"attention_probs_dropout_prob={dropout}",
    ]
    assert flags["classifier_dropout"] == "0.1"
    found = int(flags["num_train_steps"]), int(flags["num_warmup_steps"])
    assert found == (steps, warmup)


def test_the_scripts_take_the_flags_of_their_recipes():
    for script in {script_of(path) for path in FINE_TUNING}:
        recipes = [path for path in FINE_TUNING if script_of(path) == script]
        command = [script.name, "--output_dir=out"]
        command += [f"--flagfile={path}" for path in recipes]
        # Stops where it would read the model; a wrong flag would exit with 2 before.
        command += ["--init_checkpoint=no/model"]
        done = run_script(*command, cwd=ROOT)
        assert done.returncode == 1, done.stderr
        assert "no/model" in done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("squad-v1", ("5e-5", "48", "3649", "365", "384")),
        ("squad-v2", ("3e-5", "48", "8144", "814", "512")),
    ],
)
def test_the_recipes_of_squad_are_the_papers(name, expected):
    flags = dict(read(ROOT / "configs" / "recipes" / f"{name}.flags")[1])
    names = ("learning_rate", "train_batch_size", "num_train_steps")
    names += ("num_warmup_steps", "max_seq_length")
    assert tuple(flags[each] for each in names) == expected
    assert flags["classifier_dropout"] == "0.1"
