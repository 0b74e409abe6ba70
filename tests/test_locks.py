"""Locks are held by one, and end."""

import errno
import fcntl
import os
import threading
import uuid

import pytest

from albert_tf import locks, storage


@pytest.mark.parametrize("name", ["lock", ""])
def test_a_lock_is_held_by_one_until_it_is_released(name, tmp_path):
    path = tmp_path / name  # a file, or the folder itself
    with (
        locks.exclusive(path, "making rows"),
        pytest.raises(OSError, match="Another process is making rows"),
        locks.exclusive(path, "making rows"),
    ):
        pass
    with locks.exclusive(path, "making rows"):
        pass


def test_a_shared_lock_lets_others_share_but_not_own(tmp_path):
    path = tmp_path / "lock"
    with open(path, "a") as one, open(path, "a") as two:
        assert locks.try_lock(one) is True
        assert locks.try_lock(two) is False
        locks.share_lock(one)
        locks.share_lock(two)
        assert locks.try_lock(one) is False


def test_waiting_holders_come_one_after_the_other_and_leave_no_file(tmp_path):
    path, inside, most = tmp_path / "lock", [], []

    def hold():
        for _ in range(50):
            with locks.waiting(path):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=hold) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 150
    assert os.listdir(tmp_path) == []


def test_a_link_is_no_lock_file(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    for lock in (
        locks.exclusive(tmp_path / "lock", "x"),
        locks.waiting(tmp_path / "lock"),
    ):
        with pytest.raises(OSError, match="lock cannot be locked"), lock:
            pass
    assert os.listdir(tmp_path) == ["lock"]


@pytest.fixture(params=["bucket", "file", "folder"])
def place(request, tmp_path, monkeypatch):
    """Places without locks: of a bucket, and of a disk that has none."""
    if request.param == "bucket":
        return storage.as_path(f"memory://{uuid.uuid4().hex}/out")

    def refuse(*_):
        raise OSError(errno.ENOTSUP, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    return tmp_path / {"file": "lock", "folder": ""}[request.param]


def test_without_locks_the_first_of_two_writers_ends(place, capsys):
    with locks.exclusive(place, "training into out") as first:
        first()
        with locks.exclusive(place, "training into out") as second:
            second()
            with pytest.raises(OSError, match="Another process is training into out s"):
                first()
        assert "if it still runs, it will end now" in capsys.readouterr().out
    with locks.exclusive(place, "training into out") as third:
        third()
    out = capsys.readouterr().out
    assert "has no locks" in out and "still runs" not in out


def test_waiting_goes_on_where_there_are_no_locks():
    with locks.waiting(f"memory://{uuid.uuid4().hex}/lock"):
        pass
