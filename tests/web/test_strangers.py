from __future__ import annotations

from flnet.fingerprints import fingerprint, key_text
from flnet.web.mesh import Mesh, MeshNode
from flnet.web.strangers import OUT_SHOWN, strangers, with_strangers

from .trusting import EVIL, FRIEND, STRANGER, THIRD, PinnedNode


async def test_everybody_stands_where_people_put_them() -> None:
    node = PinnedNode()
    node.trust.met(STRANGER, "ward", "192.0.2.7:4000")
    await node.trust.accept(FRIEND, introducer=True)
    await node.trust.introduced(FRIEND, [(fingerprint(THIRD), "lab")])
    node.meet(FRIEND, "friend", "suspect")
    found = strangers(node.trust, node.peers())
    (waiting,) = found.waiting
    assert (waiting.name, waiting.address, waiting.by, waiting.state) == ("ward", "192.0.2.7:4000", "", "")
    friend, lab = sorted(found.accepted, key=lambda card: card.by, reverse=True)
    assert (friend.name, friend.is_introducer, friend.by) == (fingerprint(FRIEND)[:11], True, "person")
    assert (lab.name, lab.by, lab.introducer) == ("lab", "introducer", friend.name)
    assert found.find(fingerprint(THIRD)) is lab
    assert found.find(THIRD) is None


async def test_a_peer_with_an_accepted_key_has_its_state() -> None:
    node = PinnedNode()
    node.trust.met(FRIEND, "friend", "192.0.2.1:4000")
    await node.trust.accept(FRIEND)
    node.meet(FRIEND, "friend", "suspect")
    assert [card.state for card in strangers(node.trust, node.peers()).accepted] == ["suspect"]


async def test_those_who_stay_out_come_newest_first_and_not_all_into_the_picture() -> None:
    node = PinnedNode()
    keys = [key_text(bytes([number]) * 32) for number in range(10, 30)]
    for place, key in enumerate(keys):
        node.trust.met(key, f"n{place}", "192.0.2.7:4000")
        await node.trust.reject(key)
    found = strangers(node.trust)
    assert [card.name for card in found.out[:2]] == ["n19", "n18"]
    me = MeshNode(id="me", address="127.0.0.1:4000", state="alive", me=True)
    shown = with_strangers(Mesh(nodes=[me]), found).nodes
    assert [(one.id, one.state) for one in shown[:2]] == [("me", "alive"), ("n19", "forgotten")]
    assert len(shown) == 1 + OUT_SHOWN


def test_a_stranger_with_the_name_of_a_member_does_not_take_its_place() -> None:
    node = PinnedNode()
    node.trust.met(STRANGER, "me", "192.0.2.7:4000")
    node.trust.met(THIRD, EVIL + "\x1b[31m", "192.0.2.8:4000")
    me = MeshNode(id="me", address="127.0.0.1:4000", state="alive", me=True)
    nodes = with_strangers(Mesh(nodes=[me]), strangers(node.trust)).nodes
    assert nodes[0] == me
    assert nodes[1].id == f"me {fingerprint(STRANGER)[:11]}"
    assert "\x1b" not in nodes[2].id and nodes[2].id.startswith(EVIL)
    assert {one.state for one in nodes[1:]} == {"pending"}
