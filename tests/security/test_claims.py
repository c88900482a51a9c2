"""Claims of members: each speaker signs its own, and a signature is good for one claim in one mesh."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

import pytest

from flnet.membership.members import Members
from flnet.membership.roster import State, Status
from flnet.membership.state import MeshState
from flnet.params.params import PeerId
from flnet.protocol.events import AnnounceAnswered, AnnounceReceived, Event, ProbeAnswered, ProbeReceived
from flnet.protocol.messages import Announce, AnnounceReply, News, Peer, Probe, ProbeReply, StateWord
from flnet.security.claims import MOST_CHECKED, MOST_WRONG, ClaimSigner
from tests.security.keypairs import TestKey
from tests.test_layout import ROOT

NAMES = ("a", "b", "c", "m")
MANY = [f"n{number:02}" for number in range(100)]
KEYS = {name: TestKey(1 + number) for number, name in enumerate((*NAMES, *MANY))}


class Counting(TestKey):
    """Counts the signatures that are made and checked."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.made = self.checked = 0

    def sign(self, data: bytes) -> bytes:
        self.made += 1
        return super().sign(data)

    def verify(self, key: str, signature: bytes, data: bytes) -> bool:
        self.checked += 1
        return super().verify(key, signature, data)


def at(name: str) -> Peer:
    return Peer(id=name, ip="127.0.0.1", port=4000 + [*NAMES, *MANY].index(name))


def claims(
    me: str = "m", mesh: str = "flnet", key: TestKey | None = None, others: Sequence[str] = NAMES
) -> ClaimSigner:
    """The claims of a node that knows the others, and their keys."""
    members = Members(MeshState(at(me), Random(0), key=KEYS[me].text, proves_keys=True))
    for other in others:
        if other != me:
            members.receive(AnnounceReceived(at(other), incarnation=3, key=KEYS[other].text))
    return ClaimSigner(key or KEYS[me], members, mesh)


def news(name: str, state: StateWord, incarnation: int = 3, by: str | None = None) -> News:
    return News(id=name, port=4000, state=state, incarnation=incarnation, by=by)


def signed(item: News, by: str, mesh: str = "flnet") -> News:
    """What this node sends of it."""
    (item,) = claims(by, mesh).signed(ProbeReply(i_am=at(by), news=[item])).news
    return item


def proven(*items: News, node: ClaimSigner | None = None) -> list[News]:
    """What a node holds for proven of these."""
    event = (node or claims()).checked(ProbeReceived(at("b"), news=items))
    return [item for item in event.news if item.signature is not None]


@pytest.mark.parametrize(
    ("claim", "speaker"),
    [
        (news("a", "alive", 4), "a"),
        (news("a", "left"), "a"),
        (news("a", "suspect", 3, "b"), "b"),
        (news("a", "dead", 3, "b"), "b"),
    ],
)
def test_a_claim_is_signed_by_its_speaker_and_nobody_else(claim: News, speaker: str) -> None:
    for node in NAMES:
        item = signed(claim, node)
        assert (item.signature is not None) == (node == speaker)
        assert proven(item) == ([item] if node == speaker else [])
    item = signed(claim, speaker)
    others = {
        "another member": item.model_copy(update={"id": "c"}),
        "another number": item.model_copy(update={"incarnation": 5}),
        "another mesh": signed(claim, speaker, "other"),
        "another signature": item.model_copy(update={"signature": "A" * 86 + "=="}),
    }
    assert {what: proven(other) for what, other in others.items()} == {what: [] for what in others}


def test_a_signature_for_one_state_is_none_for_another() -> None:
    alive, left = signed(news("a", "alive", 4), "a"), signed(news("a", "left", 4), "a")
    assert proven(alive.model_copy(update={"state": "left"}), left.model_copy(update={"state": "alive"})) == []
    accused = signed(news("a", "suspect", 3, "b"), "b")
    assert proven(accused.model_copy(update={"by": "c"})) == []
    assert proven(accused.model_copy(update={"state": "dead"})) != []  # the same accusation


def test_the_key_that_came_with_a_name_signs_for_it() -> None:
    thief = claims(key=TestKey(50))
    (item,) = (
        ClaimSigner(TestKey(50), claims("a")._members, "flnet")
        .signed(ProbeReply(i_am=at("a"), news=[news("a", "left")]))
        .news
    )
    assert item.signature is not None
    assert proven(item, node=thief) == proven(item) == []


@pytest.mark.parametrize("kind", [Probe, ProbeReply, Announce, AnnounceReply])
def test_all_messages_that_hold_claims_are_signed_and_checked(kind: type) -> None:
    field = "news" if kind in (Probe, ProbeReply) else "members"
    message = claims("a").signed(kind(i_am=at("a"), **{field: [news("a", "left"), news("b", "left")]}))
    items = tuple(getattr(message, field))
    assert [item.signature is not None for item in items] == [True, False]
    wrong = items[0].model_copy(update={"signature": "A" * 86 + "=="})
    event: Event
    for event in (
        ProbeReceived(at("b"), news=(items[0], wrong)),
        ProbeAnswered(PeerId("b"), news=(items[0], wrong)),
        AnnounceReceived(at("b"), members=(items[0], wrong)),
        AnnounceAnswered("b:1", at("b"), members=(items[0], wrong)),
    ):
        checked = claims().checked(event)
        left = checked.news if isinstance(checked, ProbeReceived | ProbeAnswered) else checked.members
        assert [item.signature is not None for item in left] == [True, False]


def test_own_signatures_are_made_once_and_useless_ones_not_checked() -> None:
    key = Counting(1)
    node = claims("a", key=key)
    for _ in range(9):
        node.signed(ProbeReply(i_am=at("a"), news=[news("a", "alive", 3), news("b", "suspect", 3, "a")]))
    assert key.made == 2
    key = Counting(4)
    old = signed(news("a", "left", 2), "a")
    assert proven(old, node=claims(key=key)) == []
    assert key.checked == 0


def test_a_message_costs_a_bounded_number_of_checks() -> None:
    key = Counting(4)
    wrong = [news("a", "left", 3 + n).model_copy(update={"signature": "A" * 86 + "=="}) for n in range(200)]
    assert proven(*wrong, node=claims(key=key)) == []
    assert key.checked == MOST_WRONG
    key = Counting(4)
    right = [news(name, "suspect", 3, "b") for name in MANY]
    signed_ones = claims("b").signed(ProbeReply(i_am=at("b"), news=right)).news
    assert len(proven(*signed_ones, node=claims(key=key, others=(*NAMES, *MANY)))) == MOST_CHECKED
    assert key.checked == MOST_CHECKED


def test_a_signed_claim_counts_at_a_node_that_hears_it_from_another() -> None:
    node, item = claims(), signed(news("a", "left"), "a")
    unsigned = item.model_copy(update={"signature": None})
    for heard, state in ((unsigned, State.ALIVE), (item, State.LEFT)):
        node._members.receive(node.checked(ProbeReceived(at("b"), 3, (heard,), key=KEYS["b"].text)))
        assert node._members.known[PeerId("a")].standing == Status(state, 3)


def test_the_statement_is_the_documented_one() -> None:
    page = (ROOT / "docs" / "membership.md").read_text()
    (block,) = re.findall(r"```text\n(flnet claim.*?)\n```", page, re.DOTALL)
    accusation = news("NODE_3", "dead", 2, "NODE_1")
    assert accusation.statement("flnet", "<base64 of the public key of the speaker>").decode() == block
    odd = news("b\u00e9", "left").statement("flnet", "k").decode()
    assert odd.splitlines()[2:4] == ["member: b\\xe9", "claim: left"]
