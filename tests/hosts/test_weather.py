"""Rounds of nodes on hosts whose network delays, loses, doubles and cuts what they send."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.mesh import digests, host_mesh, table, train
from tests.hosts.namespaces import unable
from tests.hosts.rules import Rule

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(unable()), reason=unable() or "hosts can be made here"),
]
BAD = Rule(delay=0.1, jitter=0.02, loss=0.05, duplicate=0.02, reorder=0.02)


def test_three_nodes_end_a_round_with_one_model_though_a_twentieth_of_all_packets_is_lost(tmp_path: Path) -> None:
    with host_mesh(tmp_path, 3, seed=3, everywhere=BAD) as mesh:
        mesh.start_all()
        assert {peer["ip"] for node in mesh.nodes for peer in node.get("/peers")} == {
            host.address for host in mesh.network.hosts
        }
        train(mesh.nodes, mesh.nodes[0])
        print(table("after a round at 100 ms and 5 % loss", mesh.nodes))
        assert len(digests(mesh.nodes)) == 1
        for node in mesh.nodes:
            assert node.history("MNIST_3_7")[-1]["contributors"] == ["n0", "n1", "n2"]
        dropped = sum(lost for _, lost in mesh.network.switch.counts().values())
        assert dropped > 0  # the weather was real


def test_a_cut_from_one_node_to_another_does_not_stop_the_mesh(tmp_path: Path) -> None:
    wait = {"WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG": "4", "REQUEST_TIMEOUT_IN_SECONDS": "3"}
    with host_mesh(tmp_path, 3, seed=4, everywhere=Rule(delay=0.01), **wait) as mesh:
        mesh.start_all()
        mesh.rules.cut(0, 1)
        number = train(mesh.nodes, mesh.nodes[2])
        print(table("with a cut from n0 to n1", mesh.nodes))
        for node in mesh.nodes:
            assert node.history("MNIST_3_7")[-1]["round"] == number
            assert {node.name, "n2"} <= set(node.history("MNIST_3_7")[-1]["contributors"])
        mesh.rules.heal()
        mesh.meshed(*mesh.nodes)
        train(mesh.nodes, mesh.nodes[0])
        print(table("healed, and one round later", mesh.nodes))
        assert len(digests(mesh.nodes)) == 1
        for node in mesh.nodes:
            assert node.history("MNIST_3_7")[-1]["contributors"] == ["n0", "n1", "n2"]
