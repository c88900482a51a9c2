"""The view of keys as a browser without script sees it: fingerprints, and the form that forgets a peer."""

from __future__ import annotations

import pytest

from flnet.errors import PeerError
from flnet.fingerprints import fingerprint, key_text, words
from flnet.membership.naming import StillThere, UnknownPeer
from flnet.node.base import View
from flnet.settings import load_settings
from flnet.web import create_app

from ..conftest import SETTINGS, Client
from ..fake_node import FakeNode
from ..page_reading import FORM, Page, load, post

HERE = "/view/keys"
OWN, OTHER = key_text(bytes(32)), key_text(bytes([1]) * 32)
EVIL = "<img src=x onerror=alert(1)>"


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


@pytest.mark.parametrize(("mode", "words"), [("open", "neither signed nor encrypted"), ("keyed", "not encrypted")])
async def test_every_page_says_how_nodes_know_each_other(node: KeyNode, mode: str, words: str) -> None:
    options = {"mesh_key": "correct horse battery staple"} if mode == "keyed" else {}
    client = create_app(node, load_settings(options, {})).test_client()
    for path in ("/", HERE, "/view/data", "/view/api", "/sign-in"):
        assert words in (await load(client, path)).text


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
