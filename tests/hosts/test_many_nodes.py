"""Twenty nodes on hosts of their own. One network of hosts is up at a time, so this is no test of test_mesh.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.mesh import TRAINER, HostMesh, host_mesh, table
from tests.hosts.namespaces import unable
from tests.hosts.rules import Rule
from tests.processes.harness import at_rest, digests, until


@pytest.mark.long
@pytest.mark.skipif(bool(unable()), reason=unable())
@pytest.mark.timeout(1800)
def test_twenty_nodes_train_ten_rounds_and_none_is_held_for_dead(tmp_path: Path) -> None:
    count, rounds = 20, 10
    wait = {"WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG": "60", "REQUEST_TIMEOUT_IN_SECONDS": "20", "SEED": "1"}
    with host_mesh(tmp_path, count, seed=20, everywhere=Rule(delay=0.1, loss=0.05), **wait) as mesh:
        mesh.start_all(seconds=300)
        assert mesh.nodes[0].trigger(TRAINER, rounds).status_code == 202
        until(lambda: at_rest(mesh.nodes, rounds - 1, TRAINER), f"the end of {rounds} rounds", 1200)
        print(table(f"{count} nodes after {rounds} rounds at 100 ms and 5 % loss", mesh.nodes))
        assert not [line for line in logged(mesh) if "does not answer: " in line]
        assert len(digests(mesh.nodes, TRAINER)) == 1
        for node in mesh.nodes:
            assert len(node.states()) == count - 1
            records = node.history(TRAINER)
            assert [record["round"] for record in records] == list(range(rounds))
            assert [len(record["contributors"]) for record in records] == [count] * rounds


def logged(mesh: HostMesh) -> list[str]:
    """The lines in the logs of all nodes, each after the node's name."""
    logs = [(node.name, node.log.read_text("utf-8", "replace")) for node in mesh.nodes]
    return [f"{name}: {line}" for name, text in logs for line in text.splitlines()]
