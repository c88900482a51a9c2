"""Meshes whose nodes average with neighbours alone (`FLNET_TOPOLOGY=random:k` and `ring`)."""

from __future__ import annotations

import numpy as np
import pytest

from flnet.algorithms.gossip import graph
from flnet.algorithms.topology import Topology
from flnet.params.params import Params, PeerId
from flnet.protocol.effects import Average, Evaluate, Train
from flnet.protocol.events import Event, Trained
from flnet.rounds.participation import Participation
from flnet.rounds.settings import Rules
from flnet.rounds.steps import Phase
from flnet.simulation.cluster import Cluster
from flnet.simulation.hostile_play import draw_hostile
from flnet.simulation.network import FETCHED
from flnet.simulation.node import SimulatedNode
from flnet.simulation.schedule import Faults, Reduction, draw
from flnet.simulation.search import play

from .helpers import idle, mesh, play_round, seeds


def sparse(words: str) -> Rules:
    return Rules(Participation(names_all=True), topology=Topology.read(words))


class Still(Cluster):
    """Nodes that go apart in the first round, and change nothing when they train later."""

    def work(self, node: SimulatedNode, effect: Train | Average | Evaluate) -> tuple[float, Event]:
        if not isinstance(effect, Train):
            return super().work(node, effect)
        place = int(node.id[1:])
        params = effect.params
        if effect.key.number == 0:
            params = Params({name: array + np.float32(place) for name, array in params.items()})
        return 1.0, Trained(effect.key, params, 10 * (1 + place), 0.5, seconds=1.0)


def still(size: int, words: str) -> Still:
    cluster = Still(size, 1, rules=sparse(words))
    cluster.start()
    cluster.run_for(60)
    return cluster


def models(cluster: Cluster) -> tuple[np.ndarray, np.ndarray]:
    """What the nodes hold, a row each, and their examples."""
    nodes = [node for _, node in sorted(cluster.nodes.items())]
    held = [np.concatenate([a.ravel() for _, a in sorted(node.job.held.current.shared.items())]) for node in nodes]
    examples = [node.job.held.own.examples if node.job.held.own else None for node in nodes]
    return np.array(held, np.float64), np.array(examples, np.float64)


@pytest.mark.parametrize("words", ["random:1", "random:2", "ring"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_each_node_averages_its_update_with_those_of_its_neighbours(size: int, words: str) -> None:
    cluster = mesh(size, 1, rules=sparse(words))
    play_round(cluster, "n00", rounds=2)
    for node in cluster.nodes.values():
        for record in node.job.history.records:
            near = graph(Topology.read(words), record.key, list(cluster.nodes))[node.id]
            assert record.contributors == tuple(sorted({node.id, *near}))
            assert (record.spread is None) == (not near)
            assert record.exchanged_with is None and record.taken_from is None and record.alone == {}


def test_a_round_keeps_the_mean_by_examples_and_the_spread_shrinks() -> None:
    cluster = still(6, "random:2")
    play_round(cluster, "n03")
    held, examples = models(cluster)
    common, variances = np.average(held, axis=0, weights=examples), [held.var(axis=0).sum()]
    for number in range(1, 9):
        play_round(cluster, f"n{number % 6:02}")
        held, examples = models(cluster)
        assert np.allclose(np.average(held, axis=0, weights=examples), common, rtol=1e-5)
        variances.append(held.var(axis=0).sum())
    assert variances == sorted(variances, reverse=True)
    assert variances[-1] < 1e-2 * variances[0]
    spreads = [record.spread for record in cluster.nodes[PeerId("n00")].job.history.records]
    assert all(spread is not None for spread in spreads)
    assert max(spread or 0 for spread in spreads[-2:]) < 0.3 * (spreads[1] or 0)


@pytest.mark.parametrize("words", ["random:2", "random:4"])
def test_a_node_downloads_as_many_updates_as_it_has_neighbours(words: str) -> None:
    cluster = mesh(7, 2, Faults(digests=1.0), rules=sparse(words))
    play_round(cluster, "n00")  # in the first one the starting model travels, too
    before = cluster.network.moved[FETCHED]
    play_round(cluster, "n05")
    model = cluster.nodes[PeerId("n00")].job.held.current.shared.nbytes
    moved = cluster.network.moved[FETCHED] - before
    assert moved / 7 == int(words[-1]) * model


def test_the_weight_of_a_neighbour_that_dies_goes_to_the_node_itself() -> None:
    cluster = mesh(6, 4, rules=sparse("ring"))
    assert cluster.trigger(PeerId("n02"))
    gone = cluster.nodes[PeerId("n04")]
    while gone.job.phase is not Phase.TRAINING:
        cluster.run_for(0.05)
    cluster.kill(gone.id)
    idle(cluster)
    near = graph(Topology.read("ring"), gone.job.round.key, list(cluster.nodes))[gone.id]  # type: ignore[union-attr]
    for node in cluster.alive:
        record = node.job.history.records[-1]
        assert len(record.contributors) == (2 if node.id in near else 3)
        weights = [weighed["weight"] for weighed in record.weighed.values()]
        assert sum(weights) == pytest.approx(1)


# Nodes that had no neighbour in a round, or had lost their model, in schedules that once broke a mesh.
@pytest.mark.parametrize("seed", [7002, 7013, 7094, 9004])
def test_schedules_that_once_broke_a_mesh_of_pairs_do_so_no_more(seed: int) -> None:
    assert play(Reduction(topology="random:1").of(draw(seed))) is None


@pytest.mark.long
@pytest.mark.parametrize("seed", [3, 4, 12, 19])
def test_a_hostile_member_ends_no_rounds_by_starts_without_members_or_names_that_it_invents(seed: int) -> None:
    assert play(Reduction(topology="random:2").of(draw_hostile(seed))) is None


@pytest.mark.parametrize("seed", seeds(1, 300))
@pytest.mark.parametrize("words", ["random:2", "ring"])
def test_any_schedule(words: str, seed: int) -> None:
    assert play(Reduction(topology=words).of(draw(2000 + seed))) is None
