"""A mesh that falls apart goes on in both parts, and is one again within a round after it is healed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.hosts.mesh import TRAINER, at_rest, digests, host_mesh, table, train
from tests.hosts.namespaces import unable
from tests.hosts.rules import Rule
from tests.processes.harness import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(unable()), reason=unable() or "hosts can be made here"),
]
SOON = {"WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG": "5", "REQUEST_TIMEOUT_IN_SECONDS": "3"}


def test_five_nodes_that_were_three_and_two_for_three_rounds_have_one_model_one_round_later(
    tmp_path: Path,
) -> None:
    with host_mesh(tmp_path, 5, seed=6, everywhere=Rule(delay=0.005), **SOON) as mesh:
        mesh.start_all()
        train(mesh.nodes, mesh.nodes[0])
        assert len(digests(mesh.nodes)) == 1
        mesh.rules.part([0, 1, 2], [3, 4])
        three, two = mesh.nodes[:3], mesh.nodes[3:]
        for number in (1, 2, 3):
            for part in (three, two):
                assert part[0].trigger(TRAINER).status_code == 202
            until(lambda number=number: at_rest(mesh.nodes, number), f"round {number} in both parts")  # type: ignore[misc]
        print(table("apart for three rounds", mesh.nodes))
        assert [len(digests(part)) for part in (three, two)] == [1, 1]
        assert len(digests(mesh.nodes)) == 2
        for part in (three, two):
            for node in part:
                assert node.history(TRAINER)[-1]["contributors"] == [other.name for other in part]

        mesh.rules.heal()
        mesh.meshed(*mesh.nodes, seconds=90)
        for node in mesh.nodes:  # nobody twice, no place twice
            peers = node.get("/peers")
            assert Counter(peer["id"] for peer in peers) == Counter({n.name for n in mesh.nodes} - {node.name})
            assert len({peer["address"] for peer in peers}) == 4
        assert train(mesh.nodes, mesh.nodes[4]) == 4
        print(table("healed, and one round later", mesh.nodes))
        assert len(digests(mesh.nodes)) == 1
        for node in mesh.nodes:
            assert node.history(TRAINER)[-1]["contributors"] == [other.name for other in mesh.nodes]
