"""Builds an ONNX graph node by node; every weight is stored once.

A value of the graph is known by its name, a string.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import tensorflow as tf

from albert_tf.checkpoints.load import released_name
from albert_tf.files import json_bytes

# The first operator set with Gelu; that of onnxruntime 1.17 and OpenVINO 2024.0.
OPSET = 20
_IR_VERSION = 9


class Graph:
    """A graph that grows with each operation, in the order in which they are run."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: dict[str, onnx.TensorProto] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._known_sizes: list[onnx.ValueInfoProto] = []

    def input(self, name: str, dims: Sequence[int | str]) -> str:
        """Adds an input, int64.

        Args:
          name: its name.
          dims: sizes, or names of those that are free.
        """
        info = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, dims)
        self._inputs.append(info)
        return name

    def output(
        self, name: str, value: str, dtype: Any, dims: Sequence[int | str]
    ) -> None:
        """Makes a value an output.

        Args:
          name: of the output.
          value: the value.
          dtype: numpy's type of its elements.
          dims: as of `input`.
        """
        element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self._nodes.append(onnx.helper.make_node("Identity", [value], [name]))
        info = onnx.helper.make_tensor_value_info(name, element, dims)
        self._outputs.append(info)

    def describe(self, value: str, dims: Sequence[int | str]) -> None:
        """States the sizes of a float32 value where runtimes cannot infer them."""
        info = onnx.helper.make_tensor_value_info(value, onnx.TensorProto.FLOAT, dims)
        self._known_sizes.append(info)

    def weight(self, variable: tf.Variable) -> str:
        """Stores a variable under its released name, unless it is stored already."""
        name = released_name(variable)
        if name not in self._initializers:
            self._store(name, variable.numpy())
        return name

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        """Stores a number or a small array, unless it is stored already."""
        array = np.asarray(value, dtype)
        name = f"constant_{array.dtype}_{array.tolist()}".replace(" ", "")
        if array.size > 8:
            name = f"constant_{len(self._initializers)}"
        if name not in self._initializers:
            self._store(name, array)
        return name

    def add(
        self, operation: str, *inputs: str, name: str | None = None, **attributes: Any
    ) -> str:
        """Adds an operation with one output.

        Args:
          operation: as ONNX calls it.
          *inputs: values.
          name: of the operation, which runtimes print if it fails; None: its number.
          **attributes: of the operation.
        Returns:
          The output.
        """
        return self.add_several(operation, *inputs, outputs=1, name=name, **attributes)[
            0
        ]

    def cast(self, value: str, dtype: Any) -> str:
        """Converts a value to a type of numpy."""
        element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.add("Cast", value, to=element)

    def add_several(
        self,
        operation: str,
        *inputs: str,
        outputs: int,
        name: str | None = None,
        **attributes: Any,
    ) -> list[str]:
        """Adds an operation with several outputs; otherwise as `add`."""
        name = name or f"{operation}_{len(self._nodes)}"
        values = [f"{name}:{index}" for index in range(outputs)]
        self._nodes.append(
            onnx.helper.make_node(operation, inputs, values, name, **attributes)
        )
        return values

    def to_model(self, metadata: Mapping[str, Any], version: str) -> onnx.ModelProto:
        """Returns the graph as a model.

        Args:
          metadata: key -> value, to be stored as JSON.
          version: of this project.
        """
        graph = onnx.helper.make_graph(
            self._nodes,
            "albert",
            self._inputs,
            self._outputs,
            list(self._initializers.values()),
            value_info=self._known_sizes,
        )
        model = onnx.helper.make_model(
            graph,
            producer_name="albert-tf",
            producer_version=version,
            ir_version=_IR_VERSION,
            opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        )
        texts = {k: json_bytes(v).decode().strip() for k, v in metadata.items()}
        onnx.helper.set_model_props(model, texts)
        return model

    def _store(self, name: str, array: np.ndarray) -> None:
        tensor = onnx.numpy_helper.from_array(array, name)
        self._initializers[name] = tensor
