"""What every message of the wire means to the core."""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any

import pytest

from flnet.errors import AddressRefused, ParamsRefused, Pending, SignatureRefused, TooManyMessages
from flnet.membership.members import Members
from flnet.membership.state import MeshState
from flnet.networks import OWN_MACHINE, PRIVATE, Networks
from flnet.node.build import interfaces, networks_for, own_addresses
from flnet.node.inbound import (
    ALL_TOLD,
    BURST,
    SAME_SECONDS,
    TOLD,
    MessageChecks,
    check_speaker,
    check_trusted,
    claim_of,
    to_event,
)
from flnet.node.trust import Trust
from flnet.params.params import Params, PeerId
from flnet.protocol.events import (
    AnnounceAnswered,
    AnnounceReceived,
    ClaimReceived,
    DeclineReceived,
    Event,
    ProbeAnswered,
    ProbeReceived,
    RoundTriggered,
    TrainingAsked,
    UpdateReceived,
)
from flnet.protocol.messages import (
    Accuracy,
    AccuracyReply,
    Announce,
    JobMessage,
    Message,
    ModelParams,
    News,
    Packet,
    Peer,
    Probe,
    StartTraining,
    Trigger,
)
from flnet.protocol.updates import RoundKey
from flnet.settings import Settings
from tests.helpers import HYPER, key, params, peer
from tests.security.keypairs import TestKey

W = params(w=[1, 2])
IP = "9.9.9.9"


def packet(kind: type[JobMessage], model: Params | None = W, **fields: Any) -> Packet:
    message = kind(i_am=peer("a"), trainer_id="T", round=3, federated_learning_params=HYPER, **fields)
    return Packet(message, model)


def read(sent: Packet) -> Any:
    trainer, event = to_event(sent, IP)
    assert trainer == "T"
    return event


def test_an_announcement_is_completed_with_where_it_came_from() -> None:
    message = Announce(i_am=Peer(id="a", port=1), my_known_peers=[peer("b"), Peer(id="c", port=2)])
    assert to_event(Packet(message), IP) == (None, AnnounceReceived(Peer(id="a", ip=IP, port=1), (peer("b"),)))


def test_a_trigger_asks_for_rounds() -> None:
    assert to_event(Packet(Trigger(trainer_id="T", rounds=2)), IP) == ("T", RoundTriggered(2))


def test_a_start_of_the_thesis_form_was_made_by_its_sender() -> None:
    assert read(packet(StartTraining)) == TrainingAsked(PeerId("a"), key(3, "a"), W, HYPER, -1, 0)


def test_a_start_names_its_initiator_and_its_base() -> None:
    back = read(packet(StartTraining, base_round=1, restored_at=2, run="r"))
    assert back == TrainingAsked(PeerId("a"), key(3, "a"), W, HYPER, 1, 0, restored_at=2, run="r")
    event = read(packet(StartTraining, initiator="z", base_round=2, contributors=5))
    assert (event.peer, event.key, event.base_round, event.contributors) == ("a", key(3, "z"), 2, 5)


def test_an_update_brings_parameters_and_their_weight() -> None:
    event = read(packet(ModelParams, initiator="z", examples=7, labels=4, accuracy=0.5))
    assert isinstance(event, UpdateReceived)
    update = event.update
    assert (update.peer, update.key, update.params) == ("a", key(3, "z"), W)
    assert (update.examples, update.labels, update.accuracy) == (7, 4, 0.5)


def test_an_update_of_the_thesis_form_leaves_initiator_and_examples_open() -> None:
    update = read(packet(ModelParams)).update
    assert (update.key, update.examples, update.labels) == (RoundKey(3, PeerId("")), None, 1)


def test_a_refusal_needs_no_parameters() -> None:
    event = read(packet(ModelParams, None, initiator="z", declined="no time"))
    assert event == DeclineReceived(PeerId("a"), key(3, "z"), "no time")
    assert isinstance(read(packet(ModelParams, None, declined="")), DeclineReceived)  # also without a reason


@pytest.mark.parametrize("kind", [StartTraining, ModelParams])
def test_a_message_that_must_bring_parameters_and_does_not_is_refused(kind: type[JobMessage]) -> None:
    with pytest.raises(ParamsRefused, match=f"{kind.__name__} must bring parameters"):
        read(packet(kind, None))


def test_a_claim_is_about_the_model_beside_it_whatever_digest_is_stated() -> None:
    event = read(packet(Accuracy, accuracy=0.5, digest="f" * 64, contributors=3))
    assert isinstance(event, ClaimReceived)
    claim = event.claim
    assert (claim.peer, claim.round, claim.accuracy, claim.contributors) == ("a", 3, 0.5, 3)
    assert (claim.digest, claim.params) == (W.digest, W)


def test_a_claim_may_come_with_a_digest_only() -> None:
    claim = read(packet(Accuracy, None, accuracy=0.5, digest="f" * 64)).claim
    assert (claim.digest, claim.params) == ("f" * 64, None)
    assert read(packet(Accuracy, None, accuracy=0.5)).claim.digest is None


def test_an_answer_claims_for_the_round_that_was_asked_about() -> None:
    reply = AccuracyReply(i_am=peer("b"), accuracy=0.75, contributors=2)
    claim = claim_of(6, Packet(reply, W))
    assert (claim.peer, claim.round, claim.accuracy, claim.digest, claim.contributors) == (
        "b",
        6,
        0.75,
        W.digest,
        2,
    )


def test_an_answer_is_no_request() -> None:
    message: Message = AccuracyReply(i_am=peer("b"), accuracy=0.75)
    with pytest.raises(TypeError, match="AccuracyReply is no request"):
        to_event(Packet(message), IP)


GOOD, BAD = Peer(id="good", ip="10.0.0.8", port=4000), Peer(id="bad", ip="169.254.169.254", port=4000)
ME = News(id="me", ip="10.0.0.7", port=4000, state="suspect", incarnation=0)
CALLER = Peer(id="caller", ip="10.0.0.9", port=4000)
HELLO = Announce(i_am=CALLER)
A, B = TestKey(1).text, TestKey(2).text


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def checks(told: list[str]) -> MessageChecks:
    made = MessageChecks("me", Clock(), lambda kind, words: told.append(f"{kind}: {words}"))
    made.networks = Networks([*PRIVATE, *OWN_MACHINE], own=["10.0.0.7"], port=4000)
    return made


def news(peer: Peer) -> News:
    return News(id=peer.id, ip=peer.ip, port=peer.port, state="alive", incarnation=1)


def test_of_an_announcement_only_what_may_be_called_is_left(checks: MessageChecks, told: list[str]) -> None:
    event = AnnounceReceived(CALLER, (GOOD, BAD), members=(news(GOOD), news(BAD)))
    left = checks.admit(HELLO, event, "10.0.0.9")
    assert isinstance(left, AnnounceReceived)
    assert left.known == (GOOD,)
    assert [(one.id, one.ip) for one in left.members] == [("good", "10.0.0.8"), ("bad", None)]
    assert told == ["address_refused: bad at 169.254.169.254:4000 is not called: no node can be there"]
    checks.admit(HELLO, event, "10.0.0.9")
    assert len(told) == 1  # said once
    probed = checks.admit(HELLO, ProbeReceived(CALLER, news=(news(GOOD), news(BAD))), "10.0.0.9")
    assert isinstance(probed, ProbeReceived)
    assert [(one.id, one.ip) for one in probed.news] == [("good", "10.0.0.8"), ("bad", None)]


def test_what_is_said_of_this_node_is_still_heard_and_nobody_wondered_at(
    checks: MessageChecks, told: list[str]
) -> None:
    left = checks.admit(HELLO, ProbeReceived(CALLER, news=(ME,)), "10.0.0.9")
    assert isinstance(left, ProbeReceived)
    assert [one.id for one in left.news] == ["me"]
    assert told == []


@pytest.mark.parametrize("event", [AnnounceReceived(BAD), ProbeReceived(BAD)])
def test_a_caller_that_could_not_be_called_back_is_refused(checks: MessageChecks, event: Event) -> None:
    with pytest.raises(AddressRefused, match="calls nobody at 169"):
        checks.admit(HELLO, event, "10.0.0.9")


def test_of_answers_only_what_may_be_called_is_left(checks: MessageChecks) -> None:
    answer = AnnounceAnswered("10.0.0.8:4000", BAD, (GOOD, BAD), members=(news(BAD),))
    left = checks.heard(answer, lambda peer: None)
    assert isinstance(left, AnnounceAnswered)
    assert (left.peer.id, left.peer.address) == ("bad", "10.0.0.8:4000")  # where it answered
    assert left.announce_to == (GOOD,)
    assert left.members[0].ip is None
    probed = checks.heard(ProbeAnswered(PeerId("good"), news=(news(BAD),)), lambda peer: "10.0.0.8:4000")
    assert isinstance(probed, ProbeAnswered)
    assert probed.news[0].ip is None


def test_without_networks_everything_passes(checks: MessageChecks) -> None:
    checks.networks = None
    event = AnnounceReceived(BAD, (BAD,))
    assert checks.admit(HELLO, event, "10.0.0.9") is event


def test_a_flood_in_one_name_is_bounded_and_others_are_not(checks: MessageChecks) -> None:
    flood = Announce(i_am=CALLER)
    for _ in range(int(BURST)):
        checks.count(flood, "10.0.0.9")
    with pytest.raises(TooManyMessages):
        checks.count(flood, "10.0.0.9")
    checks.count(flood, "10.0.0.10")  # who it really is, is not shut out by others that use its name
    checks.count(Announce(i_am=GOOD), "10.0.0.9")
    for _ in range(int(BURST) + 1):
        checks.count(Trigger(trainer_id="X"), "10.0.0.9")  # people are counted elsewhere


def test_a_node_of_one_machine_calls_that_machine_only() -> None:
    networks = networks_for(Settings())
    assert networks.refusal("127.0.0.1", 4001, "127.0.0.1") is None
    assert networks.refusal("127.0.0.1", 4000, "127.0.0.1") == "it is this node itself"
    assert networks.refusal("10.0.0.8", 4001, "127.0.0.1") is not None


def test_a_node_in_a_network_calls_its_own_ones_callers_and_whom_a_person_named() -> None:
    settings = Settings.model_validate({"listen_address": "0.0.0.0", "bootstrap_pairs": "203.0.113.5:443"})
    networks = networks_for(settings)
    assert networks.refusal("192.168.77.9", 4001, "192.168.77.9") is None
    assert networks.refusal("192.168.77.8", 4001, "192.168.77.9") is not None
    assert networks.refusal("203.0.113.5", 443, "192.168.77.9") is None
    assert networks.refusal("203.0.113.6", 4000, "192.168.77.9") is not None
    assert {str(network) for network in networks.allowed} >= {*OWN_MACHINE, *interfaces()}
    mine = own_addresses()
    assert networks.refusal(mine[0], 4000, mine[0]) is not None


def test_who_says_which_networks_gets_no_others() -> None:
    networks = networks_for(Settings.model_validate({"listen_address": "::", "allowed_networks": "10.1.0.0/16"}))
    assert networks.refusal("10.1.2.3", 4000, "10.1.2.4") is None
    assert networks.refusal("10.2.2.3", 4000, "10.1.2.4") is not None


def test_the_same_refusal_is_told_once_and_again_after_a_while(told: list[str]) -> None:
    clock = Clock()
    checks = MessageChecks("me", clock, lambda kind, words: told.append(f"{kind}: {words}"))
    for _ in range(1000):
        checks.tell_refused("no", "10.0.0.9")
    assert told == ["refused_here: no"]
    clock.now = SAME_SECONDS
    checks.tell_refused("no", "10.0.0.9")
    assert told == ["refused_here: no"] * 2


def test_refusals_that_all_differ_are_told_within_bounds(checks: MessageChecks, told: list[str]) -> None:
    for number in range(1000):
        checks.tell_refused(f"byte {number}", "10.0.0.9")
    assert len(told) == TOLD
    checks.tell_refused("what another one sent", "10.0.0.8")
    assert told[-1] == "refused_here: what another one sent"  # is not drowned by it
    for number in range(1000):
        checks.tell_refused(f"from {number}", f"10.0.1.{number}")
    assert len(told) == ALL_TOLD


def test_what_was_not_told_for_a_flood_is_new_after_it(told: list[str]) -> None:
    clock = Clock()
    checks = MessageChecks("me", clock, lambda kind, words: told.append(words))
    for number in range(TOLD + 1):
        checks.tell_refused(f"byte {number}", "10.0.0.9")
    assert f"byte {TOLD}" not in told
    clock.now = 60.0
    checks.tell_refused(f"byte {TOLD}", "10.0.0.9")
    assert told[-1] == f"byte {TOLD}"


def members() -> Members:
    known = Members(MeshState(Peer(id="b", ip="10.0.0.2", port=1), random.Random(0)))
    known.receive(AnnounceReceived(Peer(id="a", ip="10.0.0.1", port=1), (), key=A))
    return known


CLAIM = {"trainerId": "T", "round": 0, "federatedLearningParams": {"e": 1, "u": 0.1, "b": 1}, "accuracy": 0.5}


def test_a_node_speaks_in_its_own_name() -> None:
    claim = Accuracy.read({**CLAIM, "iAm": {"id": "a", "port": 1}})

    check_speaker(members(), claim, A)
    check_speaker(members(), claim, "")
    with pytest.raises(SignatureRefused, match="another node than 'a'"):
        check_speaker(members(), claim, B)


@pytest.mark.parametrize("kind", [Announce, Probe])
def test_the_key_in_a_message_is_the_one_that_signed_it(kind: type[Announce] | type[Probe]) -> None:
    message = kind(i_am=Peer(id="a", ip="10.0.0.1", port=1), key=A)

    check_speaker(members(), message, A)
    for said in (message, kind(i_am=message.i_am)):
        with pytest.raises(SignatureRefused, match="another key"):
            check_speaker(members(), said, B)


@pytest.mark.parametrize(
    ("signer", "knock", "waits", "words"),
    [(1, None, False, ""), (1, True, False, "waits to be accepted in turn"), (3, None, True, "has to accept")],
)
async def test_two_nodes_are_peers_only_if_both_have_accepted_each_other(
    signer: int, knock: bool | None, waits: bool, words: str
) -> None:
    trust = Trust(B)
    await trust.accept(A)
    peer = Peer(id="a", ip="10.0.0.1", port=1)
    said = Announce(i_am=peer, key=TestKey(signer).text, knock=knock)
    with pytest.raises(Pending, match=words) if words else nullcontext():
        check_trusted(trust, said, AnnounceReceived(peer), TestKey(signer).text, "me", "10.0.0.1")
    assert bool(trust.pending()) is waits
    check_trusted(None, said, AnnounceReceived(peer), "", "me", "")  # of another mesh
