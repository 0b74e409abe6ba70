"""A row of the paper's tables as one command."""

import json
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest
from reproduction import plan, report, samples
from reproduction.rows import AVERAGED, Row, all_rows, average_of
from reproduction.tasks import tasks_for

from albert_tf.files import read_json
from albert_tf.storage import as_path
from helpers.bucket_files import new_bucket, upload
from helpers.paths import SCRIPTS
from helpers.scripts import assert_one_line, run_script, start_script, succeed
from helpers.tiny_weights import random_model, write_model

ROW = "table3_all_shared_e128"
FIVE = [name for name in all_rows() if Row.read(name).average is not None]


@pytest.mark.parametrize("name", FIVE)
def test_the_papers_averages_are_ours(name):
    row = Row.read(name)
    assert tuple(row.scores) == AVERAGED
    assert [len(score) for score in row.scores.values()] == [2, 2, 1, 1, 1]
    # Scores in the tables are rounded to one place.
    assert average_of(row.scores) == pytest.approx(row.average, abs=0.11)


def test_rows_are_as_their_recipes_say():
    row = Row.read("table11_layers_06")
    assert row.start == "table11_layers_03" and row.config.num_hidden_layers == 6
    assert Row.read("table5_nsp").pair_objective == "nsp"
    assert Row.read(ROW).pair_objective == "sop" and Row.read(ROW).start is None
    assert Row.read(ROW).recipe.steps_of_rows() == (125_000, 4096, 512)
    nine = Row.read("table9_1500k")
    assert nine.average is None and nine.scores["CoLA"] == (71.4,)
    assert Row.read("table10_1m").scores == {
        "SQuAD 1.1": (94.8, 89.2),
        "SQuAD 2.0": (89.9, 87.2),
        "RACE": (86.0,),
    }
    with pytest.raises(ValueError, match=r"'table3_all_e128' is no row.*all_shared"):
        Row.read("table3_all_e128")


def test_a_row_is_printed_beside_the_papers():
    row = Row.read(ROW)
    scores = {
        "SQuAD 1.1": (88.3, 81.3),
        "SQuAD 2.0": (80.0, 77.1),
        "MNLI": (82.6,),
        "SST-2": (90.3,),
        "RACE": (64.0,),
    }
    lines = report.lines(row, scores, small=False)
    assert lines[0] == ROW and len(lines) == 5
    assert lines[1].split()[-1] == "Avg" and lines[2].split()[-1] == "80.1"
    # (84.8 + 78.55 + 82.6 + 90.3 + 64.0) / 5 = 80.05
    assert lines[3].split()[-1] in ("80.0", "80.1")
    assert lines[4].split()[1:4] == ["-1.0/-1.0", "+0.0/+0.0", "+1.0"]
    assert "cannot be compared" in report.lines(row, scores, small=True)[-1]


# -- plans


def commands_of(printed):
    lines = [line for line in printed.splitlines() if line.startswith("python ")]
    return [shlex.split(line)[1:] for line in lines]


@pytest.mark.parametrize("name", [ROW, "table9_1m", "table10_1500k", "table12_h2048"])
def test_all_commands_of_a_plan_are_possible(name, tmp_path):
    printed = succeed(
        "reproduce.py", name, "--dry_run", "--output_dir=out", cwd=tmp_path
    )
    commands = commands_of(printed)
    assert len(commands) == 1 + len(Row.read(name).scores)
    assert printed.count("floating-point operations") == len(commands)
    assert not (tmp_path / "out").exists()
    for script, *arguments in commands:
        name = script.removeprefix("run_scripts/")
        succeed(name, *arguments, "--only_check_args", cwd=tmp_path)


def test_rows_that_start_from_others_are_pretrained_after_them(tmp_path):
    printed = succeed(
        "reproduce.py",
        "table11_layers_06",
        "--dry_run",
        "--output_dir=out",
        cwd=tmp_path,
    )
    names = re.findall(r"Pretraining of (\w+)", printed)
    assert names == [f"table11_layers_{depth}" for depth in ("01", "03", "06")]
    assert "--init_checkpoint=out/pretraining/table11_layers_03" in printed


def test_some_tasks_of_table_9_start_from_mnli(tmp_path):
    given = ["--init_checkpoint=", "--num_runs=3", "--precision=bfloat16"]
    printed = succeed(
        "reproduce.py",
        "table9_1m",
        "--dry_run",
        "--output_dir=out",
        *given,
        cwd=tmp_path,
    )
    starts = {
        dict(a[2:].partition("=")[::2] for a in arguments)["output_dir"]: arguments
        for _, *arguments in commands_of(printed)[1:]
    }
    from_mnli = {k for k, v in starts.items() if "--init_checkpoint=out/mnli" in v}
    assert from_mnli == {"out/rte", "out/mrpc", "out/sts-b"}
    assert all("--num_runs=3" in arguments for arguments in starts.values())
    five = tasks_for(AVERAGED)
    assert not any(task.from_mnli for task in five)
    assert [task.repeated for task in five] == [False, False, True, True, False]


@pytest.mark.parametrize(
    ("flags", "code", "part"),
    [
        ([], 2, "Name one row"),
        ([ROW, ROW], 2, "Name one row"),
        (["figure2a_additional_data"], 1, "is no row with scores"),
        ([ROW], 2, "Name records to pretrain on, --input_file"),
        ([ROW, "--input_file=a"], 2, "--data_dir"),
        ([ROW, "--input_file=a", "--init_checkpoint=b"], 2, "leave it or --input_file"),
        ([ROW, "--input_file=a", "--data_dir=."], 1, "RACE/train/middle"),
        ([ROW, "--input_file=a", "--data_dir=.", "--num_runs=0"], 2, "num_runs"),
        (["table9_1m", "--small"], 1, "CoLA, MRPC, QNLI, QQP, RTE, STS-B are not made"),
    ],
)
def test_what_is_missing_is_named(flags, code, part, tmp_path):
    done = run_script("reproduce.py", *flags, "--output_dir=out", cwd=tmp_path)
    assert_one_line(done, code, part)
    assert not (tmp_path / "out").exists()


def test_a_model_of_another_shape_is_no_row(tmp_path):
    config, weights = random_model(num_hidden_layers=3)
    write_model(tmp_path / "model", weights, config)
    given = ["--init_checkpoint=model", "--data_dir=."]
    done = run_script("reproduce.py", ROW, *given, "--output_dir=out", cwd=tmp_path)
    assert_one_line(done, 1, f"={config.embedding_size}", f"the row {ROW} 128")


def test_small_models_keep_layers_and_sharing():
    for name in all_rows():
        config = Row.read(name).config
        changes = [flag.partition("=")[2] for flag in plan.small_overrides(config)]
        small = config.override(changes)
        assert small.groups == config.groups
        assert small.num_hidden_layers == config.num_hidden_layers
        assert small.has_embedding_projection == config.has_embedding_projection
        assert small.hidden_size < 100


# -- data


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "data"
    assert samples.prepare(None, folder, AVERAGED) == folder
    return folder


def test_data_that_are_made_have_the_published_form(made):
    for version in ("1.1", "2.0"):
        for split, size in samples.SIZES.items():
            content = read_json(made / "SQuAD" / f"{split}-v{version}.json")
            paragraphs = content["data"][0]["paragraphs"]
            assert len(paragraphs) == size
            answered = 0
            for paragraph in paragraphs:
                for answer in paragraph["qas"][0]["answers"]:
                    start = answer["answer_start"]
                    found = paragraph["context"][start : start + len(answer["text"])]
                    assert found == answer["text"]
                    answered += 1
            assert answered == (size if version == "1.1" else size // 2)
    lines = (made / "MNLI" / "train.tsv").read_text().splitlines()[1:]
    labels = [line.split("\t")[3] for line in lines]
    assert len(labels) == samples.SIZES["train"]
    assert min(labels.count(label) for label in set(labels)) > 60
    assert len(set(labels)) == 3


def test_published_data_are_sampled(made, tmp_path):
    folder = samples.prepare(made, tmp_path / "data", AVERAGED)
    whole = (made / "SST-2" / "train.tsv").read_text().splitlines()
    drawn = (folder / "SST-2" / "train.tsv").read_text().splitlines()
    assert drawn[0] == whole[0] and set(drawn) <= set(whole)
    file = "SQuAD/dev-v2.0.json"
    assert len(read_json(folder / file)["data"][0]["paragraphs"]) == 96
    passages = sorted((folder / "RACE" / "test" / "high").iterdir())
    assert len(passages) == samples.SIZES["dev"] // 8
    assert "article" in json.loads(passages[0].read_text())
    with pytest.raises(ValueError, match=r"holds samples of .*, not of the quick"):
        samples.prepare(None, folder, AVERAGED)


def test_data_and_results_may_be_in_a_bucket(made, tmp_path):
    bucket = new_bucket()
    upload(made, f"{bucket}/data")
    where = [f"--data_dir={bucket}/data", f"--output_dir={bucket}/out"]
    printed = succeed("reproduce.py", ROW, "--dry_run", *where, cwd=tmp_path)
    commands = commands_of(printed)
    assert f"--train_file={bucket}/data/SQuAD/train-v1.1.json" in commands[1]
    assert f"--data_dir={bucket}/data/RACE" in commands[-1]
    assert f"--output_dir={bucket}/out/race" in commands[-1]
    start = f"--init_checkpoint={bucket}/out/pretraining/{ROW}"
    assert all(start in command for command in commands[1:])
    folder = samples.prepare(as_path(f"{bucket}/data"), tmp_path / "drawn", AVERAGED)
    assert len(list((folder / "RACE" / "dev" / "middle").iterdir())) == 12


# -- the whole


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A row of Table 3, killed in the pretraining and done again."""
    folder = tmp_path_factory.mktemp("small")
    command = [ROW, "--small", "--num_runs=1", "--output_dir=out"]
    script = str(SCRIPTS / "reproduce.py")
    process = subprocess.Popen(
        [sys.executable, script, *command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    pretraining = folder / "out" / "pretraining" / ROW
    until = time.monotonic() + 300
    while not (pretraining / "model.ckpt-0.index").is_file():
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.2)
    # The command and what it started.
    process.send_signal(signal.SIGTERM)
    stopped = process.communicate(timeout=300)[0]
    again = start_script("reproduce.py", *command, cwd=folder)
    return folder, stopped, again


def test_a_whole_row_is_reproduced_after_a_kill(small):
    folder, stopped, again = small
    assert "Stopped in Pretraining" in stopped
    assert again.returncode == 0, again.stdout + again.stderr
    assert "vocabulary.model is there already" in again.stdout
    content = read_json(folder / "out" / "row.json")
    assert content["row"] == ROW and content["small"] is True
    assert content["paper"]["SQuAD 1.1"] == [89.3, 82.3]
    assert list(content["here"]) == [*AVERAGED, "Avg"]
    table = again.stdout.partition("== Row")[2].splitlines()
    assert table[2].split()[-1] == "Avg" and table[4].startswith("here")
    assert "cannot be compared with the paper's" in table[-1]
    # Of two sentiments the small model tells some apart.
    assert 40 <= content["here"]["SST-2"][0] <= 100


def test_a_step_that_fails_is_named(tmp_path):
    command = [ROW, "--small", "--input_file=no.file", "--output_dir=out"]
    done = start_script("reproduce.py", *command, cwd=tmp_path)
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and "No record file matches 'no.file'" in lines[0]
    assert f"Pretraining of {ROW} failed with exit code 1" in lines[-1]


def test_what_is_done_is_kept_and_other_flags_are_refused(small):
    folder, _, _ = small
    command = [ROW, "--small", "--num_runs=1", "--output_dir=out"]
    printed = succeed("reproduce.py", *command, cwd=folder)
    assert printed.count("is there already") == 9
    command[2] = "--num_runs=2"
    done = run_script("reproduce.py", *command, cwd=folder)
    assert_one_line(done, 1, "other flags (MNLI: --num_runs=2)")
    command[0] = "table3_all_shared_e64"
    done = run_script("reproduce.py", *command, cwd=folder)
    assert_one_line(done, 1, f"holds the reproduction of {ROW}")
