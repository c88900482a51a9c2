"""After a restart the own word is said again to everyone who may not have heard it."""

from __future__ import annotations

import pytest

from flnet.effects import Effect, Send
from flnet.events import PeerLost, PeerSeen, RoundTriggered
from flnet.jobs import Phase, Rules
from flnet.messages import ModelParams
from flnet.params import PeerId
from flnet.policies import Participation
from tests.jobs.helpers import came, prepared
from tests.jobs.restarting import Lasting


def updates(effects: list[Effect]) -> list[tuple[str, ...]]:
    """To whom updates go."""
    return [e.to for e in effects if isinstance(e, Send) and isinstance(e.message, ModelParams)]


def test_who_may_not_have_got_the_own_update_before_the_average_was_made_gets_it_again() -> None:
    bench = Lasting()
    bench.through_average()
    sent = bench.saved.sent
    bench.restart()
    assert bench.phase is Phase.MEASURING
    assert updates(bench.meet("a")) == [("a",)]
    assert bench.one(Send).params == sent
    assert bench.meet("a") == []


@pytest.mark.parametrize("averaged", [False, True])
def test_who_came_while_the_trainer_was_being_loaded_is_told_then(averaged: bool) -> None:
    bench = Lasting()
    bench.hear(RoundTriggered())
    bench.train()
    if averaged:
        for name in "ac":
            bench.hear(came(name, 0, "b"))
        bench.average()
    bench.restart(prepare=False)
    assert updates(bench.hear(PeerSeen(PeerId("c")))) == []
    assert updates(bench.hear(prepared(w=(50, 50)))) == [("c",)]
    assert updates(bench.meet("a")) == [("a",)]
    assert updates(bench.meet("c")) == []


def chosen() -> Lasting:
    """Of a, b and c, a and b train in round 0, and b has."""
    bench = Lasting(rules=Rules(Participation(0.5, 2)))
    bench.hear(RoundTriggered())
    bench.train()
    return bench


@pytest.mark.parametrize("averaged", [False, True])
def test_after_a_restart_those_who_are_not_chosen_hear_it_too(averaged: bool) -> None:
    bench = chosen()
    if averaged:
        bench.hear(came("a", 0, "b"))
        bench.average()
    bench.restart()
    assert updates(bench.meet("c")) == [("c",)]
    assert updates(bench.meet("a")) == [("a",)]


def test_who_is_not_chosen_and_was_away_for_a_while_hears_it_again() -> None:
    bench = chosen()
    bench.hear(PeerLost(PeerId("c"), "silent"))
    assert updates(bench.meet("c")) == [("c",)]
    assert updates(bench.meet("c")) == []
