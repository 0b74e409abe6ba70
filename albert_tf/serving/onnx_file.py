"""Exports a model as an ONNX file of any batch and length, and checks its numbers."""

import importlib.metadata

import numpy as np

from albert_tf.files import make_folder, write_whole
from albert_tf.serving.create import create_served_model, load_model
from albert_tf.serving.export import ExportedModel, check_output_file, model_card
from albert_tf.storage import PathLike, as_path

# The first bytes of such files: the format's version, and the producer's name.
_SIGNATURE = b"\x08\x0a\x12\x09albert-tf"
# A message of protobuf may not be larger, in bytes; 1 MB of it is for the graph.
_LARGEST = 2**31 - 2**20


def check_exportable(exported: ExportedModel, path: PathLike) -> None:
    """Checks what can be known before a model is loaded.

    Raises:
      ValueError: the libraries are not installed, or the model or the file's name does
        not allow an ONNX file.
      OSError: the place cannot be written, or holds something else.
    """
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise ValueError(
            f"An ONNX file needs the library {error.name}: pip install "
            "'albert-tf[onnx]'."
        ) from None
    check_output_file(path, "an ONNX model", _SIGNATURE)
    exported.config.require_full_attention("An ONNX file")
    if exported.precision != "float32":
        raise ValueError(
            "The numbers of an ONNX file are float32; a runtime may compute in another "
            f"precision. Received {exported.precision}: leave out --precision."
        )
    size = 4 * exported.config.num_parameters
    if size > _LARGEST:
        raise ValueError(
            f"An ONNX file holds less than 2 GiB. The model's weights are {size:,} "
            "bytes: use its SavedModel."
        )


def export_onnx(exported: ExportedModel, path: PathLike) -> dict[str, float]:
    """Writes an `.onnx` file that takes ids of any number of rows and of any length.

    It takes `input_ids`, `input_mask` and `segment_ids`, int64 [B, S], for multiple
    choice [B, C, S], and gives the task's numbers, those of the signature `ids` without
    the texts. Weights that layers share are in the file once. Its metadata are those of
    the model card and `max_seq_length`, each as JSON.

    Args:
      exported: the model; its tokenizer is not used.
      path: the file.
    Returns:
      Name of each output -> its largest difference from the model's.
    Raises:
      ValueError: as `check_exportable`, or the file gives other numbers than the model.
      FileNotFoundError: there is no such checkpoint.
      OSError: the file cannot be written.
    """
    check_exportable(exported, path)
    import onnx

    from albert_tf.serving.onnx_check import TOLERANCE, differences_from_model
    from albert_tf.serving.onnx_heads import answer_graph

    model, report = load_model(
        exported.config, exported.weights, exported.task_config, exported.precision
    )
    served = create_served_model(model, exported.config, exported.task_config)
    metadata = model_card(exported, report)
    del metadata["signatures_with_custom_operations"]
    metadata["max_seq_length"] = served.max_seq_length
    version = importlib.metadata.version("albert-tf")
    content = answer_graph(served).to_model(metadata, version).SerializeToString()
    onnx.checker.check_model(content, full_check=True)
    differences = differences_from_model(content, served)
    worst = float(np.max([*differences.values()]))
    if not worst <= TOLERANCE:
        raise ValueError(
            f"The ONNX model differs from the model by {worst:.2g} ({differences}): it "
            "is not written."
        )
    make_folder(as_path(path).parent)
    write_whole(path, content)
    return differences
