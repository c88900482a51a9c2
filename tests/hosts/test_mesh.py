"""Nodes on hosts whose network delays, loses, doubles and cuts what they send, and falls apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

from tests.hosts.mesh import TRAINER, HostMesh, host_mesh, table, train, watched
from tests.hosts.namespaces import unable
from tests.hosts.rules import Rule
from tests.processes.harness import RealNode, at_rest, digests, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(unable()), reason=unable()),
]
FINE = Rule(delay=0.005)
BAD = Rule(delay=0.1, jitter=0.02, loss=0.05, duplicate=0.02, reorder=0.02)
SOON = {"WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG": "15", "REQUEST_TIMEOUT_IN_SECONDS": "3"}
WATCH_SECONDS = 12.0  # in which somebody who gets no answer at all is declared dead


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostMesh]:
    with host_mesh(tmp_path_factory.mktemp("hosts"), 4, seed=6, everywhere=FINE, **SOON) as made:
        made.start_all()
        yield made


@pytest.fixture
def mesh(started: HostMesh) -> HostMesh:
    """Four nodes that all reach each other, on a reliable network."""
    started.rules.set_all(FINE)
    started.rules.heal()
    started.meshed(*started.nodes)
    return started


def contributors(node: RealNode) -> list[str]:
    names: list[str] = node.history(TRAINER)[-1]["contributors"]
    return names


def has_one_model(mesh: HostMesh, starter: RealNode) -> None:
    """Train a round, after which all nodes hold one model, in which all have a part."""
    train(mesh.nodes, starter)
    print(table("a round of all", mesh.nodes))
    assert len(digests(mesh.nodes, TRAINER)) == 1
    for node in mesh.nodes:
        assert contributors(node) == [other.name for other in mesh.nodes]


def test_nodes_end_a_round_with_one_model_though_a_twentieth_of_all_packets_is_lost(mesh: HostMesh) -> None:
    mesh.rules.set_all(BAD)
    places = {peer["ip"] for node in mesh.nodes for peer in node.get("/peers")}
    assert places == {host.address for host in mesh.network.hosts}
    train(mesh.nodes, mesh.nodes[0])
    print(table("a round on a bad network", mesh.nodes))
    assert sum(lost for _, lost in mesh.network.switch.counts().values()) > 0  # packets were really lost
    assert len(digests(mesh.nodes, TRAINER)) == 1
    # Whose packets are lost often enough in a row comes too late for this round; nobody trains alone.
    assert all(len(contributors(node)) > 1 for node in mesh.nodes)
    mesh.rules.set_all(FINE)
    mesh.meshed(*mesh.nodes)
    has_one_model(mesh, mesh.nodes[0])


def test_a_cut_from_one_node_to_another_does_not_stop_the_mesh(mesh: HostMesh) -> None:
    mesh.rules.cut(0, 1)
    number = train(mesh.nodes, mesh.nodes[2])
    for node in mesh.nodes:
        assert node.history(TRAINER)[-1]["round"] == number
        assert {node.name, "n2", "n3"} <= set(contributors(node))
    mesh.rules.heal()
    mesh.meshed(*mesh.nodes)
    has_one_model(mesh, mesh.nodes[0])


@pytest.mark.parametrize("apart", [1, pytest.param(3, marks=pytest.mark.long)])
def test_a_mesh_that_falls_apart_goes_on_in_both_parts_and_has_one_model_a_round_after_it_is_healed(
    mesh: HostMesh, apart: int
) -> None:
    has_one_model(mesh, mesh.nodes[0])
    first = mesh.nodes[0].job(TRAINER)["current_round"]
    mesh.rules.part([0, 1], [2, 3])
    parts = mesh.nodes[:2], mesh.nodes[2:]
    for number in range(first + 1, first + apart + 1):
        for part in parts:
            assert part[0].trigger(TRAINER).status_code == 202
        until(partial(at_rest, mesh.nodes, number, TRAINER), f"round {number} in both parts")
    print(table("apart", mesh.nodes))
    assert [len(digests(part, TRAINER)) for part in parts] == [1, 1]
    assert len(digests(mesh.nodes, TRAINER)) == 2
    for part in parts:
        for node in part:
            assert contributors(node) == [other.name for other in part]
            states = {
                other.name: "alive" if other in part else "dead" for other in mesh.nodes if other is not node
            }
            until(lambda node=node, states=states: node.states() == states, f"{node.name} seeing its part alone")  # type: ignore[misc]

    mesh.rules.heal()
    mesh.meshed(*mesh.nodes)
    for node in mesh.nodes:  # nobody twice, no place twice
        peers = node.get("/peers")
        assert Counter(peer["id"] for peer in peers) == Counter({n.name for n in mesh.nodes} - {node.name})
        assert len({peer["address"] for peer in peers}) == 3
    has_one_model(mesh, mesh.nodes[3])
    assert mesh.nodes[0].job(TRAINER)["current_round"] == first + apart + 1


@pytest.mark.long
def test_two_nodes_that_cannot_reach_each_other_live_on_through_a_third(mesh: HostMesh) -> None:
    mesh.rules.cut(0, 1)
    seen: set[str] = set()
    watched(WATCH_SECONDS, lambda: seen.update(state for node in mesh.nodes for state in node.states().values()))
    assert seen <= {"alive", "suspect"}
