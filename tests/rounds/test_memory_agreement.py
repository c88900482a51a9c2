"""What most nodes remember of earlier rounds is what a round is averaged with; who remembers otherwise fetches it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flnet.aggregation.base import MERGING, RoundStart
from flnet.aggregation.fed_opt import fed_avg_m
from flnet.params.params import Digest, Params, PeerId, Schema
from flnet.protocol.effects import Average, CancelTimer, Fetch, Save, SetTimer
from flnet.protocol.events import Fetched, FetchFailed, Restored, RoundTriggered, TimerFired, UpdateReceived
from flnet.protocol.messages import ChoiceMessage, ModelParams
from flnet.protocol.updates import Update
from flnet.rounds.download import TURNS
from flnet.rounds.memory_agreement import common_memory
from flnet.rounds.model import NOTHING
from flnet.rounds.participation import Participation
from flnet.rounds.settings import Rules
from flnet.rounds.steps import Phase
from tests.helpers import key, params
from tests.rounds.helpers import WAITS, Bench, asked, came, prepared

RULE = fed_avg_m()
RULES = Rules(averaging={MERGING: RULE.name})
A, B, C, D = (PeerId(name) for name in "abcd")


def memory_after(*steps: float) -> Params:
    """What the rule remembers after rounds in which every number changed by this."""
    state, base = None, params(w=[0.0, 0.0])
    for number, step in enumerate(steps):
        moved = params(w=[step, step])
        start = RoundStart(Schema.of(base), base, number)
        state = RULE.merge(state, start, [Update(A, key(number), moved, 1)]).state
    assert state is not None
    return state


COMMON, OTHER, THIRD = memory_after(1.0), memory_after(2.0), memory_after(3.0)


def node(remembered: Params | None = None, rules: Rules = RULES, peers: Sequence[str] = ("a", "c", "d")) -> Bench:
    """A node "b" that has been in round 0, which it started, and remembers this."""
    bench = Bench(peers=peers, rules=rules)
    bench.hear(RoundTriggered())
    bench.train()
    for peer in peers:
        bench.hear(came(peer, 0, "b"))
    bench.average(remembered)
    bench.hear(asked("a", 1))
    return bench


def gathered(bench: Bench, **stated: Params | Digest | None) -> Bench:
    """The own training of round 1 ends, and updates come that state these memories."""
    bench.train()
    for peer, memory in stated.items():
        bench.hear(came(peer, 1, memory=memory.digest if isinstance(memory, Params) else memory))
    return bench


def arrived(bench: Bench, memory: Params, peer: PeerId = C) -> Bench:
    assert bench.job.key is not None
    bench.hear(Fetched(bench.job.key, peer, memory.digest, memory))
    return bench


def failed(bench: Bench, peer: PeerId = C, memory: Params = COMMON) -> Bench:
    assert bench.job.key is not None
    bench.hear(FetchFailed(bench.job.key, peer, memory.digest, "gone"))
    return bench


# --- which memory it is


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ("xxy", "x"),
        ("xyy", "y"),
        ("xyxy", "x"),  # of two that half of the updates state, the lower one
        ("yx", "x"),
        ("-", "-"),
        ("--x", "-"),  # nothing is remembered: a minority gives the others no memory
        ("-x", "x"),
        ("--xx", "x"),
        ("-xy", "-"),  # one of three, also where the others disagree
        ("xxyz-", "-"),
        ("xxy--", "-"),
        (" ", None),  # of an earlier version, which has no vote
        ("   x", "x"),
        ("   x-y", "-"),
        (" --x", "-"),
    ],
)
def test_a_memory_counts_that_at_least_half_of_the_updates_state(stated: str, expected: str | None) -> None:
    meaning = {" ": None, "-": NOTHING}
    updates = [
        Update(PeerId(f"p{at}"), key(), Params(), memory=meaning.get(one, Digest(one)))
        for at, one in enumerate(stated)
    ]
    wanted = None if expected is None else meaning.get(expected, Digest(expected))
    assert common_memory(updates) == common_memory(updates[::-1]) == wanted


# --- what a node states, and serves


def test_an_update_states_the_memory_and_peers_can_fetch_it_until_the_next_one() -> None:
    bench = node(COMMON)
    bench.train()
    assert bench.said(ModelParams).memory == COMMON.digest
    for peer in "acd":
        bench.hear(came(peer, 1, memory=COMMON.digest))
    assert bench.all(Fetch) == []
    bench.average(OTHER)
    find = bench.job.held.find
    assert (find(COMMON.digest), find(OTHER.digest)) == (COMMON, None)
    bench.hear(asked("a", 2))
    bench.train()
    assert bench.said(ModelParams).memory == OTHER.digest
    assert (find(COMMON.digest), find(OTHER.digest)) == (None, OTHER)


def test_in_the_first_round_a_node_states_that_it_remembers_nothing_and_under_other_rules_no_word() -> None:
    first = Bench(rules=RULES)
    first.hear(RoundTriggered())
    first.train()
    assert first.said(ModelParams).memory == NOTHING
    assert first.job.held.find(NOTHING) is None
    other = node(COMMON, Rules())
    other.train()
    assert other.said(ModelParams).memory is None
    assert other.job.held.find(COMMON.digest) is None
    other = gathered(other, a=OTHER, c=OTHER, d=OTHER)
    assert other.one(Average).is_apart is False


def test_what_another_rule_remembered_is_not_stated() -> None:
    bench = node(COMMON, Rules(averaging={MERGING: "fedavgm:1:0.5"}))
    bench.train()
    assert bench.said(ModelParams).memory == NOTHING


def test_nodes_of_versions_that_share_no_memory_are_not_refused_and_have_no_vote() -> None:
    assert RULES.stated() == {MERGING: RULE.name}
    bench = gathered(node(COMMON), a=None, c=None, d=None)
    assert (bench.all(Fetch), bench.one(Average).is_apart, bench.job.held.remembered) == ([], False, COMMON)


def test_in_asynchronous_jobs_no_memory_is_shared() -> None:
    settings = Bench(rules=replace(RULES, asynchronous=True)).job.settings
    assert settings.shared_memory is None


# --- it is fetched


@pytest.mark.parametrize("own", [None, OTHER], ids=["joined", "missed a round"])
def test_who_remembers_something_else_fetches_what_most_remember_before_it_averages(own: Params | None) -> None:
    bench = gathered(node(own), a=COMMON, c=COMMON, d=COMMON)
    assert (bench.phase, bench.all(Average)) == (Phase.AVERAGING, [])
    fetch = bench.one(Fetch)
    assert (fetch.peer, fetch.digest, fetch.proven) == (C, COMMON.digest, True)
    assert fetch.form is not None
    assert fetch.form.specs.keys() == COMMON.keys()
    assert bench.one(SetTimer).seconds == WAITS.average / TURNS
    timer = bench.one(SetTimer).name
    arrived(bench, COMMON)
    assert bench.job.held.remembered == COMMON
    assert bench.one(Average).is_apart is False
    assert CancelTimer(timer) in bench.effects
    assert "memory_taken" in bench.published
    bench.average(OTHER)
    assert bench.phase is Phase.MEASURING


def test_who_does_not_train_averages_with_the_memory_of_those_who_do() -> None:
    rules = replace(RULES, participation=Participation(0.5))
    bench = Bench(peers="acd", rules=rules)
    choice = ChoiceMessage(members=("a", "b", "c", "d"), take=2)
    number = 0
    bench.hear(asked("a", number, choice=choice))
    while bench.round.chosen is None or B in bench.round.chosen:
        number += 1
        bench.hear(asked("a", number, choice=choice))
    for peer in sorted(bench.round.chosen):
        bench.hear(came(peer, number, memory=COMMON.digest))
    assert bench.one(Fetch).digest == COMMON.digest
    assert arrived(bench, COMMON, bench.one(Fetch).peer).one(Average)


def test_most_remember_nothing_so_nobody_does() -> None:
    bench = gathered(node(COMMON), a=NOTHING, c=NOTHING, d=NOTHING)
    assert bench.one(Average).is_apart is False
    assert bench.job.held.remembered is None
    assert "memory_taken" in bench.published


def test_a_hostile_minority_cannot_choose_the_memory() -> None:
    new_mesh = gathered(node(None, peers=("a", "c", "d", "e")), a=OTHER, c=OTHER, d=NOTHING, e=NOTHING)
    assert (new_mesh.all(Fetch), new_mesh.one(Average).is_apart) == ([], False)
    old_mesh = gathered(node(COMMON), a=OTHER, c=COMMON, d=COMMON)
    assert (old_mesh.all(Fetch), old_mesh.one(Average).is_apart) == ([], False)
    assert old_mesh.job.held.remembered == COMMON
    joined = gathered(node(None, peers=("a", "c")), a=OTHER, c=COMMON)
    assert (joined.all(Fetch), joined.one(Average).is_apart) == ([], False)


# --- it does not come


def test_after_a_failure_another_peer_is_asked_and_in_the_end_the_node_averages_apart() -> None:
    bench = gathered(node(OTHER), a=COMMON, c=COMMON, d=COMMON)
    asked_peers = [bench.one(Fetch).peer]
    for _ in range(2):
        failed(bench, asked_peers[-1])
        asked_peers.append(bench.one(Fetch).peer)
    assert asked_peers == [C, D, A]
    failed(bench, A)
    assert bench.one(Average).is_apart
    assert bench.job.held.remembered == OTHER
    assert "gone" in bench.published["memory_missing"]


def test_a_slow_peer_holds_up_nobody_for_longer_than_the_patience() -> None:
    bench = gathered(node(OTHER), a=COMMON, c=COMMON, d=COMMON)
    timer = bench.one(SetTimer).name
    for peer in (D, A):
        bench.hear(TimerFired(timer))
        assert bench.one(Fetch).peer == peer
        assert bench.one(SetTimer) == SetTimer(timer, WAITS.average / TURNS)
    bench.hear(TimerFired(timer))
    assert bench.one(Average).is_apart
    arrived(bench, COMMON)  # too late
    assert (bench.effects, bench.job.held.remembered) == ([], OTHER)


def test_the_first_of_several_peers_counts() -> None:
    bench = gathered(node(OTHER), a=COMMON, c=COMMON, d=COMMON)
    bench.hear(TimerFired(bench.one(SetTimer).name))
    assert arrived(bench, COMMON, D).one(Average).is_apart is False
    failed(bench, C)
    assert bench.effects == []


@pytest.mark.parametrize(
    "changed",
    [
        {"first moment": np.zeros(3, np.float32)},
        {"first moment": np.full(2, np.nan, np.float32)},
        {"second moment": np.ones(2, np.float32)},
        {"rule": memory_after(1.0)["rule"][::-1]},
        {"more": np.zeros(2)},
    ],
    ids=["shape", "not finite", "second moment", "another rule", "another name"],
)
def test_what_is_no_memory_of_the_rule_is_refused_whoever_states_it(changed: dict[str, Any]) -> None:
    hostile = COMMON.merged_with(changed)
    bench = gathered(node(OTHER), a=hostile, c=hostile, d=hostile)
    arrived(bench, hostile)
    assert bench.one(Average).is_apart
    assert bench.job.held.remembered == OTHER
    assert "memory_missing" in bench.published


def test_a_node_that_stated_a_memory_that_it_lost_averages_apart_if_nobody_has_it() -> None:
    bench = node(COMMON, peers=("a",))
    bench.train()
    bench.job.held.remember(None)
    bench.hear(came("a", 1, memory=THIRD.digest if THIRD.digest > COMMON.digest else "f" * 64))
    assert bench.one(Average).is_apart
    assert bench.all(Fetch) == []


# --- restarts


def test_after_a_restart_the_statements_still_count_and_the_own_memory_is_served() -> None:
    bench = node(COMMON)
    before = bench.job.held.remembered
    bench.train()
    save = bench.one(Save)
    assert save.snapshot["own"]["memory"] == COMMON.digest
    updates = tuple(came(peer, 1, memory=OTHER.digest) for peer in "acd")
    model = bench.job.held.current.shared
    again = Bench(peers=(), prepare=False, rules=RULES)
    again.hear(Restored(save.snapshot, model, Params(), save.sent, updates, remembered=before))
    again.hear(prepared())
    assert again.job.held.find(COMMON.digest) == COMMON
    assert again.one(Fetch).digest == OTHER.digest
    assert arrived(again, OTHER, again.one(Fetch).peer).one(Average).is_apart is False


def test_an_update_without_the_statement_is_kept_as_before() -> None:
    bench = node(None, Rules())
    bench.train()
    assert "memory" not in bench.one(Save).snapshot["own"]
    event = came("a", 1, memory=COMMON.digest)
    assert isinstance(event, UpdateReceived)
    bench.hear(event)
    assert bench.one(Save).updates[0].update.memory == COMMON.digest
