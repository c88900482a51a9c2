"""Bounds on how far updates move, where no node holds a whole update: what a mesh leaves out and shortens, segments do."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flnet.aggregation.base import AggregationRule, RoundStart
from flnet.aggregation.screening import Bounds, remerge
from flnet.aggregation.segments import merged_segment
from flnet.algorithms.topology import Topology
from flnet.params.arithmetic import Squares
from flnet.params.params import Params, PeerId
from flnet.protocol.effects import Average, Evaluate, Train
from flnet.protocol.events import Averaged, Event, Trained
from flnet.protocol.updates import Update
from flnet.rounds.base_job import AnyJob
from flnet.rounds.history import RoundRecord
from flnet.rounds.participation import Participation
from flnet.rounds.settings import Rules
from flnet.rounds.steps import Phase
from flnet.simulation.cluster import Cluster
from flnet.simulation.invariants import InvariantBroken, MeshAverage, SegmentLedger
from flnet.simulation.node import SimulatedNode

from .helpers import downloaded, idle, play_round

CLIP = Bounds(clip=0.5)


def in_segments(bounds: Bounds, copies: int = 1, part: float = 1.0) -> Rules:
    topology = Topology("segments", copies)
    return Rules(Participation(part, names_all=True), averaging=bounds.stated(), topology=topology, bounds=bounds)


class Lenient(SegmentLedger):
    """Checks the invariants of all nodes but one.

    Attributes:
        liar: that node.
    """

    liar: PeerId | None = None

    def averaged_segment(self, node: PeerId, members: Collection[str], effect: Average, result: Params) -> None:
        if node != self.liar:
            super().averaged_segment(node, members, effect, result)

    def joined(self, job: AnyJob, made: RoundRecord, average: MeshAverage) -> None:
        if job.settings.my_id != self.liar:
            super().joined(job, made, average)


class Mesh(Cluster):
    """A mesh that knows the updates of its rounds.

    Attributes:
        sent: the trained parameters of the newest round, by node.
        bases: from which they were trained.
        scale: factor by which trainings move, by node.
    """

    ledger: Lenient

    def __init__(self, size: int, seed: int, rules: Rules, is_keyed: bool = False) -> None:
        self.sent: dict[PeerId, Update] = {}
        self.bases: dict[PeerId, Params] = {}
        self.scale: dict[PeerId, float] = {}
        super().__init__(size, seed, rules=rules, ledger=Lenient(), is_keyed=is_keyed)
        self.start()
        self.run_for(60)

    def work(self, node: SimulatedNode, effect: Train | Average | Evaluate) -> tuple[float, Event]:
        seconds, event = super().work(node, effect)
        if isinstance(effect, Train) and isinstance(event, Trained):
            base, scale = effect.params, np.float32(self.scale.get(node.id, 1.0))
            event = replace(event, params=Params({n: base[n] + scale * (event.params[n] - base[n]) for n in base}))
            self.sent[node.id] = Update(node.id, effect.key, event.params, event.examples, event.labels)
            self.bases[node.id] = base
        if node.id == self.ledger.liar and isinstance(event, Averaged) and event.squares:
            event = replace(event, squares=tuple(((1e12,), ()) for _ in event.squares))
        return seconds, event

    def expected(self, bounds: Bounds) -> tuple[str, Sequence[PeerId]]:
        """What a full mesh makes of the updates of the newest round: the digest, and whose updates are in it."""
        held = next(iter(self.nodes.values())).job.held
        (base,) = {params.digest: params for params in self.bases.values()}.values()
        updates = [self.sent[peer] for peer in sorted(self.sent)]
        merge = remerge(bounds, self.strategy, RoundStart(held.schema, base), None)
        return merge(updates).digest, [update.peer for update in updates]

    def models(self) -> set[str | None]:
        return {node.job.held.digest for node in self.alive}


@pytest.mark.parametrize("copies", [1, 2, 3])
@pytest.mark.parametrize("size", [2, 5, 9])
def test_updates_are_shortened_to_the_last_bit_as_in_a_mesh(size: int, copies: int) -> None:
    cluster = Mesh(size, 1, in_segments(CLIP, copies))
    for _ in range(2):
        play_round(cluster, "n01")
        digest, peers = cluster.expected(CLIP)
        assert digest != cluster.expected(Bounds())[0]
        assert cluster.models() == {digest}
        for node in cluster.nodes.values():
            assert node.job.history.records[-1].contributors == tuple(peers)


def test_the_ledger_finds_updates_that_were_not_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    def merged(
        rule: AggregationRule, start: RoundStart, updates: Sequence[Update], *how: Any
    ) -> tuple[Params, tuple[Squares, ...]]:
        return merged_segment(rule, start, updates, *how[:2])

    cluster = Mesh(5, 1, in_segments(CLIP))
    monkeypatch.setattr("flnet.simulation.cluster.merged_segment", merged)
    with pytest.raises(InvariantBroken, match="a full mesh"):
        play_round(cluster, "n01")


@pytest.mark.parametrize("copies", [1, 3])
def test_an_update_that_moved_too_far_is_left_out_on_all_nodes_with_the_reason(copies: int) -> None:
    cluster = Mesh(6, 2, in_segments(Bounds(), copies))
    play_round(cluster, "n00")
    cluster.scale[PeerId("n04")] = 1e6
    play_round(cluster, "n00")
    assert cluster.models() == {cluster.expected(Bounds())[0]}
    for node in cluster.nodes.values():
        record = node.job.history.records[-1]
        assert record.contributors == ("n00", "n01", "n02", "n03", "n05")
        assert record.left_out is not None and "more than 100 times the median" in record.left_out[PeerId("n04")]


def test_a_node_that_does_not_train_downloads_the_base_that_it_lacks() -> None:
    cluster = Mesh(6, 3, in_segments(CLIP, 1, 0.5))
    play_round(cluster, "n02")
    assert len(cluster.sent) == 3
    assert cluster.models() == {cluster.expected(CLIP)[0]}


def test_where_nothing_is_refused_a_node_downloads_no_more_than_two_models() -> None:
    cluster = Mesh(8, 4, in_segments(Bounds()))
    play_round(cluster, "n00")
    model = cluster.nodes[PeerId("n00")].job.held.current.shared.nbytes
    assert downloaded(cluster, "n00") <= 2.1 * model


@pytest.mark.parametrize("copies", [1, 2, 3])
@pytest.mark.parametrize("wait", [0.01, 0.06, 0.12, 0.2])
def test_owners_that_vanish_between_the_first_averages_and_the_second_are_replaced(
    copies: int, wait: float
) -> None:
    cluster = Mesh(6, 5, in_segments(CLIP, copies))
    assert cluster.trigger(PeerId("n02"))
    gone = cluster.nodes[PeerId("n03")]
    while gone.job.phase is not Phase.AVERAGING:
        cluster.run_for(0.01)
    cluster.run_for(wait)
    cluster.kill(gone.id)
    idle(cluster)
    assert cluster.models() == {cluster.expected(CLIP)[0]}


@pytest.mark.parametrize("is_keyed", [False, True])
def test_of_three_owners_one_that_lies_of_how_far_updates_moved_changes_nothing_and_is_named(
    is_keyed: bool,
) -> None:
    cluster = Mesh(7, 6, in_segments(CLIP, 3), is_keyed)
    cluster.ledger.liar = PeerId("n03")
    play_round(cluster, "n00")
    digest, _ = cluster.expected(CLIP)
    for node in cluster.nodes.values():
        if node.id != "n03":
            disputed = node.job.history.records[-1].disputed
            assert node.job.held.digest == digest
            assert disputed.keys() == {"n03"} and bool(disputed[PeerId("n03")]["statements"]) == is_keyed


@pytest.mark.parametrize("bounds", [Bounds(), CLIP])
def test_nodes_that_prove_their_keys_name_nobody_where_all_are_honest(bounds: Bounds) -> None:
    cluster = Mesh(5, 7, in_segments(bounds, 3), is_keyed=True)
    play_round(cluster, "n00", rounds=2)
    assert cluster.models() == {cluster.expected(bounds)[0]}
    assert not any(record.disputed for node in cluster.nodes.values() for record in node.job.history.records)
