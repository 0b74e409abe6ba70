"""The folder of a run: who may write, and where events go."""

import pytest

from albert_tf import locks
from albert_tf.training.run_folder import LOCK_FILE, open_run_folder
from helpers.bucket_runs import names, new_folder
from helpers.training_jobs import make_job


@pytest.mark.parametrize("is_local", [True, False])
def test_the_chief_writes_into_the_output_folder(is_local, rows, tmp_path):
    path = tmp_path / "out" if is_local else new_folder()
    job = make_job(rows, path)
    with open_run_folder(job, chief=True) as folder:
        assert folder.path == path
        assert (folder.events == path) == is_local
        folder.check()
        with open_run_folder(job, chief=False) as other:
            assert other.path == other.events != folder.events
            assert other.path.is_dir()
    assert not other.path.exists()
    assert folder.events.exists() == is_local


def test_events_are_copied_under_their_names_as_often_as_asked(rows):
    bucket = new_folder()
    with open_run_folder(make_job(rows, bucket), chief=True) as folder:
        (folder.events / "train").mkdir()
        for content in (b"1", b"12"):
            (folder.events / "train" / "events.1").write_bytes(content)
            folder.upload_events()
            assert (bucket / "train" / "events.1").read_bytes() == content
    with open_run_folder(make_job(rows, bucket), chief=True) as folder:
        (folder.events / "events.2").write_bytes(b"3")
        folder.upload_events()
    assert names(bucket) == ["events.2", "train/events.1"]


def test_only_training_takes_the_folder_from_another_process(rows):
    bucket = new_folder()
    with open_run_folder(make_job(rows, bucket), chief=True) as folder:
        with open_run_folder(make_job(None, bucket, eval_rows=rows), chief=True):
            folder.check()
        assert names(bucket) == [f"{LOCK_FILE}/.writer"]
        with (
            open_run_folder(make_job(rows, bucket), chief=True),
            pytest.raises(locks.TakenOverError, match=f"training into {bucket}"),
        ):
            folder.check()
        (folder.events / "events.1").write_bytes(b"1")
        with pytest.raises(FileExistsError, match=r"results\.json is there already"):
            (bucket / "results.json").write_bytes(b'{"other": 1}')
            with open_run_folder(make_job(rows, bucket), chief=True):
                pass
