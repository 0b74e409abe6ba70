"""The model that `benchmark.py serving` measures, in other runtimes.

All hold the same weights and use the same number of threads. A runtime is imported when
it is asked for, so that the others run without it.
"""

import dataclasses
import functools
import threading
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.checkpoints.checkpoint_format import CheckpointFormat
from albert_tf.checkpoints.convert import Conversion, convert
from albert_tf.serving.export import ExportedModel
from dev.serving_contestant import PEERS, Contestant, reads_texts
from dev.serving_requests import Batch

_OUR_FILE, _THEIR_FILE = "our ONNX file", "transformers' ONNX file"
# Name of an input in transformers -> name here.
_INPUT_NAMES = {
    "input_ids": "input_ids",
    "attention_mask": "input_mask",
    "token_type_ids": "segment_ids",
}


class UnavailableError(Exception):
    """A runtime or a file cannot be had; the text says why."""


@dataclasses.dataclass(frozen=True)
class Source:
    """The weights in files that other runtimes read, written when first asked for.

    Attributes:
      exported: the model.
      folder: where files are written.
      threads: that a request may use.
      lengths: tokens of the rows that TensorFlow Lite files are made for.
    """

    exported: ExportedModel
    folder: Path
    threads: int
    lengths: tuple[int, ...]

    @property
    def is_bfloat16(self) -> bool:
        """True if activations are bfloat16."""
        return self.exported.precision == "bfloat16"

    @functools.cached_property
    def float32(self) -> ExportedModel:
        """The model in float32, as files hold it."""
        return dataclasses.replace(self.exported, precision="float32")

    @functools.cached_property
    def transformers_folder(self) -> Path:
        """The model's folder for transformers."""
        target = self.folder / "transformers"
        source = str(Path(self.exported.checkpoint).parent)
        convert(Conversion(source, str(target), CheckpointFormat.TRANSFORMERS))
        return target

    def onnx_file(self, form: str) -> Path:
        """The ONNX file of a form."""
        return self._our_file if form == _OUR_FILE else self._their_file

    @functools.cached_property
    def _our_file(self) -> Path:
        import onnx  # noqa: F401 (the export names it in an error of its own)
        import onnxruntime  # noqa: F401

        from albert_tf.serving.onnx_file import export_onnx

        path = self.folder / "ours.onnx"
        export_onnx(self.float32, path)
        return path

    @functools.cached_property
    def _their_file(self) -> Path:
        import torch

        path = self.folder / "transformers.onnx"
        dynamic = {name: {0: "rows", 1: "tokens"} for name in _INPUT_NAMES}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                load_transformers(self.transformers_folder),
                # Two rows, since 1 would be taken for a constant.
                tuple(torch.ones(2, 7, dtype=torch.int64) for _ in dynamic),
                str(path),
                input_names=[*dynamic],
                output_names=["logits"],
                dynamic_axes={**dynamic, "logits": {0: "rows"}},
                opset_version=17,
                # The newer exporter needs a further library.
                dynamo=False,
            )
        return path


def make_peers(
    source: Source, names: Collection[str]
) -> tuple[list[Contestant], dict[str, str]]:
    """Makes the forms of the model in other runtimes.

    Args:
      source: the weights.
      names: of `PEERS`.
    Returns:
      The contestants, and for each that is missing its name and the reason.
    """
    found, missing = [], {}
    for name, library, form, make in _forms(source.is_bfloat16):
        if name not in names:
            continue
        try:
            found.append(make(source, library, form))
        except ImportError as error:
            missing[f"{library}, {form}"] = _reason(error)
        except UnavailableError as error:
            missing[f"{library}, {form}"] = str(error)
    return found, missing


def _reason(error: ImportError) -> str:
    module = error.name or str(error)
    if module.startswith("albert_tf."):
        return f"{module} is missing or of another version"
    return f"{module} is not installed (extra `peers`)"


def _forms(bfloat16: bool) -> tuple[tuple[str, str, str, Any], ...]:
    """Name of `PEERS`, library, form, and function that makes the contestant."""
    lite, onnxruntime, openvino, pytorch = PEERS
    torch_forms = ("bfloat16 weights", "autocast") if bfloat16 else ("eager",)
    return (
        (lite, "LiteRT", "float32", _tflite),
        (lite, "LiteRT", "int8", _tflite),
        (onnxruntime, "onnxruntime", _OUR_FILE, _onnxruntime),
        (onnxruntime, "onnxruntime", _THEIR_FILE, _onnxruntime),
        (openvino, "OpenVINO", _OUR_FILE, _openvino),
        (openvino, "OpenVINO", _THEIR_FILE, _openvino),
        *((pytorch, "PyTorch", form, _torch) for form in torch_forms),
    )


# -- LiteRT


def _tflite(source: Source, library: str, form: str) -> Contestant:
    from ai_edge_litert.interpreter import Interpreter

    from albert_tf.serving.tflite import TfliteSettings, export_tflite

    if source.is_bfloat16:
        raise UnavailableError("LiteRT files do not compute in bfloat16")
    quantize = "dynamic" if form == "int8" else "none"
    runners = {}
    for length in source.lengths:
        path = source.folder / f"{form}_{length}.tflite"
        export_tflite(source.float32, path, TfliteSettings(length, quantize))
        interpreter = Interpreter(str(path), num_threads=source.threads)
        runners[length] = interpreter.get_signature_runner()

    def ids(batch):
        runner = runners[batch["input_ids"].shape[1]]
        return runner(**batch)["probabilities"]

    return Contestant(library, form, ids, lengths=source.lengths)


# -- ONNX files


def _onnxruntime(source: Source, library: str, form: str) -> Contestant:
    import onnxruntime

    if source.is_bfloat16:
        raise UnavailableError("it computes no bfloat16 on a CPU")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = source.threads
    # Otherwise its threads keep the cores busy in the next contestant's turn.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(
        str(source.onnx_file(form)), options, providers=["CPUExecutionProvider"]
    )
    types = {
        each.name: np.int64 if "int64" in each.type else np.int32
        for each in session.get_inputs()
    }
    output = _output([each.name for each in session.get_outputs()])

    def ids(batch):
        return _probabilities(output, session.run([output], _feeds(batch, types))[0])

    return reads_texts(library, form, ids, _tokenizer(source))


def _openvino(source: Source, library: str, form: str) -> Contestant:
    import openvino

    compiled = openvino.Core().compile_model(
        str(source.onnx_file(form)),
        "CPU",
        {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": source.threads,
            # By itself it takes bfloat16 where the processor has it.
            "INFERENCE_PRECISION_HINT": "bf16" if source.is_bfloat16 else "f32",
        },
    )
    # Each has its name in the file and may have others.
    known = {*_INPUT_NAMES, *_INPUT_NAMES.values()}
    types = {
        name: each.element_type.to_dtype()
        for each in compiled.inputs
        for name in each.names & known
    }
    output = _output({name for each in compiled.outputs for name in each.names})
    of_thread = threading.local()

    def ids(batch):
        # A request object computes one request at a time.
        if not hasattr(of_thread, "request"):
            of_thread.request = compiled.create_infer_request()
        of_thread.request.infer(_feeds(batch, types))
        return _probabilities(output, of_thread.request.get_tensor(output).data.copy())

    return reads_texts(library, form, ids, _tokenizer(source))


def _feeds(batch: Batch, types: dict[str, Any]) -> dict[str, np.ndarray]:
    return {
        name: batch[_INPUT_NAMES.get(name, name)].astype(dtype)
        for name, dtype in types.items()
    }


def _output(names: Collection[str]) -> str:
    return "probabilities" if "probabilities" in names else "logits"


def _probabilities(output: str, values: np.ndarray) -> np.ndarray:
    if output == "probabilities":
        return values
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


# -- PyTorch


def load_transformers(folder: Path) -> Any:
    """Loads a converted model as a class of transformers, in PyTorch."""
    import torch  # noqa: F401 (names itself if it is missing; transformers does not)
    from transformers import AlbertForSequenceClassification

    return AlbertForSequenceClassification.from_pretrained(folder).eval()


def _torch(source: Source, library: str, form: str) -> Contestant:
    import torch

    torch.set_num_threads(source.threads)
    model = load_transformers(source.transformers_folder)
    if form == "bfloat16 weights":
        model = model.to(torch.bfloat16)

    def ids(batch):
        feeds = {n: torch.from_numpy(batch[own]) for n, own in _INPUT_NAMES.items()}
        with (
            torch.inference_mode(),
            torch.autocast("cpu", torch.bfloat16, enabled=form == "autocast"),
        ):
            return model(**feeds).logits.float().softmax(-1).numpy()

    return reads_texts(library, form, ids, _tokenizer(source))


def _tokenizer(source: Source) -> Any:
    tokenizer = source.exported.tokenizer
    assert tokenizer, "a benchmark's model has one"
    return tokenizer
