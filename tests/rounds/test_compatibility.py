"""Nodes whose trainers state different things refuse each other and say what differs, whatever the shapes."""

from __future__ import annotations

from typing import Any

import pytest

from flnet.errors import ParamsRefused
from flnet.params.params import PeerId
from flnet.protocol.effects import Average
from flnet.protocol.events import ClaimReceived, SendRefused, TrainingAsked, UpdateReceived
from flnet.protocol.messages import ModelParams, StartTraining
from flnet.rounds.compatibility import differences
from flnet.rounds.settings import TRAINING, Rules
from flnet.rounds.steps import Phase
from tests.helpers import frozen, key
from tests.rounds.helpers import Bench, asked, came, claim, prepared

HERE = {"classes": "cat, dog", "size": "32"}
THERE = {"classes": "cat, fox", "size": "32"}
WORDS = "the nodes do not agree on classes: here cat, dog; there cat, fox"


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
    assert differences({"a": "1"}, {"b": "2"}) == "a: here 1; there nothing; nor on b: here nothing; there 2"
    assert differences(HERE, dict(HERE)) == ""


def test_of_long_lists_only_the_entries_that_differ_are_shown() -> None:
    long = [f"column number {i}" for i in range(40)]
    words = differences({"features": ", ".join([*long, "x"])}, {"features": ", ".join(["y", *long])})
    assert words == "features: only here x; only there y"
    swapped = differences({"features": ", ".join(long)}, {"features": ", ".join(reversed(long))})
    assert swapped == "features: the same 40 in another order"
    many = differences({"features": ", ".join(long)}, {"features": "x"})
    assert many.endswith("column number 4 and 35 more; only there x")


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
    with pytest.raises(ParamsRefused, match=r"do not agree on (clipping of updates|largest update): here"):
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
    with pytest.raises(ParamsRefused, match=r"local training: here plain; there proximal:0.1"):
        job.hear(start({TRAINING: "proximal:0.1"}))
    job.job.settings.rules = Rules(averaging={TRAINING: "proximal:0.1"})
    with pytest.raises(ParamsRefused, match=r"local training: here proximal:0.1; there plain"):
        job.hear(start({}))
