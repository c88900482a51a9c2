"""Tests of the membership of a pinned mesh: who is accepted is greeted at once, who is not any more is let go."""

from __future__ import annotations

from flnet.effects import Publish, SetTimer, TellJobs
from flnet.events import AnnounceAnswered, AnnounceFailed, AnnounceReceived, MeshStarted, ShutOutBy, TrustChanged
from flnet.fingerprints import fingerprint
from flnet.params import PeerId
from flnet.signing.refusals import NotAccepted, Pending, StrangerThere
from tests.membership.meshes import address, announced, at, members, of
from tests.signing.keypairs import TestKey

KEY = TestKey(1).text
WHERE = "10.0.0.9:1"


def test_who_is_accepted_is_announced_to_at_once() -> None:
    m = members("m", "a")
    assert announced(m.receive(TrustChanged((), (WHERE,)))) == [WHERE]


def test_whose_key_is_not_trusted_any_more_is_no_member_and_its_name_is_free() -> None:
    m = members()
    m.receive(AnnounceReceived(at("a"), key=KEY))
    m.receive(AnnounceReceived(at("b"), key=TestKey(2).text))
    effects = m.receive(TrustChanged((fingerprint(KEY),), ()))
    assert [(e.peer, e.alive) for e in of(TellJobs, effects)] == [("a", False)]
    assert [e.kind for e in of(Publish, effects)] == ["peer_untrusted"]
    assert list(m.known) == ["b"] and m.fits(PeerId("a"), TestKey(3).text)


def test_who_does_not_accept_this_node_any_more_is_no_member_and_is_asked_again() -> None:
    m = members()
    m.receive(MeshStarted((address("a"),)))
    m.receive(AnnounceReceived(at("a"), key=KEY))
    effects = m.receive(ShutOutBy(PeerId("a")))
    assert of(TellJobs, effects)[0].reason == "a does not accept this node any more"
    assert [e.name for e in of(SetTimer, effects)] == [f"announce:{address('a')}"]
    assert m.receive(ShutOutBy(PeerId("a"))) == []


def test_waiting_elsewhere_is_told_once_for_each_address_and_asking_goes_on() -> None:
    m = members()
    m.receive(MeshStarted((WHERE,)))
    failed = [m.receive(AnnounceFailed(WHERE, "a person has to", Pending.code)) for _ in range(3)]
    assert [[e.kind for e in of(Publish, one)] for one in failed] == [["trust_waits"], [], []]
    assert all(of(SetTimer, one) for one in failed)
    m.receive(AnnounceAnswered(WHERE, at("a"), (), key=KEY))
    again = m.receive(AnnounceFailed(WHERE, "no more", NotAccepted.code))
    assert "trust_waits" in [e.kind for e in of(Publish, again)]


def test_of_strangers_here_people_have_heard_already() -> None:
    m = members()
    m.receive(MeshStarted((WHERE,)))
    effects = m.receive(AnnounceFailed(WHERE, "its key is not accepted here", StrangerThere.code))
    assert of(Publish, effects) == [] and len(of(SetTimer, effects)) == 1
