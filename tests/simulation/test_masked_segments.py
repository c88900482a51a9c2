"""Meshes whose masked updates are added in segments: no node sees more than masked segments of another's update."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flnet.aggregation.base import MERGING
from flnet.algorithms.registry import SECURE, parse_rule
from flnet.algorithms.topology import Topology
from flnet.params.params import Params, PeerId
from flnet.protocol.effects import Average, Evaluate, Train
from flnet.protocol.events import Averaged, Event
from flnet.rounds.participation import Participation
from flnet.rounds.secure_round import SecureRound
from flnet.rounds.settings import Rules
from flnet.rounds.steps import Phase
from flnet.simulation.cluster import Cluster
from flnet.simulation.invariants import SecureLedger
from flnet.simulation.node import SimulatedNode

from .helpers import downloaded, idle, mesh, play_round


def masked(copies: int = 1, part: float = 1.0, topology: str = "segments") -> Rules:
    travel = Topology.read("mesh") if topology == "mesh" else Topology("segments", copies)
    is_named = travel.kind == "segments"
    return Rules(
        Participation(part, names_all=is_named), averaging={MERGING: parse_rule(SECURE).name}, topology=travel
    )


def models(cluster: Cluster) -> set[str | None]:
    return {node.job.held.digest for node in cluster.alive}


@pytest.mark.parametrize("size", [2, 3, 5, 9])
@pytest.mark.parametrize("copies", [1, 2, 3])
def test_all_nodes_open_the_sum_of_all(size: int, copies: int) -> None:
    cluster = mesh(size, 1, rules=masked(copies))
    play_round(cluster, "n01", rounds=2)
    assert isinstance(cluster.ledger, SecureLedger)
    assert len(models(cluster)) == 1  # and the ledger has compared it with what was trained
    for node in cluster.nodes.values():
        record = node.job.history.records[-1]
        assert record.contributors == tuple(sorted(cluster.nodes))
        assert record.taken_from is None and record.digest == node.job.held.digest


def test_nodes_that_prove_their_keys_add_segments_too() -> None:
    cluster = Cluster(5, 5, rules=masked(3), is_keyed=True)
    cluster.start()
    cluster.run_for(60)
    play_round(cluster, "n00")
    assert len(models(cluster)) == 1
    assert cluster.nodes[PeerId("n01")].job.history.records[-1].contributors == tuple(sorted(cluster.nodes))


class Spoiling(Cluster):
    """A mesh in which n03 adds something to each segment of a sum."""

    def work(self, node: SimulatedNode, effect: Train | Average | Evaluate) -> tuple[float, Event]:
        seconds, event = super().work(node, effect)
        if node.id == "n03" and isinstance(event, Averaged) and event.segment is not None:
            event = replace(event, params=Params({name: array + 1 for name, array in event.params.items()}))
        return seconds, event


def test_of_three_owners_one_that_adds_something_else_changes_nothing() -> None:
    cluster = Spoiling(7, 6, rules=masked(3), ledger=Honest())
    cluster.start()
    cluster.run_for(60)
    play_round(cluster, "n00")
    (digest,) = {node.job.held.digest for node in cluster.nodes.values() if node.id != "n03"}
    assert cluster.nodes[PeerId("n00")].job.history.records[-1].digest == digest


class Honest(SecureLedger):
    """Checks the sums of all nodes but n03."""

    def opened_sum(self, node: PeerId, effect: Average, result: Params) -> None:
        if node != "n03":
            super().opened_sum(node, effect, result)


@pytest.mark.parametrize("size", [4, 8])
def test_a_node_downloads_no_more_than_two_models_and_never_a_whole_update(size: int) -> None:
    cluster = mesh(size, 2, rules=masked())
    play_round(cluster, "n00")
    vector = 4 * (1 + 7)  # a number of four bytes for each of the model, and one for the weight
    assert downloaded(cluster, "n00") <= 2.3 * vector
    for node in cluster.nodes.values():
        opened = node.job.round
        assert isinstance(opened, SecureRound) and opened.sum.segments is not None


@pytest.mark.parametrize("copies", [1, 2, 3])
@pytest.mark.parametrize("phase", [Phase.TRAINING, Phase.GATHERING, Phase.AVERAGING])
@pytest.mark.parametrize("wait", [0.0, 0.1])
def test_a_node_that_vanishes_holds_nobody_up(copies: int, phase: Phase, wait: float) -> None:
    cluster = mesh(7, 3, rules=masked(copies))
    assert cluster.trigger(PeerId("n02"))
    gone = cluster.nodes[PeerId("n04")]
    while gone.job.phase is not phase:
        cluster.run_for(0.01)
    cluster.run_for(wait)
    cluster.kill(gone.id)
    idle(cluster)
    assert len(models(cluster)) == 1
    for node in cluster.alive:
        assert len(node.job.history.records[-1].contributors) >= 6


def test_only_some_of_the_nodes_train_and_all_have_the_average() -> None:
    cluster = mesh(8, 4, rules=masked(1, 0.5))
    play_round(cluster, "n02", rounds=2)
    assert len(models(cluster)) == 1
    assert len(cluster.nodes[PeerId("n00")].job.history.records[-1].contributors) == 4
