"""Large meshes: members introduce new ones, and what a node sends and receives in a second does not grow with the mesh."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from flnet.membership.members import Members
from flnet.membership.probing import MET_IN_PERSON, SUSPECTS_A_TICK, probe_seconds, suspicion_ticks
from flnet.membership.roster import State
from flnet.membership.state import MeshState
from flnet.params.params import PeerId
from flnet.protocol.effects import Answer, SendAnnounce, SendProbe
from flnet.protocol.events import (
    AnnounceAnswered,
    AnnounceFailed,
    AnnounceReceived,
    Event,
    MeshStarted,
    ProbeAnswered,
    ProbeFailed,
    ProbeReceived,
)
from flnet.protocol.messages import Announce, AnnounceReply, News, Packet, Peer, Probe, ProbeReply
from flnet.wire.json_codec import JsonCodec
from tests.helpers import peer
from tests.membership.meshes import announced, probes, tick
from tests.membership.test_convergence import HOST, Call, Mesh

FORMS = ("safetensors",)
LARGE = MET_IN_PERSON + 4


@dataclass
class Counted(Mesh):
    """A mesh whose messages and bytes are counted, requests and answers alike."""

    accepts: tuple[str, ...] = FORMS
    announcements: int = 0
    messages: int = 0
    nbytes: int = 0
    earlier: frozenset[PeerId] = frozenset()  # nodes that neither make nor understand introductions
    codec: JsonCodec = field(default_factory=JsonCodec)

    def arrive(self, sender: PeerId, call: Call) -> Event:
        if sender in self.earlier or self.at(call) in self.earlier:
            call = _without_introductions(call)
        ended = super().arrive(sender, call)
        me = self.nodes[sender].me
        self.messages += 2
        if isinstance(call, SendProbe):
            self.nbytes += self._size(call.message)
            if isinstance(ended, ProbeAnswered):
                self.nbytes += self._size(
                    ProbeReply(i_am=me, news=list(ended.news), members_digest=ended.members_digest)
                )
            return ended
        self.announcements += 1
        self.nbytes += self._size(Announce(i_am=me, my_known_peers=list(call.known), members=list(call.members)))
        if isinstance(ended, AnnounceAnswered):
            reply = AnnounceReply(
                announce_yourself_to_peers=list(ended.announce_to), i_am=me, members=list(ended.members)
            )
            self.nbytes += self._size(reply)
        return ended

    def _size(self, message: Any) -> int:
        return len(self.codec.encode(Packet(message)))

    def seconds(self, count: int) -> None:
        for _ in range(count):
            self.second()
            self.settle()

    def forget_counts(self) -> None:
        self.announcements = self.messages = self.nbytes = 0


def _without_introductions(call: Call) -> Call:
    def plain(news: tuple[News, ...] | list[News]) -> list[News]:
        return [item.model_copy(update={"accepts": None, "key": None}) for item in news]

    if isinstance(call, SendAnnounce):
        return SendAnnounce(call.address, call.known, call.incarnation, tuple(plain(call.members)))
    message = call.message.model_copy(update={"news": plain(call.message.news), "members_digest": None})
    return SendProbe(call.to, message, call.seconds)


SIZES = [30, pytest.param(60, marks=pytest.mark.slow), pytest.param(100, marks=pytest.mark.long)]


@pytest.mark.parametrize("size", SIZES)
def test_all_know_all_though_few_announce_themselves(size: int) -> None:
    mesh = Counted(size)
    mesh.seconds(20)
    assert mesh.held() == mesh.agreed()
    small = MET_IN_PERSON * MET_IN_PERSON  # of which each meets each other one
    assert mesh.announcements < small + 10 * size
    before = mesh.announcements
    mesh.seconds(60)
    assert mesh.held() == mesh.agreed()
    assert mesh.announcements - before <= size  # of who still differed from another one


@pytest.mark.parametrize("size", SIZES)
def test_what_a_node_sends_in_a_second_does_not_grow_with_the_mesh(size: int) -> None:
    small = Counted(10)
    small.seconds(40)
    small.forget_counts()
    small.seconds(60)
    mesh = Counted(size)
    mesh.seconds(40)
    mesh.forget_counts()
    mesh.seconds(60)
    assert mesh.messages / size <= 1.1 * small.messages / 10
    assert mesh.nbytes / size <= 1.6 * small.nbytes / 10  # each probe names a digest, and introduces who sends it


def test_a_death_costs_a_node_of_a_large_mesh_little() -> None:
    mesh = Counted(30)
    mesh.seconds(20)
    mesh.silent.add(PeerId("n7"))
    ticks = suspicion_ticks(mesh.nodes[PeerId("n1")].state.pauses, 30, 1) + 20
    mesh.forget_counts()
    mesh.seconds(ticks)
    assert mesh.held() == mesh.agreed()
    assert mesh.messages / 30 / ticks < 2 * 4  # the usual probe, one with news, and what few checks cost


def test_a_restarted_node_is_back_for_all() -> None:
    mesh = Counted(LARGE + 6)
    mesh.seconds(30)
    mesh.start(PeerId("n9"))
    mesh.seconds(30)
    assert mesh.held() == mesh.agreed()


@pytest.mark.parametrize("earlier", [{0}, {5, 25}, set(range(0, 28, 2))])
def test_nodes_of_an_earlier_version_know_all_too(earlier: set[int]) -> None:
    mesh = Counted(28, earlier=frozenset(PeerId(f"n{i}") for i in earlier))
    mesh.seconds(60)
    assert mesh.held() == mesh.agreed()


# a node that speaks the thesis' JSON only: it probes nobody and hears no news


@dataclass
class WithThesis(Counted):
    """A mesh with one more node, at port 5000, which announces itself to all that it is told of, as in the thesis."""

    told: set[str] = field(default_factory=set)
    queue: list[str] = field(default_factory=list)

    def join(self) -> None:
        self.queue = [f"{HOST}:4000"]
        while self.queue:
            address = self.queue.pop()
            name = next(name for name, node in self.nodes.items() if node.me.address == address)
            known = [node.me for node in self.nodes.values() if node.me.address in self.told]
            self.told.add(address)
            effects = self.nodes[name].receive(AnnounceReceived(peer("t", 5000, HOST), tuple(known)))
            (reply,) = (effect.message for effect in effects if isinstance(effect, Answer))
            assert isinstance(reply, AnnounceReply)
            assert reply.members is None
            self._hear(reply.announce_yourself_to_peers)
            self._perform(name, effects)

    def _hear(self, peers: list[Peer]) -> None:
        found = {p.address for p in peers} - self.told - set(self.queue) - {f"{HOST}:5000"}
        self.queue += sorted(found)

    def arrive(self, sender: PeerId, call: Call) -> Event:
        at_thesis = call.address.endswith(":5000") if isinstance(call, SendAnnounce) else call.to == "t"
        if not at_thesis:
            return super().arrive(sender, call)
        if isinstance(call, SendProbe):
            about = PeerId(call.message.target.id) if call.message.target else None
            return ProbeAnswered(call.to, about)  # it does not know probes: a refusal is an answer
        self.told.add(self.nodes[sender].me.address)
        known = {p.address for p in call.known}
        self._hear(list(call.known))
        lacks = tuple(n.me for n in self.nodes.values() if n.me.address in self.told - known)
        return AnnounceAnswered(call.address, peer("t", 5000, HOST), lacks)


@pytest.mark.parametrize("after", [0, 30])
def test_a_node_of_the_thesis_is_told_of_all_and_all_know_it(after: int) -> None:
    mesh = WithThesis(30)
    mesh.seconds(after)
    mesh.join()
    mesh.seconds(40)
    assert mesh.told == {node.me.address for node in mesh.nodes.values()}
    assert all(PeerId("t") in node.alive for node in mesh.nodes.values())
    mesh.start(PeerId("n40"))  # one that comes later is told of it, and calls it
    mesh.seconds(40)
    assert mesh.nodes[PeerId("n40")].me.address in mesh.told


# whom a member may introduce


def large(size: int = LARGE, *, signs: bool = False) -> Members:
    m = Members(MeshState(peer("m", 3999, HOST), Random(1), accepts=FORMS, key=None, proves_keys=signs))
    for i in range(size):
        m.receive(AnnounceReceived(peer(f"p{i}", 4000 + i, HOST), accepts=frozenset(FORMS), incarnation=0))
        m.receive(ProbeAnswered(PeerId(f"p{i}")))
    return m


def introduction(name: str, port: int, ip: str = HOST, key: str | None = None) -> News:
    return News(id=name, ip=ip, port=port, state="alive", incarnation=0, accepts=FORMS, key=key)


def told(m: Members, *news: News) -> list[Any]:
    return m.receive(ProbeReceived(peer("p0", 4000, HOST), news=news))


def test_who_is_introduced_is_a_member_and_passed_on_unasked() -> None:
    m = large()
    effects = told(m, introduction("new", 5000))
    assert m.accepts_of(PeerId("new")) == frozenset(FORMS)
    assert (announced(effects), probes(effects)) == ([], [])
    news = [item for effect in probes(tick(m)) for item in effect.message.news if item.id == "new"]
    assert news == [introduction("new", 5000)] * len(news) != []


def test_in_a_small_mesh_and_in_one_with_keys_it_is_called() -> None:
    for m in (large(3), large(signs=True)):
        assert announced(told(m, introduction("new", 5000))) == [f"{HOST}:5000"]
        assert PeerId("new") not in m.known


@pytest.mark.parametrize(
    "news",
    [
        introduction("new", 4003),  # where another member is
        introduction("new", 5000, "10.0.0.9"),  # it may know this node under another address
        introduction("new", 5000).model_copy(
            update={"accepts": None}
        ),  # from an earlier version, or of the thesis
    ],
)
def test_whom_it_may_be_wrong_about_is_called(news: News) -> None:
    m = large()
    effects = told(m, news)
    assert PeerId("new") not in m.known
    assert announced(effects) in ([], [f"{news.ip}:{news.port}"])
    assert m.known[PeerId("p3")].state is State.ALIVE


def test_nobody_is_forgotten_for_whom_a_member_introduces() -> None:
    m = large(256)
    told(m, *(introduction(f"x{i}", 6000 + i) for i in range(40)))
    assert not any(name.startswith("x") for name in m.known)
    assert len(m.known) == 256


def test_who_was_introduced_at_a_wrong_address_is_called_where_it_calls_from() -> None:
    m = large()
    told(m, introduction("new", 5001))
    effects = m.receive(ProbeReceived(peer("new", 5002, HOST)))
    assert announced(effects) == [f"{HOST}:5002"]
    asked = m.receive(
        AnnounceAnswered(f"{HOST}:5002", peer("new", 5002, HOST), accepts=frozenset(FORMS), incarnation=0)
    )
    assert [probe.to for probe in probes(asked)] == ["new"]  # at its first address, where nobody is
    m.receive(ProbeFailed(PeerId("new"), None, "refused"))
    assert m.address_of(PeerId("new")) == f"{HOST}:5002"


def test_others_hear_of_a_node_only_after_it_answered_here() -> None:
    m = large()
    effects = m.receive(AnnounceReceived(peer("new", 5000, HOST), accepts=frozenset(FORMS), incarnation=0))
    assert [probe.to for probe in probes(effects)] == ["new"]
    (answer,) = (
        e.message
        for e in m.receive(AnnounceReceived(peer("z", 5005, HOST), incarnation=0))
        if isinstance(e, Answer)
    )
    assert isinstance(answer, AnnounceReply)
    assert "new" not in {item.id for item in answer.members or ()}
    m.receive(ProbeAnswered(PeerId("new")))
    assert introduction("new", 5000) in m.state.all_news()


def test_a_probe_says_who_sends_it_until_it_was_answered_once() -> None:
    m = large()
    told(m, introduction("new", 5000))
    (effect,) = probes(
        m.receive(AnnounceReceived(peer("new", 5000, HOST), accepts=frozenset(FORMS), incarnation=0))
    )
    own = introduction("m", 3999)
    assert own in effect.message.news
    m.receive(ProbeAnswered(PeerId("new")))
    later = [effect for effect in probes(tick(m, 3 * LARGE)) if effect.to == "new"]
    assert later
    assert not any(own in effect.message.news for effect in later)


def test_who_probes_with_its_introduction_is_a_member() -> None:
    m = large()
    m.receive(ProbeReceived(peer("new", 5000, HOST), news=(introduction("new", 5000),)))
    assert m.accepts_of(PeerId("new")) == frozenset(FORMS)
    assert announced(m.receive(ProbeReceived(peer("other", 5001, HOST)))) == [f"{HOST}:5001"]


# what bounds the traffic


def test_lists_are_exchanged_only_with_who_knows_others() -> None:
    m = large()
    tick(m, 30)  # its own news have gone out
    digest = m.state.roster.digest
    m.receive(ProbeAnswered(PeerId("p1"), members_digest=digest))
    assert announced(tick(m, 5)) == []
    for _ in range(5):
        m.receive(ProbeAnswered(PeerId("p1"), members_digest=digest))
        m.receive(ProbeAnswered(PeerId("p2"), members_digest="0" * 16))
        if called := announced(tick(m)):
            break
    assert called == [f"{HOST}:4002"]


def test_many_accusations_at_once_are_not_many_probes() -> None:
    m = large(60)
    news = [
        News(id=f"p{i}", ip=HOST, port=4000 + i, state="suspect", incarnation=0, by="p0") for i in range(1, 30)
    ]
    assert len(probes(told(m, *news))) <= SUSPECTS_A_TICK


def test_a_large_mesh_gives_more_time() -> None:
    m = large(60)
    (effect, *_) = probes(tick(m))
    assert effect.seconds == probe_seconds(m.state.pauses, 61) == pytest.approx(61 / MET_IN_PERSON)
    assert probe_seconds(m.state.pauses, MET_IN_PERSON) == 1.0
    m.receive(ProbeFailed(effect.to, None, "late", is_late=True))
    assert m.state.prober.doubt.level == 1
    m.receive(ProbeFailed(PeerId("p50"), None, "refused"))
    assert m.state.prober.doubt.level == 1


def test_of_many_remembered_nodes_some_are_called_at_first_and_others_where_these_fail() -> None:
    m = Members(MeshState(peer("m", 3999, HOST), Random(1), accepts=FORMS))
    remembered = tuple(f"{HOST}:{4000 + i}" for i in range(60))
    first = announced(m.receive(MeshStarted(("10.0.0.1:4000",), remembered)))
    assert len(set(first)) == 1 + MET_IN_PERSON
    called = set(first)
    for address in first[1:]:
        called |= set(announced(m.receive(AnnounceFailed(address, "refused"))))
    assert len(called) == 1 + 2 * MET_IN_PERSON
    assert called <= {*remembered, "10.0.0.1:4000"}


def test_a_message_of_a_round_is_an_answer_to_a_probe() -> None:
    m = large()
    tick(m)
    peer_id = PeerId("p4")
    m.state.prober.begin(peer_id, m.state.roster.tick)
    m.receive(ProbeFailed(peer_id, None, "late", is_late=True))
    assert not m.settled(peer_id)


def test_a_probe_of_a_small_mesh_is_as_it_was() -> None:
    m = large(4)
    message = Probe(i_am=m.me, key=None)
    assert [effect.message.model_copy(update={"news": []}) for effect in probes(tick(m, 9)[:1])] in ([message], [])
    assert all(effect.message.members_digest is None for effect in probes(tick(m, 9)))
