"""Files of a node's two models: which arrays are in them, and which is taken where nobody chooses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load

from flnet.errors import NotOffered
from flnet.params import Params
from flnet.training.api import Trainer
from flnet.training.method import Method
from flnet.training.methods.adaptive import Adaptive
from flnet.training.methods.controlled import Controlled
from flnet.training.methods.increment import Increment
from flnet.training.taking import file_of, formats_of, which_alone
from tests.training.methods.lines import Lines, Point, clouds

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
    assert formats_of(lines()) == ["safetensors", "onnx"]
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
