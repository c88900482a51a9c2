"""News beside probes: the freshest first, each piece some times, never more than a message holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flnet.membership.gossip import PER_MESSAGE, Gossip
from flnet.messages import News
from flnet.params import PeerId
from tests.membership.meshes import at_news


def about(name: str) -> News:
    return at_news(name, "alive", 1)


def names(news: list[News]) -> list[str]:
    return [piece.id for piece in news]


def test_what_was_told_least_goes_first() -> None:
    gossip = Gossip()
    gossip.add(about("a"))
    assert names(gossip.take(9)) == ["a"]
    gossip.add(about("b"))
    assert names(gossip.take(9)) == ["b", "a"]
    gossip.add(about("c"))
    assert names(gossip.take(9)) == ["c", "b", "a"]


def test_news_of_the_addressee_goes_first_however_often_it_was_told() -> None:
    gossip = Gossip()
    gossip.add(about("a"))
    gossip.take(9)
    gossip.add(about("b"))
    assert names(gossip.take(9, first=PeerId("a"))) == ["a", "b"]


@given(st.integers(1, 12))
def test_what_was_told_often_enough_is_forgotten(limit: int) -> None:
    gossip = Gossip()
    gossip.add(about("a"))
    assert [names(gossip.take(limit)) for _ in range(limit + 1)] == [["a"]] * limit + [[]]
    assert len(gossip) == 0


def test_a_message_holds_only_so_many_and_the_next_one_has_the_others() -> None:
    gossip = Gossip()
    for i in range(PER_MESSAGE + 5):
        gossip.add(about(f"p{i:03}"))
    first, second = names(gossip.take(9)), names(gossip.take(9))
    assert (len(first), len(second)) == (PER_MESSAGE, PER_MESSAGE)
    assert second[:5] == [f"p{PER_MESSAGE + i:03}" for i in range(5)]


def test_a_newer_claim_takes_the_place_of_an_older_one() -> None:
    gossip = Gossip()
    gossip.add(at_news("a", "suspect", 0, "b"))
    gossip.add(at_news("a", "suspect", 0, "c"))
    assert {piece.by for piece in gossip.take(9)} == {"b", "c"}  # each accuser is told
    gossip.add(at_news("b", "alive", 0))
    gossip.add(at_news("a", "alive", 1))
    assert [(piece.id, piece.state) for piece in gossip.take(9)] == [("b", "alive"), ("a", "alive")]


def test_what_is_said_again_is_told_anew() -> None:
    gossip = Gossip()
    gossip.add(about("a"))
    gossip.take(2)
    gossip.add(about("a"))
    assert [names(gossip.take(2)) for _ in range(3)] == [["a"], ["a"], []]
