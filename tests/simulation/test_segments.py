"""Meshes whose updates are averaged in segments (`FLNET_TOPOLOGY=segments`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flnet.aggregation.base import MERGING, AggregationRule, RoundStart
from flnet.aggregation.segments import merged_segment
from flnet.algorithms.registry import USUAL, parse_rule
from flnet.algorithms.topology import Topology
from flnet.params.params import Params, PeerId, TrainerId
from flnet.protocol.effects import Effect, Publish, Send
from flnet.protocol.events import UpdateOffered
from flnet.protocol.segments import SegmentsMessage
from flnet.protocol.updates import RoundKey, Update
from flnet.rounds.participation import Participation
from flnet.rounds.round import Round
from flnet.rounds.segmented_round import SegmentedRound
from flnet.rounds.settings import Rules
from flnet.rounds.settlement import VOTES
from flnet.rounds.steps import Phase
from flnet.simulation.cluster import Cluster
from flnet.simulation.invariants import InvariantBroken, SegmentLedger
from flnet.simulation.network import Receiver
from flnet.simulation.node import TRAINER
from flnet.simulation.schedule import RULES_IN_SEGMENTS, Faults, Reduction, draw
from flnet.simulation.search import play

from .helpers import downloaded, idle, mesh, play_round, seeds

BROKE = (
    0,
    1,
    5,
    7,
    9,
    16,
    23,
    24,
    58,
    78,
    228,
    2511,
    2636,
    2687,
    3709,
    3714,
    4121,
    4333,
    5044,
    5249,
    30125,
    30343,
    55075,
    55223,
    55247,
    55358,
    55448,
    56696,
    60042,
    102695,
    202338,
    600079,
)


def in_segments(copies: int = 1, part: float = 1.0, rule: str = USUAL) -> Rules:
    averaging = {} if rule == USUAL else {MERGING: parse_rule(rule).name}
    return Rules(Participation(part, names_all=True), averaging=averaging, topology=Topology("segments", copies))


def compared(cluster: Cluster) -> int:
    """How many averages the ledger compared with those of a full mesh."""
    assert isinstance(cluster.ledger, SegmentLedger)
    return cluster.ledger.compared


def models(cluster: Cluster) -> set[str | None]:
    return {node.job.held.digest for node in cluster.alive}


@pytest.mark.parametrize("rule", RULES_IN_SEGMENTS)
@pytest.mark.parametrize("size", [2, 3, 5, 9])
@pytest.mark.parametrize("copies", [1, 2, 3])
def test_all_nodes_make_the_average_of_whole_updates_to_the_last_bit(size: int, copies: int, rule: str) -> None:
    cluster = mesh(size, 1, rules=in_segments(copies, rule=rule))
    play_round(cluster, "n01", rounds=2)
    assert compared(cluster) == 2
    assert cluster.strategy.name == parse_rule(rule).name
    updates = [node.job.held.own for _, node in sorted(cluster.nodes.items())]
    assert all(update is not None and update.key.number == 1 for update in updates)
    held = cluster.nodes[PeerId("n00")].job.held
    whole = cluster.strategy.merge(None, RoundStart(held.schema, held.current.shared), updates).params  # type: ignore[arg-type]
    assert models(cluster) == {whole.digest}
    for node in cluster.nodes.values():
        assert node.job.history.records[-1].contributors == tuple(sorted(cluster.nodes))
        assert node.job.history.records[-1].taken_from is None


def wrong_sum(rule: AggregationRule, *how: Any) -> tuple[Params, Any]:
    made, squares = merged_segment(rule, *how)
    return Params({name: array + np.float32(1) for name, array in made.items()}), squares


def other_rule(rule: AggregationRule, *how: Any) -> tuple[Params, Any]:
    return merged_segment(parse_rule("agg0"), *how)


def without_the_last(
    rule: AggregationRule, start: RoundStart, updates: Sequence[Update], *how: Any
) -> tuple[Params, Any]:
    _, squares = merged_segment(rule, start, updates, *how)
    return merged_segment(rule, start, updates[:-1], *how)[0], squares


@pytest.mark.parametrize("wrong", [wrong_sum, other_rule, without_the_last])
@pytest.mark.parametrize("copies", [1, 3])
def test_the_ledger_finds_an_average_that_is_none_of_a_full_mesh_though_all_nodes_make_it(
    wrong: Callable[..., tuple[Params, Any]], copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = mesh(5, 8, rules=in_segments(copies))
    monkeypatch.setattr("flnet.simulation.cluster.merged_segment", wrong)
    with pytest.raises(InvariantBroken, match=r"n0\d made [0-9a-f]{8} in .*, a full mesh \['[0-9a-f]{8}'\]"):
        play_round(cluster, "n01")
    assert compared(cluster) == 0


def test_the_ledger_finds_an_average_of_another_update_than_its_node_trained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offer, cluster = Round._offer, mesh(5, 8, rules=in_segments())

    def other(round: Round, own: Update, told: Publish) -> list[Effect]:
        return offer(round, replace(own, examples=1000) if own.peer == "n03" else own, told)

    monkeypatch.setattr(Round, "_offer", other)
    with pytest.raises(InvariantBroken, match="a full mesh"):
        play_round(cluster, "n01")


def test_schedules_find_a_wrong_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flnet.simulation.cluster.merged_segment", wrong_sum)
    for seed in (1000, 1001):
        failure = play(Reduction(segments=True).of(draw(seed)))
        assert failure is not None and "a full mesh" in failure.reason


def test_however_large_updates_are_nothing_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flnet.rounds.base_round.HOLD_BYTES", 1)
    cluster = mesh(5, 1, rules=in_segments())
    assert cluster.trigger(PeerId("n01"))
    while cluster.nodes[PeerId("n01")].job.phase is not Phase.AVERAGING:
        cluster.run_for(0.01)
    gathered = {node.id: node.job.round for node in cluster.nodes.values()}
    assert [opened.gathering.folded for opened in gathered.values()] == [[]] * 5  # type: ignore[union-attr]
    idle(cluster)
    assert len(models(cluster)) == 1


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("copies", [1, 3])
def test_a_node_downloads_no_more_than_two_models_however_many_nodes_there_are(size: int, copies: int) -> None:
    cluster = mesh(size, 2, rules=in_segments(copies))
    model = cluster.nodes[PeerId("n00")].job.held.current.shared.nbytes
    # Eight numbers do not divide by sixteen nodes: a segment may have one number more than the mean.
    assert downloaded(cluster, "n00") <= 2.1 * copies * model


def test_only_some_of_the_nodes_train_and_all_of_them_average() -> None:
    cluster = mesh(6, 3, rules=in_segments(1, 0.5))
    play_round(cluster, "n02", rounds=3)
    assert len(models(cluster)) == 1
    record = cluster.nodes[PeerId("n00")].job.history.records[-1]
    assert len(record.contributors) == 3 and record.chosen == record.contributors


@pytest.mark.parametrize("copies", [1, 2, 3])
@pytest.mark.parametrize("victim", ["n00", "n01", "n03"])
def test_the_segments_of_a_node_that_vanishes_move_to_the_next(copies: int, victim: str) -> None:
    cluster = mesh(5, 4, rules=in_segments(copies))
    assert cluster.trigger(PeerId("n02"))
    gone = cluster.nodes[PeerId(victim)]
    while gone.job.phase not in (Phase.GATHERING, Phase.AVERAGING):
        cluster.run_for(0.05)
    cluster.kill(gone.id)
    idle(cluster)
    assert len(models(cluster)) == 1
    assert all(node.job.history.records[-1].digest for node in cluster.alive)


def test_a_node_without_others_averages_alone() -> None:
    cluster = mesh(1, 5, rules=in_segments())
    play_round(cluster, "n00")
    (record,) = cluster.nodes[PeerId("n00")].job.history.records
    assert (record.contributors, record.digest) == (("n00",), cluster.nodes[PeerId("n00")].job.held.digest)


def test_the_offer_of_who_is_no_member_of_the_round_holds_nobody_up() -> None:
    cluster = mesh(3, 6, rules=in_segments())
    assert cluster.trigger(PeerId("n00"))
    member = cluster.nodes[PeerId("n01")]
    while member.job.held.own is None:
        cluster.run_for(0.02)
    own, opened = member.job.held.own, member.job.round
    assert isinstance(opened, SegmentedRound) and opened.sum is not None
    copied = tuple(opened.sum.learn(own))  # so that all segments of it can be downloaded
    for node in cluster.nodes.values():
        node.tell(TRAINER, UpdateOffered(replace(own, peer=PeerId("z"), segments=copied), own.params.digest))
    idle(cluster)
    assert len(models(cluster)) == 1
    for node in cluster.nodes.values():
        assert node.job.history.records[-1].contributors == ("n00", "n01", "n02")


@pytest.mark.parametrize("loses", ["nothing", "life", "disk"])
def test_who_may_have_forgotten_its_vote_does_not_vote_again(loses: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = mesh(4, 7, Faults(training=(30.0, 31.0)), rules=in_segments())
    assert cluster.trigger(PeerId("n00"))
    member = cluster.nodes[PeerId("n01")]
    while member.job.phase is not Phase.TRAINING:
        cluster.run_for(0.02)
    if loses != "nothing":
        dead = cluster.kill(member.id)
        cluster.run_for(10.0)  # until it is missed, so that its initiator starts the round for it again
        member = cluster.restart(dead, keeps_disk=loses == "life")
    send, votes = cluster.calls.send, []

    def note(node: Receiver, owner: TrainerId, effect: Send) -> None:
        if node is member and isinstance(effect.message, SegmentsMessage):
            votes.extend([effect.message.part] if isinstance(effect.message.part, VOTES) else [])
        send(node, owner, effect)

    monkeypatch.setattr(cluster.calls, "send", note)
    cluster.run_for(10.0)
    assert member.job.key == RoundKey(0, PeerId("n00")) and member.job.phase is Phase.TRAINING
    idle(cluster)
    assert bool(votes) == (loses == "nothing")
    assert len(models(cluster)) == 1


@pytest.mark.parametrize("seed", BROKE)
def test_schedules_that_once_broke_a_mesh_of_segments_do_so_no_more(seed: int) -> None:
    """All of them by the usual rule, as it was before rules were drawn."""
    assert play(Reduction(segments=True, rule=USUAL).of(draw(seed))) is None


@pytest.mark.parametrize("seed", seeds(0, 300))
def test_any_schedule(seed: int) -> None:
    assert play(Reduction(segments=True).of(draw(1000 + seed))) is None
