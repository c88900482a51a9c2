"""Members and jobs of one node together: who hears what, and whose effect is whose."""

from __future__ import annotations

import pytest

from flnet.algorithms.topology import Topology
from flnet.errors import IdTaken, NotAnnounced, ParamsRefused, UnknownTrainer
from flnet.fingerprints import key_text
from flnet.membership.names import NameTaken
from flnet.node.core import NodeCore, Owned
from flnet.params.params import PeerId, TrainerId
from flnet.protocol.effects import Publish, Send, SendProbe, SetTimer, TellJobs
from flnet.protocol.events import (
    AnnounceAnswered,
    AnnounceReceived,
    ContactLost,
    ContactMade,
    ProbeAnswered,
    ProbeFailed,
    ProbeReceived,
    RoundTriggered,
    TimerFired,
)
from flnet.protocol.messages import Announce, HyperParams, ModelParams, News, Packet, Peer, Trigger
from flnet.rounds.participation import Participation
from flnet.rounds.settings import Rules
from tests.helpers import HYPER, params, peer
from tests.rounds.helpers import prepared

T, U = TrainerId("T"), TrainerId("U")


def core() -> NodeCore:
    made = NodeCore(peer("me"), [T, U])
    for trainer in (T, U):
        made.hear(trainer, prepared())
    return made


def die(node: NodeCore) -> list[Owned]:
    """Let the peer "a" fall silent for good; what was asked for when it was declared dead."""
    node.hear(None, ContactLost(PeerId("a"), "silent"))
    node.hear(None, ProbeFailed(PeerId("a"), None, "silent"))
    for _ in range(40):
        owned = node.hear(None, TimerFired("tick"))
        if not node.members.alive:
            return owned
    raise AssertionError("it is still held for alive")


def from_peer(name: str, trainer: str = "T") -> Packet:
    message = ModelParams(
        i_am=peer(name, 5000), trainer_id=trainer, round=0, federated_learning_params=HYPER, examples=1
    )
    return Packet(message, params(w=[1, 1]))


INVENTED = tuple(
    News(id=f"x{n}", ip=f"10.0.9.{n}", port=5000, state="alive", incarnation=0, accepts=("safetensors",))
    for n in range(60)
)


def test_one_member_cannot_make_a_mesh_large_by_inventing_names_that_count() -> None:
    rules = Rules(Participation(names_all=True), topology=Topology.read("segments:3"))
    node = NodeCore(peer("me"), [T], accepts=("safetensors",), rules=rules)
    for number in range(2):
        honest = Peer(id=f"h{number}", ip=f"10.0.0.{number + 1}", port=4000)
        node.hear(None, AnnounceReceived(honest, (), frozenset(["safetensors"]), 0))
        node.hear(None, ProbeAnswered(PeerId(honest.id), None))
    teller = Peer(id="teller", ip="10.0.0.66", port=4000)
    node.hear(None, AnnounceReceived(teller, (), frozenset(["safetensors"]), 0))
    effects = [item.effect for item in node.hear(None, ProbeReceived(teller, 0, INVENTED))]
    asked = {effect.to for effect in effects if isinstance(effect, SendProbe)}
    assert node.jobs[T].peers.proven == {"h0", "h1"}
    assert asked == {item.id for item in INVENTED}  # they count as soon as they answer
    node.hear(None, ProbeAnswered(PeerId("x7"), None))
    assert node.jobs[T].peers.proven == {"h0", "h1", "x7"}


def test_what_a_stranger_says_of_a_name_that_is_forgotten_loses_no_news_of_others() -> None:
    node, honest = NodeCore(peer("me"), [T]), Peer(id="a", ip="10.0.0.1", port=4000)
    node.hear(None, AnnounceReceived(honest))
    node.hear(None, ProbeAnswered(PeerId("a"), None))
    die(node)
    teller, other = Peer(id="teller", ip="10.0.0.66", port=4000), Peer(id="o", ip="10.0.0.66", port=4001)
    for one in (teller, other):
        node.hear(None, AnnounceReceived(one))
    gone = News(id="o", ip=other.ip, port=other.port, state="dead", incarnation=0)
    node.hear(None, ProbeReceived(teller, 0, (gone,)))  # it is asked whether that is so
    renamed = replace_name(other, "p")
    node.hear(None, AnnounceReceived(renamed))
    node.hear(None, AnnounceAnswered(other.address, renamed))  # another name is there now
    assert "o" not in node.members.known
    back = News(id="a", ip=honest.ip, port=honest.port, state="alive", incarnation=1)
    node.hear(None, ProbeReceived(teller, 0, (back,), None, PeerId("o")))
    assert "a" in node.members.alive and PeerId("a") in node.jobs[T].peers.here


def replace_name(one: Peer, name: str) -> Peer:
    return one.model_copy(update={"id": name})


def test_an_event_goes_to_its_job_and_the_effects_say_whose_they_are() -> None:
    node = core()
    owned = node.hear(U, RoundTriggered())
    assert {item.owner for item in owned} == {U}
    assert (node.jobs[T].busy, node.jobs[U].busy) == (False, True)


def test_every_job_hears_of_peers_that_come_and_go() -> None:
    node = core()
    owned = node.hear(None, AnnounceReceived(peer("a", 5000)))
    assert [job.peers.here for job in node.jobs.values()] == [{"a"}, {"a"}]
    assert not any(isinstance(item.effect, TellJobs) for item in owned)  # it ends here
    die(node)
    assert [job.peers.here for job in node.jobs.values()] == [set(), set()]


def test_what_jobs_ask_for_on_such_news_is_theirs() -> None:
    node = core()
    node.hear(None, AnnounceReceived(peer("a", 5000)))
    started = node.hear(T, RoundTriggered())
    assert any(isinstance(item.effect, Send) and item.owner == T for item in started)
    owned = die(node)
    assert {type(item.effect) for item in owned if item.owner is None} == {SetTimer, Publish}


def test_an_unknown_trainer_is_refused_with_the_known_ones() -> None:
    node = core()
    with pytest.raises(UnknownTrainer, match=r"no trainer 'X'; it has T, U") as refusal:
        node.read(from_peer("a", "X"), "1.2.3.4")
    assert refusal.value.status == 404
    with pytest.raises(UnknownTrainer):
        node.read(Packet(Trigger(trainer_id="X")), "1.2.3.4")
    with pytest.raises(UnknownTrainer) as refusal:
        node.job("x" * 10_000)
    assert len(str(refusal.value)) < 200


def test_a_message_in_our_own_name_is_refused() -> None:
    with pytest.raises(IdTaken):
        core().read(from_peer("me"), "1.2.3.4")


def test_a_message_is_read_into_its_trainer_and_its_event() -> None:
    node = core()
    node.hear(None, AnnounceReceived(peer("a", 5000)))
    trainer, event = node.read(from_peer("a"), "1.2.3.4")
    assert (trainer, type(event).__name__) == (T, "UpdateReceived")
    hyper = HyperParams(e=1, u=1, b=1)
    assert node.read(Packet(Trigger(trainer_id="T", rounds=3, federated_learning_params=hyper)), "") == (
        T,
        RoundTriggered(3, hyper),
    )
    announce = Packet(Announce(i_am=Peer(id="a", port=1)))
    assert node.read(announce, "1.2.3.4") == (None, AnnounceReceived(Peer(id="a", ip="1.2.3.4", port=1)))


def test_an_update_of_somebody_unknown_is_refused_and_unsound_parameters_are_told_first() -> None:
    node = core()
    with pytest.raises(NotAnnounced, match="'a'; announce it first"):
        node.read(from_peer("a"), "1.2.3.4")
    unsound = Packet(from_peer("a").message, params(w=[1, 1, 1]))
    with pytest.raises(ParamsRefused, match="shape"):
        node.read(unsound, "1.2.3.4")
    assert node.jobs[T].number == -1


def test_a_message_of_a_lost_peer_is_news_for_the_membership() -> None:
    node = core()
    node.hear(None, AnnounceReceived(peer("a", 5000)))
    assert node.contacts(from_peer("a")) == []
    node.hear(None, ContactLost(PeerId("a"), "silent"))
    (contact,) = node.contacts(from_peer("a"))
    assert contact == ContactMade(PeerId("a"))
    node.hear(None, contact)
    assert node.members.alive == ["a"]


def test_what_people_send_is_no_sign_of_a_peer() -> None:
    assert core().contacts(Packet(Trigger(trainer_id="T"))) == []


def test_a_message_of_a_round_in_a_dead_nodes_name_is_refused_while_another_node_claims_the_name() -> None:
    node = core()
    first, other = (key_text(bytes([number]) * 32) for number in (1, 2))
    node.hear(None, AnnounceReceived(peer("a", 5000), key=first))
    with pytest.raises(NameTaken) as refusal:
        node.hear(None, AnnounceReceived(peer("a", 5001), key=other))
    node.hear(None, refusal.value.dispute)
    assert node.read(from_peer("a"), "10.0.0.1")[0] == T  # the first one is there
    die(node)
    with pytest.raises(NameTaken, match="has not shown its key"):
        node.read(from_peer("a"), "10.0.0.1")
    assert node.contacts(from_peer("a")) == [ContactMade(PeerId("a"))]
    assert node.hear(None, ContactMade(PeerId("a"))) == []
    node.hear(None, AnnounceReceived(peer("a", 5000), key=first))
    assert node.read(from_peer("a"), "10.0.0.1")[0] == T
