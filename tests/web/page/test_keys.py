"""The view of keys as a browser without script sees it: fingerprints, and the form that forgets a peer."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import segno

from flnet.errors import PeerError, StillThere, UnknownPeer
from flnet.fingerprints import fingerprint, key_text, read_fingerprint, words
from flnet.node.interface import View
from flnet.web.api.mesh import Mesh, MeshNode
from flnet.web.app import create_app
from flnet.web.page.keys import (
    OUT_SHOWN,
    QUIET,
    forget_url,
    identity_of,
    known_keys,
    qr_picture,
    with_known_keys,
)
from tests.web.conftest import SETTINGS, Client
from tests.web.fake_node import FakeNode
from tests.web.page_reading import FORM, Page, load, post
from tests.web.trusting import EVIL, FRIEND, STRANGER, THIRD, PinnedNode

HERE = "/view/keys"
OWN, OTHER = key_text(bytes(32)), key_text(bytes([1]) * 32)


class KeyNode(FakeNode):
    """A node with a key, and peers with or without one."""

    def info(self) -> View:
        return {**super().info(), "key": OWN}

    def meet(self, name: str, state: str = "alive", key: str = OTHER) -> None:
        self.add_peer(name, f"127.0.0.1:{4001 + len(self.known)}", state)
        self.known[-1] = {**self.known[-1], "key": key}


@pytest.fixture
def node() -> KeyNode:
    return KeyNode()


def plain(page: Page) -> str:
    return "".join(page.text.split())


def hrefs(page: Page) -> list[str]:
    return [a["href"] or "" for a in page.all("a") if "forget=" in (a.get("href") or "")]


async def test_this_nodes_key_is_there_in_words_in_full_and_as_a_picture(client: Client) -> None:
    page = await load(client, HERE)
    assert words(OWN).replace("-", " ") in page.text
    assert fingerprint(OWN) in plain(page)
    assert OWN in page.text
    (picture,) = [svg for svg in page.all("svg") if "QR" in (svg.get("aria-label") or "")]
    assert picture["role"] == "img"
    assert page.inline == ""


async def test_peers_are_there_by_their_keys_and_one_without_is_said_to_have_none(
    client: Client, node: KeyNode
) -> None:
    node.meet("b")
    node.meet("c", key="")
    page = await load(client, HERE)
    assert words(OTHER).replace("-", " ") in page.text
    assert fingerprint(OTHER) in plain(page)
    assert page.text.count("no key") == 1
    assert hrefs(page) == []


async def test_a_node_without_a_key_says_so(node: KeyNode) -> None:
    page = await load(create_app(FakeNode(), SETTINGS).test_client(), HERE)
    assert "This node has no key." in page.text
    assert page.all("path") == []


@pytest.mark.parametrize("name", ["b", "ward/7 b", EVIL, 'a"&b=c', "höhe ☃"])
async def test_forgetting_is_asked_first_and_told_afterwards(client: Client, node: KeyNode, name: str) -> None:
    node.meet(name, "dead")
    (link,) = hrefs(await load(client, HERE))
    page = await load(client, link.partition("#")[0])
    assert f"Forget {name}?" in page.text
    assert node.forgotten == []
    (field,) = [one for one in page.all("input") if one.get("name") == "peer"]
    assert field["value"] == name
    status, place = await post(client, HERE, do="forget", peer=field["value"] or "")
    assert (status, node.forgotten) == (303, [name])
    page = await load(client, place)
    assert f"{name} is forgotten here." in page.text
    assert page.all("img") == [page.all("img")[0]]  # the icon


async def test_a_peer_whose_name_another_node_claims_can_be_forgotten_while_it_is_there(
    client: Client, node: KeyNode
) -> None:
    node.meet("b")
    node.known[-1] = {**node.known[-1], "disputed": True}
    assert hrefs(await load(client, HERE)) == hrefs(await load(client)) == ["/view/keys?forget=b#forget"]


@pytest.mark.parametrize("refusal", [UnknownPeer("b"), StillThere("b")])
async def test_a_refusal_is_told_in_the_words_of_the_node(
    client: Client, node: KeyNode, refusal: PeerError
) -> None:
    node.failure = refusal
    _, place = await post(client, HERE, do="forget", peer="b")
    assert refusal.message in (await load(client, place)).text


async def test_a_peer_that_is_not_there_cannot_be_asked_for(client: Client) -> None:
    answer = await client.get(f"{HERE}?forget=nobody")
    assert answer.status_code == 404
    assert "no peer 'nobody' is known here" in Page(await answer.get_data(as_text=True)).text


@pytest.mark.parametrize("order", ["", "trust", "<b>"])
async def test_what_is_no_order_is_refused(client: Client, node: KeyNode, order: str) -> None:
    _, place = await post(client, HERE, do=order, peer="b")
    assert "do: expected accept" in (await load(client, place)).text
    assert node.forgotten == []


async def test_no_page_of_another_site_forgets(client: Client, node: KeyNode) -> None:
    headers = {**FORM, "Origin": "http://elsewhere.example"}
    assert (await client.post(HERE, data=b"do=forget&peer=b", headers=headers)).status_code == 403
    assert node.forgotten == []


async def test_the_mesh_on_the_page_shows_fingerprints_and_leads_to_forgetting(
    client: Client, node: KeyNode
) -> None:
    node.meet("b")
    node.meet(EVIL, "left", key_text(bytes([2]) * 32))
    page = await load(client)
    for key in (OWN, OTHER, key_text(bytes([2]) * 32)):
        assert words(key).replace("-", " ") in page.text
        assert fingerprint(key) in plain(page)
    assert len(hrefs(page)) == 1
    assert f"Forget {EVIL}?" in [a.get("aria-label") for a in page.all("a")]


async def test_it_speaks_spanish(client: Client, node: KeyNode) -> None:
    node.meet("b", "dead")
    page = await load(client, f"{HERE}?forget=b", Accept_Language="es")
    assert "¿Olvidar b?" in page.text
    assert "Huella completa" in page.text
    assert "Forget" not in page.text


KEY = "rbUQmUrJxgANp1Nn81DPRUOq8hdRORMvxlHK0iJL2rE="
WHOLE = "ODGKK-BNGHL-XW32O-CITOB-AH4QW-5XOVG-YC772-SAB56-SX2K2-LS45C-6HM5D-JX4L5-NGUQY"  # docs/state.md


def test_a_key_is_shown_in_the_forms_of_the_command_line() -> None:
    found = identity_of(KEY)
    assert found is not None
    assert (found.fingerprint, found.short) == (WHOLE, "ODGKK-BNGHL")
    assert found.words == ("ladder", "desert", "barley", "degree", "sandal", "textile")
    assert found.spoken == "ladder-desert-barley-degree-sandal-textile"


def test_the_lines_under_each_other_are_the_fingerprint_and_can_be_typed_in() -> None:
    key = key_text(bytes(range(32)))
    found = identity_of(key)
    assert found is not None
    assert [line.count("-") + 1 for line in found.lines] == [5, 5, 3]
    assert read_fingerprint(" ".join(found.lines)) == fingerprint(key) == found.fingerprint


@pytest.mark.parametrize("key", ["", "AAAA", "<img src=x>", KEY[:-1], "é" * 44])
def test_what_is_no_key_has_no_identity(key: str) -> None:
    assert identity_of(key) is None


@pytest.mark.parametrize(
    ("state", "asked"), [("dead", True), ("left", True), ("alive", False), ("dancing", False)]
)
def test_who_takes_part_cannot_be_forgotten(state: str, asked: bool) -> None:
    assert forget_url('ward/7 "b"', state) == ("/view/keys?forget=ward%2F7%20%22b%22#forget" if asked else "")
    assert forget_url("b", state, disputed=True) == "/view/keys?forget=b#forget"


# strangers


async def test_everybody_stands_where_people_put_them() -> None:
    node = PinnedNode()
    node.trust.met(STRANGER, "ward", "192.0.2.7:4000")
    await node.trust.accept(FRIEND, introducer=True)
    await node.trust.introduced(FRIEND, [(fingerprint(THIRD), "lab")])
    node.meet(FRIEND, "friend", "suspect")
    found = known_keys(node.trust, node.peers())
    (waiting,) = found.waiting
    assert (waiting.name, waiting.address, waiting.by, waiting.state) == ("ward", "192.0.2.7:4000", "", "")
    friend, lab = sorted(found.accepted, key=lambda card: card.by, reverse=True)
    assert (friend.name, friend.is_introducer, friend.by) == (fingerprint(FRIEND)[:11], True, "person")
    assert friend.state == "suspect"
    assert (lab.name, lab.by, lab.introducer) == ("lab", "introducer", friend.name)
    assert found.find(fingerprint(THIRD)) is lab
    assert found.find(THIRD) is None


async def test_those_who_stay_out_come_newest_first_and_not_all_into_the_picture() -> None:
    node = PinnedNode()
    keys = [key_text(bytes([number]) * 32) for number in range(10, 30)]
    for place, key in enumerate(keys):
        node.trust.met(key, f"n{place}", "192.0.2.7:4000")
        await node.trust.reject(key)
    found = known_keys(node.trust)
    assert [card.name for card in found.out[:2]] == ["n19", "n18"]
    me = MeshNode(id="me", address="127.0.0.1:4000", state="alive", me=True)
    shown = with_known_keys(Mesh(nodes=[me]), found).nodes
    assert [(one.id, one.state) for one in shown[:2]] == [("me", "alive"), ("n19", "forgotten")]
    assert len(shown) == 1 + OUT_SHOWN


def test_a_stranger_with_the_name_of_a_member_does_not_take_its_place() -> None:
    node = PinnedNode()
    node.trust.met(STRANGER, "me", "192.0.2.7:4000")
    node.trust.met(THIRD, EVIL + "\x1b[31m", "192.0.2.8:4000")
    me = MeshNode(id="me", address="127.0.0.1:4000", state="alive", me=True)
    nodes = with_known_keys(Mesh(nodes=[me]), known_keys(node.trust)).nodes
    assert nodes[0] == me
    assert nodes[1].id == f"me {fingerprint(STRANGER)[:11]}"
    assert "\x1b" not in nodes[2].id and nodes[2].id.startswith(EVIL)
    assert {one.state for one in nodes[1:]} == {"pending"}


# The path is drawn again here, module by module, and holds what the library put into it.


RUN = re.compile(r"M(\d+) (\d+)h(\d+)v1h-(\d+)z")


def modules(path: str) -> set[tuple[int, int]]:
    """The dark modules that the path fills."""
    assert RUN.sub("", path) == ""
    dark: list[tuple[int, int]] = []
    for x, y, width, back in RUN.findall(path):
        assert width == back
        dark += [(int(x) + step, int(y)) for step in range(int(width))]
    assert len(dark) == len(set(dark))
    return set(dark)


def test_a_fingerprint_is_drawn_with_free_space_around_it() -> None:
    text = fingerprint(key_text(bytes(32)))
    drawn = qr_picture(text)
    code = segno.make(text, error="m", micro=False, boost_error=False)
    expected = {(x + QUIET, y + QUIET) for y, row in enumerate(code.matrix) for x, bit in enumerate(row) if bit}
    assert modules(drawn.path) == expected
    assert (drawn.size, code.version, code.mode, code.error) == (33 + 2 * QUIET, 4, "alphanumeric", "M")


def test_too_long_a_text_is_refused() -> None:
    with pytest.raises(ValueError, match="Data too large"):
        qr_picture("A" * 5000)


def test_the_library_is_loaded_by_the_first_who_looks_only() -> None:
    script = (
        "import sys, flnet.web.app, flnet.web.page.keys as qr\n"
        "assert 'segno' not in sys.modules\nqr.qr_picture('A')\nassert 'segno' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
