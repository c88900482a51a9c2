"""Whatever a mesh of whole nodes must do, it must do in the binary form and in the thesis' JSON alike."""

from __future__ import annotations

import pytest

from tests.node import mesh

WIRES = ("safetensors", "json")
MAKERS = {"Mesh", "mesh_of"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that makes a mesh once per form, unless it names the forms itself."""
    if MAKERS.intersection(metafunc.function.__code__.co_names) and "wire" not in metafunc.fixturenames:
        metafunc.fixturenames.append("default_wire")
        metafunc.parametrize("default_wire", WIRES, indirect=True)


@pytest.fixture
def default_wire(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The form that nodes of a mesh speak where a test does not say."""
    wire: str = request.param
    monkeypatch.setattr(mesh, "default_wire", wire)
    return wire
