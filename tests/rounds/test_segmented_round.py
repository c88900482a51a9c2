"""Rounds in segments among members that lie: who counts in one, and which messages lead nowhere."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from pydantic import ValidationError

from flnet.algorithms.topology import Topology
from flnet.errors import ParamsRefused
from flnet.params.params import PeerId
from flnet.protocol.effects import Fetch, Send
from flnet.protocol.events import PartReceived, PeerLost, PeerSeen, RoundTriggered
from flnet.protocol.messages import ChoiceMessage, StartTraining
from flnet.protocol.secure_sum import AcceptPart, PreparePart, PromisePart
from flnet.protocol.segments import SegmentResult, SegmentsMessage, SumPart
from flnet.rounds.contributor_vote import Contributors
from flnet.rounds.participation import Participation
from flnet.rounds.peers import Peers
from flnet.rounds.segmented_round import SegmentedRound
from flnet.rounds.settings import Rules
from flnet.rounds.settlement import digest_of
from flnet.rounds.steps import Phase
from tests.helpers import key, params

from .helpers import Bench, asked, came, declined, refuses

RULES = Rules(Participation(names_all=True), topology=Topology.read("segments:3"))


def choice(*names: str) -> ChoiceMessage:
    return ChoiceMessage(members=names, take=len(names))


def bench(*unproven: str) -> Bench:
    """Node b, which knows a, c and d, and further names that never answered at their address."""
    made = Bench("b", ["a", "c", "d"], rules=RULES)
    for name in unproven:
        made.hear(PeerSeen(PeerId(name), is_proven=False))
    return made


def opened(topology: str) -> Bench:
    """Node b in round 0 with a, c and d, which train."""
    made = Bench("b", ["a", "c", "d"], rules=replace(RULES, topology=Topology.read(topology)))
    made.hear(RoundTriggered())
    return made


def settled(bench: Bench) -> Contributors | None:
    round = bench.round
    assert isinstance(round, SegmentedRound) and round.sum is not None
    return round.sum.settled


def members(bench: Bench) -> list[PeerId]:
    round = bench.round
    assert isinstance(round, SegmentedRound) and round.sum is not None
    return sorted(round.sum.ring.order)


def test_a_name_that_never_answered_owns_nothing_and_has_no_vote_but_hears_of_the_round() -> None:
    node = bench("x", "y")
    node.hear(RoundTriggered())
    assert members(node) == ["a", "b", "c", "d"]
    assert set(node.one(Send).to) == {"a", "c", "d", "x", "y"}  # it may only not have been asked yet


def test_who_has_answered_counts_in_the_next_round_and_who_comes_back_has_answered_before() -> None:
    node = bench("x", "y")
    node.hear(PeerSeen(PeerId("x"), is_proven=True))
    node.hear(PeerLost(PeerId("y"), "gone"))
    node.hear(PeerSeen(PeerId("y"), is_proven=True))
    node.hear(RoundTriggered())
    assert members(node) == ["a", "b", "c", "d", "x", "y"]


def test_invented_names_do_not_make_a_start_look_as_if_it_left_out_most() -> None:
    node = bench(*(f"x{i}" for i in range(9)))
    node.hear(asked("a", 0, choice=choice("a", "b", "c")))
    assert (members(node), node.phase) == (["a", "b", "c"], Phase.TRAINING)


def test_a_start_without_members_or_with_few_is_refused_and_ends_no_round() -> None:
    node = bench()
    node.hear(RoundTriggered())
    for few in (None, choice("a"), ChoiceMessage(members=("a", "b", "c", "d"), take=1)):
        assert "which says who takes part" in str(refuses(node, asked("a", 1, choice=few), ParamsRefused))
    assert (node.phase, node.round.key.initiator) == (Phase.TRAINING, "b")


def test_a_whole_update_is_refused_also_of_a_round_that_is_not_open_yet() -> None:
    node = bench()
    node.hear(RoundTriggered())
    for number, initiator in ((0, "b"), (0, "a"), (1, "c")):
        assert "averaged in segments here" in str(refuses(node, came("c", number, initiator), ParamsRefused))
    assert node.round.key.initiator == "b"


def with_thesis_node(me: str = "b") -> Bench:
    """A node that knows b, c and d or a, and the node "old", which knows whole updates only."""
    made = Bench(me, [name for name in ("a", "b", "c", "d") if name != me], rules=RULES)
    made.hear(PeerSeen(PeerId("old"), is_whole=True))
    return made


def test_who_knows_whole_updates_only_is_named_so_owns_nothing_and_hears_of_no_vote() -> None:
    node = with_thesis_node()
    node.hear(RoundTriggered())
    start = node.one(Send)
    assert isinstance(start.message, StartTraining) and start.message.choice is not None
    assert start.message.choice.whole == ("old",) and "old" in start.message.choice.members
    assert members(node) == ["a", "b", "c", "d"]
    node.hear(came("old", 0, "b"))
    with pytest.raises(ParamsRefused, match="averaged in segments here"):
        node.hear(came("c", 0, "b"))
    node.hear(PeerSeen(PeerId("old")))  # it was updated
    assert not node.job.peers.whole


@pytest.mark.parametrize(
    ("whole", "is_believed"),
    [(("old",), True), (("new", "old"), True), (("c",), False), (("b",), False), (("old", "c"), False)],
)
def test_a_start_may_not_say_that_a_node_knows_no_segments_which_does(
    whole: tuple[str, ...], *, is_believed: bool
) -> None:
    node = with_thesis_node()
    named = tuple(sorted({"a", "b", "c", "d", "old", *whole}))
    start = asked("a", 0, choice=ChoiceMessage(members=named, take=len(named), whole=whole))
    if is_believed:
        node.hear(start)
        assert members(node) == ["a", "b", "c", "d"]
    else:
        assert "which says who takes part" in str(refuses(node, start, ParamsRefused))


@pytest.mark.parametrize(
    ("owned", "is_believed"), [({"a": 4}, True), ({"x": 2}, False), ({"a": 2, "b": 3}, True), ({"old": 2}, False)]
)
def test_only_members_that_know_segments_own_more_of_them(owned: dict[str, int], *, is_believed: bool) -> None:
    node = with_thesis_node()
    named = ("a", "b", "c", "d", "old")
    start = asked("a", 0, choice=ChoiceMessage(members=named, take=5, whole=("old",), owned=owned))
    if is_believed:
        node.hear(start)
        assert node.phase is Phase.TRAINING
    else:
        assert "which says who takes part" in str(refuses(node, start, ParamsRefused))


@pytest.mark.parametrize(("me", "starts"), [("a", True), ("b", False)])
def test_a_start_of_a_node_that_cannot_say_who_takes_part_is_made_by_the_first_of_the_others(
    me: str, *, starts: bool
) -> None:
    node = with_thesis_node(me)
    node.hear(asked("old", 0))
    assert (node.phase is not Phase.IDLE) == starts
    if starts:
        assert node.round.key.initiator == "a"
    assert "which says who takes part" in str(refuses(node, asked("c", 1), ParamsRefused))


@pytest.mark.parametrize(
    ("spoken", "number", "saw"),
    [
        ({"a": 0, "c": 0, "d": 0}, 1, True),
        ({"a": 0, "c": 0, "d": 1}, 1, True),
        ({"a": 0, "c": 1, "d": 1}, 1, False),  # most are in the round that it may have been in itself
        ({"a": 1, "c": 0, "d": 0}, 1, False),  # its initiator may have begun it before
        ({"c": 0, "d": 0}, 1, False),
        ({"a": 0, "x": 0, "y": 0}, 1, False),  # of nodes that are no members
        ({"a": 0, "c": 0, "d": 0}, 0, False),
        ({}, 1, False),
    ],
)
def test_a_node_saw_a_round_begin_if_its_initiator_and_most_members_spoke_in_earlier_ones(
    spoken: dict[str, int], number: int, saw: bool
) -> None:
    peers = Peers()
    for name, earliest in spoken.items():
        for each in (earliest + 1, earliest, earliest + 2):
            peers.spoke(PeerId(name), each)
    assert peers.saw_begin(key(number, "a"), ("a", "b", "c", "d")) is saw


@pytest.mark.parametrize("earlier", [(), ("a", "c", "d")])
def test_a_node_that_hears_of_a_round_from_others_votes_if_it_saw_it_begin(earlier: tuple[str, ...]) -> None:
    node, members = bench(), choice("a", "b", "c", "d")
    for name in earlier:
        node.hear(declined(name, 0))
    for place, name in ((3, "c"), (4, "d")):  # whose turn it is to lead under these ballots
        vote = PreparePart(group="0" * 64, ballot=place)
        node.hear(PartReceived(PeerId(name), key(1, "a"), 0, vote, choice=members))
    said = [effect.message for effect in node.all(Send) if isinstance(effect.message, SegmentsMessage)]
    assert (node.round.key, [type(message.part) for message in said]) == (
        key(1, "a"),
        [PromisePart] * 2 * bool(earlier),
    )


def test_the_start_that_a_node_sends_names_its_members() -> None:
    node = bench("x")
    node.hear(RoundTriggered())
    message = node.one(Send).message
    assert isinstance(message, StartTraining) and message.choice == choice("a", "b", "c", "d")


CONTRIBUTORS = ((PeerId("a"), "1" * 64), (PeerId("c"), "2" * 64))


@pytest.mark.parametrize("first", ["acceptance", "results"])
@pytest.mark.parametrize(("topology", "tellers"), [("segments", "cd"), ("segments:3", "cd")])
def test_who_states_results_knows_what_was_settled_also_where_members_forgot_that_they_accepted_it(
    topology: str, tellers: str, first: str
) -> None:
    """Of four members one accepts: no quorum. One member may lie, so that two have to state results."""
    node, round = opened(topology), key(0, "b")
    accepts = [("a", AcceptPart(group="0" * 64, ballot=3, contributors=dict(CONTRIBUTORS)))]
    result = SegmentResult(segment=0, digest="3" * 64)
    states = [(name, SumPart(contributors=digest_of(CONTRIBUTORS), results=(result,))) for name in tellers]
    parts = [*accepts, *states] if first == "acceptance" else [*states, *accepts]
    for name, part in parts:
        assert settled(node) is None
        node.hear(PartReceived(PeerId(name), round, 0, part))
    assert settled(node) == CONTRIBUTORS


def brought(value: float, size: int = 1, segment: int = 0, digest: str = "") -> PartReceived:
    """Of the two numbers of the model in four segments, which are two, one that node c has averaged."""
    segment_of = params(w=[value] * size)
    result = SegmentResult(segment=segment, digest=digest or segment_of.digest)
    part = SumPart(contributors=digest_of(CONTRIBUTORS), results=(result,))
    return PartReceived(PeerId("c"), key(0, "b"), 0, part, params=segment_of)


def test_a_segment_that_comes_with_its_result_need_not_be_downloaded() -> None:
    node = opened("segments")
    node.hear(
        PartReceived(
            PeerId("a"), key(0, "b"), 0, AcceptPart(group="0" * 64, ballot=3, contributors=dict(CONTRIBUTORS))
        )
    )
    node.hear(brought(0.5))
    node.hear(replace(brought(0.5), peer=PeerId("d"), params=None))
    assert settled(node) == CONTRIBUTORS and not node.all(Fetch)
    assert node.job.find(params(w=[0.5]).digest) == params(w=[0.5])


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (brought(0.5, digest="3" * 64), "other parameters came than those that are stated"),
        (brought(0.5, size=2), "shape"),
        (brought(0.5, segment=7), "expected parameters beside the result of one segment only"),
    ],
)
def test_another_segment_than_the_one_that_is_stated_is_refused(event: PartReceived, words: str) -> None:
    node = opened("segments")
    node.hear(brought(0.25))
    assert words in str(refuses(node, event, ParamsRefused))


def test_a_member_that_brings_more_segments_than_it_can_make_is_believed_in_none_of_them() -> None:
    node = opened("segments")
    for value in range(5):
        node.hear(brought(float(value)))
    kept = [value for value in range(5) if node.job.find(params(w=[float(value)]).digest) is not None]
    assert kept == [0, 1]


def test_results_of_other_contributors_settle_nothing() -> None:
    node, round = opened("segments"), key(0, "b")
    node.hear(
        PartReceived(PeerId("a"), round, 0, AcceptPart(group="0" * 64, ballot=3, contributors=dict(CONTRIBUTORS)))
    )
    for name in ("a", "c", "d"):
        wrong = SumPart(
            contributors=digest_of(CONTRIBUTORS[:1]), results=(SegmentResult(segment=0, digest="3" * 64),)
        )
        node.hear(PartReceived(PeerId(name), round, 0, wrong))
    assert settled(node) is None


@pytest.mark.parametrize("contributors", [{}, {"x": "1" * 64}, {"a": "1" * 64, "x": "2" * 64}])
def test_results_of_nobody_or_of_who_is_no_member_settle_nothing(contributors: dict[str, str]) -> None:
    node, round = opened("segments"), key(0, "b")
    digest = digest_of(tuple((PeerId(name), contributors[name]) for name in sorted(contributors)))
    for name in ("a", "c", "d"):
        result = SumPart(contributors=digest, results=(SegmentResult(segment=0, digest="3" * 64),))
        node.hear(PartReceived(PeerId(name), round, 0, result))
    with suppress(ValidationError):
        node.hear(
            PartReceived(PeerId("a"), round, 0, AcceptPart(group="0" * 64, ballot=3, contributors=contributors))
        )
    assert settled(node) is None
