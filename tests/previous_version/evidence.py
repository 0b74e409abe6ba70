"""Numbers and digests of what commands left, read without the library."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import safetensors.numpy
import tensorflow as tf

_TEXTS = {
    "text": ["The cat sat on the mat.", "", "Who? THE Café, all night"],
    "text_pair": ["The dog ran to the hill.", "The bee", "no"],
    "question": ["Who sat on the mat?", "Who did?", "The _ ran"],
    "context": ["The cat sat on the mat.", "", "The dog ran to the hill. So?"],
    "article": ["The cat sat on the mat.", "", "The dog ran to the hill."],
    "options": [["cat", "dog"], ["bee", "hen"], ["fox", ""]],
}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def records(folder: Path) -> dict[str, dict]:
    """Path of each record file -> its digest, and what its sidecar holds."""
    return {
        str(path.relative_to(folder)): {
            "sha256": sha256(path.read_bytes()),
            "sidecar": json.loads(Path(f"{path}.json").read_text("utf-8")),
        }
        for path in sorted(folder.rglob("*.tfrecord"))
    }


def tensors(prefix: Path) -> dict[str, np.ndarray]:
    """All numbers of a checkpoint by key."""
    reader = tf.train.load_checkpoint(str(prefix))
    keys = sorted(reader.get_variable_to_shape_map())
    found = {key: np.asarray(reader.get_tensor(key)) for key in keys}
    return {key: value for key, value in found.items() if value.dtype.kind in "fi"}


def conversion(folder: Path) -> dict:
    """Name of each file of a converted model -> its digest (of a checkpoint that of its
    numbers), and how many weights were loaded, fresh, unused, ignored."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.suffix == ".index":
            values = tensors(path.with_suffix("")).items()
            content = (
                f"{key} {value.shape}".encode() + value.tobytes()
                for key, value in values
            )
            found[path.stem] = sha256(b"".join(content))
        elif path.suffix == ".safetensors":
            # Without the step, which its header may hold.
            weights = safetensors.numpy.load_file(path)
            content = safetensors.numpy.save(weights, {"format": "pt"})
            found[path.name] = sha256(content)
        elif ".data-" not in path.name and path.name != "conversion.json":
            found[path.name] = sha256(path.read_bytes())
    report = json.loads((folder / "conversion.json").read_text("utf-8"))
    return found | {kind: len(names) for kind, names in report["weights"].items()}


def answers(saved_model: Path) -> dict[str, np.ndarray]:
    """ "SIGNATURE OUTPUT" -> what a SavedModel answers to fixed requests."""
    import tensorflow_text  # noqa: F401  (operations of the signature `text`)

    signatures = tf.saved_model.load(str(saved_model)).signatures
    ids = signatures["serving_default"].structured_input_signature[1]["input_ids"]
    found = {}
    for name in sorted(signatures):
        request = _request(signatures[name], ids.shape.rank)
        for output, value in signatures[name](**request).items():
            value = value.numpy()
            found[f"{name} {output}"] = (
                value.astype(np.str_) if value.dtype == object else value
            )
    return found


def _request(signature, rank: int) -> Mapping[str, tf.Tensor]:
    """Two or three rows of other lengths for a signature's inputs."""
    specs = signature.structured_input_signature[1]
    if "examples" in specs:
        return {"examples": tf.constant([_example(rank, n) for n in (7, 9)])}
    if "input_ids" not in specs:
        return {name: tf.constant(_TEXTS[name]) for name in specs}
    shape = (2, 3, 11)[3 - rank :] if rank == 3 else (2, 11)
    rows = np.arange(np.prod(shape)).reshape(shape) * 7 % 33 + 5
    mask = np.arange(11) < np.array([11, 8]).reshape(2, *[1] * (rank - 1))
    values = {
        "input_ids": rows * mask,
        "input_mask": mask + 0 * rows,
        "segment_ids": (np.arange(11) > 4) * mask + 0 * rows,
    }
    return {name: tf.constant(values[name], specs[name].dtype) for name in specs}


def _example(rank: int, length: int) -> bytes:
    """A row, or of multiple choice one of two options, as records hold it."""
    options = 2 if rank == 3 else 1
    example = tf.train.Example()
    values = example.features.feature
    for option in range(options):
        ids = [(n * 5 + option) % 31 + 5 for n in range(length)]
        values["input_ids"].int64_list.value.extend(ids)
        values["segment_ids"].int64_list.value.extend(int(n > 3) for n in range(length))
        if rank == 3:
            for name in ("input_ids_lengths", "segment_ids_lengths"):
                values[name].int64_list.value.append(length)
    return example.SerializeToString()
