"""Describes a small network as an ONNX file, layer by layer, for the `onnx` method of trainers.

    graph = OnnxGraph("MNIST", (28, 28)).scale(33.3, 78.6).reshape(1, 28, 28)
    graph.conv(weight, bias, pad=1).relu().max_pool(2)
    return graph.flatten().dense(w.T, b).softmax().to_bytes()

A layer takes what the last one gave. Between convolutions images are (n, channels, height, width). The
package onnx is imported when it is needed: only who exports has to have it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from flnet.errors import NotOffered, TrainerError
from flnet.params import Array

OPSET, IR_VERSION = 17, 8  # of 2022: what runtimes on old boards read too
INPUT, OUTPUT = "inputs", "values"


class OnnxGraph:
    """A chain of layers from `inputs` (n, *shape) float32 to `values`."""

    def __init__(self, name: str, shape: Sequence[int]) -> None:
        self._onnx = _package("onnx")
        self._name, self._shape = name, tuple(shape)
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._last = INPUT

    def scale(self, minus: float | Array, divide: float | Array) -> Self:
        """(x - minus) / divide; by one number, or by one for each feature."""
        self._add("Sub", self._constant(np.float32(minus)))
        return self._add("Div", self._constant(np.float32(divide)))

    def reshape(self, *shape: int) -> Self:
        """Give each input another shape."""
        return self._add("Reshape", self._constant(np.array([-1, *shape], np.int64)))

    def channels_first(self) -> Self:
        """(n, height, width, channels) to (n, channels, height, width)."""
        return self._add("Transpose", perm=[0, 3, 1, 2])

    def channels_last(self) -> Self:
        """(n, channels, height, width) to (n, height, width, channels): before `flatten`, as Keras counts."""
        return self._add("Transpose", perm=[0, 2, 3, 1])

    def conv(self, weight: Array, bias: Array | None = None, *, pad: int = 0, stride: int = 1) -> Self:
        """Convolution with weights (outputs, inputs, height, width), zeros around the image."""
        inputs = [self._constant(weight), *([] if bias is None else [self._constant(bias)])]
        return self._add("Conv", *inputs, pads=[pad] * 4, strides=[stride] * 2)

    def batch_norm(self, scale: Array, shift: Array, mean: Array, variance: Array, *, epsilon: float) -> Self:
        """Batch normalisation with its stored statistics, one of each a channel."""
        inputs = [self._constant(one) for one in (scale, shift, mean, variance)]
        return self._add("BatchNormalization", *inputs, epsilon=epsilon)

    def max_pool(self, size: int) -> Self:
        """The largest of each size x size pixels; what is left over at the edge is dropped."""
        return self._add("MaxPool", kernel_shape=[size] * 2, strides=[size] * 2)

    def average(self) -> Self:
        """The mean over each channel's whole image: (n, channels)."""
        return self._add("GlobalAveragePool")._add("Flatten", axis=1)

    def flatten(self) -> Self:
        """All of an input in one row."""
        return self._add("Flatten", axis=1)

    def dense(self, weight: Array, bias: Array) -> Self:
        """x @ weight + bias, with weights (inputs, outputs)."""
        return self._add("Gemm", self._constant(weight), self._constant(bias))

    def relu(self) -> Self:
        """max(x, 0)."""
        return self._add("Relu")

    def sigmoid(self) -> Self:
        """1 / (1 + exp(-x))."""
        return self._add("Sigmoid")

    def softmax(self) -> Self:
        """Probabilities that sum to 1 over the last axis."""
        return self._add("Softmax", axis=-1)

    def to_bytes(self) -> bytes:
        """The file, checked.

        Raises:
            TrainerError: the layers do not fit together.
        """
        onnx = self._onnx
        helper, kind = onnx.helper, onnx.TensorProto.FLOAT
        self._add("Identity", output=OUTPUT)
        graph = helper.make_graph(
            self._nodes,
            self._name,
            [helper.make_tensor_value_info(INPUT, kind, ["n", *self._shape])],
            [helper.make_tensor_value_info(OUTPUT, kind, ["n", "k"])],
            self._constants,
        )
        model = helper.make_model(
            graph,
            producer_name="flnet",
            ir_version=IR_VERSION,
            opset_imports=[helper.make_opsetid("", OPSET)],
        )
        try:
            onnx.checker.check_model(model, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as exc:
            raise TrainerError(f"the ONNX graph of {self._name} does not hold together: {exc}") from exc
        return bytes(model.SerializeToString())

    def _add(self, layer: str, *constants: str, output: str = "", **attributes: Any) -> Self:
        result = output or f"{layer.lower()}_{len(self._nodes)}"
        node = self._onnx.helper.make_node(layer, [self._last, *constants], [result], **attributes)
        self._nodes.append(node)
        self._last = result
        return self

    def _constant(self, value: Any) -> str:
        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = np.ascontiguousarray(array, np.float32).reshape(array.shape)
        name = f"constant_{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name


def with_metadata(model: bytes, metadata: Mapping[str, str]) -> bytes:
    """The same ONNX file with these words in it.

    Raises:
        TrainerError: it is no ONNX file.
    """
    onnx = _package("onnx")
    message = _package("google.protobuf.message")
    try:
        loaded = onnx.load_model_from_string(model)
    except message.DecodeError as exc:
        raise TrainerError(f"the trainer gave no ONNX file: {exc}") from exc
    onnx.helper.set_model_props(loaded, dict(metadata))
    return bytes(loaded.SerializeToString())


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as exc:
        raise NotOffered('exporting to ONNX needs the package onnx: pip install ".[onnx]"') from exc
