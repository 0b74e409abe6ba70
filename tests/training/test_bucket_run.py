"""A run in a bucket computes what a local one does, whatever breaks meanwhile."""

import base64
import re
from pathlib import Path

import numpy as np
import pytest
from upath import UPath

from albert_tf import locks
from albert_tf.checkpoints.tensorflow_files import read_state
from albert_tf.files import read_json
from albert_tf.records.sidecar import read_record_set, sidecar_path
from albert_tf.storage import as_path
from albert_tf.training import run as training_run
from albert_tf.training.curves import CURVES_IMAGE, CURVES_PAGE, read_curves
from albert_tf.training.run_folder import LOCK_FILE
from helpers.bucket_runs import broken, comparable, names, new_folder
from helpers.training_jobs import assert_equal_weights, make_job, one_device, weights

# What breaks, one after the other -> what the next run resumes from.
BREAKS = {
    "out/model.ckpt-0.data-00000-of-00001": "the start",
    "out/model.ckpt-6.index": "{out}/model.ckpt-0",
    "out/best/checkpoint": "{out}/model.ckpt-6",
    "out/checkpoint": "{out}/model.ckpt-6",
    "out/results.json": "{out}/model.ckpt-12",
}


def start(rows, folder, on_loop_end=None):
    changes = {"eval_steps": 6, "iterations_per_loop": 3, "keep_checkpoint_max": 2}
    job = make_job(rows, folder, eval_rows=rows, **changes)
    return training_run.run(job, one_device(), on_loop_end)


@pytest.fixture(scope="module")
def bucket_rows(rows):
    """The same rows, in a bucket."""
    folder = new_folder()
    for path in (*rows.paths, *map(sidecar_path, rows.paths)):
        (folder / Path(path).name).write_bytes(Path(path).read_bytes())
    return read_record_set([str(folder / Path(path).name) for path in rows.paths], {})


@pytest.fixture(scope="module")
def local(rows, tmp_path_factory):
    """The folder of a local run that nothing happens to, its results, and the reports
    of its loops by their last steps."""
    folder, reports = tmp_path_factory.mktemp("local") / "out", {}
    results = start(rows, folder, reports.__setitem__)
    return folder, results, reports


@pytest.fixture(scope="module")
def mended(bucket_rows):
    """A bucket whose run was cut off at each of `BREAKS`, the errors, the results."""
    bucket, errors, listed = new_folder(), [], []
    for end in BREAKS:
        with (
            pytest.MonkeyPatch.context() as monkeypatch,
            broken(monkeypatch, end) as failed,
            pytest.raises(OSError) as caught,
        ):
            start(bucket_rows, bucket)
        assert failed[0].endswith(end)
        notes = getattr(caught.value, "__notes__", [])
        errors.append(" ".join([str(caught.value), *notes]))
        listed.append([Path(prefix).name for prefix in read_state(bucket)])
    return bucket, errors, listed, start(bucket_rows, bucket)


def test_an_error_tells_what_the_next_run_resumes_from(mended):
    bucket, errors, _, _ = mended
    for text, latest in zip(errors, BREAKS.values(), strict=True):
        way_out = f"ive the same command again; it resumes from {latest}."
        assert "connection lost" in text
        assert text.endswith(way_out.format(out=bucket)), text


def test_a_checkpoint_counts_once_it_is_complete(mended):
    _, _, listed, _ = mended
    assert listed == [
        [],
        ["model.ckpt-0"],
        ["model.ckpt-0", "model.ckpt-6"],
        ["model.ckpt-0", "model.ckpt-6"],
        ["model.ckpt-6", "model.ckpt-12"],
    ]


def test_a_run_that_is_cut_off_anywhere_ends_as_a_local_one(
    local, mended, rows, bucket_rows
):
    folder, expected, _ = local
    bucket, _, _, found = mended
    # The last call trained no step.
    assert found.pop("train") == {} and expected["train"]
    expected = {name: value for name, value in expected.items() if name != "train"}
    found = comparable(found, output=bucket, rows=as_path(bucket_rows.paths[0]).parent)
    records = Path(rows.paths[0]).parent
    assert found == comparable(expected, output=folder, rows=records)
    assert_equal_weights(weights(bucket), weights(folder))
    assert_equal_weights(weights(bucket / "best"), weights(folder / "best"))


def test_a_bucket_has_the_files_of_a_local_run(local, mended):
    folder = local[0]
    bucket = mended[0]

    def kinds(path):
        found = names(path)
        return {each for each in found if "tfevents" not in each and each != LOCK_FILE}

    assert kinds(bucket) == kinds(folder)
    for name in ("settings.json", "albert_config.json", "tokenizer.json"):
        assert (bucket / name).read_bytes() == (folder / name).read_bytes()
    assert read_json(bucket / "results.json")["global_step"] == 12
    # Each process writes files of its own; of the first nothing was uploaded.
    events = [each for each in names(bucket) if "tfevents" in each]
    assert len({each for each in events if each.startswith("train/")}) >= 2
    assert all((bucket / each).stat().st_size for each in events)


def test_curves_have_what_the_loops_reported_also_of_resumed_runs(local, mended):
    folder, results, reports = local
    found, resumed = read_curves(folder), read_curves(mended[0])
    metrics = ["masked_lm_loss", "sentence_order_loss"]
    metrics += ["masked_lm_accuracy", "sentence_order_accuracy"]
    rates = ["learning_rate", "gradient_norm", "examples_per_second"]
    assert list(found) == list(resumed) == [*metrics, *rates]
    for name in (*metrics[:2], *rates):
        steps, values = found[name]["training"]
        assert list(steps) == sorted(reports) == [3, 6, 9, 12]
        assert list(values) == [np.float32(reports[step][name]) for step in steps]
    for name in metrics:
        steps, values = found[name]["evaluation"]
        assert list(steps) == [6, 12] and values[-1] == np.float32(results[name])
    for name in (*metrics, *rates[:2]):
        assert found[name].keys() == resumed[name].keys()
        for phase, curve in resumed[name].items():
            # Events of what came after the last checkpoint are lost.
            at = np.isin(found[name][phase].steps, curve.steps)
            assert at.sum() >= len(at) / 2
            np.testing.assert_array_equal(found[name][phase].values[at], curve.values)


def test_a_run_leaves_its_curves_as_a_figure_and_a_page(local, mended):
    for folder, results in ((local[0], local[1]), (mended[0], mended[3])):
        text = (folder / CURVES_PAGE).read_text(encoding="utf-8")
        [picture] = re.findall(r'src="data:image/png;base64,([^"]+)"', text)
        assert base64.b64decode(picture) == (folder / CURVES_IMAGE).read_bytes()
        assert re.findall('href="(.*?)"', text) == ["settings.json", "results.json"]
        assert "<h1>Learning curves of out</h1>" in text
        value = f"{results['masked_lm_loss']:.5g} (step 12)"
        assert f"<th>masked lm loss, evaluation</th><td>{value}</td>" in text


def test_weights_of_a_bucket_are_evaluated(mended, rows):
    bucket = mended[0]
    best = read_json(bucket / "best" / "best.json")
    for folder in (bucket, new_folder()):
        job = make_job(None, folder, eval_rows=rows, init_checkpoint=str(bucket))
        found = training_run.run(job, one_device())
        step = best["global_step"]
        assert found["checkpoint"] == f"{bucket}/best/model.ckpt-{step}"
        assert found["masked_lm_loss"] == best["masked_lm_loss"]
    job = make_job(None, bucket, eval_rows=rows, init_checkpoint=str(new_folder()))
    with pytest.raises(FileNotFoundError, match="No weights at 'memory://"):
        training_run.run(job, one_device())


def test_a_second_writer_ends_the_first_before_it_writes(rows):
    bucket, before = new_folder(), []

    def on_loop_end(step, _):
        if step == 3:
            before.extend(names(bucket))
            with locks.exclusive(bucket / LOCK_FILE, "training") as _:
                token = (bucket / LOCK_FILE / ".writer").read_bytes()
            (bucket / LOCK_FILE / ".writer").write_bytes(token)

    with pytest.raises(locks.TakenOverError, match=f"training into {bucket} since"):
        start(rows, bucket, on_loop_end)
    assert names(bucket) == before and "model.ckpt-0.index" in before


def test_a_bucket_that_cannot_be_written_is_refused_at_once(rows, monkeypatch):
    def fail(*_):
        raise PermissionError("no permission for you")

    bucket = new_folder()
    monkeypatch.setattr(UPath, "write_bytes", fail)
    with pytest.raises(OSError, match=f"{bucket} cannot be written .no permission"):
        start(rows, bucket)
    assert names(bucket) == []
