"""Whatever a mesh of whole nodes must do, it must do in the binary form and in the thesis' JSON alike."""

from __future__ import annotations

from functools import partial

import pytest

from flnet.membership import state
from flnet.membership.probing import Pauses
from flnet.node import trust
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


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that are made now probe their peers, and ask their introducers, ten times as often."""
    monkeypatch.setattr(state, "Pauses", partial(Pauses, tick=0.1, probe=0.2))
    monkeypatch.setattr(trust, "PAUSE_SECONDS", 0.1)
