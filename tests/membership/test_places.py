"""Places for members: what one address can take, and who is forgotten for a new one."""

from __future__ import annotations

import pytest

from flnet.membership.members import Members
from flnet.membership.probing import MET_IN_PERSON
from flnet.membership.roster import PLACES_PER_ADDRESS, place_of
from flnet.params.params import PeerId
from flnet.protocol.effects import Effect, TellJobs
from flnet.protocol.events import AnnounceAnswered, AnnounceReceived, ProbeAnswered
from flnet.protocol.messages import MAX_PEERS
from tests.helpers import peer
from tests.membership.meshes import bury, kinds, members, of, probes


def come(m: Members, name: str, ip: str, port: int = 4000, *, answers: bool = False) -> list[Effect]:
    """A node announces itself; whether it answers when it is asked."""
    effects = m.receive(AnnounceReceived(peer(name, port, ip)))
    if answers:
        m.receive(ProbeAnswered(PeerId(name), None))
    return effects


def crowd(m: Members, count: int, *, ip: str = "10.0.{}.{}", answers: bool = False) -> None:
    for i in range(count):
        come(m, f"p{i}", ip.format(i // 200, 1 + i % 200), 2000 + i, answers=answers)


@pytest.mark.parametrize("answers", [False, True])
def test_one_address_takes_a_quarter_of_the_places_and_no_live_member_goes_for_it(answers: bool) -> None:
    m = members("m")
    come(m, "honest", "10.9.9.9", answers=True)
    crowd(m, 300, ip="10.0.0.1", answers=answers)
    assert len(m.known) == 1 + PLACES_PER_ADDRESS
    assert "honest" in m.known
    assert kinds(come(m, "other", "10.9.9.8")) == ["peer_joined"]


def test_many_nodes_on_this_machine_are_no_crowd() -> None:
    m = members("m")
    crowd(m, 200, ip="127.0.0.1", answers=True)
    assert len(m.known) == 200


def test_who_never_answered_goes_first_and_jobs_hear_of_it() -> None:
    m = members("m")
    come(m, "honest", "10.9.9.9", answers=True)
    come(m, "gone", "10.9.9.7", answers=True)
    bury(m, PeerId("gone"))
    crowd(m, MAX_PEERS - 2)
    effects = come(m, "late", "10.9.9.8")
    (told, joined) = of(TellJobs, effects)
    assert (told.alive, joined) == (False, TellJobs(PeerId("late"), alive=True))
    assert {"honest", "gone", "late"} <= m.known.keys()
    assert len(m.known) == MAX_PEERS


def test_a_full_mesh_of_live_members_takes_nobody_in() -> None:
    m = members("m")
    crowd(m, MAX_PEERS, answers=True)
    assert kinds(come(m, "late", "10.9.9.8")) == ["mesh_full"]
    m.state.roster.accuse(PeerId("p0"), "")
    m.state.roster.bury(PeerId("p0"))
    assert kinds(come(m, "late", "10.9.9.8")) == ["peer_joined"]


def test_new_members_are_asked_at_once_where_places_get_few() -> None:
    m = members("m")
    for i in range(MET_IN_PERSON - 1):
        assert probes(come(m, f"p{i}", f"10.0.0.{i}")) == []
    assert [probe.to for probe in probes(come(m, "next", "10.1.0.1"))] == ["next"]


def test_who_answers_an_announcement_where_it_was_called_has_answered() -> None:
    m = members("m")
    m.receive(AnnounceAnswered("10.0.0.1:4000", peer("a", 4000, "10.0.0.1")))
    m.receive(AnnounceAnswered("10.0.0.1:4000", peer("b", 4000, "10.0.0.2")))
    assert (m.known[PeerId("a")].is_proven, m.known[PeerId("b")].is_proven) == (True, False)


def test_what_counts_as_one_address() -> None:
    assert place_of("2001:db8::1") == place_of("2001:db8::ffff:1") != place_of("2001:db8:0:1::1")
    assert place_of("a.x.example.org") == place_of("b.EXAMPLE.org.")
    assert place_of("node-a") == place_of("node-b")
    assert [place_of(host) for host in ("127.0.0.1", "::1", "localhost", "10.0.0.1")] == ["", "", "", "10.0.0.1"]
