"""Rounds with special rules: partial participation, stale updates, screening, rules that remember, little memory."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

import numpy as np
import pytest

from flnet.aggregation.base import AggregationRule
from flnet.aggregation.consistency import consistency
from flnet.aggregation.screening import Bounds, clip, composed, cosine
from flnet.params.params import Digest, Params, PeerId, TrainerId
from flnet.protocol.effects import Average, Evaluate, Send, Train
from flnet.protocol.events import Event, SumSpoilt, Trained
from flnet.protocol.messages import Accuracy
from flnet.rounds import base_round
from flnet.rounds.participation import Participation
from flnet.rounds.settings import Rules
from flnet.simulation.cluster import Cluster
from flnet.simulation.network import Calls, Receiver
from flnet.simulation.node import SimulatedNode
from flnet.simulation.playback import check_choices, check_one_model
from flnet.simulation.schedule import Faults
from tests.simulation.helpers import any_faults, clear_up, digests, mesh, play_round, rounds, seeds, train_until

FIRST, SECOND, LAST, SLOW = PeerId("n00"), PeerId("n01"), PeerId("n03"), PeerId("n04")


# Partial participation.


def test_half_of_eight_nodes_train_and_all_hold_the_same_model() -> None:
    cluster = Cluster(8, 3, rules=Rules(Participation(0.5)))
    cluster.start()
    cluster.run_for(10)
    cluster.trigger(FIRST, 10)
    cluster.run_for(600)
    check_one_model(cluster)
    check_choices(cluster)
    records = cluster.nodes[FIRST].job.records()
    assert len(records) == 10
    assert all(len(record["chosen"]) == 4 and record["contributors"] == record["chosen"] for record in records)
    assert {peer for record in records for peer in record["chosen"]} == set(cluster.nodes)
    for name, node in cluster.nodes.items():
        has_trained = [record["pre_fedavg_accuracy"] is not None for record in node.job.records()]
        assert has_trained == [name in record["chosen"] for record in records]


# Bounded staleness.


def slow_node_after_a_restart() -> Cluster:
    """A node was killed after it had sent its update, before a slow node that is still training received it."""
    cluster = Cluster(5, 3, rules=Rules(staleness=3))
    cluster.start()
    cluster.run_for(10)
    cluster.nodes[SLOW].slowness = 10.0
    cluster.trigger(FIRST)
    assert cluster.run_until_idle(100)
    cluster.network.cuts.add((SECOND, SLOW))
    cluster.trigger(FIRST)
    node = cluster.nodes[SECOND]
    while len(cluster.nodes[FIRST].job.round.gathering.updates) < 4:  # type: ignore[union-attr]
        cluster.run_for(0.01)
    assert SLOW in node.job.round.gathering.late  # type: ignore[union-attr]
    dead = cluster.kill(SECOND)
    cluster.heal()
    cluster.restart(dead)
    assert cluster.run_until_idle(200)
    return cluster


def test_a_slow_node_is_told_by_a_restarted_node_that_its_update_counts_later() -> None:
    record = slow_node_after_a_restart().nodes[SLOW].job.history.records[-1]
    assert (record.key.number, record.missing) == (1, ())
    assert record.contributors == ("n00", "n01", "n02", "n03")


# Screening by distance.


def of_many(cluster: Cluster, _: PeerId, digest: Digest) -> float:
    """The accuracy of a model: the more nodes hold it, the better."""
    return sum(node.job.held.digest == digest for node in cluster.alive) / 10


class Untold(Calls):
    """Nobody states an average again to a node that returns, as in an earlier version."""

    def send(self, node: Receiver, owner: TrainerId, effect: Send) -> None:
        """Carry all else."""
        if not isinstance(effect.message, Accuracy):
            super().send(node, owner, effect)


def after_its_return(seed: int, bounds: Bounds, *, is_told: bool = False) -> Cluster:
    """One of five nodes misses two rounds, comes back with its disk and an old base, and starts the next round.

    Args:
        is_told: whether the others state their average when they meet it again.
    """
    cluster = mesh(5, seed)
    cluster.bounds = bounds
    cluster.accuracy_of = partial(of_many, cluster)  # type: ignore[method-assign]
    play_round(cluster, SLOW)
    dead = cluster.kill(SLOW)
    play_round(cluster, FIRST, 2)
    calls = cluster.calls
    cluster.calls = calls if is_told else Untold(cluster.network, cluster.ledger)
    cluster.restart(dead)
    cluster.run_for(30)
    cluster.calls = calls
    play_round(cluster, SLOW)
    return cluster


@pytest.mark.parametrize("bounds", [Bounds(), Bounds(ratio=1.2), Bounds(clip=0.5)], ids=["none", "ratio", "clip"])
def test_a_node_that_was_away_takes_the_average_and_has_a_part_in_the_next_round(bounds: Bounds) -> None:
    cluster = after_its_return(0, bounds, is_told=True)
    assert (rounds(cluster), len(digests(cluster)), len(averages_of_last_round(cluster))) == ({3}, 1, 1)
    *_, taken, last = cluster.nodes[SLOW].job.history.records
    (average,) = {node.job.record_of(2).digest for node in cluster.nodes.values()}  # type: ignore[union-attr]
    assert (taken.key.number, taken.taken_from, taken.digest) == (2, FIRST, average)
    assert taken.outcome.startswith("took the average of ")
    assert taken.outcome.endswith(f" updates from {FIRST}: most other nodes made it without this one")
    assert (last.taken_from, last.exchanged_with) == (None, None)
    if not bounds.ratio:
        assert last.contributors == tuple(cluster.nodes)


@pytest.mark.parametrize("seed", [0, 6, 7])
@pytest.mark.parametrize("bounds", [Bounds(ratio=1.2), Bounds(clip=0.5)], ids=["ratio", "clip"])
def test_a_node_that_was_away_averages_differently_and_adopts_the_model_of_the_others(
    seed: int, bounds: Bounds
) -> None:
    cluster = after_its_return(seed, bounds)
    assert (rounds(cluster), len(digests(cluster))) == ({3}, 1)
    if seed == 0 and bounds.clip:
        record = cluster.nodes[SLOW].job.history.records[-1]
        assert record.contributors == ("n00", "n01", "n02", "n03")
        assert record.exchanged_with is not None


# Aggregation rules that remember.


def averages_of_last_round(cluster: Cluster) -> set[str | None]:
    """What the nodes averaged in the newest round, before any of them adopted another model."""
    return {node.job.history.records[-1].digest for node in cluster.alive}


@pytest.mark.parametrize(
    ("rule", "rounds_until_equal", "keeps_disk"),
    [
        (composed([clip(), cosine()], consistency(window=3)), 14, True),
        (composed([clip(), cosine()], consistency(window=3)), 14, False),
    ],
    ids=["scores", "scores, new disk"],
)
def test_a_node_that_missed_rounds_averages_like_the_others_again_in_the_end(
    rule: AggregationRule, rounds_until_equal: int, keeps_disk: bool
) -> None:
    def play_rounds(number: int) -> int:
        cluster.trigger(FIRST, number)
        assert cluster.run_until_idle(600.0 * number)
        assert len(digests(cluster)) == 1
        return len(averages_of_last_round(cluster))

    def alike(node: PeerId, digest: Digest) -> float:
        """No model is better than another: a node whose own average counts for none adopts one that does."""
        return 0.5

    cluster = mesh(4, seed=3)
    cluster.strategy, cluster.accuracy_of = rule, alike  # type: ignore[method-assign]
    assert play_rounds(4) == 1
    dead = cluster.kill(LAST)
    del cluster.nodes[LAST]
    play_rounds(2)
    cluster.nodes[LAST] = dead
    cluster.restart(dead, keeps_disk=keeps_disk)
    cluster.run_for(30)
    assert play_rounds(1) == 2  # it averages differently, and adopts the model of the others
    assert play_rounds(rounds_until_equal) == 1


# Updates that do not fit in memory together are offered, fetched one by one, and added up.

ONE_UPDATE = 28  # bytes: 4 weights and 3 biases


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_round, "HOLD_BYTES", ONE_UPDATE)


def with_absurd_updates(cluster: Cluster, evil: str) -> list[str]:
    """Multiply all that a node learns by a million; returns the nodes that had to compute a sum again."""
    work, spoilt = cluster.work, list[str]()

    def absurd(node: SimulatedNode, effect: Train | Average | Evaluate) -> tuple[float, Event]:
        seconds, event = work(node, effect)
        if isinstance(event, Trained) and node.id == evil:
            params = Params({name: value * np.float32(1e6) + 1e6 for name, value in event.params.items()})
            event = replace(event, params=params)
        spoilt.extend([node.id] * isinstance(event, SumSpoilt))
        return seconds, event

    cluster.work = absurd  # type: ignore[method-assign]
    return spoilt


@pytest.mark.parametrize("updates", [1, 2])
@pytest.mark.parametrize("absurd", [False, True], ids=["honest", "absurd"])
@pytest.mark.parametrize("seed", seeds(3, 6))
def test_sums_keep_all_invariants_under_faults(
    seed: int, absurd: bool, updates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_round, "HOLD_BYTES", updates * ONE_UPDATE)
    rng = Random(seed)
    faults = replace(any_faults(rng), digests=rng.choice([0.5, 1]), push_bytes=0)
    cluster = mesh(rng.choice([3, 4, 5]), seed, faults)
    if absurd:
        with_absurd_updates(cluster, rng.choice(list(cluster.nodes)))
    train_until(cluster, 3, seed, crowd=(1, 2), interrupt=0.5)
    clear_up(cluster)
    outcomes = [record.outcome for node in cluster.nodes.values() for record in node.job.history.records]
    assert not any("averaging failed" in outcome for outcome in outcomes)


def test_all_nodes_add_up_where_updates_do_not_fit_in_memory(little_memory: None) -> None:
    cluster = mesh(5, 0, Faults(digests=1))
    train_until(cluster, 3, 0)
    rounds = [node.job.round for node in cluster.nodes.values()]
    assert all(round is not None and round.gathering and round.gathering.folded for round in rounds)


def test_all_nodes_leave_out_an_absurd_update_that_was_added_up_before(little_memory: None) -> None:
    cluster = mesh(5, 0, Faults(digests=1, push_bytes=0))
    evil, *others = list(cluster.nodes)
    spoilt = with_absurd_updates(cluster, evil)
    train_until(cluster, 1, 0)
    assert set(others) <= set(spoilt)
    assert len(digests(cluster)) == 1
    for node in cluster.nodes.values():
        assert {record.contributors for record in node.job.history.records} == {tuple(sorted(others))}
        assert node.job.history.records[-1].outcome.endswith(f"; left out: {evil}")
