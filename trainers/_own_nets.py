"""The networks of trainers without code: parameters by name, and a function of them; PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from flnet.compute.export import OnnxGraph
from flnet.trainer import Array

Shapes = Mapping[str, tuple[int, ...]]
FILTERS = (16, 32)  # of the two blocks
DENSE = 64


@dataclass(frozen=True)
class Net:
    """A network: the shapes of its parameters, and a function from parameters and inputs to outputs, one row each.

    Attributes:
        layers: adds the same network with these parameters to an ONNX graph.
    """

    shapes: Shapes
    outputs: Callable[[Mapping[str, Tensor], Tensor], Tensor]
    layers: Callable[[OnnxGraph, Mapping[str, Array]], OnnxGraph]


def small_cnn(size: int, channels: int, classes: int) -> Net:
    """Two blocks of 3x3 convolution, ReLU and 2x2 max-pooling, a dense layer, an output for each class.

    Inputs are (n, channels, size, size).
    """
    first, second = FILTERS
    shapes = {
        "conv1.weight": (first, channels, 3, 3),
        "conv1.bias": (first,),
        "conv2.weight": (second, first, 3, 3),
        "conv2.bias": (second,),
        "dense.weight": (DENSE, second * (size // 4) ** 2),
        "dense.bias": (DENSE,),
        "output.weight": (classes, DENSE),
        "output.bias": (classes,),
    }

    def outputs(params: Mapping[str, Tensor], x: Tensor) -> Tensor:
        for block in ("conv1", "conv2"):
            x = F.conv2d(x, params[f"{block}.weight"], params[f"{block}.bias"], padding=1)
            x = F.max_pool2d(F.relu(x), 2)
        x = F.relu(F.linear(x.flatten(1), params["dense.weight"], params["dense.bias"]))
        return F.linear(x, params["output.weight"], params["output.bias"])

    def layers(graph: OnnxGraph, params: Mapping[str, Array]) -> OnnxGraph:
        for block in ("conv1", "conv2"):
            graph.conv(params[f"{block}.weight"], params[f"{block}.bias"], pad=1, name=block).relu().max_pool(2)
        graph.flatten().dense(params["dense.weight"].T, params["dense.bias"], name="dense").relu()
        return graph.dense(params["output.weight"].T, params["output.bias"], name="output")

    return Net(shapes, outputs, layers)


def mlp(inputs: int, hidden: Sequence[int], outputs: int) -> Net:
    """Dense layers with ReLU between them; without hidden ones a linear model. Inputs are (n, ...)."""
    widths = [inputs, *hidden, outputs]
    names = [*(f"dense{i}" for i in range(1, len(hidden) + 1)), "output"]
    shapes: dict[str, tuple[int, ...]] = {}
    for name, before, after in zip(names, widths, widths[1:], strict=False):
        shapes |= {f"{name}.weight": (after, before), f"{name}.bias": (after,)}

    def through(params: Mapping[str, Tensor], x: Tensor) -> Tensor:
        x = x.flatten(1)
        for name in names[:-1]:
            x = F.relu(F.linear(x, params[f"{name}.weight"], params[f"{name}.bias"]))
        return F.linear(x, params["output.weight"], params["output.bias"])

    def layers(graph: OnnxGraph, params: Mapping[str, Array]) -> OnnxGraph:
        graph.flatten()
        for name in names[:-1]:
            graph.dense(params[f"{name}.weight"].T, params[f"{name}.bias"], name=name).relu()
        return graph.dense(params["output.weight"].T, params["output.bias"], name="output")

    return Net(shapes, through, layers)
