"""Exports that predict without flnet: a folder with a Python file, and one HTML page that works offline.

Both are made of an ONNX file with metadata. The page holds the network's layers as JSON and computes them in plain
JavaScript, so it takes the layers of `flnet.compute.export.OnnxGraph` only, and small networks only. The files that both
are made of lie in `resources/standalone/`. Names in the metadata come from data and from other people: in the page they
are JSON in which no tag can end, or escaped text, and its policy lets no script run but its own and loads nothing.
"""

from __future__ import annotations

import base64
import hashlib
import html
import importlib
import io
import json
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from flnet.errors import NotOffered
from flnet.params.params import Array
from flnet.text import text

MOST_NUMBERS = 4_000_000  # parameters of a page: 21 MB of it
REQUIREMENTS = ("onnxruntime>=1.17", "numpy>=1.26")
PICTURES = "pillow>=10.3"
_ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # the same model gives the same bytes


def _all(value: int) -> Callable[[Any], bool]:
    return lambda given: all(side == value for side in given)


def _one_of(*values: Any) -> Callable[[Any], bool]:
    return lambda given: given in values


_ANY: Callable[[Any], bool] = lambda given: True  # noqa: E731  one line of a table
# Layers of the page, and which values it takes of their attributes.
LAYERS: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    "BatchNormalization": {"epsilon": _ANY, "momentum": _ANY, "training_mode": _one_of(0)},
    "Conv": {
        "pads": _ANY,
        "strides": _ANY,
        "kernel_shape": lambda sides: len(sides) == 2,
        "dilations": _all(1),
        "group": _one_of(1),
        "auto_pad": _one_of(b"NOTSET"),
    },
    "Div": {},
    "Flatten": {"axis": _one_of(1)},
    "Gemm": {"alpha": _one_of(1.0), "beta": _one_of(1.0), "transA": _one_of(0), "transB": _one_of(0)},
    "GlobalAveragePool": {},
    "Identity": {},
    "IsNaN": {},
    "MaxPool": {
        "kernel_shape": lambda sides: len(sides) == 2,
        "strides": _ANY,
        "pads": _all(0),
        "dilations": _all(1),
        "ceil_mode": _one_of(0),
        "auto_pad": _one_of(b"NOTSET"),
    },
    "Relu": {},
    "Reshape": {"allowzero": _one_of(0)},
    "Sigmoid": {},
    "Softmax": {"axis": _one_of(-1)},
    "Sub": {},
    "Transpose": {"perm": _ANY},
    "Where": {},
}
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "BatchNormalization": {"epsilon": 1e-5},
    "Conv": {"pads": [0, 0, 0, 0], "strides": [1, 1]},
}
_NEEDED = {"MaxPool": ("kernel_shape", "strides"), "Transpose": ("perm",), "Flatten": (), "Softmax": ()}
_LIKE_INPUT = ("Sub", "Div", "Where")  # layers whose second tensor is repeated along the first one's axes


def folder_of(model: bytes, metadata: Mapping[str, str], stem: str, card: bytes) -> bytes:
    """A zip file of one folder: the ONNX file, `predict.py`, its requirements and the card.

    Args:
        model: the ONNX file with its metadata.
        metadata: the same; `inputs` says whether pictures are read.
        stem: name of the folder and of the ONNX file.
        card: of the model, in Markdown.
    """
    is_picture = json.loads(metadata.get("inputs", "{}")).get("kind") == "image"
    requirements = "\n".join([*REQUIREMENTS, *([PICTURES] if is_picture else []), ""])
    parts = {
        f"{stem}.onnx": model,
        "predict.py": _resource("predict.py").encode(),
        "requirements.txt": requirements.encode(),
        "README.md": card,
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as folder:
        for name, body in parts.items():
            entry = zipfile.ZipInfo(f"{stem}/{name}", _ZIP_DATE)
            entry.external_attr = 0o644 << 16
            folder.writestr(entry, body, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def page_of(model: bytes, metadata: Mapping[str, str], name: str) -> bytes:
    """One HTML page that predicts in a browser without a network.

    Args:
        model: an ONNX file.
        metadata: as `flnet.node.model_service.metadata_of` gives it.
        name: of the trainer, for people.

    Raises:
        NotOffered: the network is too large, or has a layer that the page cannot compute; says which.
    """
    network = _Network(model, name).described()
    script, style = _resource("page.js"), _resource("page.css")
    title = metadata.get("label") or name
    values = {
        "script_hash": _hash(script),
        "style_hash": _hash(style),
        "title": html.escape(" ".join("".join(sign if sign.isprintable() else " " for sign in title).split())),
        "style": style,
        "model": _inside_script({**_about(metadata), **network}),
        "script": script,
    }
    # One pass: nothing that was put in is looked at again.
    page = re.sub(r"\{\{(\w+)\}\}", lambda place: values[place[1]], _resource("page.html"))
    return page.encode()


def _about(metadata: Mapping[str, str]) -> dict[str, Any]:
    """What the page says and asks for."""
    inputs = json.loads(metadata["inputs"]) if "inputs" in metadata else None
    if inputs is None:
        raise NotOffered(text("a page needs a description of the inputs: the trainer gives none"))
    accuracy = metadata.get("accuracy")
    return {
        "inputs": {name: inputs.get(name) for name in ("kind", "shape", "low", "high", "gaps", "hint")}
        | {"names": inputs.get("names") or []},
        "classes": json.loads(metadata.get("classes", "[]")),
        "predicts": metadata.get("predicts", ""),
        "threshold": float(metadata.get("threshold", "0.5")),
        "round": int(metadata.get("round", "-1")),
        "digest": metadata.get("digest", "")[:12],
        "accuracy": "?" if accuracy is None else f"{float(accuracy):.4f}",
        "note": metadata.get("note", ""),
    }


class _Network:
    """The layers of an ONNX file as JSON for the page."""

    def __init__(self, model: bytes, name: str) -> None:
        onnx = importlib.import_module("onnx")  # the trainer made the file with it
        self._helper, self._numpy, self._name = onnx.helper, onnx.numpy_helper, name
        loaded = onnx.shape_inference.infer_shapes(onnx.load_model_from_string(model))
        self._graph = loaded.graph
        self._constants: dict[str, Array] = {
            stored.name: self._numpy.to_array(stored) for stored in self._graph.initializer
        }
        self._inputs = [value.name for value in self._graph.input if value.name not in self._constants]
        shown = [*self._graph.input, *self._graph.value_info, *self._graph.output]
        self._shapes = {value.name: _sides(value) for value in shown}
        self._made_by: dict[str, Any] = {output: node for node in self._graph.node for output in node.output}

    def described(self) -> dict[str, Any]:
        """Input, output, layers and constants."""
        numbers = sum(array.size for array in self._constants.values())
        if numbers > MOST_NUMBERS:
            raise self._refused(
                text(
                    "it has {count} numbers, and a page holds at most {most}", f"{numbers:,}", f"{MOST_NUMBERS:,}"
                )
            )
        if len(self._inputs) != 1 or len(self._graph.output) != 1:
            raise self._refused(text("it has more than one input or output"))
        return {
            "input": self._inputs[0],
            "output": self._graph.output[0].name,
            "layers": [self._layer(node) for node in self._graph.node],
            "constants": {name: self._stored(name, array) for name, array in self._constants.items()},
        }

    def _layer(self, node: Any) -> dict[str, Any]:
        layer = node.op_type
        allowed = LAYERS.get(layer)
        if allowed is None or node.domain not in ("", "ai.onnx") or len(node.output) != 1:
            raise self._refused(text("the page has no layer {layer}; it has {layers}", layer, ", ".join(LAYERS)))
        attributes = {one.name: self._helper.get_attribute_value(one) for one in node.attribute}
        for attribute, value in attributes.items():
            if attribute not in allowed or not allowed[attribute](value):
                raise self._refused(
                    text("the page has no layer {layer} with {name} = {value}", layer, attribute, repr(value))
                )
        self._check_inputs(layer, list(node.input), attributes)
        attributes = {**_DEFAULTS.get(layer, {}), **attributes}
        plain = {key: value for key, value in attributes.items() if not isinstance(value, bytes)}
        return {"layer": layer, "inputs": list(node.input), "output": node.output[0], "attributes": plain}

    def _check_inputs(self, layer: str, inputs: Sequence[str], attributes: Mapping[str, Any]) -> None:
        """Refuse tensors and attributes that the page would compute otherwise than ONNX does."""
        if layer == "Where":
            missing = self._made_by.get(inputs[0])
            fits = missing is not None and missing.op_type == "IsNaN" and list(missing.input) == list(inputs[2:])
            constants, first = inputs[1:2], inputs[2]
        else:
            fits = inputs[0] not in self._constants
            constants, first = inputs[1:], inputs[0]
        fits = fits and all(name in self._constants for name in constants)
        fits = fits and all(attribute in attributes for attribute in _NEEDED.get(layer, ()))
        if layer == "MaxPool":
            fits = fits and list(attributes.get("strides", ())) == list(attributes["kernel_shape"])
        if layer in _LIKE_INPUT:
            fits = fits and self._repeats(self._constants.get(constants[0]), first)
        if layer == "Softmax":
            fits = fits and "axis" in attributes
        if layer == "Reshape":
            fits = fits and (self._constants[constants[0]] != 0).all()
        if layer == "Gemm":
            fits = fits and [self._constants[name].ndim for name in constants] == [2, 1]
        if not fits:
            raise self._refused(text("the page has no layer {layer} of this kind", layer))

    def _repeats(self, constant: Array | None, name: str) -> bool:
        """Whether a constant is one number, or as the last axes of the tensor of this name."""
        if constant is None:
            return False
        shape = self._shapes.get(name)
        return constant.size == 1 or (
            shape is not None
            and constant.ndim < len(shape)
            and constant.shape == shape[len(shape) - constant.ndim :]
        )

    def _stored(self, name: str, array: Array) -> dict[str, Any]:
        if array.dtype == np.int64 and array.ndim == 1:
            return {"integers": array.tolist()}
        if array.dtype != np.float32:
            raise self._refused(text("{name} holds {kind}; the page takes float32", name, str(array.dtype)))
        little = np.ascontiguousarray(array, "<f4")
        return {"shape": list(array.shape), "floats": base64.b64encode(little.tobytes()).decode("ascii")}

    def _refused(self, reason: str) -> NotOffered:
        return NotOffered(
            text("{trainer} cannot be exported to HTML: {reason}. Its folder has all of it", self._name, reason)
        )


def _sides(value: Any) -> tuple[Any, ...]:
    return tuple(side.dim_value or side.dim_param for side in value.type.tensor_type.shape.dim)


def _inside_script(value: Mapping[str, Any]) -> str:
    """JSON that ends no script element, whatever its strings hold."""
    said = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return said.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(content: str) -> str:
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode("ascii")


def _resource(name: str) -> str:
    return (files("flnet_resources") / "standalone" / name).read_text("utf-8")
