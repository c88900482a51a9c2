"""Each layer of the ONNX graph does what its sentence says, run by a runtime that is not ours."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load

from flnet.algorithms.apfl import Adaptive
from flnet.algorithms.fl_protector import Increment
from flnet.algorithms.scaffold import Controlled
from flnet.compute.export import OnnxGraph, file_of, formats_of, which_alone, with_metadata
from flnet.errors import NotOffered, TrainerError
from flnet.installing import install
from flnet.params.params import Params
from flnet.trainer import Method, Trainer
from tests.algorithms.lines import Lines, Point, clouds

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime, which the test runs the file with, is not here")
CHANCE = np.random.default_rng(0)
IMAGES = CHANCE.normal(size=(3, 6, 5, 2)).astype(np.float32)  # (n, height, width, channels)


def session(model: bytes) -> Any:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    return runtime.InferenceSession(model, options)


def run(graph: OnnxGraph, inputs: np.ndarray) -> np.ndarray:
    (values,) = session(graph.to_bytes()).run(None, {"inputs": inputs})
    return np.asarray(values)


def flat(change: Callable[[OnnxGraph], OnnxGraph], inputs: np.ndarray = IMAGES) -> np.ndarray:
    return run(change(OnnxGraph("test", inputs.shape[1:])).flatten(), inputs)


def test_values_are_scaled_and_layouts_exchanged() -> None:
    assert np.allclose(flat(lambda g: g.scale(2, 4)), (IMAGES.reshape(3, -1) - 2) / 4, atol=1e-6)
    turned = IMAGES.transpose(0, 3, 1, 2)
    assert np.array_equal(flat(lambda g: g.channels_first()), turned.reshape(3, -1))
    assert np.array_equal(flat(lambda g: g.channels_first().channels_last()), IMAGES.reshape(3, -1))


def test_missing_values_are_filled_in_by_column() -> None:
    holes = np.array([[np.nan, 2], [3, np.nan], [1, 1]], np.float32)
    assert flat(lambda g: g.fill(np.array([7, 8])), holes).tolist() == [[7, 2], [3, 8], [1, 1]]
    assert flat(lambda g: g.fill(5).fill(6).scale(1, 2), holes).tolist() == [[2, 0.5], [1, 2], [0, 0]]


def test_a_convolution_with_padding() -> None:
    weight, bias = CHANCE.normal(size=(4, 2, 3, 3)).astype("f4"), CHANCE.normal(size=4).astype("f4")
    padded = np.pad(IMAGES.transpose(0, 3, 1, 2), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    expected = np.einsum("nchwij,ocij->nohw", windows, weight) + bias[:, None, None]
    found = flat(lambda g: g.channels_first().conv(weight, bias, pad=1))
    assert np.allclose(found, expected.reshape(3, -1), atol=1e-4)
    assert flat(lambda g: g.channels_first().conv(weight, stride=2)).shape == (3, 4 * 2 * 2)


def test_batch_norm_pooling_and_the_average() -> None:
    first = IMAGES.transpose(0, 3, 1, 2)
    scale, shift, mean, variance = (np.array(two, "f4") for two in ([1, 2], [0, 1], [0.5, 0], [4, 1]))
    norm = (first - mean[:, None, None]) / np.sqrt(variance[:, None, None] + 1e-3)
    expected = norm * scale[:, None, None] + shift[:, None, None]
    found = flat(lambda g: g.channels_first().batch_norm(scale, shift, mean, variance, epsilon=1e-3))
    assert np.allclose(found, expected.reshape(3, -1), atol=1e-5)
    pooled = first[:, :, :6, :4].reshape(3, 2, 3, 2, 2, 2).max(axis=(3, 5))
    assert np.array_equal(flat(lambda g: g.channels_first().max_pool(2)), pooled.reshape(3, -1))
    averaged = run(OnnxGraph("test", (6, 5, 2)).channels_first().average(), IMAGES)
    assert np.allclose(averaged, first.mean(axis=(2, 3)), atol=1e-6)


def test_a_dense_layer_and_the_activations() -> None:
    x = CHANCE.normal(size=(4, 3)).astype("f4")
    weight, bias = CHANCE.normal(size=(3, 2)), CHANCE.normal(size=2)  # float64, as some trainers have it
    score = x @ weight + bias

    def dense() -> OnnxGraph:
        return OnnxGraph("test", (3,)).dense(weight, bias)

    assert np.allclose(run(dense(), x), score, atol=1e-5)
    assert np.allclose(run(dense().relu(), x), np.maximum(score, 0), atol=1e-5)
    assert np.allclose(run(dense().sigmoid(), x), 1 / (1 + np.exp(-score)), atol=1e-5)
    odds = np.exp(score)
    assert np.allclose(run(dense().softmax(), x), odds / odds.sum(1, keepdims=True), atol=1e-5)


def test_the_arrays_of_a_layer_are_called_by_its_name() -> None:
    graph = OnnxGraph("test", (6, 5, 2)).channels_first()
    graph.conv(np.zeros((4, 2, 3, 3)), np.zeros(4), name="first").average().dense(np.zeros((4, 1)), np.zeros(1))
    names = [array.name for array in onnx.load_from_string(graph.to_bytes()).graph.initializer]
    assert names == ["first.weight", "first.bias", "constant_2", "constant_3"]


def test_layers_that_do_not_fit_are_found() -> None:
    with pytest.raises(TrainerError, match="ONNX graph of BAD does not hold together"):
        OnnxGraph("BAD", (3,)).dense(np.zeros((4, 2)), np.zeros(2)).to_bytes()


def test_words_are_put_into_the_file() -> None:
    model = with_metadata(OnnxGraph("test", (3,)).relu().to_bytes(), {"trainer": "TEST", "round": "3"})
    assert session(model).get_modelmeta().custom_metadata_map == {"trainer": "TEST", "round": "3"}
    with pytest.raises(TrainerError, match="no ONNX file"):
        with_metadata(b"nonsense", {})


def test_who_has_no_onnx_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("flnet.compute.export.importlib.import_module", absent)
    with pytest.raises(NotOffered, match="needs the package onnx: " + re.escape(install("onnx"))):
        OnnxGraph("test", (3,))


# Files of a node's two models: which arrays are in them, and which is taken where nobody chooses.


MIXED = Params({"z": np.array([1.0, 0.0]), "personal/z": np.array([0.0, 2.0]), "personal-share": np.array([0.25])})


def lines() -> Lines:
    return Lines(*clouds(20, 0.0, False))


def increment(**method: Any) -> Increment:
    return Increment(lines(), lines(), 0, Method(personal="increment", **method))


def taken(trainer: Trainer, params: Params, form: str) -> bytes:
    return file_of(trainer, "T", params, {"format": form, "round": "3"})


def test_the_arrays_are_those_of_one_model_under_the_trainers_own_names() -> None:
    node = Adaptive(Point((2.0, 2.0), (1.0, 0.0)), 0, Method(personal="apfl"))
    common, personal = (load(taken(node, MIXED, f"safetensors-{which}")) for which in ("common", "personal"))
    assert {name: array.tolist() for name, array in common.items()} == {"z": [1.0, 0.0]}
    assert {name: array.tolist() for name, array in personal.items()} == {"z": [0.75, 0.5]}


def test_arrays_of_methods_further_inside_are_left_out_too() -> None:
    plain = Point((0.0,), (1.0,))
    node = Increment(Controlled(plain, 0), plain, 0, Method(personal="increment"))
    params = Params({**node.initial_params(0), "personal/z": np.array([0.5])})
    assert any(name.startswith("control/") for name in params)
    found = load(taken(node, params, "safetensors-personal"))
    assert {name: array.tolist() for name, array in found.items()} == {"z": [1.5]}


def test_where_nobody_chooses_an_onnx_file_is_of_the_model_that_answers_alone() -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")
    for choice, expected in (("by-input", "common"), ("local", "personal"), ("global", "common")):
        node = increment(choice=choice)
        own = {name: np.ones_like(array) for name, array in node.initial_params(0).items() if "personal/" in name}
        params = Params({**node.initial_params(0), **own})
        assert which_alone(node) == expected
        files = {which: taken(node, params, f"onnx-{which}") for which in ("common", "personal")}
        assert files["common"] != files["personal"]
        assert taken(node, params, "onnx") == taken(node, params, "onnx")
        graphs = {which: node.onnx_of(params, which == "personal") for which in files}
        assert node.onnx(params) == graphs[expected]


def test_of_one_model_nobody_can_choose() -> None:
    assert formats_of(lines()) == ["safetensors", "onnx", "folder", "html"]
    assert which_alone(lines()) == ""
    assert formats_of(Adaptive(Point((2.0,), (1.0,)), 0, Method(personal="apfl"))) == [
        "safetensors",
        "safetensors-common",
        "safetensors-personal",
    ]
    with pytest.raises(NotOffered, match="T has one model alone here, the common one"):
        taken(lines(), Params(lines().initial_params(0)), "safetensors-personal")
    with pytest.raises(NotOffered, match="T cannot be exported to ONNX"):
        taken(Point((2.0,), (1.0,)), Params({"z": np.ones(1)}), "onnx")
