"""What an exported page refuses, and what it and the folder hold."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flnet.compute import standalone
from flnet.compute.export import OnnxGraph, with_metadata
from flnet.compute.standalone import LAYERS, folder_of, page_of
from flnet.errors import NotOffered

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
INPUTS = {"kind": "table", "shape": [3], "low": None, "high": None, "names": ["a", "b", "<c>"], "hint": ""}
METADATA = {"label": "Test", "inputs": json.dumps(INPUTS), "classes": '["x", "</script>"]', "round": "3"}


def network(change: Callable[[OnnxGraph], OnnxGraph], shape: tuple[int, ...] = (3,)) -> bytes:
    return change(OnnxGraph("test", shape)).to_bytes()


def dense(graph: OnnxGraph) -> OnnxGraph:
    return graph.dense(np.ones((3, 2)), np.zeros(2))


def model_in(page: bytes) -> dict[str, Any]:
    (said,) = re.findall(r'<script type="application/json" id="model">(.*?)</script>', page.decode(), re.DOTALL)
    model: dict[str, Any] = json.loads(said)
    return model


def test_a_page_holds_the_network_and_lets_its_own_script_run_alone() -> None:
    page = page_of(network(dense), METADATA, "TEST")
    assert page == page_of(network(dense), METADATA, "TEST")
    model = model_in(page)
    assert [layer["layer"] for layer in model["layers"]] == ["Gemm", "Identity"]
    assert (model["classes"], model["round"], model["inputs"]["names"]) == (
        ["x", "</script>"],
        3,
        ["a", "b", "<c>"],
    )
    (script,) = re.findall(r"<script>(.*?)</script>", page.decode(), re.DOTALL)
    stated = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page.decode())
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; ") and f"script-src 'sha256-{stated}';" in policy[1]
    assert "unsafe" not in policy[1]


def node_of(layer: str, inputs: list[str], output: str = "values", **attributes: Any) -> Any:
    return onnx.helper.make_node(layer, inputs, [output], **attributes)


def by_hand(nodes: list[Any], constants: dict[str, np.ndarray], shape: tuple[int, ...] = (3,)) -> bytes:
    """An ONNX file as another program would write it."""
    kind = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes,
        "by hand",
        [onnx.helper.make_tensor_value_info("inputs", kind, ["n", *shape])],
        [onnx.helper.make_tensor_value_info("values", kind, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


KERNEL = {"w": np.ones((2, 1, 3, 3), np.float32)}
ROW = {"w": np.ones((3, 2), np.float32), "b": np.ones(2, np.float32)}
OTHERS = [
    ([node_of("Tanh", ["inputs"])], {}, (3,), "no layer Tanh; it has BatchNormalization, Conv"),
    ([node_of("Conv", ["inputs", "w"], dilations=[2, 2])], KERNEL, (1, 8, 8), r"Conv with dilations = \[2, 2\]"),
    ([node_of("Conv", ["inputs", "w"], auto_pad="SAME_UPPER")], KERNEL, (1, 8, 8), "Conv with auto_pad"),
    ([node_of("MaxPool", ["inputs"], kernel_shape=[2, 2])], {}, (1, 8, 8), "no layer MaxPool of this kind"),
    (
        [node_of("MaxPool", ["inputs"], kernel_shape=[3, 3], strides=[2, 2])],
        {},
        (1, 8, 8),
        "no layer MaxPool of this kind",
    ),
    ([node_of("Gemm", ["inputs", "w", "b"], alpha=2.0)], ROW, (3,), "Gemm with alpha = 2.0"),
    ([node_of("Gemm", ["inputs", "w"])], ROW, (3,), "no layer Gemm of this kind"),
    ([node_of("Sub", ["inputs", "inputs"])], {}, (3,), "no layer Sub of this kind"),
    ([node_of("Sub", ["w", "inputs"])], {"w": np.ones(3, np.float32)}, (3,), "no layer Sub of this kind"),
    ([node_of("Div", ["inputs", "w"])], {"w": np.ones((2, 1), np.float32)}, (2, 3), "no layer Div of this kind"),
    ([node_of("Softmax", ["inputs"])], {}, (3,), "no layer Softmax of this kind"),
    (
        [node_of("Sub", ["inputs", "w"])],
        {"w": np.ones(3, np.float64)},
        (3,),
        "w holds float64; the page takes float32",
    ),
    (
        [node_of("Where", ["w", "b", "inputs"])],
        {**ROW, "w": np.ones(3, bool)},
        (3,),
        "no layer Where of this kind",
    ),
]


@pytest.mark.parametrize(("nodes", "constants", "shape", "reason"), OTHERS)
def test_a_network_that_the_page_would_compute_otherwise_is_refused(
    nodes: list[Any], constants: dict[str, np.ndarray], shape: tuple[int, ...], reason: str
) -> None:
    with pytest.raises(NotOffered, match=f"TEST cannot be exported to HTML: .*{reason}"):
        page_of(by_hand(nodes, constants, shape), METADATA, "TEST")


def test_a_large_network_and_one_without_described_inputs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotOffered, match="needs a description of the inputs"):
        page_of(network(dense), {"label": "Test"}, "TEST")
    monkeypatch.setattr(standalone, "MOST_NUMBERS", 7)
    with pytest.raises(NotOffered, match=r"it has 8 numbers, and a page holds at most 7.*folder"):
        page_of(network(dense), METADATA, "TEST")


def test_the_page_has_each_layer_that_it_says_it_has() -> None:
    script = page_of(network(dense), METADATA, "TEST").decode()
    (table,) = re.findall(r"const LAYERS = \{\n(.*?)\n\};", script, re.DOTALL)
    assert sorted(re.findall(r"^  (\w+):", table, re.MULTILINE)) == sorted(LAYERS)


@pytest.mark.parametrize("kind", ["table", "image"])
def test_a_folder_has_what_its_program_needs(kind: str) -> None:
    metadata = {**METADATA, "inputs": json.dumps({**INPUTS, "kind": kind})}
    model = with_metadata(network(dense), metadata)
    packed = folder_of(model, metadata, "T-round3-ab", b"# card")
    assert packed == folder_of(model, metadata, "T-round3-ab", b"# card")
    with zipfile.ZipFile(io.BytesIO(packed)) as folder:
        names = ["T-round3-ab.onnx", "predict.py", "requirements.txt", "README.md"]
        assert folder.namelist() == [f"T-round3-ab/{name}" for name in names]
        assert folder.read("T-round3-ab/T-round3-ab.onnx") == model
        assert (b"pillow" in folder.read("T-round3-ab/requirements.txt")) == (kind == "image")
