"""What nodes without common rounds tell each other, and what they refuse."""

from __future__ import annotations

import pytest

from flnet.effects import Answer, Publish, Send
from flnet.errors import NotComparable, NotReady, ParamsRefused, PeerError
from flnet.events import ClaimReceived, Event, PeerLost, PeerSeen, RoundTriggered, VersionReceived
from flnet.jobs import AsynchronousJob
from flnet.messages import AskVersion, VersionReply
from flnet.params import PeerId, TrainerId
from flnet.refusals import OtherRounds
from tests.helpers import params, peer
from tests.jobs.helpers import WAITS, Bench, asked, came, claim, declined, refuses
from tests.jobs.versions import ALONE, AloneBench, version

SAID = dict(ALONE.said())


def test_a_version_is_answered_with_the_own_one() -> None:
    bench = AloneBench(w=(3, 3))
    bench.hear(VersionReceived(version("a", 2), SAID))
    reply = bench.one(Answer).message
    assert isinstance(reply, VersionReply)
    assert (reply.round, reply.run, reply.digest, reply.examples) == (0, "run b", params(w=(3, 3)).digest, 0)
    assert [told.text for told in bench.all(Publish)] == ["a has version 2 of T now"]


def test_the_same_version_is_told_to_people_once_and_a_new_beginning_as_that() -> None:
    bench = AloneBench()
    bench.hear(VersionReceived(version("a", 2), SAID))
    bench.hear(VersionReceived(version("a", 2), SAID))
    assert not bench.all(Publish)
    bench.hear(VersionReceived(version("a", 1, (9, 9), run="run 2"), SAID))
    assert [told.text for told in bench.all(Publish)] == ["a began anew, and has version 1 of T now"]


def test_a_peer_that_comes_is_told_the_version() -> None:
    bench = AloneBench()
    bench.hear(PeerSeen(PeerId("d")))
    sent = bench.one(Send)
    assert sent.to == ("d",) and isinstance(sent.message, AskVersion) and sent.params is None
    assert sent.message.agreement == SAID


def test_while_it_is_loading_nothing_is_told_and_nothing_answered() -> None:
    job = AsynchronousJob(peer("b"), TrainerId("T"), WAITS, rules=ALONE)
    assert job.receive(PeerSeen(PeerId("a"))) == []
    with pytest.raises(NotReady):
        job.receive(VersionReceived(version("a", 2), SAID))


def test_people_see_which_versions_there_are() -> None:
    bench = AloneBench()
    bench.hear(VersionReceived(version("a", 2, (4, 0)), SAID))
    bench.hear(RoundTriggered())
    bench.answers(version("a", 2, (4, 0)), version("c", 0))
    bench.fetches(a=(4, 0))
    bench.merge()
    bench.train()
    bench.hear(PeerLost(PeerId("c"), "it is gone"))
    there = {"version": 2, "merged": 2, "into": 1, "at": None, "newer": False, "reachable": True}
    none = {"version": 0, "merged": None, "into": None, "at": None, "newer": False, "reachable": False}
    assert bench.job.view()["versions"] == {"own": 1, "peers": [{"peer": "a", **there}, {"peer": "c", **none}]}
    assert Bench().job.view()["versions"] is None


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (asked("a"), OtherRounds),  # these four state nothing, as a caller of the thesis' form
        (came("a"), OtherRounds),
        (declined("a"), OtherRounds),
        (ClaimReceived(claim("a")), NotComparable),
        (asked("a", agreement={}), ParamsRefused),  # a node of ours in common rounds
    ],
)
def test_messages_of_common_rounds_are_refused_and_change_nothing(event: Event, error: type[PeerError]) -> None:
    refusal = refuses(AloneBench(), event, error)
    assert "common" in str(refusal)


def test_a_node_in_common_rounds_refuses_versions_and_says_how_the_two_differ() -> None:
    words = "rounds: here common to all nodes; there of each node by itself (asynchronous)"
    assert words in str(refuses(Bench(), VersionReceived(version("a"), SAID), ParamsRefused))
    refuses(Bench(), VersionReceived(version("a"), {}), OtherRounds)


def test_both_say_of_a_start_how_they_differ() -> None:
    words = "rounds: here of each node by itself (asynchronous); there common to all nodes"
    assert words in str(refuses(AloneBench(), asked("a", agreement={}), ParamsRefused))
