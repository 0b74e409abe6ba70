"""Of a `pytorch_model.bin` tensors are read, and nothing in it is run."""

import collections
import io
import itertools
import json
import os
import pickle
import sys
import types
import zipfile
from unittest import mock

import numpy as np
import pytest

from albert_tf.checkpoints import formats, pytorch_file
from helpers.tiny_weights import assert_same_weights
from helpers.transformers_models import bert_config, random_bert_tensors

STORAGES = {"f4": "FloatStorage", "f2": "HalfStorage", "i8": "LongStorage"}


def _modules():
    """Modules of the names that PyTorch's pickles hold; PyTorch is not needed."""
    module, utilities = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for name in STORAGES.values():
        setattr(module, name, type(name, (), {"__module__": "torch"}))
    for name in ("_rebuild_tensor_v2", "_rebuild_parameter"):
        function = types.FunctionType((lambda *_: None).__code__, {}, name)
        function.__module__, function.__qualname__ = "torch._utils", name
        setattr(utilities, name, function)
    return {"torch": module, "torch._utils": utilities}


MODULES = _modules()
TORCH, UTILITIES = MODULES.values()


class Storage:
    def __init__(self, array, key):
        self.array, self.key = np.ravel(array), str(key)


class Tensor:
    """A view of a storage, as PyTorch pickles it: offset and strides in numbers."""

    def __init__(self, storage, shape, strides, offset=0):
        self.storage = storage
        self.arguments = (offset, shape, strides, False, collections.OrderedDict())

    def __reduce__(self):
        return UTILITIES._rebuild_tensor_v2, (self.storage, *self.arguments)


class Parameter:
    def __init__(self, tensor):
        self.tensor = tensor

    def __reduce__(self):
        arguments = (self.tensor, True, collections.OrderedDict())
        return UTILITIES._rebuild_parameter, arguments


class _Pickler(pickle.Pickler):
    def __init__(self, file, view):
        super().__init__(file, protocol=2)
        self.view, self.storages = view, {}

    def dump(self, value):
        # Names are looked up when they are pickled.
        with mock.patch.dict(sys.modules, MODULES):
            super().dump(value)

    def persistent_id(self, value):
        if not isinstance(value, Storage):
            return None
        self.storages[value.key] = value.array
        dtype = getattr(TORCH, STORAGES[value.array.dtype.str[1:]])
        return ("storage", dtype, value.key, "cpu", value.array.size, *self.view)


def write_archive(path, content, compression=zipfile.ZIP_STORED):
    pickled = io.BytesIO()
    pickler = _Pickler(pickled, ())
    pickler.dump(content)
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", pickled.getvalue())
        archive.writestr("archive/byteorder", "little")
        for key, array in pickler.storages.items():
            archive.writestr(f"archive/data/{key}", array.tobytes())


def write_stream(path, content):
    """The layout before PyTorch 1.6."""
    with path.open("wb") as file:
        for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
            pickle.dump(value, file, protocol=2)
        pickler = _Pickler(file, (None,))
        pickler.dump(content)
        pickle.dump([*pickler.storages], file, protocol=2)
        for array in pickler.storages.values():
            file.write(array.size.to_bytes(8, "little") + array.tobytes())


WRITERS = {"archive": write_archive, "stream": write_stream}
write_each = pytest.mark.parametrize("write", WRITERS.values(), ids=[*WRITERS])


def state_dict(arrays):
    """As a module gives it, with an attribute of its own."""
    state = collections.OrderedDict()
    for key, (name, array) in enumerate(arrays.items()):
        strides = [step // array.itemsize for step in array.strides]
        state[name] = Tensor(Storage(array, key), array.shape, tuple(strides))
    state._metadata = collections.OrderedDict([("", {"version": 1})])
    return state


@write_each
def test_tensors_are_read_whatever_their_layout(write, tmp_path):
    rng = np.random.default_rng(3)
    whole = rng.normal(size=(5, 7)).astype(np.float32)
    others = {
        "half": rng.normal(size=(3, 2)).astype(np.float16),
        "positions": np.arange(6)[np.newaxis],
        "empty": np.zeros((0, 4), np.float32),
        "number": np.array(1.5, np.float32),
    }
    state, shared = state_dict(others), Storage(whole, 9)
    state["whole"] = Parameter(Tensor(shared, (5, 7), (7, 1)))
    state["transposed"] = Tensor(shared, (7, 5), (1, 7))
    state["column"] = Tensor(shared, (4,), (7,), offset=9)
    write(tmp_path / "model.bin", state)
    found = pytorch_file.read_tensors(tmp_path / "model.bin")
    expected = others | {"whole": whole, "transposed": whole.T, "column": whole[1:, 2]}
    assert_same_weights(found, expected)
    assert all(found[name].dtype == expected[name].dtype for name in expected)
    # Each has its own memory.
    found["whole"][:] = 0
    assert np.array_equal(found["column"], expected["column"])


class Program:
    """Makes a folder when it is unpickled as a pickle asks."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


@write_each
@pytest.mark.parametrize("place", ["value", "beside", "whole"])
def test_a_program_is_refused_and_not_run(write, place, tmp_path):
    program = Program(tmp_path / "made")
    state = state_dict({"a": np.ones((2, 3), np.float32)})
    contents = {"value": {"a": program}, "beside": {**state, 1: program}}
    write(tmp_path / "model.bin", contents.get(place, program))
    # It is one that runs.
    pickle.loads(pickle.dumps(program))
    (tmp_path / "made").rmdir()
    with pytest.raises(ValueError, match=r"names posix\.mkdir, which") as caught:
        pytorch_file.read_tensors(tmp_path / "model.bin")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (b"cbuiltins\neval\n(S'1'\ntR.", "builtins.eval"),
        (b"ctorch.storage\n_load_from_bytes\n(S'1'\ntR.", "torch.storage._load"),
        (b"ctorch._utils\n_rebuild_tensor_v2\n}S'x'\nI1\nsb.", "changes a function"),
        (b"ctorch._utils\n_rebuild_parameter\nN}S'__code__'\nI1\ns\x86b.", "changes"),
        (b"ccollections\nOrderedDict\n}S'x'\nI1\nsb.", "changes a function"),
        (b"ccollections\nOrderedDict.clear\n.", "OrderedDict.clear"),
        (b"(lp0\n.", "content is not"),
        (b"}S'a'\nI1\ns.", "'a' is no tensor"),
        (b"(S'module'\nS'FloatStorage'\nS'0'\nS'cpu'\nI1\ntQ.", "no storage 'module'"),
        (b"not a pickle", "tensors alone"),
    ],
)
def test_pickles_of_anything_else_are_refused(code, words, tmp_path):
    with zipfile.ZipFile(tmp_path / "model.bin", "w") as archive:
        archive.writestr("archive/data.pkl", code)
    with pytest.raises(ValueError, match=words) as caught:
        pytorch_file.read_tensors(tmp_path / "model.bin")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((7,), (1,), 0),
        ((2, 3), (3, 1), 1),
        ((2, 3), (4, 1), 0),
        ((9, 9), (0, 0), 0),
        ((2,), (-1,), 1),
        ((2,), (1,), -1),
        ((2, 3), (1,), 0),
        ((2.0,), (1,), 0),
    ],
)
def test_no_tensor_reaches_beyond_its_storage(shape, strides, offset, tmp_path):
    storage = Storage(np.ones(6, np.float32), 0)
    state = {"a": Tensor(storage, shape, strides, offset)}
    for write in WRITERS.values():
        write(tmp_path / "model.bin", state)
        with pytest.raises(ValueError, match="as PyTorch writes it"):
            pytorch_file.read_tensors(tmp_path / "model.bin")


def test_a_compressed_archive_is_refused(tmp_path):
    state = state_dict({"a": np.zeros((90, 90), np.float32)})
    write_archive(tmp_path / "model.bin", state, zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match=r"data\.pkl is not as PyTorch writes it"):
        pytorch_file.read_tensors(tmp_path / "model.bin")


@write_each
def test_a_damaged_file_is_one_line_or_other_tensors(write, tmp_path):
    rng = np.random.default_rng(3)
    file = tmp_path / "model.bin"
    write(file, state_dict({"a": np.ones((2, 3), np.float32), "b": np.arange(4)}))
    whole, errors = file.read_bytes(), 0
    cuts = (whole[:size] for size in rng.integers(0, len(whole), 40))
    changed = (
        whole[:at] + bytes([byte]) + whole[at + 1 :]
        for at, byte in zip(
            rng.integers(0, len(whole), 200), rng.integers(0, 256, 200), strict=True
        )
    )
    for content in itertools.chain(cuts, changed):
        file.write_bytes(content)
        try:
            found = pytorch_file.read_tensors(file)
        except ValueError as error:
            assert str(file) in str(error)
            errors += 1
        else:
            assert all(isinstance(value, np.ndarray) for value in found.values())
    assert errors > 40


def test_a_folder_of_pytorchs_file_or_its_shards_is_a_model(tmp_path):
    config = bert_config()
    tensors = random_bert_tensors(config, np.random.default_rng(2), {})
    places = {name: f"pytorch_model-{len(name) % 3 // 2}.bin" for name in tensors}
    expected = None
    for folder in (tmp_path / "whole", tmp_path / "shards"):
        config.save_pretrained(folder)
        if folder.name == "whole":
            write_archive(folder / "pytorch_model.bin", state_dict(tensors))
        else:
            index = json.dumps({"weight_map": places})
            (folder / "pytorch_model.bin.index.json").write_text(index)
            for name in set(places.values()):
                some = {n: v for n, v in tensors.items() if places[n] == name}
                write_stream(folder / name, state_dict(some))
        stored = formats.read_weights(folder)
        expected = expected or stored
        assert_same_weights(stored.weights, expected.weights)
    table = expected.weights["bert/embeddings/word_embeddings"]
    assert np.array_equal(table, tensors["bert.embeddings.word_embeddings.weight"])
    assert len(expected.weights) == len(tensors)
    (tmp_path / "shards" / "pytorch_model-1.bin").unlink()
    with pytest.raises(ValueError, match=r"no pytorch_model-1\.bin, which its index"):
        formats.read_weights(tmp_path / "shards")
