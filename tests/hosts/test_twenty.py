"""Twenty nodes on a network that loses a twentieth of all packets and delays the others by 100 ms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from tests.hosts.mesh import TRAINER, HostMesh, at_rest, digests, host_mesh, table
from tests.hosts.namespaces import unable
from tests.hosts.rules import Rule
from tests.processes.harness import RealNode, until

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(unable()), reason=unable() or "hosts can be made here"),
]
BAD = Rule(delay=0.1, loss=0.05)
NODES, ROUNDS = 20, 10
WAIT = {"WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG": "60", "REQUEST_TIMEOUT_IN_SECONDS": "20", "SEED": "1"}


def test_twenty_nodes_train_ten_rounds_and_none_is_held_for_dead(tmp_path: Path) -> None:
    with host_mesh(tmp_path, NODES, seed=20, everywhere=BAD, **WAIT) as mesh:
        mesh.start_all(seconds=300)
        first = mesh.nodes[0]
        assert first.trigger(TRAINER, ROUNDS).status_code == 202
        until(lambda: at_rest(mesh.nodes, ROUNDS - 1), f"the end of {ROUNDS} rounds", 1200)
        print(table(f"{NODES} nodes after {ROUNDS} rounds at 100 ms and 5 % loss", mesh.nodes))
        memory = sorted(megabytes(node) for node in mesh.nodes)
        print(f"resident memory of the nodes: {memory[0]:.0f} to {memory[-1]:.0f} MB")
        thought_dead = said(mesh, "does not answer: ")
        suspected = said(mesh, "may be gone: ")
        print(
            f"peers held for gone, though none was: {len(thought_dead)}; suspected and cleared: {len(suspected)}"
        )
        assert not thought_dead, "\n".join(thought_dead[:20])
        assert len(digests(mesh.nodes)) == 1
        for node in mesh.nodes:
            assert len(node.states()) == NODES - 1
            records = node.history(TRAINER)
            assert [record["round"] for record in records] == list(range(ROUNDS))
            assert all(len(record["contributors"]) == NODES for record in records), shares(mesh.nodes)


def shares(nodes: Sequence[RealNode]) -> list[list[int]]:
    """How many took part, by node and round."""
    return [[len(record["contributors"]) for record in node.history(TRAINER)] for node in nodes]


def megabytes(node: RealNode) -> float:
    """Resident memory of the node's own process."""
    return float(psutil.Process(node.process.pid).memory_info().rss) / 1e6


def said(mesh: HostMesh, words: str) -> list[str]:
    """Lines with these words in the logs of all nodes."""
    logs = [(node.name, mesh.folder / f"{node.name}.log") for node in mesh.nodes]
    lines = [(name, line) for name, log in logs for line in log.read_text("utf-8", "replace").splitlines()]
    return [f"{name}: {line}" for name, line in lines if words in line]
