"""What is left of messages and answers, and who is counted how."""

from __future__ import annotations

import pytest

from flnet.events import AnnounceAnswered, AnnounceReceived, Event, ProbeAnswered, ProbeReceived
from flnet.messages import Announce, News, Peer, Trigger
from flnet.networks import OWN_MACHINE, PRIVATE, Networks
from flnet.node.gate import ALL_TOLD, BURST, SAME_SECONDS, TOLD, Gate, interfaces, networks_for, own_addresses
from flnet.params import PeerId
from flnet.refusals import AddressRefused, TooManyMessages
from flnet.settings import Settings

GOOD, BAD = Peer(id="good", ip="10.0.0.8", port=4000), Peer(id="bad", ip="169.254.169.254", port=4000)
ME = News(id="me", ip="10.0.0.7", port=4000, state="suspect", incarnation=0)
CALLER = Peer(id="caller", ip="10.0.0.9", port=4000)
HELLO = Announce(i_am=CALLER)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def gate(told: list[str]) -> Gate:
    made = Gate("me", Clock(), lambda kind, words: told.append(f"{kind}: {words}"))
    made.networks = Networks([*PRIVATE, *OWN_MACHINE], own=["10.0.0.7"], port=4000)
    return made


def news(peer: Peer) -> News:
    return News(id=peer.id, ip=peer.ip, port=peer.port, state="alive", incarnation=1)


def test_of_an_announcement_only_what_may_be_called_is_left(gate: Gate, told: list[str]) -> None:
    event = AnnounceReceived(CALLER, (GOOD, BAD), members=(news(GOOD), news(BAD)))
    left = gate.admit(HELLO, event, "10.0.0.9")
    assert isinstance(left, AnnounceReceived)
    assert left.known == (GOOD,)
    assert [(one.id, one.ip) for one in left.members] == [("good", "10.0.0.8"), ("bad", None)]
    assert told == ["address_refused: bad at 169.254.169.254:4000 is not called: no node can be there"]
    gate.admit(HELLO, event, "10.0.0.9")
    assert len(told) == 1  # said once


def test_what_is_said_of_this_node_is_still_heard_and_nobody_wondered_at(gate: Gate, told: list[str]) -> None:
    left = gate.admit(HELLO, ProbeReceived(CALLER, news=(ME,)), "10.0.0.9")
    assert isinstance(left, ProbeReceived)
    assert [one.id for one in left.news] == ["me"]
    assert told == []


@pytest.mark.parametrize("event", [AnnounceReceived(BAD), ProbeReceived(BAD)])
def test_a_caller_that_could_not_be_called_back_is_refused(gate: Gate, event: Event) -> None:
    with pytest.raises(AddressRefused, match="calls nobody at 169"):
        gate.admit(HELLO, event, "10.0.0.9")


def test_of_answers_only_what_may_be_called_is_left(gate: Gate) -> None:
    answer = AnnounceAnswered("10.0.0.8:4000", BAD, (GOOD, BAD), members=(news(BAD),))
    left = gate.heard(answer, lambda peer: None)
    assert isinstance(left, AnnounceAnswered)
    assert (left.peer.id, left.peer.address) == ("bad", "10.0.0.8:4000")  # where it answered
    assert left.announce_to == (GOOD,)
    assert left.members[0].ip is None
    probed = gate.heard(ProbeAnswered(PeerId("good"), news=(news(BAD),)), lambda peer: "10.0.0.8:4000")
    assert isinstance(probed, ProbeAnswered)
    assert probed.news[0].ip is None


def test_without_networks_everything_passes(gate: Gate) -> None:
    gate.networks = None
    event = AnnounceReceived(BAD, (BAD,))
    assert gate.admit(HELLO, event, "10.0.0.9") is event


def test_a_flood_in_one_name_is_bounded_and_others_are_not(gate: Gate) -> None:
    flood = Announce(i_am=CALLER)
    for _ in range(int(BURST)):
        gate.count(flood, "10.0.0.9")
    with pytest.raises(TooManyMessages):
        gate.count(flood, "10.0.0.9")
    gate.count(flood, "10.0.0.10")  # who it really is, is not shut out by others that use its name
    gate.count(Announce(i_am=GOOD), "10.0.0.9")
    for _ in range(int(BURST) + 1):
        gate.count(Trigger(trainer_id="X"), "10.0.0.9")  # people are counted elsewhere


def test_a_node_of_one_machine_calls_that_machine_only() -> None:
    networks = networks_for(Settings())
    assert networks.refusal("127.0.0.1", 4001, "127.0.0.1") is None
    assert networks.refusal("127.0.0.1", 4000, "127.0.0.1") == "it is this node itself"
    assert networks.refusal("10.0.0.8", 4001, "127.0.0.1") is not None


def test_a_node_in_a_network_calls_private_ones_its_own_and_whom_a_person_named() -> None:
    settings = Settings.model_validate({"listen_address": "0.0.0.0", "bootstrap_pairs": "203.0.113.5:443"})
    networks = networks_for(settings)
    assert networks.refusal("192.168.77.8", 4001, "192.168.77.9") is None
    assert networks.refusal("203.0.113.5", 443, "192.168.77.9") is None
    assert networks.refusal("203.0.113.6", 4000, "192.168.77.9") is not None
    assert {str(network) for network in networks.allowed} >= {*PRIVATE, *interfaces()}
    mine = own_addresses()
    assert networks.refusal(mine[0], 4000, mine[0]) is not None


def test_who_says_which_networks_gets_no_others() -> None:
    networks = networks_for(Settings.model_validate({"listen_address": "::", "allowed_networks": "10.1.0.0/16"}))
    assert networks.refusal("10.1.2.3", 4000, "10.1.2.4") is None
    assert networks.refusal("10.2.2.3", 4000, "10.1.2.4") is not None


def test_the_same_refusal_is_told_once_and_again_after_a_while(told: list[str]) -> None:
    clock = Clock()
    gate = Gate("me", clock, lambda kind, words: told.append(f"{kind}: {words}"))
    for _ in range(1000):
        gate.tell_refused("no", "10.0.0.9")
    assert told == ["refused_here: no"]
    clock.now = SAME_SECONDS
    gate.tell_refused("no", "10.0.0.9")
    assert told == ["refused_here: no"] * 2


def test_refusals_that_all_differ_are_told_within_bounds(gate: Gate, told: list[str]) -> None:
    for number in range(1000):
        gate.tell_refused(f"byte {number}", "10.0.0.9")
    assert len(told) == TOLD
    gate.tell_refused("what another one sent", "10.0.0.8")
    assert told[-1] == "refused_here: what another one sent"  # is not drowned by it
    for number in range(1000):
        gate.tell_refused(f"from {number}", f"10.0.1.{number}")
    assert len(told) == ALL_TOLD


def test_what_was_not_told_for_a_flood_is_new_after_it(told: list[str]) -> None:
    clock = Clock()
    gate = Gate("me", clock, lambda kind, words: told.append(words))
    for number in range(TOLD + 1):
        gate.tell_refused(f"byte {number}", "10.0.0.9")
    assert f"byte {TOLD}" not in told
    clock.now = 60.0
    gate.tell_refused(f"byte {TOLD}", "10.0.0.9")
    assert told[-1] == f"byte {TOLD}"
