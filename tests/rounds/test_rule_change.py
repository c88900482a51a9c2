"""Aggregation rules that are proposed to the mesh, at one job: who must take them, and what holds in which round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.aggregation.base import MERGING
from flnet.algorithms.topology import Topology
from flnet.errors import InvalidMessage, JobBusy, NoProposal, NotReady, ParamsRefused, PeerError, StaleRound
from flnet.params.params import PeerId
from flnet.protocol.effects import Publish, Save
from flnet.protocol.events import (
    ClaimReceived,
    Event,
    HyperParamsEdited,
    Restored,
    RoundTriggered,
    RuleAnswered,
    RuleProposed,
    RulesHeard,
    RuleWithdrawn,
    UpdateReceived,
)
from flnet.protocol.messages import ModelParams, RuleStatement, StartTraining
from flnet.rounds.rule_change import MOST_DECLINED, Proposal
from flnet.rounds.settings import Rules
from flnet.rounds.steps import Phase
from flnet.rounds.view import JobView
from tests.rounds.helpers import Bench, asked, came, claim, prepared, refuses

A, B, C = map(PeerId, "abc")
NEW, OLD = {MERGING: "median"}, dict[str, str]()
MEDIAN = Proposal(A, "median", "1" * 32)
MARK = MEDIAN.mark("T")
NOTHING = RuleStatement()


def stated(proposal: Proposal | None = None, **more: Any) -> RuleStatement:
    """What a node states that has taken this."""
    taken = {} if proposal is None else {"by": proposal.by, "rule": proposal.rule, "nonce": proposal.nonce}
    return RuleStatement(**{**taken, **more})


TAKEN, READY, IN_FORCE = stated(MEDIAN), stated(MEDIAN, ready=True), stated(in_force=MARK)


def hear(bench: Bench, **said: RuleStatement | None) -> list[str]:
    """The peers that are there state this, None for nothing yet; the kinds of news."""
    statements = {PeerId(peer): words for peer, words in said.items() if words is not None}
    bench.hear(RulesHeard(frozenset(map(PeerId, said)), statements))
    return [effect.kind for effect in bench.all(Publish)]


def took(**said: RuleStatement | None) -> Bench:
    """A job whose node "b" has taken the rule that "a" proposes."""
    bench = Bench()
    hear(bench, a=TAKEN, c=NOTHING)
    bench.hear(RuleAnswered(MARK, takes=True))
    if said:
        hear(bench, **said)
    return bench


def update(by: str, agreement: Mapping[str, str], number: int = 0, initiator: str = "a") -> UpdateReceived:
    """An update of a peer that states this rule, as it arrives."""
    rule = agreement.get(MERGING, "agg1")
    made = came(by, number, initiator)
    return replace(made, agreement=agreement, update=replace(made.update, rule=rule))


def test_a_node_goes_through_the_steps_only_as_all_others_do() -> None:
    bench = took()
    assert bench.job.rule_change.statement == TAKEN
    assert hear(bench, a=TAKEN, c=NOTHING) == []
    assert hear(bench, a=TAKEN, c=TAKEN) == []  # its proposer may still withdraw it
    assert hear(bench, a=READY, c=TAKEN) == ["rule_taken_by_all"]
    assert bench.one(Save).snapshot["rule_change"]["ready"]
    assert (bench.job.rule_change.statement, bench.job.rule_change.rule) == (READY, "agg1")
    assert hear(bench, a=READY, c=TAKEN) == []
    assert hear(bench, a=IN_FORCE, c=READY) == ["merging_rule_set"]
    assert (bench.job.rule_change.statement, bench.job.rule_change.rule) == (IN_FORCE, "median")
    assert (bench.job.settings.rule, bench.job.view().next_rule) == ("agg1", "median")
    bench.hear(RoundTriggered())
    assert bench.said(StartTraining).agreement == NEW
    assert (bench.job.settings.rule, bench.job.settings.folds, bench.job.view().next_rule) == ("median", False, "")


@pytest.mark.parametrize("said", [TAKEN, NOTHING, None, stated(replace(MEDIAN, nonce="2" * 32), ready=True)])
def test_one_member_that_is_not_ready_is_enough_for_the_rule_of_before(said: RuleStatement | None) -> None:
    bench = took(a=READY, c=said)
    hear(bench, a=IN_FORCE, c=said)
    assert bench.job.rule_change.rule == "agg1"
    bench.hear(RoundTriggered())
    assert bench.said(StartTraining).agreement in (OLD, None)


@pytest.mark.parametrize("is_ready", [False, True])
def test_who_is_ready_follows_a_round_by_the_new_rule_and_nobody_else(is_ready: bool) -> None:
    bench = took(a=IN_FORCE, c=TAKEN if is_ready else NOTHING)
    if not is_ready:
        words = "the nodes do not agree on aggregation rule: weighted average (agg1) at b; median at a"
        assert str(refuses(bench, asked("a", agreement=NEW), ParamsRefused)) == words
        return
    bench.hear(asked("a", agreement=NEW))
    bench.train()
    assert bench.said(ModelParams).agreement == NEW
    refuses(bench, update("c", OLD), ParamsRefused)  # one round, one rule
    bench.hear(update("c", NEW))
    assert bench.round.gathering.updates.keys() == {B, C}


def play(bench: Bench, number: int, by: str, agreement: Mapping[str, str]) -> None:
    """A whole round that a peer starts by this rule."""
    bench.hear(asked(by, number, agreement=agreement))
    bench.train()
    assert bench.said(ModelParams).agreement in (agreement, agreement or None)
    for peer in "ac":
        bench.hear(update(peer, agreement, number, by))
    bench.average()
    bench.measure()
    for peer in "ac":
        bench.hear(ClaimReceived(claim(peer, number, accuracy=0.1), agreement))
    assert bench.phase is Phase.IDLE


def test_who_has_the_new_rule_in_force_follows_the_previous_one_until_all_know() -> None:
    bench = took(a=READY, c=READY)
    play(bench, 0, "a", OLD)
    play(bench, 1, "c", NEW)
    play(bench, 2, "a", OLD)  # which was not there in the last round, and has not heard
    bench.hear(RoundTriggered())
    assert bench.said(StartTraining).agreement == NEW
    bench = took(a=READY, c=READY)
    play(bench, 0, "a", NEW)
    assert hear(bench, a=IN_FORCE, c=IN_FORCE) == []
    assert not bench.job.rule_change.is_waiting
    refuses(bench, asked("a", 1, agreement=OLD), ParamsRefused)


@pytest.mark.parametrize(("start", "other"), [(OLD, NEW), (NEW, OLD)])
def test_the_open_round_has_one_rule_also_where_both_are_followed(
    start: Mapping[str, str], other: Mapping[str, str]
) -> None:
    bench = took(a=READY, c=READY)
    bench.hear(asked("a", agreement=start))
    bench.train()
    refuses(bench, update("c", other), ParamsRefused)
    assert bench.round.gathering.updates.keys() == {B}


def test_an_update_that_came_before_the_round_counts_only_if_it_is_by_the_same_rule() -> None:
    for first, second in ((OLD, NEW), (NEW, OLD)):
        bench = took(a=READY, c=TAKEN)
        bench.hear(update("c", first))  # of a round whose start has not come
        assert bench.job.inbox.early.keys() == {C}
        bench.hear(asked("a", agreement=second))
        bench.train()
        assert bench.round.gathering.updates.keys() == {B}
        bench.hear(update("c", second))
        assert bench.round.gathering.updates.keys() == {B, C}


def test_nor_after_a_restart_in_which_it_was_kept() -> None:
    bench = took(a=READY, c=TAKEN)
    bench.hear(update("c", OLD))
    kept = bench.one(Save).updates
    bench.hear(asked("a", agreement=NEW))
    saved = bench.one(Save)
    bench.train()
    again = Bench(prepare=False)
    words = tuple(UpdateReceived(each.update) for each in kept)
    assert [word.update.rule for word in words] == ["agg1"]
    again.hear(Restored(saved.snapshot, saved.params or bench.job.held.current.shared, updates=words))
    again.hear(prepared())
    again.train()
    assert again.job.settings.rule == "median"
    assert again.round.gathering.updates.keys() == {B}


def test_all_of_it_is_kept_over_restarts() -> None:
    stages: list[dict[str, RuleStatement]] = [{}, {"a": READY, "c": TAKEN}, {"a": IN_FORCE, "c": READY}]
    for said in stages:
        bench = took(**said)
        again = Bench(prepare=False)
        again.hear(Restored(bench.job._figures()))
        assert again.job.rule_change.statement == bench.job.rule_change.statement
        assert again.job.rule_change.kept() == bench.job.rule_change.kept()
        # Before it has met anybody it waits for those of before, and does not go on alone.
        hear(again)
        assert again.job.rule_change.statement == bench.job.rule_change.statement
    changed = Bench(prepare=False, rules=Rules(averaging={MERGING: "agg0"}))
    changed.hear(Restored(took(a=IN_FORCE, c=READY).job._figures()))
    assert changed.job.rule_change.rule == "agg0"  # a person has changed the setting since


def test_a_proposal_is_taken_by_its_proposer_shown_to_others_and_withdrawn() -> None:
    bench = Bench()
    hear(bench, a=NOTHING, c=NOTHING)
    bench.hear(RuleProposed("median", "3" * 32))
    assert list(bench.published) == ["rule_proposed"]
    (shown,) = bench.job.view().rule_proposals
    assert (shown.by, shown.rule, shown.state, shown.not_taken) == ("b", "median", "taken", ["a", "c"])
    assert "rule_proposals" not in bench.job.view().for_peers()
    told = JobView.claimed(bench.job.view().for_peers()).rule_statement
    assert told == bench.job.rule_change.statement == stated(Proposal(B, "median", "3" * 32))
    hear(bench, a=told, c=stated(declined=(shown.mark,)))
    (shown,) = bench.job.view().rule_proposals
    assert (shown.not_taken, shown.declined_by) == (["c"], ["c"])
    refuses(bench, RuleProposed("agg0", "4" * 32), JobBusy)
    refuses(bench, HyperParamsEdited({}, "agg0"), JobBusy)
    bench.hear(RuleWithdrawn())
    assert bench.job.view().rule_proposals == []
    refuses(bench, RuleWithdrawn(), NoProposal)
    bench.hear(RuleProposed("median", "5" * 32))
    (other,) = bench.job.view().rule_proposals
    assert other.mark != shown.mark  # nobody has taken this one
    assert other.not_taken == ["a", "c"]


def test_what_all_have_taken_is_not_withdrawn_any_more() -> None:
    bench = Bench()
    hear(bench, a=NOTHING, c=NOTHING)
    bench.hear(RuleProposed("median", "3" * 32))
    own = stated(Proposal(B, "median", "3" * 32))
    hear(bench, a=own, c=own)
    refuses(bench, RuleWithdrawn(), JobBusy)


def test_a_proposal_that_was_withdrawn_binds_nobody() -> None:
    bench = took()
    assert hear(bench, a=NOTHING, c=NOTHING) == ["rule_withdrawn"]
    assert bench.job.rule_change.statement is None
    bench = took(a=TAKEN, c=TAKEN)
    assert hear(bench, a=NOTHING, c=TAKEN) == ["rule_withdrawn"]
    bench = took(a=READY, c=TAKEN)
    assert hear(bench, a=NOTHING, c=TAKEN) == []  # it cannot be, after all have taken it: a disk was lost
    assert bench.job.rule_change.statement == READY


def test_who_joins_after_all_have_taken_a_rule_keeps_nobody_waiting() -> None:
    bench = took(a=READY, c=TAKEN)
    assert hear(bench, a=READY, c=READY, d=NOTHING) == ["merging_rule_set"]
    bench = took(a=READY, c=TAKEN)
    hear(bench, a=IN_FORCE, c=IN_FORCE, d=NOTHING)
    assert bench.job.rule_change.rule == "median"
    bench = took(a=TAKEN, c=TAKEN)
    hear(bench, a=TAKEN, c=TAKEN, d=NOTHING)  # before that it is one of those that must take it
    hear(bench, a=READY, c=READY, d=NOTHING)
    assert (bench.job.rule_change.statement, bench.job.rule_change.rule) == (TAKEN, "agg1")


@pytest.mark.parametrize("topology", ["segments", "ring"])
@pytest.mark.parametrize("said", [{}, {"a": READY, "c": TAKEN}, {"a": IN_FORCE, "c": READY}])
def test_no_rule_is_taken_up_again_that_does_not_go_with_how_updates_travel_now(
    topology: str, said: Mapping[str, Any]
) -> None:
    krum = Proposal(A, "krum:1", "1" * 32)
    mark, told = krum.mark("T"), {TAKEN: stated(krum), READY: stated(krum, ready=True)}
    bench = Bench()
    hear(bench, a=stated(krum), c=NOTHING)
    bench.hear(RuleAnswered(mark, takes=True))
    hear(bench, **{peer: told.get(words, stated(in_force=mark)) for peer, words in said.items()})
    chosen = Bench()
    chosen.hear(HyperParamsEdited({}, "krum:1", folds=False))
    for before in (bench, chosen):
        again = Bench(prepare=False, rules=Rules(topology=Topology.read(topology)))
        again.hear(Restored(before.job._figures()))
        assert (again.job.settings.rule, again.job.rule_change.rule) == ("agg1", "agg1")
        assert not again.job.rule_change.is_ready and again.job.rule_change.taken is None


def test_who_is_away_is_waited_for_until_a_person_forgets_it() -> None:
    bench = took(a=READY, c=TAKEN)
    hear(bench, a=READY)
    assert bench.job.rule_change.rule == "agg1"
    bench.hear(RulesHeard(frozenset({A}), forgotten=frozenset({C})))
    assert bench.job.rule_change.rule == "median"
    bench = took()
    bench.hear(RulesHeard(frozenset({C}), forgotten=frozenset({A})))  # nobody could withdraw it any more
    assert bench.job.rule_change.statement is None
    bench = took(a=READY, c=NOTHING)
    bench.hear(RulesHeard(frozenset({A, C}), without=frozenset({C})))  # it does not have the job
    assert bench.job.rule_change.rule == "median"


def test_two_proposals_are_shown_both_and_only_one_is_taken() -> None:
    bench, other = took(), Proposal(C, "agg0", "6" * 32)
    assert hear(bench, a=TAKEN, c=stated(other)) == ["rule_proposed"]
    assert [(one.by, one.rule, one.state) for one in bench.job.view().rule_proposals] == [
        ("a", "median", "taken"),
        ("c", "agg0", "open"),
    ]
    refuses(bench, RuleAnswered(other.mark("T"), takes=True), JobBusy)
    refuses(bench, RuleAnswered(MARK, takes=False), JobBusy)
    bench.hear(RuleAnswered(other.mark("T"), takes=False))
    assert bench.job.rule_change.declined == (other.mark("T"),)
    free = Bench()
    hear(free, a=TAKEN, c=NOTHING)
    words = "a proposes median: take it or decline it first"
    assert str(refuses(free, RuleProposed("agg0", "7" * 32), JobBusy)) == words
    free.hear(RuleAnswered(MARK, takes=False))
    free.hear(RuleProposed("agg0", "7" * 32))


def test_a_person_who_changes_the_rule_at_this_node_has_the_last_word() -> None:
    bench = took(a=READY, c=READY)
    bench.hear(HyperParamsEdited({}, "agg0"))
    assert (bench.job.rule_change.rule, bench.job.settings.rule) == ("agg0", "agg0")
    assert bench.job.rule_change.statement == IN_FORCE  # so that the others do not wait
    bench.hear(RoundTriggered())
    assert bench.said(StartTraining).agreement == {MERGING: "agg0"}


@pytest.mark.parametrize(
    ("make", "event", "error", "words"),
    [
        (Bench, RuleProposed("agg1", "1" * 32), InvalidMessage, "is the aggregation rule already"),
        (Bench, RuleProposed("k-means", "1" * 32), InvalidMessage, "T learns no centroids, which k-means needs"),
        (Bench, RuleProposed("scaffold", "1" * 32), InvalidMessage, "changes local training too"),
        (Bench, RuleProposed("secure,agg1", "1" * 32), InvalidMessage, "decided when a node starts"),
        (
            lambda: Bench(merging="k-means"),
            RuleProposed("median", "1" * 32),
            InvalidMessage,
            "needs the aggregation",
        ),
        (lambda: Bench(prepare=False), RuleProposed("median", "1" * 32), NotReady, "still loading"),
        (Bench, RuleAnswered("0" * 32, takes=True), NoProposal, "no node makes this proposal any more"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(
    make: Callable[[], Bench], event: Event, error: type[PeerError], words: str
) -> None:
    assert words in str(refuses(make(), event, error))


@pytest.mark.parametrize(
    "said",
    [
        stated(replace(MEDIAN, by=C)),  # in the name of another node
        stated(replace(MEDIAN, rule="none such")),
        stated(replace(MEDIAN, rule="trimmed-mean")),  # not its whole name
        stated(replace(MEDIAN, rule="")),
    ],
)
def test_a_peer_proposes_only_in_its_own_name_and_what_is_known_here(said: RuleStatement) -> None:
    bench = Bench()
    assert hear(bench, a=said, c=NOTHING) == []
    assert bench.job.view().rule_proposals == []


def test_only_the_newest_refusals_are_remembered() -> None:
    bench = Bench()
    for number in range(2 * MOST_DECLINED):
        proposal = replace(MEDIAN, nonce=f"{number:032x}")
        hear(bench, a=stated(proposal), c=NOTHING)
        bench.hear(RuleAnswered(proposal.mark("T"), takes=False))
    assert len(bench.job.rule_change.declined) == MOST_DECLINED
    assert bench.job.rule_change.statement == stated(declined=bench.job.rule_change.declined)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.fixed_dictionaries({}, optional=dict.fromkeys(RuleStatement.model_fields, JSON))


@given(said=FIELDS | JSON)
def test_what_a_peer_claims_of_proposals_is_bounded(said: Any) -> None:
    claimed = JobView.claimed({"trainer_id": "T", "rule_statement": said}).rule_statement
    bench = Bench()
    hear(bench, a=claimed or NOTHING, c=NOTHING)
    bench.job.view().as_json()


def test_a_late_message_of_a_round_by_the_previous_rule_is_late_and_no_disagreement() -> None:
    bench = took(a=READY, c=READY)
    play(bench, 0, "a", OLD)
    play(bench, 1, "a", NEW)
    hear(bench, a=IN_FORCE, c=IN_FORCE)
    refuses(bench, update("c", OLD, 0), StaleRound)
    refuses(bench, asked("c", 0, agreement=OLD), StaleRound)
    refuses(bench, asked("c", 2, agreement=OLD), ParamsRefused)


def test_a_round_opens_by_the_rule_that_was_followed_when_its_start_came() -> None:
    bench = took(a=READY, c=READY)
    play(bench, 0, "a", NEW)
    bench.hear(RoundTriggered())
    bench.train()
    for peer in "ac":
        bench.hear(update(peer, NEW, 1, "b"))
    asked_for = bench.effects
    bench.hear(asked("c", 2, agreement=OLD))  # waits until this node has averaged
    hear(bench, a=IN_FORCE, c=IN_FORCE)
    assert (bench.job.number, bench.job.settings.rule) == (1, "median")
    bench.effects = asked_for
    bench.average()
    assert (bench.job.number, bench.job.settings.rule) == (2, "agg1")


def test_who_followed_a_round_by_the_new_rule_knows_the_previous_one_still() -> None:
    bench = took(a=READY, c=TAKEN)
    play(bench, 0, "a", NEW)
    assert bench.job.rule_change.statement == READY
    again = Bench(prepare=False)
    again.hear(Restored(bench.job._figures()))
    assert again.job.rule_change.kept() == bench.job.rule_change.kept()
    play(bench, 1, "c", OLD)
    play(bench, 2, "a", NEW)
    assert hear(bench, a=IN_FORCE, c=READY) == ["merging_rule_set"]
    assert bench.published["merging_rule_set"].endswith("before weighted average (agg1)")
    play(bench, 3, "c", OLD)
