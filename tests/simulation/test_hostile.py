"""A hostile member of a simulated mesh: its moves reach the honest nodes, and what they break is found."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from flnet.algorithms.registry import USUAL
from flnet.membership.roster import State
from flnet.params.params import Params, PeerId
from flnet.protocol.effects import Publish
from flnet.protocol.messages import News, Probe
from flnet.protocol.updates import RoundKey
from flnet.rounds.numbering import LEAP
from flnet.simulation.__main__ import main
from flnet.simulation.hostile import MOVES, HostileCore
from flnet.simulation.hostile_play import (
    ENDS,
    HONEST,
    MOST_ENTRIES,
    MOST_ROUNDS,
    HonestNode,
    HostileCluster,
    HostilePlay,
    collections_in,
    draw_hostile,
    score,
)
from flnet.simulation.invariants import InvariantBroken
from flnet.simulation.schedule import Reduction
from flnet.simulation.search import broken_by, drawn, play
from tests.simulation.helpers import first_of, idle, play_round, seeds

A, B = PeerId("n00"), PeerId("n01")
# Not 114, which still does: a node that a start of the hostile one led into another era of rounds is a second fault there,
# and five members bear with one.
MORE_IN_SEGMENTS = (2, 3, 4, 5, 14, 16, 17, 18, 30, 32, 36, 43, 50, 52, 68, 98, 113, 160, 213)


def prepared() -> HostilePlay:
    """A run before its first action, with nodes that have found each other."""
    run = HostilePlay(Reduction(size=3, actions=(), hostile=True).of(draw_hostile(1)))
    run.cluster.start()
    run.cluster.run_for(30)
    return run


def mesh() -> HostileCluster:
    """Three honest nodes and a hostile member."""
    return prepared().cluster


def test_every_move_is_drawn_and_a_seed_always_draws_the_same() -> None:
    schedules = [draw_hostile(seed) for seed in range(200)]
    assert draw_hostile(5) == draw_hostile(5) == drawn(5, hostile=True)
    assert {action.kind for s in schedules for action in s.actions} == {*MOVES, *HONEST}
    assert {s.hostile for s in schedules} == set(ENDS)
    assert not drawn(5, hostile=False).hostile


def test_the_hostile_member_takes_part_like_any_other() -> None:
    cluster = mesh()
    play_round(cluster, A)
    assert cluster.hostile.id in cluster.nodes[A].job.records()[-1]["contributors"]
    assert set(cluster.nodes) == {"n00", "n01", "n02"}


@pytest.mark.parametrize("kind", sorted(set(MOVES) - {"forge"}))
def test_each_move_sends_something(kind: str) -> None:
    cluster = mesh()
    before = cluster.network.moved.total()
    cluster.hostile.attack(kind, Random(1))
    assert cluster.network.moved.total() > before


def test_a_forging_member_claims_a_perfect_model_and_then_behaves_again() -> None:
    cluster = mesh()
    cluster.hostile.attack("forge", Random(1))
    cluster.trigger(A)
    cluster.run_for(1)
    core = cluster.hostile.core
    assert isinstance(core, HostileCore) and core.served
    cluster.hostile.be_silent()
    idle(cluster)


def test_news_that_others_left_separate_nobody_for_longer_than_a_cut() -> None:
    cluster = mesh()
    names = list(cluster.nodes)
    cluster.cut([A], names[1:])
    hostile = cluster.hostile
    for teller, other in ((A, B), (B, A), (names[2], A), (A, names[2])):
        news = News(
            id=other, port=4000, state="left", incarnation=cluster.nodes[other].core.members.state.incarnation
        )
        hostile.say(cluster.nodes[teller], Probe(i_am=hostile.core.me, news=[news], key=hostile.core.members.key))
    cluster.run_for(0.2)
    cluster.remove_hostile()
    cluster.run_for(20)
    assert cluster.nodes[A].core.members.known[B].state is State.LEFT
    assert cluster.nodes[B].core.members.known[A].state is State.LEFT
    cluster.heal()
    cluster.run_for(60)
    assert all(
        node.core.members.known[other].alive for node in cluster.alive for other in names if other != node.id
    )


def test_equal_seeds_give_equal_runs() -> None:
    def events(seed: int) -> list[tuple[float, str, str]]:
        lines: list[tuple[float, str, str]] = []
        play(draw_hostile(seed), lambda at, node, text: lines.append((at, node, text)))
        return lines

    assert events(4) == events(4) != events(5)


def test_training_makes_the_model_better_for_every_node() -> None:
    cluster = mesh()
    before = [score(node.id, node.job.held.current.shared) for node in cluster.alive]
    for _ in range(3):
        play_round(cluster, A)
    after = [score(node.id, node.job.held.current.shared) for node in cluster.alive]
    assert all(b > a for a, b in zip(before, after, strict=True))
    assert max(score(A, Params({"w": np.full(2, value)})) for value in (-1e30, 0.0, 1e6)) < min(after)


# What is found.


def test_a_worse_model_is_found() -> None:
    cluster = mesh()
    play_round(cluster, A)
    node = cluster.nodes[B]
    before = node.job.held.current
    bad = Params({name: np.full_like(array, -50.0) for name, array in before.shared.items()})
    node.job.held.model = before.holding(bad, 0, 1)
    assert isinstance(node, HonestNode)
    with pytest.raises(InvariantBroken, match="n01 takes a worse model"):
        node.check_base(before, None)


@pytest.mark.parametrize("made", [True, False])
def test_an_average_that_was_taken_may_be_worse_only_if_honest_nodes_made_it(made: bool) -> None:
    cluster = mesh()
    play_round(cluster, A)
    node = cluster.nodes[B]
    before = node.job.held.current
    worse = Params({name: np.full_like(array, -50.0) for name, array in before.shared.items()})
    node.job.held.model = before.holding(worse, 0, 1)
    assert isinstance(node, HonestNode) and node.job.round is not None
    node.job.round.record = replace(node.job.round.record, taken_from=A, digest=worse.digest)
    if made:
        cluster.ledger._made[node.job.number].add(worse.digest)
        node.check_base(before, None)
        return
    with pytest.raises(InvariantBroken, match="n01 takes a worse model"):
        node.check_base(before, None)


@pytest.mark.parametrize("seed", first_of(2, 650, 3079, 4956))
def test_these_seeds_broke_a_mesh_or_a_check_once(seed: int) -> None:
    play(draw_hostile(seed))


def test_a_live_member_that_is_dropped_is_found_where_nothing_was_disturbed() -> None:
    run = prepared()
    run.cluster.dropped(run.cluster.nodes[A], run.cluster.hostile.id, "peer_left")
    run.cluster.is_calm = lambda: True
    with pytest.raises(InvariantBroken, match="n00 drops n01, which is there"):
        run.cluster.nodes[A]._perform(None, Publish("peer_left", "n01 left the mesh", {"peer": B}))


def test_a_member_that_left_without_having_signed_it_is_found() -> None:
    run = HostilePlay(Reduction(size=3, actions=(), hostile=True, keyed=True).of(draw_hostile(1)))
    run.cluster.start()
    run.cluster.run_for(30)
    with pytest.raises(InvariantBroken, match="n00 believes that n01 left, which never signed that"):
        run.cluster.nodes[A]._perform(None, Publish("peer_left", "n01 left the mesh", {"peer": B}))


def test_large_numbers_and_large_collections_are_found() -> None:
    run = prepared()
    run._check_state()
    core = run.cluster.nodes[A].core
    core.members.state.refused_at |= {str(number) for number in range(MOST_ENTRIES + 1)}
    assert ("core.members.state.refused_at", MOST_ENTRIES + 1) in set(collections_in(core))
    with pytest.raises(
        InvariantBroken, match=f"n00 has {MOST_ENTRIES + 1} entries in core.members.state.refused_at"
    ):
        run._check_state()
    core.members.state.refused_at.clear()
    play_round(run.cluster, A)
    round = run.cluster.nodes[A].job.round
    assert round is not None
    round.key = round.key.__class__(MOST_ROUNDS + 1, A)
    with pytest.raises(InvariantBroken, match="n00 is in round"):
        run._check_state()


def test_a_mesh_that_does_not_train_under_attack_is_found() -> None:
    run = prepared()
    run._train_under_attack()
    run.cluster.nodes[B].slowness = 1e6
    with pytest.raises(InvariantBroken, match="average nothing"):
        run._train_under_attack()


def test_the_command_line_replays_a_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--replay", "3", "--hostile", "--nodes", "2", "--actions", "0"]) in (0, 1)
    assert "a hostile member" in capsys.readouterr().out


# Of these, 138 brought an update that was none.
@pytest.mark.parametrize("seed", first_of(6, 138, 87, 113, 143, 167, 14, 188, 5, 109, 17))
def test_these_seeds_stopped_a_mesh_whose_updates_are_masked_once(seed: int) -> None:
    assert play(Reduction(hostile=True, secure=True).of(draw_hostile(seed))) is None


def test_a_node_that_was_led_away_is_not_waited_for_where_updates_are_masked() -> None:
    """Where updates are masked, one node alone averages nothing, and the others need not follow it."""
    run = HostilePlay(Reduction(size=3, actions=(), hostile=True, secure=True).of(draw_hostile(1)))
    run.cluster.start()
    run.cluster.run_for(30)
    play_round(run.cluster, A)
    node = run.cluster.nodes[B]
    assert node.job.round is not None
    assert run._is_followed(node)
    node.job.round.key = RoundKey(node.job.number + 2 * LEAP, B)
    assert not run._is_followed(node)


@pytest.mark.parametrize(
    "seed", [12, 44, 333, *(pytest.param(s, marks=pytest.mark.long) for s in MORE_IN_SEGMENTS)]
)
def test_these_seeds_stopped_a_mesh_of_segments_once(seed: int) -> None:
    """By names that it invented, by starts that named nobody, and by whole updates; all by the usual rule."""
    assert play(Reduction(hostile=True, segments=True, rule=USUAL).of(draw_hostile(seed))) is None


@pytest.mark.parametrize("seed", seeds(2, 60))
def test_no_hostile_member_gives_a_mesh_of_segments_a_wrong_average(seed: int) -> None:
    """It can hinder rounds: with invented members, or with rounds of its own that cut others short."""
    failure = play(Reduction(hostile=True, segments=True).of(draw_hostile(seed)))
    assert failure is None or "average nothing" in failure.reason or "has no average" in failure.reason


# The schedules.


PART = 10  # schedules in one test, to see progress


@pytest.mark.parametrize("part", seeds(1, 500))
def test_no_hostile_member_breaks_a_mesh(part: int) -> None:
    broken = broken_by(range(part * PART, (part + 1) * PART), PART, hostile=True)
    command = "python -m flnet.simulation --hostile --replay"
    assert [f"{command} {failure.schedule.seed}: {failure.reason}" for failure in broken] == []
