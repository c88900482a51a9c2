"""Model files: ONNX, built layer by layer, or safetensors; `flnet.compute.standalone` makes more of the ONNX file.

`OnnxGraph` describes a small network without any framework, for the `onnx` method of trainers:

    graph = OnnxGraph("MNIST", (28, 28)).scale(33.3, 78.6).reshape(1, 28, 28)
    graph.conv(weight, bias, pad=1).relu().max_pool(2)
    return graph.flatten().dense(w.T, b).softmax().to_bytes()

Each layer takes the output of the layer before it. Between convolutions images are (n, channels, height, width). The
package onnx is imported when it is needed: only nodes that export need it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, get_args

import numpy as np

from flnet.algorithms.wrapper import TwoModels, Wrapped, overrides
from flnet.compute.standalone import page_of
from flnet.errors import NotOffered, TrainerError
from flnet.installing import install
from flnet.params.params import Array, Params
from flnet.params.safetensors import in_order, write_header
from flnet.text import text
from flnet.trainer import Trainer

OPSET, IR_VERSION = 17, 8  # of 2022: what runtimes on old boards read too
INPUT, OUTPUT = "inputs", "values"


class OnnxGraph:
    """A chain of layers from `inputs` (n, *shape) float32 to `values`.

    The arrays of a layer with a name are called NAME.weight, NAME.bias and so on in the file. Each name occurs once.
    """

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

    def fill(self, instead: float | Array) -> Self:
        """This number where one is missing (NaN); one for all features, or one for each."""
        given, constant = self._last, self._constant(np.float32(instead))
        missing, filled = self._add("IsNaN")._last, f"where_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node("Where", [missing, constant, given], [filled]))
        self._last = filled
        return self

    def reshape(self, *shape: int) -> Self:
        """Give each input another shape."""
        return self._add("Reshape", self._constant(np.array([-1, *shape], np.int64)))

    def channels_first(self) -> Self:
        """(n, height, width, channels) to (n, channels, height, width)."""
        return self._add("Transpose", perm=[0, 3, 1, 2])

    def channels_last(self) -> Self:
        """(n, channels, height, width) to (n, height, width, channels): before `flatten`, as Keras counts."""
        return self._add("Transpose", perm=[0, 2, 3, 1])

    def conv(
        self, weight: Array, bias: Array | None = None, *, pad: int = 0, stride: int = 1, name: str = ""
    ) -> Self:
        """Convolution with weights (outputs, inputs, height, width), zeros around the image."""
        inputs = [self._constant(weight, name, "weight")]
        inputs += [] if bias is None else [self._constant(bias, name, "bias")]
        return self._add("Conv", *inputs, pads=[pad] * 4, strides=[stride] * 2)

    def batch_norm(
        self, scale: Array, shift: Array, mean: Array, variance: Array, *, epsilon: float, name: str = ""
    ) -> Self:
        """Batch normalisation with its stored statistics, one of each a channel."""
        statistics = {"scale": scale, "shift": shift, "mean": mean, "variance": variance}
        inputs = [self._constant(array, name, what) for what, array in statistics.items()]
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

    def dense(self, weight: Array, bias: Array, *, name: str = "") -> Self:
        """x @ weight + bias, with weights (inputs, outputs)."""
        return self._add("Gemm", self._constant(weight, name, "weight"), self._constant(bias, name, "bias"))

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
            raise TrainerError(
                text("the ONNX graph of {name} does not hold together: {reason}", self._name, exc)
            ) from exc
        return bytes(model.SerializeToString())

    def _add(self, layer: str, *constants: str, output: str = "", **attributes: Any) -> Self:
        result = output or f"{layer.lower()}_{len(self._nodes)}"
        node = self._onnx.helper.make_node(layer, [self._last, *constants], [result], **attributes)
        self._nodes.append(node)
        self._last = result
        return self

    def _constant(self, value: Any, layer: str = "", what: str = "") -> str:
        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = np.ascontiguousarray(array, np.float32).reshape(array.shape)
        name = f"{layer}.{what}" if layer else f"constant_{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name


def with_metadata(model: bytes, metadata: Mapping[str, str]) -> bytes:
    """The same ONNX file with this metadata.

    Raises:
        TrainerError: it is no ONNX file.
    """
    onnx = _package("onnx")
    message = _package("google.protobuf.message")
    try:
        loaded = onnx.load_model_from_string(model)
    except message.DecodeError as exc:
        raise TrainerError(text("the trainer gave no ONNX file: {reason}", exc)) from exc
    onnx.helper.set_model_props(loaded, dict(metadata))
    return bytes(loaded.SerializeToString())


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as exc:
        raise NotOffered(text("exporting to ONNX needs the package onnx: {command}", install("onnx"))) from exc


Which = Literal["common", "personal"]
MODELS: tuple[Which, ...] = get_args(Which)


def formats_of(trainer: Trainer) -> list[str]:
    """Formats in which its models can be exported; where a node has two models, each format also with a model's name."""
    kinds = ["safetensors", "onnx", "folder", "html"] if overrides(trainer, "onnx") else ["safetensors"]
    return [*kinds, *(f"{kind}-{which}" for kind in kinds for which in MODELS if isinstance(trainer, TwoModels))]


def which_alone(trainer: Trainer) -> str:
    """Which of two models an export holds by default; empty if there is one model only."""
    return ("personal" if trainer.stands_alone else "common") if isinstance(trainer, TwoModels) else ""


def file_of(trainer: Trainer, name: str, params: Params, metadata: Mapping[str, str]) -> bytes:
    """The model as a file with this metadata.

    Args:
        trainer: of the model.
        name: its id, for people.
        params: all of them.
        metadata: text by name; `format` is onnx, if it is not there, html or safetensors, with -common or -personal
            after it for one of two models. A folder is made of the ONNX file elsewhere.

    Raises:
        NotOffered: the trainer describes no such model, or has one model alone, or no page can compute it.
    """
    kind, _, which = metadata.get("format", "onnx").partition("-")
    if which and not isinstance(trainer, TwoModels):
        raise NotOffered(
            text("{trainer} has one model alone here, the common one: no personal model is set", name)
        )
    if kind == "safetensors":
        return _tensors(_arrays(trainer, params, which == "personal"), metadata)
    if which and isinstance(trainer, TwoModels):
        graph = trainer.onnx_of(params, which == "personal")
    else:
        graph = trainer.onnx(params)
    if graph is None:
        raise NotOffered(text("{trainer} cannot be exported to ONNX: its trainer describes no such model", name))
    return page_of(graph, metadata, name) if kind == "html" else with_metadata(graph, metadata)


def _arrays(trainer: Trainer, params: Params, is_local: bool) -> Params:
    """The arrays of the trainer itself, without those of the methods that wrap it."""
    arrays: Mapping[str, Any] = params
    while isinstance(trainer, Wrapped):
        if is_local and isinstance(trainer, TwoModels):
            arrays = trainer.local_model(arrays)
        else:
            arrays = trainer.inside(arrays)
        trainer = trainer.inner
    return Params({name: np.array(array) for name, array in arrays.items()})


def _tensors(params: Params, metadata: Mapping[str, str]) -> bytes:
    little = {name: array.astype(array.dtype.newbyteorder("<"), copy=False) for name, array in params.items()}
    return b"".join([write_header(little, metadata), *(little[name].tobytes() for name in in_order(little))])
