"""Nodes on hosts of one network, none of which was given an address of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.mesh import TRAINER, HostMesh, host_mesh, train
from tests.hosts.namespaces import unable
from tests.processes.harness import RealNode, answers, digests, until

pytest.importorskip("zeroconf", reason="FLNET_DISCOVERY=lan needs the extra lan")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(unable()), reason=unable()),
]


def knows(node: RealNode) -> list[str]:
    return sorted(peer["id"] for peer in node.get("/peers"))


def started(made: HostMesh, mesh: str) -> RealNode:
    node = made.start(DISCOVERY="lan", BOOTSTRAP_PAIRS="", MESH_NAME=mesh)
    node.http.headers["Flnet-Mesh"] = mesh
    until(lambda: answers(node, "/health"), node.name)
    return node


def test_nodes_of_one_name_meet_and_train_and_those_of_another_are_left_alone(tmp_path: Path) -> None:
    with host_mesh(tmp_path, 4, seed=1) as made:
        a, b, other = (started(made, mesh) for mesh in ("lab", "lab", "ward"))
        until(lambda: knows(a) == [b.name] and knows(b) == [a.name], "the two of one name")
        late = started(made, "lab")  # when the others are announced already
        until(lambda: knows(late) == sorted([a.name, b.name]) and len(knows(a)) == 2, "the third of that name")
        train([a, b, late], a)
        assert len(digests([a, b, late], TRAINER)) == 1
        assert a.history(TRAINER)[-1]["contributors"] == sorted([a.name, b.name, late.name])
        assert knows(other) == []
        assert not other.told("announce_failed") and not other.told("refused_here")
