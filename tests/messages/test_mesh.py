"""The messages by which nodes find each other and stay in touch."""

from __future__ import annotations

from typing import Any

import pytest

from flnet.errors import InvalidMessage
from flnet.messages import MAX_PEERS, Announce, AnnounceReply, News, Probe, ProbeReply
from tests.helpers import peer

NODE = {"id": "a", "ip": None, "port": "4000"}
NEWS: dict[str, Any] = {
    "id": "b",
    "ip": "10.0.0.2",
    "port": "4001",
    "state": "suspect",
    "incarnation": 3,
    "by": "c",
}


def test_too_many_peers_are_refused() -> None:
    many = [{"id": f"p{i}", "port": 1} for i in range(MAX_PEERS + 1)]
    assert len(Announce.read({"iAm": NODE, "myKnownPeers": many[:-1]}).my_known_peers) == MAX_PEERS
    with pytest.raises(InvalidMessage, match="myKnownPeers"):
        Announce.read({"iAm": NODE, "myKnownPeers": many})


def test_an_announcement_of_the_thesis_says_nothing_of_incarnations() -> None:
    message = Announce.read({"iAm": {"id": "a", "ip": None, "port": 4000}})
    assert (message.incarnation, message.members, message.accepts) == (None, None, None)
    assert set(message.fields()) == {"iAm", "myKnownPeers"}
    assert "members" not in AnnounceReply(i_am=peer()).fields()


def test_news_are_read_and_written() -> None:
    news = News.read(NEWS)
    assert (news.state, news.incarnation, news.by) == ("suspect", 3, "c")
    assert Probe.read(Probe(i_am=peer(), news=[news]).fields()).news == [news]


@pytest.mark.parametrize(
    "change",
    [
        {"state": "asleep"},
        {"incarnation": -1},
        {"incarnation": 2**53 + 1},
        {"ip": "a b"},
        {"port": 0},
        {"by": "a\nb"},
        {"id": "x" * 200},
    ],
)
def test_news_that_break_a_rule_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidMessage, match=next(iter(change))):
        Probe.read({"iAm": {"id": "a", "ip": None, "port": 1}, "news": [{**NEWS, **change}]})


def test_no_more_news_than_peers_fit_into_one_message() -> None:
    with pytest.raises(InvalidMessage, match="news"):
        ProbeReply.read({"iAm": {"id": "a", "ip": None, "port": 1}, "news": [NEWS] * (MAX_PEERS + 1)})
