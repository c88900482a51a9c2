"""One round of averaging: who is waited for, what closes it, and what is averaged then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import LocalError
from flnet.params.params import Params, PeerId
from flnet.protocol.effects import Average, CancelTimer, Effect, Fetch, Fold, SetTimer
from flnet.protocol.events import (
    DeclineReceived,
    Event,
    Fetched,
    FetchFailed,
    PeerLost,
    PeerSeen,
    TimerFired,
    UpdateOffered,
    UpdateReceived,
)
from flnet.protocol.updates import Update
from flnet.rounds.gathering import Closing, Gathering, Refolding
from tests.helpers import key, params, update

ME, B, C = PeerId("me"), PeerId("b"), PeerId("c")
TIMER = "forced-averaging:0:a"


def averaging(peers: Sequence[str] = ("b", "c")) -> Gathering:
    return Gathering(key(), ME, [PeerId(name) for name in peers], patience=30, margin=5)


def came(name: str, w: float = 1.0, examples: int = 1) -> UpdateReceived:
    return UpdateReceived(update(name, examples=examples, w=[w]))


def declines(name: str) -> DeclineReceived:
    return DeclineReceived(PeerId(name), key(), "no time")


def averaged(effects: Sequence[Effect]) -> list[str] | None:
    """The peers in the average that was asked for; None if none was."""
    asked = [effect for effect in effects if isinstance(effect, Average)]
    return [u.peer for u in asked[0].updates] if asked else None


@pytest.mark.parametrize(
    ("peers", "said", "average"),
    [
        ("bc", "c me b", "b c me"),  # in the order of ids, however they came
        ("bc", "me c b", "b c me"),
        ("bc", "me b timer", "b me"),
        ("bc", "me b !c", "b me"),
        ("bc", "b !b me c", "b c me"),
        ("bc", "!c c me b", "b c me"),  # it was held for lost
        ("bc", "!b !c !me me", "me"),  # not before the own word; and nobody is lost to itself
        ("bc", "-c me b", "b me"),
        ("bc", "c -me b", "b c"),
        ("bc", "-b b me c", "b c me"),
        ("bc", "b -b me c", "b c me"),  # a refusal after an update changes nothing
        ("b", "stranger me b", "b me stranger"),  # it counts, but nobody waits for it
        ("", "me", "me"),
        ("b", "-b -me", ""),
        ("b", "-b timer", ""),
    ],
)
def test_the_word_that_closes_a_round_and_what_is_averaged_then(peers: str, said: str, average: str) -> None:
    """Of "b", an update of b came, with "-" a refusal, with "!" b is lost."""
    r = averaging(peers)
    *earlier, last = said.split()
    for word in earlier:
        r.receive(heard(word))
        assert r.closed is None
    effects = r.receive(heard(last))
    assert effects[0] == CancelTimer(TIMER)
    assert (averaged(effects) or []) == average.split()
    assert r.closed is (Closing.TIMER if last == "timer" else Closing.COMPLETE)
    assert r.declined.keys() == {word[1:] for word in said.split() if word[0] == "-"} - r.updates.keys()


def heard(word: str) -> Event:
    if word == "timer":
        return TimerFired(TIMER)
    if word[0] == "!":
        return PeerLost(PeerId(word[1:]), "silent")
    return declines(word[1:]) if word[0] == "-" else came(word)


OTHER_TIMERS = [TimerFired(name) for name in ("forced-averaging:1:a", "forced-averaging:0:b", "exchange:0:a")]


@pytest.mark.parametrize("event", [*OTHER_TIMERS, PeerSeen(PeerId("d"))])
def test_what_does_not_concern_the_round_means_nothing(event: Event) -> None:
    r = averaging()
    r.receive(came("me"))
    assert r.receive(event) == []
    assert r.closed is None


@pytest.mark.parametrize("word", [came("me"), declines("me")])
def test_the_timer_starts_with_the_own_word_and_not_before(word: Event) -> None:
    r = averaging()
    assert r.receive(came("b")) == []
    assert r.receive(word) == [SetTimer(TIMER, 30, 5)]


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


def test_an_update_of_another_round_is_a_bug_of_the_caller() -> None:
    with pytest.raises(LocalError, match="reached the averaging of"):
        averaging().receive(UpdateReceived(update("b", round=1, w=[1.0])))


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


# --- Updates that are offered and fetched, and large ones that are folded because there is no room to keep them.


M = PeerId("m")


def averaging_with_room(peers: Sequence[str], room: int | None = 1) -> Gathering:
    return Gathering(key(), M, [PeerId(name) for name in peers], patience=30, room=room)


def model(name: str) -> Params:
    return params("float64", w=[float(ord(name))])


def offered(name: str) -> UpdateOffered:
    return UpdateOffered(Update(PeerId(name), key(), Params(), 1), model(name).digest)


def fetched(name: str) -> Fetched:
    return Fetched(key(), PeerId(name), model(name).digest, model(name))


def failed(name: str) -> FetchFailed:
    return FetchFailed(key(), PeerId(name), model(name).digest, "gone")


def summary(effects: Sequence[Effect]) -> list[str]:
    """Effects in short: "fetch b", "fold a b", "average c + a b"."""
    said = []
    for effect in effects:
        match effect:
            case Fetch(_, peer):
                said.append(f"fetch {peer}")
            case Fold(_, updates):
                said.append(" ".join(["fold", *(u.peer for u in updates)]))
            case Average(_, updates, folded):
                said.append(" ".join(["average", *(u.peer for u in updates), "+", *folded]))
    return said


def test_an_offer_is_fetched_once_and_counts_when_it_has_come() -> None:
    r = averaging_with_room(["b"], room=None)
    r.receive(came("m"))
    assert r.receive(fetched("b")) == []  # nobody has offered it
    assert summary(r.receive(offered("b"))) == ["fetch b"]
    assert r.receive(offered("b")) == []
    assert r.receive(Fetched(key(), PeerId("b"), model("c").digest, model("c"))) == []
    assert r.missing == ["b"]
    assert summary(r.receive(fetched("b"))) == ["average b m +"]
    assert r.updates[PeerId("b")].params == model("b")


def test_a_peer_whose_update_does_not_come_is_not_waited_for() -> None:
    r = averaging_with_room(["b"], room=None)
    r.receive(came("m"))
    r.receive(offered("b"))
    assert summary(r.receive(failed("b"))) == ["average m +"]
    assert "could not be fetched: gone" in r.declined[PeerId("b")]


def test_who_offers_is_waited_for_even_if_not_expected() -> None:
    r = averaging_with_room([], room=None)
    r.receive(offered("z"))
    assert r.receive(came("m")) == [SetTimer(TIMER, 30, 0.0)]
    assert summary(r.receive(fetched("z"))) == ["average m z +"]


def test_no_more_is_fetched_than_there_is_room_for() -> None:
    r = averaging_with_room(["b", "c", "d"], room=1)
    assert summary(r.receive(offered("d"))) == ["fetch d"]
    assert summary(r.receive(offered("c"))) == []
    assert summary(r.receive(offered("b"))) == ["fetch b"]  # the next in the order always may
    assert summary(r.receive(fetched("b"))) == ["fold b", "fetch c"]
    assert summary(r.receive(fetched("d"))) == []
    assert summary(r.receive(fetched("c"))) == ["fold c d"]


def test_what_was_folded_is_named_in_the_average_and_holds_no_parameters() -> None:
    r = averaging_with_room(["a", "b"], room=1)
    assert summary(r.receive(came("a"))) == ["fold a"]
    assert r.updates[PeerId("a")].params == Params()
    assert summary(r.receive(came("m"))) == []  # b is missing: m waits for its turn
    assert summary(r.receive(came("b"))) == ["average b m + a"]


def test_the_own_update_takes_no_room_for_it_stays_here_anyway() -> None:
    r = averaging_with_room(["a", "b", "z"], room=2)
    assert summary([*r.receive(came("m")), *r.receive(came("a"))]) == []
    assert summary(r.receive(came("b"))) == ["fold a b m"]


def test_a_sum_takes_the_room_of_two_updates() -> None:
    r = averaging_with_room(["a", "b", "c", "d", "e", "f"], room=3)
    for name in ("d", "e", "f"):
        assert summary(r.receive(offered(name))) == [f"fetch {name}"]
    assert summary(r.receive(offered("b"))) == []  # three are on their way
    for name in ("d", "e", "f"):
        r.receive(fetched(name))
    assert summary(r.receive(came("a"))) == ["fold a", "fetch b"]  # the next in the order always may
    assert summary(r.receive(offered("c"))) == []  # three are held, and there is a sum now


def test_nothing_is_folded_while_there_is_room_or_where_the_rule_needs_all() -> None:
    for room in (3, None):
        r = averaging_with_room(["a", "b"], room)
        assert summary([*r.receive(came("a")), *r.receive(came("m"))]) == []
        assert summary(r.receive(came("b"))) == ["average a b m +"]


def test_an_update_whose_turn_is_over_cannot_count_any_more() -> None:
    r = averaging_with_room(["a", "b", "c"], room=1)
    r.receive(PeerLost(PeerId("a"), "silent"))
    assert summary(r.receive(came("b"))) == ["fold b"]
    assert r.has_passed(PeerId("a"))
    assert r.receive(came("a")) == r.receive(offered("a")) == []
    assert not r.has_passed(PeerId("b"))
    assert not r.has_passed(PeerId("c"))


def test_a_peer_that_is_lost_while_its_update_is_fetched_keeps_its_turn() -> None:
    r = averaging_with_room(["a", "b", "c"], room=1)
    r.receive(offered("a"))
    r.receive(PeerLost(PeerId("a"), "silent"))
    assert summary(r.receive(came("b"))) == []
    assert summary(r.receive(fetched("a"))) == ["fold a b"]


def test_an_offer_that_is_taken_back_is_not_fetched_any_more() -> None:
    for taken_back in (PeerLost(PeerId("c"), "silent"), declines("c")):
        r = averaging_with_room(["a", "b", "c"], room=1)
        r.receive(came("b"))
        assert summary(r.receive(offered("c"))) == []  # no room yet
        r.receive(taken_back)
        assert summary(r.receive(came("a"))) == ["fold a b"]


def test_a_peer_that_leaves_makes_way_for_those_after_it() -> None:
    r = averaging_with_room(["a", "b", "c"], room=1)
    r.receive(came("b"))
    assert summary(r.receive(declines("a"))) == ["fold b"]


def test_the_timer_averages_what_is_here_and_what_was_folded() -> None:
    r = averaging_with_room(["a", "b", "c"], room=1)
    for event in (came("a"), came("m"), came("c"), TimerFired(TIMER)):
        effects = r.receive(event)
    assert summary(effects) == ["average c m + a"]
    assert r.closed is Closing.TIMER
    assert r.receive(fetched("b")) == []


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 9))
def test_whatever_the_order_all_are_averaged_once_in_the_order_of_peers(seed: int, room: int, size: int) -> None:
    rng = Random(seed)
    names = [f"p{i}" for i in range(size)]
    r = averaging_with_room(names, room)
    waiting: list[Event] = [_first_word(name, rng) for name in names] + [UpdateReceived(update("m", w=[0.0]))]
    folded: list[str] = []
    asked: list[Average] = []
    while waiting:
        effects = r.receive(waiting.pop(rng.randrange(len(waiting))))
        for effect in effects:
            match effect:
                case Fetch(_, peer, digest):
                    waiting.append(Fetched(key(), peer, digest, _params_of(peer)))
                case Fold(_, updates):
                    folded += [u.peer for u in updates]
                case Average():
                    asked.append(effect)
    (average,) = asked
    assert list(average.folded) == folded
    assert folded + [u.peer for u in average.updates] == sorted([*names, "m"])


def _params_of(name: str) -> Params:
    return params("float64", w=[float(name[1:])])


def _first_word(name: str, rng: Random) -> Event:
    if rng.random() < 0.3:
        return UpdateReceived(update(name, w=[1.0]))
    return UpdateOffered(Update(PeerId(name), key(), Params(), 1), _params_of(name).digest)


def test_what_was_fetched_by_its_digest_is_not_hashed_again_when_it_is_folded() -> None:
    r = averaging_with_room(["a", "b"], room=1)
    r.receive(offered("a"))
    arrived = fetched("a")
    (fold,) = [effect for effect in r.receive(arrived) if isinstance(effect, Fold)]
    assert fold.updates[0].params is arrived.params
    assert "digest" not in vars(arrived.params)


# --- Sums that are made again because they held updates that do not count.


SUM_TIMER = "sum-again:0:a"
A = PeerId("a")


def hear(r: Gathering, *events: Event) -> list[Effect]:
    return [effect for event in events for effect in r.receive(event)]


def closed(names: str) -> Gathering:
    """A round of m with these peers and z, whose sum holds all updates but that of z."""
    r = averaging_with_room([*names, "z"])
    effects = hear(r, came("m"))
    for name in (*names, "z"):
        effects = hear(r, offered(name), fetched(name))
    assert summary(effects) == ["fetch z", " ".join(["average z +", *sorted([*names, "m"])])]
    return r


def again(r: Gathering, *refused: str) -> list[Effect]:
    return r.fold_again([PeerId(name) for name in refused], model("m"))


def test_all_but_the_refused_are_fetched_one_by_one_in_their_order() -> None:
    r = closed("abcd")
    first = again(r, "b")
    assert [type(effect) for effect in first] == [SetTimer, Fetch]
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
    effects = again(closed("a"), "a")
    assert summary(effects) == ["fold m", "average z + m"]
    (fold,) = [effect for effect in effects if isinstance(effect, Fold)]
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
    assert timer == SetTimer(SUM_TIMER, 30)
    effects = hear(r, fetched("a"), TimerFired(SUM_TIMER))
    assert summary(effects) == ["fold a", "fetch c", "fold m", "average z + a m"]
    assert effects[-2] == CancelTimer(SUM_TIMER)
    assert hear(r, fetched("c"), TimerFired(SUM_TIMER)) == []  # too late


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
