"""Learning curves: read from events, drawn, and compared.

`test_bucket_run.py` compares them with what the loops of resumed runs report.
"""

import itertools
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.storage import as_path
from albert_tf.training import curves
from albert_tf.training import run as training_run
from albert_tf.training.curves import draw, make_page, read_curves
from helpers.bucket_runs import new_folder
from helpers.scripts import assert_one_line, run_script, succeed
from helpers.training_jobs import make_job, one_device


def write_events(run, subfolder, points):
    """Writes a file of events: (tag, step, value) in this order."""
    writer = tf.summary.create_file_writer(str(run / subfolder))
    with writer.as_default():
        for tag, step, value in points:
            tf.summary.scalar(tag, value, step)
    writer.close()


def lists(found):
    """Curves as lists, by number and phase."""
    return {
        number: {phase: [*map(list, curve)] for phase, curve in phases.items()}
        for number, phases in found.items()
    }


def test_of_a_step_the_event_that_was_written_last_counts(tmp_path):
    write_events(tmp_path, "train", [("loss", 2, 5.0), ("loss", 4, 4.0)])
    write_events(tmp_path, "train", [("loss", 4, 3.5), ("loss", 6, 3.0)])
    write_events(tmp_path, "eval", [("eval_loss", 6, 1.5), ("rows", 6, 9.0)])
    # The order of their names is not that in which they were written.
    for file, name in zip(sorted((tmp_path / "train").iterdir()), "ba", strict=True):
        file.rename(file.with_name(f"events.out.tfevents.{name}"))
    (tmp_path / "train" / "notes.txt").write_text("no events")
    assert lists(read_curves(tmp_path)) == {
        "loss": {
            "training": [[2, 4, 6], [5.0, 3.5, 3.0]],
            "evaluation": [[6], [1.5]],
        }
    }


def test_events_that_break_off_are_read_up_to_there(tmp_path, capsys):
    write_events(tmp_path, "train", [("loss", 1, 2.0), ("loss", 3, 1.0)])
    [file] = (tmp_path / "train").iterdir()
    file.write_bytes(file.read_bytes()[:-5])
    assert lists(read_curves(tmp_path)) == {"loss": {"training": [[1], [2.0]]}}
    assert f"WARNING: {file} breaks off after 2 events" in capsys.readouterr().out


def some_curves(seed, names=("loss", "accuracy")):
    rng = np.random.default_rng(seed)
    steps = np.arange(5, 40, 5)
    return {
        name: {
            phase: curves.Curve(steps, rng.normal(size=steps.size))
            for phase in ("training", "evaluation")
        }
        for name in names
    }


def test_a_figure_depends_on_the_curves_alone():
    runs = {"_a$1$": some_curves(1), "b": some_curves(2, ["loss"])}
    image = draw(runs)
    assert image == draw(runs) != draw({**runs, "b": some_curves(3, ["loss"])})
    pixels = tf.image.decode_png(image, channels=3).numpy()
    assert pixels.shape[1] == 12 * 90
    # Two numbers, three columns: where no panel is, all is white.
    halves = np.split(pixels[:200], [12 * 60], axis=1)
    assert [bool((half < 255).any()) for half in halves] == [True, False]
    # More runs than there are named colors.
    assert draw({f"run {number}": some_curves(number) for number in range(11)})


def test_a_page_shows_names_as_they_are_and_what_a_run_lacks_as_empty():
    runs = {"<a>": some_curves(1), "b&c": some_curves(2, ["loss"])}
    links = {"<a>": {"settings.json": "%22/settings.json"}, "b&c": {}}
    text = make_page(runs, b"", links).decode()
    assert "<th>&lt;a&gt;</th><th>b&amp;c</th>" in text
    last = runs["<a>"]["accuracy"]["training"].values[-1]
    assert f"accuracy, training</th><td>{last:.5g} (step 35)</td><td></td>" in text
    assert '<a href="%22/settings.json">settings.json</a></td><td></td>' in text


@pytest.mark.parametrize("name", [curves.CURVES_IMAGE, curves.CURVES_PAGE])
def test_files_of_others_stop_a_run_before_it_begins(name, rows, tmp_path):
    head = b"\x89PNG\r\n\x1a\n" if name.endswith("png") else b"<!DOCTYPE html>\n"
    (tmp_path / name).write_bytes(head + b"mine")
    with pytest.raises(FileExistsError, match=f"{name} is there already"):
        training_run.run(make_job(rows, tmp_path), one_device())
    assert (tmp_path / name).read_bytes() == head + b"mine"
    assert not (tmp_path / "settings.json").exists()


@pytest.fixture
def runs(tmp_path):
    """Two runs that were killed, in folders of one name."""
    for number, folder in enumerate(("one/model", "two/model"), start=2):
        points = [("loss", step, 1 / step) for step in range(number, 20, number)]
        write_events(tmp_path / folder, "train", points)
    (tmp_path / "two/model/settings.json").write_text("{}")
    return tmp_path


def test_runs_are_compared_by_their_folders(runs):
    names = ["one/model", "two/model"]
    for _, (name, head) in itertools.product(
        range(2), {"f.png": b"\x89PNG", "pages/p.html": b"<!DOCTYPE"}.items()
    ):
        (runs / "pages").mkdir(exist_ok=True)
        printed = succeed("compare_runs.py", *names, f"--output_file={name}", cwd=runs)
        assert printed == f"Wrote {name}.\n"
        assert (runs / name).read_bytes().startswith(head)
    text = (runs / "pages/p.html").read_text()
    assert "<td>0.055556 (step 18)</td><td>0.055556 (step 18)</td>" in text
    assert re.findall('href="(.*?)"', text) == ["../two/model/settings.json"]
    expected = draw({name: read_curves(runs / name) for name in names})
    assert (runs / "f.png").read_bytes() == expected


def test_runs_of_buckets_are_compared_in_a_bucket(runs):
    bucket = new_folder()
    for file in (runs / "two/model").rglob("*.*"):
        target = bucket / file.relative_to(runs).as_posix()
        target.write_bytes(file.read_bytes())
    page = bucket / "page.html"
    words = ["one/model", str(bucket / "two/model"), f"--output_file={page}"]
    succeed("compare_runs.py", *words, cwd=runs)
    assert f'href="{bucket}/two/model/settings.json"' in page.read_text()


@pytest.mark.parametrize(
    ("words", "code", "parts"),
    [
        (["one/model", "one/model/"], 2, ["one/model is named twice"]),
        (["one/model", "none"], 1, ["There is no folder none"]),
        (["one"], 1, ["one holds no TensorBoard events", "output folder of a run."]),
        (["more"], 1, ["more holds no TensorBoard events", "as more/run_2."]),
        ([], 2, ["Usage: compare_runs.py RUN ... --output_file=FILE"]),
        (["one/model", "--output_file=c.svg"], 1, ["c.svg must end in .png", ".html"]),
        (["one/model", "--output_file=my.png"], 1, ["my.png is there already"]),
    ],
)
def test_what_cannot_be_compared_is_one_line(words, code, parts, runs):
    shutil.move(runs / "two" / "model", runs / "more" / "run_2")
    (runs / "my.png").write_bytes(b"\x89PNG\r\n\x1a\n photo")
    before = sorted(as_path(runs).rglob("*"))
    done = run_script("compare_runs.py", "--output_file=c.png", *words, cwd=runs)
    assert_one_line(done, code, *parts)
    assert sorted(as_path(runs).rglob("*")) == before


def test_names_of_runs_that_the_font_lacks_are_numbers():
    curve = {"loss": {"training": curves.Curve([1, 2], [3.0, 2.0])}}
    assert curves.draw({"模型": curve, "other": curve}).startswith(b"\x89PNG")
