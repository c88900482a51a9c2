"""One round of averaging: who is waited for, what closes it, and what is averaged then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.effects import Average, CancelTimer, Effect, SetTimer
from flnet.errors import LocalError
from flnet.events import DeclineReceived, PeerLost, PeerSeen, TimerFired, UpdateReceived
from flnet.params import PeerId
from flnet.rounds import Averaging, Closing
from tests.helpers import key, update

ME, B, C = PeerId("me"), PeerId("b"), PeerId("c")
TIMER = "forced-averaging:0:a"


def averaging(peers: Sequence[str] = ("b", "c")) -> Averaging:
    return Averaging(key(), ME, [PeerId(name) for name in peers], patience=30, margin=5)


def came(name: str, w: float = 1.0, examples: int = 1) -> UpdateReceived:
    return UpdateReceived(update(name, examples=examples, w=[w]))


def declines(name: str) -> DeclineReceived:
    return DeclineReceived(PeerId(name), key(), "no time")


def averaged(effects: Sequence[Effect]) -> list[str] | None:
    """The peers in the average that was asked for; None if none was."""
    asked = [effect for effect in effects if isinstance(effect, Average)]
    return [u.peer for u in asked[0].updates] if asked else None


def test_a_round_closes_when_everyone_expected_has_spoken() -> None:
    r = averaging()
    assert r.receive(came("c")) == []
    assert r.missing == ["b", "me"]
    assert r.receive(came("me")) == [SetTimer(TIMER, 30, 5)]
    assert averaged(r.receive(came("b"))) == ["b", "c", "me"]
    assert r.closed is Closing.COMPLETE


def test_the_timer_is_cancelled_when_the_round_closes() -> None:
    r = averaging(["b"])
    r.receive(came("me"))
    assert r.receive(came("b"))[0] == CancelTimer(TIMER)


def test_updates_are_averaged_in_the_order_of_peer_ids_however_they_came() -> None:
    r = averaging()
    effects = [effect for name in ("me", "c", "b") for effect in r.receive(came(name))]
    assert averaged(effects) == ["b", "c", "me"]


def test_the_timer_forces_the_average_without_the_missing() -> None:
    r = averaging()
    r.receive(came("me"))
    r.receive(came("b"))
    assert averaged(r.receive(TimerFired(TIMER))) == ["b", "me"]
    assert (r.closed, r.missing) == (Closing.TIMER, ["c"])


@pytest.mark.parametrize("name", ["forced-averaging:1:a", "forced-averaging:0:b", "exchange:0:a"])
def test_the_timer_of_another_round_means_nothing(name: str) -> None:
    r = averaging()
    r.receive(came("me"))
    assert r.receive(TimerFired(name)) == []
    assert r.closed is None


def test_the_timer_starts_with_the_own_word_and_not_before() -> None:
    r = averaging()
    assert r.receive(came("b")) == []
    assert r.receive(declines("me")) == [SetTimer(TIMER, 30, 5)]


def test_the_next_round_closes_this_one_with_what_is_there() -> None:
    r = averaging()
    r.receive(came("c"))
    assert averaged(r.close(Closing.NEXT_ROUND)) == ["c"]
    assert (r.closed, r.missing) == (Closing.NEXT_ROUND, ["b", "me"])


def test_what_comes_after_the_round_is_closed_changes_nothing() -> None:
    r = averaging()
    r.receive(came("me"))
    r.receive(TimerFired(TIMER))
    for late in (came("b"), declines("c"), PeerLost(C, ""), TimerFired(TIMER)):
        assert r.receive(late) == []
    assert (sorted(r.updates), r.declined) == (["me"], {})


def test_a_round_in_which_all_train_on_waits_for_them() -> None:
    r = averaging()
    for name in ("c", "me"):
        assert not averaged(r.receive(replace(declines(name), late=True)))
    assert r.receive(replace(declines("b"), late=True)) == [SetTimer(TIMER, 30, 5)]
    assert (r.closed, r.missing, r.declined, r.late) == (None, ["b", "c", "me"], {}, set())
    r.receive(came("c"))
    r.receive(declines("b"))  # its training failed
    assert averaged(r.receive(came("me"))) == ["c", "me"]


def test_of_two_updates_of_one_peer_the_first_counts() -> None:
    r = averaging()
    r.receive(came("b", w=1))
    assert r.receive(came("b", w=7)) == []
    assert r.updates[B].params["w"] == 1


def test_a_lost_peer_is_not_waited_for() -> None:
    r = averaging()
    r.receive(came("me"))
    r.receive(came("b"))
    assert averaged(r.receive(PeerLost(C, "silent"))) == ["b", "me"]
    assert r.closed is Closing.COMPLETE


def test_a_peer_that_is_lost_after_its_update_still_counts() -> None:
    r = averaging()
    r.receive(came("c"))
    r.receive(PeerLost(C, "silent"))
    r.receive(came("me"))
    assert averaged(r.receive(came("b"))) == ["b", "c", "me"]


def test_an_update_of_a_peer_that_was_held_for_lost_counts_while_the_round_is_open() -> None:
    r = averaging()
    r.receive(PeerLost(C, "silent"))
    r.receive(came("c"))
    r.receive(came("me"))
    assert averaged(r.receive(came("b"))) == ["b", "c", "me"]


def test_the_loss_of_all_peers_does_not_close_before_the_own_word() -> None:
    r = averaging()
    for peer in (B, C, ME):  # "me" is never lost to itself
        assert r.receive(PeerLost(peer, "silent")) == []
    assert averaged(r.receive(came("me"))) == ["me"]


def test_a_peer_that_declines_is_not_waited_for() -> None:
    r = averaging()
    r.receive(declines("c"))
    r.receive(came("me"))
    assert averaged(r.receive(came("b"))) == ["b", "me"]
    assert r.declined == {"c": "no time"}


def test_a_node_that_declines_still_averages_the_peers_updates() -> None:
    r = averaging()
    r.receive(came("c"))
    r.receive(declines("me"))
    assert averaged(r.receive(came("b"))) == ["b", "c"]


def test_a_peer_that_declines_and_then_sends_its_update_counts() -> None:
    r = averaging()
    r.receive(declines("b"))
    r.receive(came("b"))
    assert (sorted(r.updates), r.declined) == (["b"], {})


def test_a_refusal_after_an_update_changes_nothing() -> None:
    r = averaging()
    r.receive(came("b"))
    r.receive(declines("b"))
    assert (sorted(r.updates), r.declined) == (["b"], {})


def test_an_update_of_a_stranger_counts_but_nobody_waits_for_strangers() -> None:
    r = averaging(["b"])
    r.receive(came("stranger"))
    r.receive(came("me"))
    assert averaged(r.receive(came("b"))) == ["b", "me", "stranger"]


@pytest.mark.parametrize("end", [declines("me"), TimerFired(TIMER)])
def test_with_nothing_to_average_no_average_is_asked_for(end: DeclineReceived | TimerFired) -> None:
    r = averaging(["b"])
    r.receive(declines("b"))
    assert r.receive(end) == [CancelTimer(TIMER)]
    assert r.closed is not None


def test_a_node_without_peers_averages_alone() -> None:
    assert averaged(averaging([]).receive(came("me"))) == ["me"]


def test_an_update_of_another_round_is_a_bug_of_the_caller() -> None:
    with pytest.raises(LocalError, match="reached the averaging of"):
        averaging().receive(UpdateReceived(update("b", round=1, w=[1.0])))


def test_what_does_not_concern_it_changes_nothing() -> None:
    assert averaging().receive(PeerSeen(PeerId("d"))) == []


def test_parameters_are_let_go_once_averaged_and_who_spoke_is_still_known() -> None:
    r = averaging([])
    r.receive(came("me"))
    r.let_go()
    assert (sorted(r.updates), r.updates[ME].params.nbytes) == (["me"], 0)


EVENTS = st.sampled_from(
    [came(n) for n in ("me", "b", "c")]
    + [declines(n) for n in ("me", "b", "c")]
    + [PeerLost(PeerId(n), "") for n in ("b", "c")]
    + [TimerFired(TIMER)]
)


@given(st.lists(EVENTS, max_size=12))
def test_it_closes_once_and_never_waits_in_doubt(events: list[UpdateReceived]) -> None:
    r = averaging()
    averages = timers = 0
    for event in events:
        effects = r.receive(event)
        averages += averaged(effects) is not None
        timers += any(isinstance(effect, SetTimer) for effect in effects)
        spoken = ME in r.updates or ME in r.declined
        assert averages <= 1
        assert r.closed is not None or not spoken or timers  # after its own word it is closed, or a timer runs
        assert r.closed is None or averages == bool(r.updates)
