"""Threat 18: a hundred thousand announcements and pieces of gossip. Peers and memory stay bounded."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import httpx
import pytest

from flnet.fingerprints import key_text
from flnet.membership.members import Members
from flnet.membership.names import NameTaken
from flnet.membership.roster import PLACES_PER_ADDRESS
from flnet.membership.state import MeshState
from flnet.node.outbox import IN_FLIGHT
from flnet.params.params import PeerId
from flnet.protocol.events import AnnounceReceived, ContactLost, ProbeReceived, TimerFired
from flnet.protocol.messages import MAX_PEERS, News, Peer
from flnet.wire.transport import CONTROL_BYTES
from tests.helpers import peer
from tests.mesh_name import MESH_HEADERS
from tests.ports import free_port
from tests.processes.harness import RealNode, harness, until
from tests.threats.stranger import MEGA, peak, post, target

FLOOD = 100_000
CALLERS = 4_000  # announcements; what comes after a full list is always the same


def test_thousands_of_announcements_leave_a_bounded_list() -> None:
    members = Members(MeshState(peer("me"), Random(0)))
    for number in range(CALLERS):
        caller = Peer(id=f"n{number}", ip="10.0.0.1", port=1024 + number % 60_000)
        known = (Peer(id=f"k{number}", ip="10.0.0.2", port=1024 + number % 60_000),)
        members.receive(AnnounceReceived(caller, known))
    announcer = members.state.announcer
    assert len(members.known) <= MAX_PEERS
    assert len(announcer.asking) + len(announcer.failures) <= MAX_PEERS
    assert len(members.state.roster.gossip) <= 2 * MAX_PEERS


@pytest.mark.parametrize("asks_at_once", [False, True])
def test_nothing_stays_of_thousands_of_names_that_are_forgotten(asks_at_once: bool) -> None:
    members = Members(MeshState(peer("me"), Random(0), asks_at_once=asks_at_once))
    for number in range(CALLERS):
        caller = Peer(id=f"n{number}", ip=f"10.{number // 250}.{number % 250}.7", port=4000)
        own, other = (key_text(f"{letter}{number}".encode().ljust(32, b".")) for letter in "ab")
        members.receive(AnnounceReceived(caller, (), key=own))
        with pytest.raises(NameTaken) as refused:
            members.receive(AnnounceReceived(caller, (), key=other))
        members.receive(refused.value.dispute)
        members.receive(ProbeReceived(caller, key=own, members_digest="a" * 16))
        members.receive(ContactLost(PeerId(caller.id), "it did not come"))
        if number % 50 == 0:
            members.receive(TimerFired("tick"))
    members.receive(TimerFired("tick"))
    state = members.state
    kept = (members.known, state.disputes, state.troubled, state.digests._stated, state.prober._begun)
    assert all(len(each) <= 2 * MAX_PEERS for each in kept)  # members, and names whose keys are kept


def test_accusers_that_do_not_exist_leave_no_gossip() -> None:
    members = Members(MeshState(peer("me"), Random(0)))
    teller, accused = (Peer(id=name, ip="10.0.0.1", port=port) for name, port in (("teller", 4000), ("a", 4001)))
    for one in (teller, accused):
        members.receive(AnnounceReceived(one))
    for batch in range(20):
        news = tuple(
            News(id="a", ip="10.0.0.1", port=4001, state="suspect", incarnation=0, by=f"x{batch}-{number}")
            for number in range(MAX_PEERS)
        )
        members.receive(ProbeReceived(teller, news=news))
    assert len(members.state.roster.gossip) <= 8


def test_a_hundred_thousand_pieces_of_gossip_leave_a_bounded_list() -> None:
    members = Members(MeshState(peer("me"), Random(0)))
    caller = Peer(id="teller", ip="10.0.0.1", port=4000)
    members.receive(AnnounceReceived(caller))
    for batch in range(FLOOD // MAX_PEERS + 1):
        news = tuple(
            News(id=f"n{batch}-{i}", ip="10.0.0.3", port=1024 + i, state="alive", incarnation=i, by="teller")
            for i in range(MAX_PEERS)
        )
        members.receive(ProbeReceived(caller, news=news))
    announcer = members.state.announcer
    assert list(members.known) == ["teller"]
    assert len(announcer.asking) + len(announcer.failures) <= MAX_PEERS
    assert len(members.state.roster.gossip) <= 2 * MAX_PEERS
    assert len(members.state.helping) + len(members.state.troubled) <= MAX_PEERS


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    with target(tmp_path_factory.mktemp("flood")) as made:
        yield made


@pytest.mark.slow
def test_a_real_node_under_a_flood_keeps_its_memory_and_answers_persons(node: RealNode) -> None:
    address = f"http://127.0.0.1:{node.port}"
    with httpx.Client(base_url=address, headers=MESH_HEADERS, trust_env=False, timeout=60) as stranger:
        answers: Counter[int] = Counter()

        def flood(count: int, name: str) -> None:
            for number in range(count):
                me = {"id": name or f"f{number}", "ip": None, "port": 2000 if name else 2001 + number}
                answers[stranger.post("/announce", json={"iAm": me, "myKnownPeers": []}).status_code] += 1

        flood(300, "")
        before = peak(node)
        flood(400, "loud")
    assert peak(node) - before < 16 * MEGA
    assert set(answers) <= {201, 429}
    assert len(node.get("/peers")) <= MAX_PEERS
    assert node.http.get("/health").status_code == 200


@pytest.mark.slow
def test_one_address_takes_no_more_than_its_places_and_none_of_a_member(tmp_path: Path) -> None:
    with harness(tmp_path) as made:
        flooded, member = (made.start(ALLOWED_NETWORKS="127.0.0.0/8, 198.51.100.0/24") for _ in range(2))
        made.ready()
        for number in range(300):
            me = {"id": f"sybil{number}", "ip": "198.51.100.7", "port": 2000 + number}
            assert post(flooded, "/announce", json.dumps({"iAm": me, "incarnation": 0}).encode())[0] in (201, 429)
        states = flooded.states()
    assert states[member.name] == "alive"
    assert 2 <= len(states) <= 1 + PLACES_PER_ADDRESS


@pytest.mark.slow
def test_nobody_waits_for_nodes_that_were_announced_and_never_answer(tmp_path: Path) -> None:
    """A request to one of them lasts ten minutes here, and more of them come before the other member than fit."""
    with harness(tmp_path) as made:
        made.go()
        patient = {"REQUEST_TIMEOUT_IN_SECONDS": "600", "WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG": "2"}
        flooded, member = (made.start(**patient) for _ in range(2))
        made.ready()
        for number in range(3 * IN_FLIGHT):
            me = {"id": f"a{number}", "ip": "127.0.0.1", "port": free_port()}
            assert post(flooded, "/announce", json.dumps({"iAm": me, "incarnation": 0}).encode())[0] == 201

        def trained_together() -> bool:
            if flooded.job()["phase"] == "IDLE":
                flooded.trigger()
            return any(set(record["contributors"]) == {"n0", "n1"} for record in member.history())

        until(trained_together, "a round of both")


@pytest.mark.slow
def test_one_message_names_no_more_peers_than_a_mesh_has(node: RealNode) -> None:
    many = [{"id": f"m{i}", "ip": "127.0.0.1", "port": 30_000 + i} for i in range(MAX_PEERS + 1)]
    body = json.dumps({"iAm": {"id": "greedy", "ip": None, "port": 29_999}, "myKnownPeers": many}).encode()
    assert post(node, "/announce", body)[0] in (413, 422, 429)


@pytest.mark.slow
def test_a_whole_mesh_with_long_names_is_announced_in_one_message(node: RealNode) -> None:
    known = [
        {"id": f"{i:064d}", "ip": f"2001:db8:85a3:8d3:1319:8a2e:370:7{i:03x}", "port": 4000}
        for i in range(MAX_PEERS)
    ]
    members = [{**peer, "state": "alive", "incarnation": 0} for peer in known]
    me = {"id": "large", "ip": None, "port": 29_998}
    body = json.dumps({"iAm": me, "myKnownPeers": known, "incarnation": 0, "members": members}).encode()
    assert len(body) > CONTROL_BYTES
    assert post(node, "/announce", body)[0] == 201
