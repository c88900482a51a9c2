"""Updates that are offered and fetched, and large ones that are folded because there is no room to keep them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from flnet.effects import Average, Effect, Fetch, Fold, SetTimer
from flnet.events import Event, Fetched, FetchFailed, PeerLost, TimerFired, UpdateOffered, UpdateReceived
from flnet.params import Params, PeerId, Update
from flnet.rounds import Averaging, Closing
from tests.helpers import key, params, update
from tests.rounds.test_averaging import TIMER, came, declines

ME = PeerId("m")


def averaging(peers: Sequence[str], room: int | None = 1) -> Averaging:
    return Averaging(key(), ME, [PeerId(name) for name in peers], patience=30, room=room)


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


def test_an_offer_is_fetched_and_counts_when_it_has_come() -> None:
    r = averaging(["b"], room=None)
    r.receive(came("m"))
    assert summary(r.receive(offered("b"))) == ["fetch b"]
    assert r.missing == ["b"]
    assert summary(r.receive(fetched("b"))) == ["average b m +"]
    assert r.updates[PeerId("b")].params == model("b")


def test_an_offer_that_comes_twice_is_fetched_once() -> None:
    r = averaging(["b", "c"], room=None)
    r.receive(offered("b"))
    assert r.receive(offered("b")) == []


def test_a_peer_whose_update_does_not_come_is_not_waited_for() -> None:
    r = averaging(["b"], room=None)
    r.receive(came("m"))
    r.receive(offered("b"))
    assert summary(r.receive(failed("b"))) == ["average m +"]
    assert "could not be fetched: gone" in r.declined[PeerId("b")]


def test_parameters_that_nobody_offered_mean_nothing() -> None:
    r = averaging(["b"], room=None)
    assert r.receive(fetched("b")) == []
    r.receive(offered("b"))
    assert r.receive(Fetched(key(), PeerId("b"), model("c").digest, model("c"))) == []
    assert r.missing == ["b", "m"]


def test_who_offers_is_waited_for_even_if_not_expected() -> None:
    r = averaging([], room=None)
    r.receive(offered("z"))
    assert r.receive(came("m")) == [SetTimer(TIMER, 30, 0.0)]
    assert summary(r.receive(fetched("z"))) == ["average m z +"]


def test_no_more_is_fetched_than_there_is_room_for() -> None:
    r = averaging(["b", "c", "d"], room=1)
    assert summary(r.receive(offered("d"))) == ["fetch d"]
    assert summary(r.receive(offered("c"))) == []
    assert summary(r.receive(offered("b"))) == ["fetch b"]  # the next in the order always may
    assert summary(r.receive(fetched("b"))) == ["fold b", "fetch c"]
    assert summary(r.receive(fetched("d"))) == []
    assert summary(r.receive(fetched("c"))) == ["fold c d"]


def test_what_was_folded_is_named_in_the_average_and_holds_no_parameters() -> None:
    r = averaging(["a", "b"], room=1)
    assert summary(r.receive(came("a"))) == ["fold a"]
    assert r.updates[PeerId("a")].params == Params()
    assert summary(r.receive(came("m"))) == []  # b is missing: m waits for its turn
    assert summary(r.receive(came("b"))) == ["average b m + a"]


def test_the_own_update_takes_no_room_for_it_stays_here_anyway() -> None:
    r = averaging(["a", "b", "z"], room=2)
    assert summary([*r.receive(came("m")), *r.receive(came("a"))]) == []
    assert summary(r.receive(came("b"))) == ["fold a b m"]


def test_a_sum_takes_the_room_of_two_updates() -> None:
    r = averaging(["a", "b", "c", "d", "e", "f"], room=3)
    for name in ("d", "e", "f"):
        assert summary(r.receive(offered(name))) == [f"fetch {name}"]
    assert summary(r.receive(offered("b"))) == []  # three are on their way
    for name in ("d", "e", "f"):
        r.receive(fetched(name))
    assert summary(r.receive(came("a"))) == ["fold a", "fetch b"]  # the next in the order always may
    assert summary(r.receive(offered("c"))) == []  # three are held, and there is a sum now


def test_nothing_is_folded_while_there_is_room_or_where_the_rule_needs_all() -> None:
    for room in (3, None):
        r = averaging(["a", "b"], room)
        assert summary([*r.receive(came("a")), *r.receive(came("m"))]) == []
        assert summary(r.receive(came("b"))) == ["average a b m +"]


def test_an_update_whose_turn_is_over_cannot_count_any_more() -> None:
    r = averaging(["a", "b", "c"], room=1)
    r.receive(PeerLost(PeerId("a"), "silent"))
    assert summary(r.receive(came("b"))) == ["fold b"]
    assert r.has_passed(PeerId("a"))
    assert r.receive(came("a")) == r.receive(offered("a")) == []
    assert not r.has_passed(PeerId("b"))
    assert not r.has_passed(PeerId("c"))


def test_a_peer_that_is_lost_while_its_update_is_fetched_keeps_its_turn() -> None:
    r = averaging(["a", "b", "c"], room=1)
    r.receive(offered("a"))
    r.receive(PeerLost(PeerId("a"), "silent"))
    assert summary(r.receive(came("b"))) == []
    assert summary(r.receive(fetched("a"))) == ["fold a b"]


def test_an_offer_that_is_taken_back_is_not_fetched_any_more() -> None:
    for taken_back in (PeerLost(PeerId("c"), "silent"), declines("c")):
        r = averaging(["a", "b", "c"], room=1)
        r.receive(came("b"))
        assert summary(r.receive(offered("c"))) == []  # no room yet
        r.receive(taken_back)
        assert summary(r.receive(came("a"))) == ["fold a b"]


def test_a_peer_that_leaves_makes_way_for_those_after_it() -> None:
    r = averaging(["a", "b", "c"], room=1)
    r.receive(came("b"))
    assert summary(r.receive(declines("a"))) == ["fold b"]


def test_the_timer_averages_what_is_here_and_what_was_folded() -> None:
    r = averaging(["a", "b", "c"], room=1)
    for event in (came("a"), came("m"), came("c"), TimerFired(TIMER)):
        effects = r.receive(event)
    assert summary(effects) == ["average c m + a"]
    assert r.closed is Closing.TIMER
    assert r.receive(fetched("b")) == []


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 9))
def test_whatever_the_order_all_are_averaged_once_in_the_order_of_peers(seed: int, room: int, size: int) -> None:
    rng = Random(seed)
    names = [f"p{i}" for i in range(size)]
    r = averaging(names, room)
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
    r = averaging(["a", "b"], room=1)
    r.receive(offered("a"))
    there = fetched("a")
    (fold,) = [one for one in r.receive(there) if isinstance(one, Fold)]
    assert fold.updates[0].params is there.params
    assert "digest" not in vars(there.params)
