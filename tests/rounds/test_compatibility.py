"""Nodes whose trainers state different things refuse each other and say what differs, whatever the shapes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from flnet.aggregation.base import MERGING
from flnet.algorithms.differential_privacy import Privacy
from flnet.compute.checks import _as_agreement
from flnet.errors import ParamsRefused
from flnet.params.params import Digest, PeerId
from flnet.protocol.effects import Average
from flnet.protocol.events import (
    Averaged,
    ClaimReceived,
    HyperParamsEdited,
    RoundTriggered,
    SendRefused,
    TimerFired,
    TrainingAsked,
    Turn,
    UpdateReceived,
)
from flnet.protocol.messages import ModelParams, StartTraining
from flnet.rounds.compatibility import differences, obstacles
from flnet.rounds.history import RoundRecord
from flnet.rounds.limits import Limits
from flnet.rounds.privacy_plan import PrivacyPlan
from flnet.rounds.settings import SUM_NOISE, TOPOLOGY, TRAINING, Rules
from flnet.rounds.steps import Phase
from tests.helpers import frozen, key, params
from tests.rounds.helpers import Bench, asked, came, claim, declined, prepared

HERE = {"classes": "cat, dog", "size": "32"}
THERE = {"classes": "cat, fox", "size": "32"}
WORDS = "the nodes do not agree on classes: cat, dog at b; cat, fox at a"


NODES = (PeerId("me"), PeerId("you"))


def bench(**more: object) -> Bench:
    return Bench(agreement=HERE, **more)  # type: ignore[arg-type]


def start(agreement: dict[str, str] | None) -> TrainingAsked:
    return asked("a", agreement=agreement)


@pytest.mark.parametrize(
    "event",
    [
        start(THERE),
        UpdateReceived(came("a").update, THERE),
        ClaimReceived(claim("a"), THERE),
    ],
)
def test_what_a_peer_states_differently_is_named_and_nothing_changes(event: TrainingAsked) -> None:
    job = bench()
    before = frozen(job)
    with pytest.raises(ParamsRefused) as refusal:
        job.hear(event)
    assert refusal.value.message == WORDS
    assert frozen(job) == before


@pytest.mark.parametrize(("here", "stated"), [(HERE, HERE), (HERE, None), (HERE, {}), ({}, THERE)])
def test_a_peer_is_heard_where_both_state_the_same_or_one_of_them_nothing(
    here: dict[str, str], stated: dict[str, str] | None
) -> None:
    job = Bench(agreement=here)
    job.hear(start(stated))
    assert job.phase is Phase.TRAINING


def test_a_start_that_came_while_loading_is_looked_at_afterwards() -> None:
    job = Bench(prepare=False)
    job.hear(start(THERE))
    job.hear(prepared(agreement=HERE))
    assert job.phase is Phase.IDLE
    told = [e for e in job.effects if getattr(e, "kind", "") == "refused"]
    assert WORDS in getattr(told[0], "text", "")


def test_a_round_goes_on_without_the_node_that_does_not_agree() -> None:
    job = bench(me="a", peers=("b",))
    job.hear(asked("b", agreement=HERE))
    job.train()
    refused = SendRefused(PeerId("b"), ModelParams.path, key(0, "b"), 422, ParamsRefused.code, WORDS)
    job.hear(refused)
    assert job.phase is Phase.AVERAGING
    assert WORDS in str(job.round.record)
    assert len(job.one(Average).updates) == 1


def test_the_schema_digest_covers_it() -> None:
    digests = {Bench(agreement=a).job.view().as_json()["schema_digest"] for a in ({}, HERE, THERE, dict(HERE))}
    assert len(digests) == 3


def test_a_key_that_one_side_lacks_differs() -> None:
    words = "a: 1 at me; nothing at you; nor on b: nothing at me; 2 at you"
    assert differences({"a": "1"}, {"b": "2"}, *NODES) == words
    assert differences(HERE, dict(HERE), *NODES) == ""


def test_of_long_lists_only_the_entries_that_differ_are_shown() -> None:
    long = [f"column number {i}" for i in range(40)]
    words = differences({"features": ", ".join([*long, "x"])}, {"features": ", ".join(["y", *long])}, *NODES)
    assert words == "features: only x at me; only y at you"
    swapped = differences({"features": ", ".join(long)}, {"features": ", ".join(reversed(long))}, *NODES)
    assert swapped == "features: the same 40 in another order"
    many = differences({"features": ", ".join(long)}, {"features": "x"}, *NODES)
    assert many.endswith("column number 4 and 35 more at me; only x at you")


def test_a_start_says_it_on_the_wire() -> None:
    job = bench(me="a", peers=("b",))
    job.hear(asked("b", agreement=HERE))
    assert job.job.settings.message(StartTraining, key()).fields()["agreement"] == HERE
    silent = Bench(me="a", peers=("b",))
    silent.hear(asked("b"))
    assert "agreement" not in silent.job.settings.message(StartTraining, key()).fields()


RULED = {"clipping of updates": "to the norm 2"}


@pytest.mark.parametrize("declared", [{}, {"agreement": HERE}])
@pytest.mark.parametrize(("rules", "theirs"), [(RULED, {}), ({}, RULED), (RULED, {"largest update": "any"})])
def test_rules_of_averaging_are_compared_whatever_the_trainers_state(
    declared: dict[str, Any], rules: dict[str, str], theirs: dict[str, str]
) -> None:
    job = Bench(**declared)
    job.job.settings.rules = Rules(averaging=rules)
    with pytest.raises(ParamsRefused, match=r"do not agree on (clipping of updates|largest update): .+ at b; "):
        job.hear(start(theirs))


@pytest.mark.parametrize("theirs", [RULED, {**HERE, **RULED}, None])
def test_the_same_rules_agree_and_the_thesis_form_knows_none(theirs: dict[str, str] | None) -> None:
    job = bench()
    job.job.settings.rules = Rules(averaging=RULED)
    job.hear(start(theirs))
    assert job.phase is Phase.TRAINING


def test_messages_carry_what_the_trainer_states_and_the_rules() -> None:
    job = bench()
    job.job.settings.rules = Rules(averaging=RULED)
    job.hear(start(None))
    job.train()
    assert job.said(ModelParams).agreement == {**HERE, **RULED}


def test_local_training_is_compared_and_plain_where_nothing_is_said() -> None:
    job = Bench()
    with pytest.raises(ParamsRefused, match=r"local training: plain at b; proximal:0.1 at a"):
        job.hear(start({TRAINING: "proximal:0.1"}))
    job.job.settings.rules = Rules(averaging={TRAINING: "proximal:0.1"})
    with pytest.raises(ParamsRefused, match=r"local training: proximal:0.1 at b; plain at a"):
        job.hear(start({}))


def obstacles_of(here: dict[str, str], there: dict[str, str], digests: tuple[str, str] = ("a", "a")) -> str:
    job = Bench(agreement=here).job
    return obstacles(job.settings, there, *map(Digest, digests))


def test_what_keeps_two_nodes_apart_is_told_from_the_side_of_each() -> None:
    ten = {"columns": "a, b, c10"}
    nine = {"columns": "a, b"}
    assert obstacles_of(nine, ten) == "columns missing here: c10"
    assert obstacles_of(ten, nine) == "columns missing there: c10"
    assert obstacles_of({"classes": "cat, dog"}, {"classes": "cat, fox"}) == (
        "classes missing here: fox; classes missing there: dog"
    )
    assert obstacles_of({"classes": "a, b"}, {"classes": "b, a"}) == "classes: the same 2 in another order"
    assert obstacles_of(ten, {**ten, MERGING: "median"}) == "aggregation rule: here agg1; there median"


def test_of_lists_too_long_to_be_stated_the_first_difference_is_told() -> None:
    names = [f"c{number:03}" for number in range(900)]
    whole, less = (_as_agreement({"columns": ", ".join(some)}, "T") for some in (names, names[:9] + names[10:]))
    assert obstacles_of(less, whole) == "columns differ from entry 10 on: here c010; there c009"
    shuffled = _as_agreement({"columns": ", ".join([*names[:-2], names[-1], names[-2]])}, "T")
    assert "columns differ from entry" in obstacles_of(whole, shuffled)  # somewhere beyond what is stated
    number = whole["columns"].count(", ") + 2
    longer = obstacles_of(whole, {"columns": whole["columns"] + ", "})  # an entry that no list of a node has
    assert longer == f"columns differ from entry {number} on: here nothing; there nothing"


def test_shapes_count_where_all_that_is_stated_is_alike_and_who_states_nothing_is_believed() -> None:
    shapes = "the parameters of the two models have other names, shapes or types"
    assert obstacles_of(HERE, HERE, ("a", "b")) == shapes
    assert obstacles_of(HERE, HERE) == ""
    assert obstacles_of(HERE, {}, ("a", "b")) == ""
    assert obstacles_of({}, THERE, ("a", "b")) == ""


# A round that nobody else has the average of.


def test_a_round_alone_names_the_peers_that_refused_it_or_were_silent() -> None:
    job = Bench()
    job.hear(RoundTriggered())
    refused = SendRefused(PeerId("a"), StartTraining.path, key(0, "b"), 422, "params_refused", "other columns")
    job.hear(refused)
    job.train()
    job.hear(TimerFired(job.round.gathering.timer))
    job.average()
    assert job.round.record.alone == {"a": "other columns", "c": "no answer in time"}


def test_a_node_is_alone_in_the_round_of_which_all_others_decline_the_start_although_they_average_its_update() -> (
    None
):
    job = Bench(rules=Rules(limits=Limits(epochs=4, batch_size=64, batches=500, learning_rate=1)))
    other = Bench("a", peers=["b", "c"], rules=job.job.settings.rules)
    job.hear(HyperParamsEdited({"u": 5.0}))
    job.hear(RoundTriggered())
    job.train()
    start = job.job.settings.round_hyper
    assert start is not None
    other.hear(asked("b", hyper=start))
    why = other.said(ModelParams).declined or ""
    assert "asks for too much" in why
    for name in "ac":
        job.hear(declined(name, 0, "b", why))
    job.average()
    assert job.round.record.alone == job.round.record.left_out == {"a": why, "c": why}
    assert job.round.record.contributors == ("b",)


def test_a_node_stays_alone_that_takes_the_model_of_a_peer_that_is_of_one_update_too() -> None:
    for contributors, alone in ((1, {"a": "paused", "c": "paused"}), (2, {})):
        job = Bench()
        job.hear(RoundTriggered())
        job.train()
        for name in "ac":
            job.hear(declined(name, 0, "b", "paused"))
        job.average()
        job.measure()
        job.hear(ClaimReceived(claim("a", accuracy=0.95, contributors=contributors)))
        job.measure(0.9)
        assert (job.round.record.exchanged_with, job.round.record.alone) == ("a", alone)


def test_nobody_is_alone_that_has_no_peers_or_whose_peer_trains_or_is_late() -> None:
    late = replace(declined("c", 0, "b"), late=True)
    for events in ([], [came("a", 0, "b"), declined("c", 0, "b")], [late, replace(late, peer=PeerId("a"))]):
        job = Bench(peers=["a", "c"] if events else [])
        job.hear(RoundTriggered())
        for event in events:
            job.hear(event)
        job.train()
        job.average()
        assert job.round.record.alone == {}


def test_nobody_is_alone_whose_peers_have_their_turn_later() -> None:
    job = Bench(turn=Turn("two-phase", is_desired=True))
    job.hear(RoundTriggered())
    job.train()
    for name in "ac":
        job.hear(declined(name, 0, "b", "not its turn"))
    job.average()
    assert job.round.record.alone == {}
    assert job.round.record.left_out == {"a": "not its turn", "c": "not its turn"}


def test_a_node_is_alone_whose_update_is_the_only_one_that_counts() -> None:
    job = Bench()
    job.hear(RoundTriggered())
    for name in "ac":
        job.hear(came(name, 0, "b"))
    job.train()
    job.hear(Averaged(key(0, "b"), params(w=[1, 1]), refused=dict.fromkeys(map(PeerId, "ac"), "too large")))
    assert job.round.record.alone == job.round.record.left_out == {"a": "too large", "c": "too large"}


def test_a_record_names_all_whose_updates_are_not_in_the_average_and_outlives_a_restart() -> None:
    job = Bench(peers=["a", "c", "d"])
    job.hear(RoundTriggered())
    job.train()
    job.hear(came("a", 0, "b"))
    job.hear(declined("d", 0, "b", "paused"))
    job.hear(TimerFired(job.round.gathering.timer))
    job.average()
    record = job.round.record
    assert (record.left_out, record.alone) == ({"c": "no answer in time", "d": "paused"}, {})
    assert RoundRecord.read(record.view()) == record


def update_refused(peer: str, error: str, status: int = 422) -> SendRefused:
    return SendRefused(PeerId(peer), ModelParams.path, key(0, "b"), status, error, f"{error} of {peer}")


def test_a_node_whose_update_all_others_refuse_is_alone_although_it_averages_theirs() -> None:
    job = Bench()
    job.hear(RoundTriggered())
    job.hear(came("a", 0, "b"))
    job.train()
    job.hear(update_refused("a", "contribution_refused"))
    job.hear(came("c", 0, "b"))
    assert job.round.record.alone == {}
    job.hear(update_refused("c", "stale_round", 409))  # says so while the average is computed
    assert job.round.record.alone == {"a": "contribution_refused of a", "c": "stale_round of c"}


def test_nobody_is_alone_whose_update_one_peer_uses_or_that_takes_the_model_of_a_peer() -> None:
    job = Bench().through_average()
    job.hear(update_refused("a", "stale_round", 409))
    assert job.round.record.alone == {}
    job.hear(update_refused("c", "stale_round", 409))
    assert list(job.round.record.alone) == ["a", "c"]
    job.hear(ClaimReceived(claim("a", accuracy=0.95)))
    job.measure(0.9)
    assert (job.round.record.exchanged_with, job.round.record.alone) == ("a", {})


def promised(
    level: str = "node", rounds: int = 20, merging: str = "secure:0.3333:32,agg0", z: float = 1.5
) -> Rules:
    privacy = Privacy("node" if level == "node" else "rows", 3, 1e-5)
    plan = PrivacyPlan(privacy, rounds, lambda spent: 0.0, lambda rate, steps: z)
    return Rules(averaging={MERGING: merging} if merging else {}, privacy=plan)


def test_only_nodes_that_share_noise_state_what_they_promise() -> None:
    assert promised().stated()[SUM_NOISE] == "epsilon 3, delta 1e-05, clip 1.0, 20 rounds, noise 1.5000"
    for others in (promised("rows"), promised(merging=""), promised(merging="agg0"), Rules()):
        assert SUM_NOISE not in others.stated()


@pytest.mark.parametrize(
    ("rules", "there"),
    [
        (promised(rounds=3), "epsilon 3, delta 1e-05, clip 1.0, 3 rounds, noise 1.5000"),
        (promised(z=1.6), "epsilon 3, delta 1e-05, clip 1.0, 20 rounds, noise 1.6000"),
        (promised("rows"), "nothing"),
    ],
)
def test_who_would_add_other_noise_to_a_sum_is_refused(rules: Rules, there: str) -> None:
    job = Bench(rules=promised())
    here = "epsilon 3, delta 1e-05, clip 1.0, 20 rounds, noise 1.5000"
    words = re.escape(f"the nodes do not agree on noise of sums: {here} at b; {there} at a")
    with pytest.raises(ParamsRefused, match=words):
        job.hear(asked("a", agreement=dict(rules.stated())))
    job.hear(asked("a", agreement=dict(promised().stated())))
    assert job.phase is Phase.TRAINING


def test_a_topology_is_shown_as_it_is_set() -> None:
    assert differences({TOPOLOGY: "segments:1"}, {}, *NODES) == "topology: segments at me; mesh at you"
    stated = ({TOPOLOGY: "random:2"}, {TOPOLOGY: "segments:3"})
    assert differences(*stated, *NODES) == "topology: random:2 at me; segments:3 at you"
