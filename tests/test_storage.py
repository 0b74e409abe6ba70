"""Paths of this machine and of buckets have one interface."""

import pickle
import uuid
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from upath import UPath

from albert_tf import file_kinds, files, storage


@pytest.fixture
def bucket():
    return f"memory://{uuid.uuid4().hex}"


def test_local_paths_stay_pathlibs_and_schemes_become_those_of_fsspec(bucket):
    assert storage.as_path("a/b") == Path("a/b")
    path = storage.as_path(f"{bucket}/a/b.json")
    assert isinstance(path, UPath) and str(path) == f"{bucket}/a/b.json"
    assert storage.as_path(path) is path
    assert storage.is_local("a") and not storage.is_local(path)
    with pytest.raises(ValueError, match="copy the files to a local"):
        storage.check_local(path)


@pytest.mark.parametrize(
    "path", ["s3:bucket/x", "gs//bucket/x", "S3://bucket/x", "simplecache::s3://b/x"]
)
def test_a_mistyped_scheme_is_no_local_folder(path):
    with pytest.raises(ValueError, match=f"^{path} is not a path of this machine"):
        storage.as_path(path)
    assert storage.as_path(f"./{path}") == Path(path)


def test_a_scheme_whose_package_is_missing_names_the_extra(monkeypatch):
    def fail(_):
        raise ImportError("Please install it")

    monkeypatch.setattr(UPath, "fs", property(fail))
    with pytest.raises(ValueError, match=r"pip install 'albert-tf\[s3\]'"):
        storage.as_path("s3://bucket/x")


def test_files_of_a_bucket_are_written_whole_and_read(bucket, tmp_path):
    path = f"{bucket}/out/value.json"
    files.make_folder(f"{bucket}/out")
    files.write_json(path, {"a": 1})
    assert files.read_json(path) == {"a": 1}
    assert files.sha256(path) == files.digest(files.json_bytes({"a": 1}))
    assert storage.find(f"{bucket}/*/v*.json") == [path]
    with pytest.raises(FileExistsError, match="holds something else"):
        files.write_whole(path, b"\x89PNG\r\n\x1a\n")
    files.write_together({path: b'{"a": 2}', tmp_path / "b": b"3"})
    assert files.read_json(path) == {"a": 2} and (tmp_path / "b").read_bytes() == b"3"
    files.write_shared(path, b"{}")
    file_kinds.check_replaceable(path, b'{"c": 1}')
    with pytest.raises(FileNotFoundError, match="no file"):
        files.read_json(f"{bucket}/none.json")
    assert files.read_json(f"{bucket}/none.json", missing_ok=True) == {}


def test_a_failure_leaves_no_part_of_files_that_belong_together(bucket, monkeypatch):
    one, two = f"{bucket}/one.json", f"{bucket}/two.json"
    files.write_whole(one, b'{"a": 1}')
    move_up = storage.move_up

    def fail(local, path):
        if str(path) == two:
            raise OSError("no space")
        move_up(local, path)

    monkeypatch.setattr(files, "move_up", fail)
    with pytest.raises(OSError, match=r"two\.json cannot be written"):
        files.write_together({one: b'{"a": 2}', two: b"{}"})
    assert files.read_json(one) == {"a": 1}
    assert storage.find(f"{bucket}/*") == [one]


def test_a_file_in_place_of_a_folder_is_found(bucket):
    files.write_whole(f"{bucket}/x", b"1")
    with pytest.raises(NotADirectoryError):
        files.make_folder(f"{bucket}/x/y")


def test_a_folder_that_cannot_be_written_is_one_line(bucket, monkeypatch):
    def fail(*_):
        raise PermissionError("no permission for you")

    monkeypatch.setattr(UPath, "write_bytes", fail)
    with pytest.raises(OSError, match=r"cannot be written \(no permission"):
        files.make_folder(f"{bucket}/x")


def test_local_copies_have_the_content_and_are_removed(bucket, tmp_path):
    for name in ("a", "sub/b", "ck-1.index", "ck-1.data-0", "ck-10.index"):
        files.write_whole(f"{bucket}/model/{name}", name.encode())
    with storage.local_copy(f"{bucket}/model/a") as file:
        assert file.read_bytes() == b"a"
    with storage.local_copy(f"{bucket}/model") as folder:
        assert (folder / "a").read_bytes() == b"a"
        assert (folder / "sub" / "b").read_bytes() == b"sub/b"
    assert not folder.exists() and not file.exists()
    with storage.local_checkpoint(f"{bucket}/model/ck-1") as prefix:
        names = sorted(each.name for each in Path(prefix).parent.iterdir())
        assert names == ["ck-1.data-0", "ck-1.index"]
        assert Path(prefix).name == "ck-1"
    with pytest.raises(FileNotFoundError), storage.local_copy(f"{bucket}/none"):
        pass
    with storage.local_copy(tmp_path) as same, storage.local_checkpoint("x/y") as one:
        assert same == tmp_path and one == "x/y"


def test_the_names_in_a_folder_are_listed_at_once(bucket, tmp_path, monkeypatch):
    for folder in (tmp_path, storage.as_path(bucket)):
        for name in ("b.json", "sub/c", "sub/deep/d"):
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"1")
        assert storage.entries(folder) == ({"b.json"}, {"sub"})
        assert storage.entries(str(folder / "sub")) == ({"c"}, {"deep"})
        for name in ("b.json", "none"):
            assert storage.entries(folder / name) == (set(), set())


def test_a_folder_that_may_not_be_listed_is_an_error(bucket, monkeypatch):
    def fail(*_, **__):
        raise PermissionError("Access Denied")

    path = storage.as_path(bucket)
    monkeypatch.setattr(type(path.fs), "ls", fail)
    with pytest.raises(PermissionError, match="Access Denied"):
        storage.entries(path)


def test_paths_are_compared_without_links_and_dots(bucket, tmp_path):
    (tmp_path / "link").symlink_to("folder")
    assert storage.comparable(tmp_path / "link/../x") == tmp_path / "x"
    assert storage.comparable(tmp_path / "link/x") == tmp_path / "folder/x"
    path = storage.comparable(f"{bucket}/a/../b//./c/")
    assert path == storage.comparable(f"{bucket}/b/c")
    assert path.is_relative_to(storage.comparable(bucket))
    assert not path.is_relative_to(storage.comparable(f"{bucket}/b/cc"))
    assert not path.is_relative_to("/")


def test_tensorflow_gets_paths_that_it_can_open(bucket, tmp_path, monkeypatch):
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    for name in ("a/rows", "b/rows"):
        files.write_whole(f"{bucket}/{name}", name.encode())
    own = [tmp_path / "rows", UPath("gs://bucket/rows", token="anon")]
    remote = [f"{bucket}/a/rows", f"{bucket}/b/rows"]
    with storage.tensorflow_paths([*own, *remote]) as paths:
        assert paths[:2] == [str(tmp_path / "rows"), "gs://bucket/rows"]
        assert [Path(path).read_text() for path in paths[2:]] == ["a/rows", "b/rows"]
    assert not any(Path(path).exists() for path in paths)
    with pytest.raises(FileNotFoundError), storage.tensorflow_paths([f"{bucket}/none"]):
        pass
    # TensorFlow knows no emulator.
    copied = []
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")
    monkeypatch.setattr(storage, "_download", lambda paths, _: copied.extend(paths))
    with storage.tensorflow_paths(own) as paths:
        assert paths[0] == str(own[0]) and Path(paths[1]).name == "0-rows"
    assert copied == own[1:]


@pytest.mark.parametrize("ask", ["is_file", "is_dir", "exists"])
def test_a_bucket_that_is_not_reached_is_not_taken_for_an_empty_one(
    ask, bucket, monkeypatch
):
    path = storage.as_path(f"{bucket}/a") / "b"
    assert pickle.loads(pickle.dumps(path)) == path
    assert not getattr(path, ask)()
    files.write_whole(path, b"1")
    files.write_whole(path.parent / "c" / "d", b"1")
    place = path.parent / "c" if ask == "is_dir" else path
    assert getattr(place, ask)()
    for each in (
        *path.parent.iterdir(),
        *path.parent.glob("*"),
        pickle.loads(pickle.dumps(path)),
    ):
        with monkeypatch.context() as patch, pytest.raises(ConnectionResetError):
            patch.setattr(MemoryFileSystem, "info", _lose_connection)
            getattr(each, ask)()


def test_every_scheme_has_such_paths():
    for scheme in storage.SCHEMES:
        options = {"gs": {"token": "anon"}, "az": {"account_name": "x"}}.get(scheme, {})
        assert isinstance(UPath(f"{scheme}://bucket/x", **options), storage._Answers)


def _lose_connection(*_, **__):
    raise ConnectionResetError("connection lost")


@pytest.mark.parametrize("path", ["s3:///a", "memory://", "gs://b/../a", "s3://./a"])
def test_paths_of_buckets_are_inside_a_bucket(path):
    with pytest.raises(ValueError, match=f"{path} must be .*://BUCKET/PATH"):
        storage.as_path(path)


def test_dots_and_repeated_slashes_are_as_on_a_disk(bucket):
    files.write_whole(f"{bucket}//a/./x/..///b", b"1")
    assert storage.as_path(f"{bucket}/a/b").read_bytes() == b"1"
    assert str(storage.as_path(f"{bucket}/a/")) == f"{bucket}/a"
