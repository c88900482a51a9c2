"""Meshes whose nodes promise privacy, under faults, restarts and late updates: all that left was counted on the disk."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from flnet.aggregation.base import MERGING
from flnet.algorithms.differential_privacy import Privacy
from flnet.algorithms.registry import parse_rule
from flnet.params.params import Digest, Params, PeerId
from flnet.protocol.effects import Average, Evaluate, Train
from flnet.protocol.events import Event, Trained
from flnet.protocol.updates import NoisyRelease, RoundKey
from flnet.rounds.privacy_plan import PrivacyPlan, Spent
from flnet.rounds.settings import Rules
from flnet.simulation.cluster import Cluster
from flnet.simulation.invariants import InvariantBroken, Ledger
from flnet.simulation.node import SimulatedNode
from tests.simulation.helpers import any_faults, seeds

MOST = 4  # updates that a budget allows
NOISE = NoisyRelease("node", 1.0)


def cost(spent: Spent) -> float:
    return sum(count for _, count in spent)


RULES = Rules(staleness=1, privacy=PrivacyPlan(Privacy("node", MOST, 1e-5), MOST, cost, lambda rate, steps: 1.0))


class CountingLedger(Ledger):
    """Checks, too, that each update that leaves a node is counted in what a restart of that node would find."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster: Cluster | None = None
        self.left: dict[PeerId, set[Digest]] = {}

    def sent_update(self, peer: PeerId, key: RoundKey, params: Params, staleness: int = 0) -> None:
        super().sent_update(peer, key, params, staleness)
        assert self.cluster is not None
        left = self.left.setdefault(peer, set())
        left.add(params.digest)
        kept = self.cluster.nodes[peer].saved.snapshot["privacy"]["accounts"]["main"]
        counted = sum(row[-1] for row in kept["releases"])
        if not len(left) <= counted <= MOST or kept["bare"]:
            raise InvariantBroken(f"{peer} sent {len(left)} updates and counted {kept}")


class PrivateCluster(Cluster):
    """All updates have noise."""

    def work(self, node: SimulatedNode, effect: Train | Average | Evaluate) -> tuple[float, Event]:
        seconds, event = super().work(node, effect)
        return seconds, replace(event, release=NOISE) if isinstance(event, Trained) else event


def private(size: int, seed: int) -> tuple[Random, PrivateCluster, CountingLedger]:
    rng, ledger = Random(seed), CountingLedger()
    cluster = PrivateCluster(size, seed, any_faults(rng), rules=RULES, ledger=ledger)
    ledger.cluster = cluster
    cluster.nodes[PeerId("n00")].slowness = 3.0
    cluster.start()
    cluster.run_for(60)
    return rng, cluster, ledger


@pytest.mark.parametrize("seed", seeds(6, 300))
def test_every_update_that_left_was_counted_on_the_disk_whatever_happens(seed: int) -> None:
    rng, cluster, ledger = private(4, seed)
    for _ in range(12):
        names = list(cluster.nodes)
        cluster.trigger(rng.choice(names), rng.randint(1, 3))
        cluster.run_for(rng.uniform(0, 40))
        if rng.random() < 0.6:
            dead = cluster.kill(rng.choice(names))
            cluster.run_for(rng.uniform(0, 5))
            cluster.restart(dead)
    cluster.run_for(600)
    assert ledger.left and max(map(len, ledger.left.values())) <= MOST
    cluster.end()


def test_when_all_budgets_are_spent_no_node_trains_any_more() -> None:
    ledger = CountingLedger()
    cluster = PrivateCluster(3, 1, rules=replace(RULES, staleness=0), ledger=ledger)
    ledger.cluster = cluster
    cluster.start()
    cluster.run_for(60)
    cluster.trigger(PeerId("n00"), MOST + 3)
    cluster.run_for(600)
    assert [len(left) for left in ledger.left.values()] == [MOST] * 3
    for node in cluster.nodes.values():
        view = node.job.view().privacy
        assert view is not None and (view.spent, view.rounds_left) == (MOST, 0)
        assert not node.job.busy and node.job.number == MOST + 2
    cluster.end()


class StandingCluster(PrivateCluster):
    """No node learns anything: its update is the model that it was given."""

    def work(self, node: SimulatedNode, effect: Train | Average | Evaluate) -> tuple[float, Event]:
        seconds, event = super().work(node, effect)
        if isinstance(event, Trained) and isinstance(effect, Train):
            return seconds, replace(event, params=effect.params)
        return seconds, event


def test_a_masked_update_is_counted_each_time_because_each_has_noise_of_its_own() -> None:
    averaging = {MERGING: parse_rule("secure,agg0").name}
    cluster = StandingCluster(4, 1, rules=replace(RULES, staleness=0, averaging=averaging))
    cluster.start()
    cluster.run_for(60)
    cluster.trigger(PeerId("n00"), 3)
    cluster.run_for(600)
    for node in cluster.nodes.values():
        view = node.job.view().privacy
        assert node.job.history.records[-1].contributors == tuple(sorted(cluster.nodes))
        assert view is not None and (view.spent, view.updates) == (3, 3)
    cluster.end()
