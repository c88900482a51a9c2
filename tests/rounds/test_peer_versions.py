"""A job without common rounds on the bench."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.aggregation.base import RoundStart
from flnet.aggregation.fed_avg import fed_avg
from flnet.aggregation.screening import USUAL, Screening
from flnet.errors import NotComparable, NotReady, OtherRounds, ParamsRefused, PeerError
from flnet.params.params import Digest, Params, PeerId
from flnet.protocol.effects import Answer, Average, Fetch, Publish, Send
from flnet.protocol.events import (
    Averaged,
    ClaimReceived,
    Event,
    Fetched,
    Mark,
    PeerLost,
    PeerSeen,
    Prepared,
    RoundTriggered,
    Version,
    VersionAnswered,
    VersionReceived,
)
from flnet.protocol.messages import MAX_PEERS, AskVersion, VersionReply
from flnet.protocol.updates import RoundKey, Update
from flnet.rounds.asynchronous_job import AsynchronousJob, NewVersion, Versions, common_start, read_known
from flnet.rounds.model import HeldModel
from flnet.rounds.peers import Peers
from flnet.rounds.settings import Rules, publish
from tests.helpers import params
from tests.rounds.helpers import AnyBench, Bench, asked, came, claim, declaration, declined, refuses, settings

ALONE = Rules(asynchronous=True)


def version(
    by: str, number: int = 1, w: Sequence[float] = (4, 0), examples: int = 30, run: str = "run 1"
) -> Version:
    """A version of a peer, whose parameters are `w`."""
    update = Update(PeerId(by), RoundKey(number, PeerId(by)), Params(), examples if number else 0)
    return Version(Mark(run, number, params(w=w).digest), update)


class AloneBench(AnyBench[AsynchronousJob]):
    """A job, by default "b" with the peers "a" and "c", that knows no common rounds."""

    def __init__(
        self,
        me: str = "b",
        peers: Sequence[str] = ("a", "c"),
        first: Sequence[Event] = (),
        w: Sequence[float] = (0, 0),
        run: str = "run b",
        **declared: Any,
    ) -> None:
        """Args:
        first: what it hears before the trainer is loaded.
        """
        super().__init__(AsynchronousJob(settings(me, ALONE, run=run)))
        for event in (*first, *(PeerSeen(PeerId(name)) for name in peers)):
            self.hear(event)
        self.hear(Prepared(declaration(**declared), params(w=w)))
        self.job.versions.under_way.clear()  # the first news has come through

    @property
    def round(self) -> NewVersion:
        """The version that is being made, or the last one."""
        assert self.job.round is not None
        return self.job.round

    def answers(self, *versions: Version) -> None:
        """Peers answer the question with their versions; all earlier news has come through."""
        for version in versions:
            self.job.versions.under_way.pop(version.update.peer, None)
            self.hear(VersionAnswered(version))

    def fetches(self, **models: Sequence[float]) -> None:
        """All models that the last event asked for come; `models` by peer."""
        key = self.job.key
        assert key is not None
        for fetch in self.all(Fetch):
            self.hear(Fetched(key, fetch.peer, fetch.digest, params(w=models[fetch.peer])))

    def merge(self) -> Params:
        """Carry out the merge that the last event asked for, screened as by a node; what came of it."""
        effect, model = self.one(Average), self.job.held.current
        screening = Screening(USUAL, self.job.screened_from, model.schema)
        taken, refused = screening.take(effect.updates), screening.refused()
        counting = [update for update in taken if update.peer not in refused]
        merged = fed_avg().merge(None, RoundStart(model.schema, Params()), counting).params
        self.hear(Averaged(effect.key, merged, refused=refused))
        return merged


# --- What a node knows of the others' versions.


A, B = PeerId("a"), PeerId("b")


def unknown(*peers: PeerId) -> Versions:
    """A node that has heard of no version; these peers are reachable."""
    here = Peers()
    for peer in peers:
        here.met(peer)
    return Versions(settings(), HeldModel(), here, publish)


def test_what_was_merged_is_not_merged_again() -> None:
    known = unknown()
    first = {A: version("a", 3), B: version("b", 1, (9, 9))}
    assert known.newer(first) == [first[A], first[B]]
    known.merge({A: first[A].mark}, into=5, at=12.5, base=Params())
    assert known.newer(first) == [first[B]]
    assert known.newer({A: version("a", 4, (5, 5))}) == [version("a", 4, (5, 5))]


def test_a_version_that_was_long_on_its_way_changes_nothing() -> None:
    known = unknown(A)
    assert known.hear(version("a", 3))
    assert not known.hear(version("a", 2, (7, 7)))
    assert known.heard[A].number == 3
    assert known.hear(version("a", 1, (7, 7), run="run 2"))
    assert known.heard[A].number == 1


def test_peers_that_are_gone_make_room_and_those_that_are_there_do_not() -> None:
    there = [PeerId(f"p{i:04}") for i in range(MAX_PEERS)]
    known = unknown(*there)
    for peer in there:
        known.hear(version(peer))
    assert not known.hear(version("new"))
    assert len(known.heard) == MAX_PEERS
    gone = unknown(*set(there) - {PeerId("p0003")})
    for peer in there:
        gone.hear(version(peer))
    known = gone
    assert known.hear(version("new"))
    assert PeerId("p0003") not in known.heard and len(known.heard) == MAX_PEERS


def test_what_people_see_of_them() -> None:
    known = unknown(B)
    known.hear(version("a", 3))
    known.merge({A: version("a", 3).mark}, into=5, at=12.5, base=Params())
    known.hear(version("b", 1, (9, 9)))
    assert known.view()["peers"] == [
        {"peer": "a", "version": 3, "merged": 3, "into": 5, "at": 12.5, "newer": False, "reachable": False},
        {"peer": "b", "version": 1, "merged": None, "into": None, "at": None, "newer": True, "reachable": True},
    ]


marks = st.builds(Mark, st.text(min_size=1), st.integers(0, 2**53), st.text("0123456789abcdef", min_size=64))
seconds = st.none() | st.floats(0, 1e12)


@given(st.dictionaries(st.text(min_size=1), st.tuples(marks, st.integers(1, 2**53), seconds), max_size=5))
def test_a_restart_keeps_all_of_it(merged: dict[str, tuple[Mark, int, float | None]]) -> None:
    known, again = unknown(), unknown()
    for peer, (mark, into, at) in merged.items():
        known.heard[PeerId(peer)] = mark
        known.merge({PeerId(peer): mark}, into, at, Params())
    again.restore(read_known(known.kept()))
    assert (again.heard, again.merged) == (known.heard, known.merged)
    assert read_known(None) == ({}, {})


@pytest.mark.parametrize("damaged", [{}, {"heard": 1, "merged": {}}, {"heard": {"a": [1]}, "merged": {}}])
def test_what_is_damaged_is_named_as_that(damaged: dict[str, object]) -> None:
    with pytest.raises((AttributeError, KeyError, TypeError, ValueError)):
        read_known(damaged)


def test_all_begin_with_the_model_of_the_lowest_digest() -> None:
    low, high = sorted((version("a", 0, (1, 1)), version("b", 0, (2, 2))), key=lambda one: one.mark.digest)
    assert common_start(Digest("f" * 64), [high, low]) == low
    assert common_start(Digest("0" * 64), [high, low]) is None
    assert common_start(Digest("f" * 64), [high, version("c", 1)]) is None  # somebody has trained: that is merged
    assert common_start(Digest("f" * 64), []) is None


# --- What nodes without common rounds tell each other, and what they refuse.


SAID = dict(ALONE.stated())


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
    assert [told.text for told in bench.all(Publish)] == [
        "a started again from new parameters, and has version 1 of T now"
    ]


def test_a_peer_that_comes_is_told_the_version() -> None:
    bench = AloneBench()
    bench.hear(PeerSeen(PeerId("d")))
    sent = bench.one(Send)
    assert sent.to == ("d",) and isinstance(sent.message, AskVersion) and sent.params is None
    assert sent.message.agreement == SAID


def test_while_it_is_loading_nothing_is_told_and_nothing_answered() -> None:
    job = AsynchronousJob(settings(rules=ALONE))
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
    assert bench.job.view().as_json()["versions"] == {
        "own": 1,
        "peers": [{"peer": "a", **there}, {"peer": "c", **none}],
    }
    assert Bench().job.view().as_json()["versions"] is None


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
    words = "rounds: common to all nodes at b; of each node by itself (asynchronous) at a"
    assert words in str(refuses(Bench(), VersionReceived(version("a"), SAID), ParamsRefused))
    refuses(Bench(), VersionReceived(version("a"), {}), OtherRounds)


def test_both_say_of_a_start_how_they_differ() -> None:
    words = "rounds: of each node by itself (asynchronous) at b; common to all nodes at a"
    assert words in str(refuses(AloneBench(), asked("a", agreement={}), ParamsRefused))
