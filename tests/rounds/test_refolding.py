"""Sums that are made again because they held updates that do not count."""

from __future__ import annotations

from collections.abc import Mapping

from flnet.effects import CancelTimer, Effect, Fetch, Fold, SetTimer
from flnet.events import Event, FetchFailed, PeerLost, TimerFired
from flnet.params import PeerId
from flnet.rounds import Averaging, Refolding
from tests.helpers import key, params
from tests.rounds.test_averaging import came
from tests.rounds.test_averaging_room import averaging, failed, fetched, model, offered, summary

TIMER = "sum-again:0:a"
A = PeerId("a")


def hear(r: Averaging, *events: Event) -> list[Effect]:
    return [effect for event in events for effect in r.receive(event)]


def closed(names: str) -> Averaging:
    """A round of m with these peers and z, whose sum holds all updates but that of z."""
    r = averaging([*names, "z"])
    said = hear(r, came("m"))
    for name in (*names, "z"):
        said = hear(r, offered(name), fetched(name))
    assert summary(said) == ["fetch z", " ".join(["average z +", *sorted([*names, "m"])])]
    return r


def again(r: Averaging, *refused: str) -> list[Effect]:
    return r.fold_again([PeerId(name) for name in refused], model("m"))


def test_all_but_the_refused_are_fetched_one_by_one_in_their_order() -> None:
    r = closed("abcd")
    first = again(r, "b")
    assert [type(one) for one in first] == [SetTimer, Fetch]
    assert summary(first) == ["fetch a"]
    assert summary(hear(r, fetched("a"))) == ["fold a", "fetch c"]
    assert summary(hear(r, fetched("c"))) == ["fold c", "fetch d"]
    assert summary(hear(r, fetched("d"))) == ["fold d m", "average z + a c d m"]
    assert r.again is not None and r.again.done


def test_what_comes_again_has_to_be_what_came_before() -> None:
    (_, fetch) = again(closed("ab"), "b")
    assert isinstance(fetch, Fetch)
    assert (fetch.digest, fetch.proven) == (model("a").digest, True)


def test_the_own_update_is_here_and_not_fetched() -> None:
    said = again(closed("a"), "a")
    assert summary(said) == ["fold m", "average z + m"]
    (fold,) = [one for one in said if isinstance(one, Fold)]
    assert fold.updates[0].params == model("m")


def test_nothing_is_fetched_where_all_that_was_folded_is_refused() -> None:
    assert summary(again(closed("ab"), "a", "b", "m")) == ["average z +"]


def test_who_does_not_give_its_update_again_is_left_out_and_named() -> None:
    r = closed("abc")
    again(r, "b")
    assert summary(hear(r, failed("a"))) == ["fetch c"]
    assert summary(hear(r, fetched("c"))) == ["fold c m", "average z + c m"]
    assert r.again is not None
    assert r.again.lost == {A: "its update could not be fetched again: gone"}
    assert "a" not in r.updates and r.declined[A] == r.again.lost[A]


def test_time_is_bounded() -> None:
    r = closed("abc")
    (timer, _) = again(r, "b")
    assert timer == SetTimer(TIMER, 30)
    said = hear(r, fetched("a"), TimerFired(TIMER))
    assert summary(said) == ["fold a", "fetch c", "fold m", "average z + a m"]
    assert said[-2] == CancelTimer(TIMER)
    assert hear(r, fetched("c"), TimerFired(TIMER)) == []  # too late


def test_what_is_not_waited_for_changes_nothing() -> None:
    r = closed("abc")
    again(r, "b")
    late: Mapping[str, Event] = {
        "another peer's": fetched("c"),
        "of other parameters": FetchFailed(key(), A, params(w=[9]).digest, "late"),
        "a new update": came("z"),
        "a loss": PeerLost(A, "silent"),
        "another timer": TimerFired("forced-averaging:0:a"),
    }
    for words, event in late.items():
        assert hear(r, event) == [], words
    assert summary(hear(r, fetched("a"))) == ["fold a", "fetch c"]


def test_nothing_at_all_is_asked_for_as_an_average_too() -> None:
    """It fails there, and the job says so."""
    assert summary(Refolding(key(), [], [], 30).start()) == ["average +"]
