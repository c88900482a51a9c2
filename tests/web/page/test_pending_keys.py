"""The card "waiting" on the page and in the view of keys, as a browser without script uses it."""

from __future__ import annotations

from typing import Any

import pytest

from flnet.fingerprints import fingerprint
from flnet.settings import load_settings
from flnet.text import text
from flnet.web.app import create_app
from tests.web.conftest import Client
from tests.web.page_reading import FORM, Page, load, post
from tests.web.trusting import EVIL, FRIEND, OWN, STRANGER, PinnedNode, spoken

KEYS = "/view/keys"


@pytest.fixture
def node() -> PinnedNode:
    made = PinnedNode()
    made.trust.met(STRANGER, EVIL, "192.0.2.7:4000")
    return made


async def press(client: Client, do: str, key: str = STRANGER, **fields: str) -> Page:
    status, place = await post(client, KEYS, do=do, key=fingerprint(key), **fields)
    assert status == 303
    return await load(client, place)


@pytest.mark.parametrize("path", ["/", KEYS])
async def test_words_of_both_nodes_stand_side_by_side(client: Client, path: str) -> None:
    page = await load(client, path)
    assert "Waiting to be accepted 1" in page.text
    assert spoken(STRANGER) in page.text and spoken(OWN) in page.text
    assert "192.0.2.7:4000" in page.text
    assert EVIL in page.text and len(page.all("img")) == 1
    assert [b.get("value") for b in page.all("button") if b.get("name") == "do"][:2] == ["accept", "reject"]
    assert {"type": "checkbox", "name": "compared", "value": "yes", "required": None} in page.all("input")
    assert page.inline == ""


@pytest.mark.parametrize("back", ["/", KEYS])
async def test_accepting_is_told_where_the_button_was(client: Client, node: PinnedNode, back: str) -> None:
    _, place = await post(client, KEYS, do="accept", key=fingerprint(STRANGER), compared="yes", back=back)
    assert place.startswith(f"{back}?notice=")
    page = await load(client, place)
    assert f"{EVIL} is accepted." in page.text
    assert "Waiting to be accepted" not in page.text
    assert node.trust.trusts(STRANGER) and not node.trust.is_introducer(STRANGER)


async def test_an_introducer_is_one_by_its_box_and_no_longer_without_it(client: Client, node: PinnedNode) -> None:
    page = await press(client, "accept", compared="yes", introducer="yes")
    assert "so are those whom it introduces" in page.text and "introducer" in page.text
    assert node.trust.is_introducer(STRANGER)
    page = await load(client, f"{KEYS}?accept={fingerprint(STRANGER)}")
    assert [box for box in page.all("input") if box.get("name") == "introducer" and "checked" in box]
    await press(client, "accept", compared="yes")
    assert node.trust.trusts(STRANGER) and not node.trust.is_introducer(STRANGER)


async def test_nobody_is_accepted_whose_words_were_not_compared(client: Client, node: PinnedNode) -> None:
    page = await press(client, "accept")
    assert len(page.alerts()) == 1 and "compare the fingerprints first" in page.text
    assert not node.trust.trusts(STRANGER)


async def test_who_is_rejected_is_kept_out_and_can_be_accepted_later(client: Client, node: PinnedNode) -> None:
    page = await press(client, "reject", name=EVIL)
    assert f"{EVIL} is rejected." in page.text and "Kept out" in page.text
    assert node.trust.is_out(STRANGER)
    (link,) = [a["href"] or "" for a in page.all("a") if "?accept=" in (a.get("href") or "")]
    assert f"Accept {EVIL}?" in (await load(client, link.partition("#")[0])).text
    await press(client, "accept", compared="yes")
    assert node.trust.trusts(STRANGER)


async def test_trust_is_taken_back_after_a_question(client: Client, node: PinnedNode) -> None:
    await node.trust.accept(STRANGER)
    page = await load(client, KEYS)
    (link,) = [a["href"] or "" for a in page.all("a") if "?distrust=" in (a.get("href") or "")]
    page = await load(client, link.partition("#")[0])
    assert f"Forget {EVIL}?" in page.text and "stays out until a person here accepts it" in page.text
    assert node.trust.trusts(STRANGER)
    page = await press(client, "distrust", name=EVIL)
    assert f"{EVIL} is forgotten here. It stays out" in page.text
    assert node.trust.is_out(STRANGER)


async def test_a_key_that_was_read_out_is_accepted_before_its_node_calls(client: Client, node: PinnedNode) -> None:
    typed = fingerprint(FRIEND).lower().replace("-", " ")
    _, place = await post(client, KEYS, do="accept", key=typed, compared="yes")
    page = await load(client, place)
    assert f"{fingerprint(FRIEND)[:11]}… is accepted." in page.text and "has not called yet" in page.text
    assert node.trust.trusts(FRIEND)
    _, place = await post(client, KEYS, do="accept", key="AAAAA", compared="yes")
    assert "expected a public key" in (await load(client, place)).text


async def test_the_mesh_has_who_waits_and_who_stays_out(client: Client, node: PinnedNode) -> None:
    await node.trust.reject(FRIEND)
    page = await load(client)
    looks = [g["class"] for g in page.all("g") if (g.get("class") or "").startswith("dot ")]
    assert looks.count("dot pending") == looks.count("dot forgotten") == 2  # in the picture and in its legend
    edges = [path["class"] for path in page.all("path") if (path.get("class") or "").startswith("edge")]
    assert edges == ["edge pending"]
    rows = [a["href"] for a in page.all("a") if "?accept=" in (a.get("href") or "")]
    assert len(rows) == 2


async def test_members_lead_to_the_question_and_to_their_pages_over_tls(client: Client, node: PinnedNode) -> None:
    await node.trust.accept(FRIEND)
    node.meet(FRIEND, "friend")
    page = await load(client)
    links = [a.get("href") for a in page.all("a")]
    assert f"{KEYS}?distrust={fingerprint(FRIEND)}#distrust" in links
    assert "https://192.0.2.1:4000/" in links


async def test_a_node_that_waits_elsewhere_shows_its_words(
    client: Client, node: PinnedNode, monkeypatch: Any
) -> None:
    await node.trust.reject(STRANGER)
    reason = text("a person has to accept the fingerprint of this node at {names}", "192.0.2.9:4000")
    view = {"ready": False, "mesh_joined": False, "data_loaded": True, "reasons": [reason]}
    monkeypatch.setattr(node, "ready", lambda: view)
    assert f"{reason} Words of this node: {spoken(OWN)}" in (await load(client)).text
    spanish = await load(client, Accept_Language="es")
    assert "tiene que aceptar la huella de este nodo en 192.0.2.9:4000" in spanish.text


async def test_other_pages_say_how_many_wait(client: Client, node: PinnedNode) -> None:
    assert "Keys 1 Waiting to be accepted" in (await load(client, "/view/data")).text
    await node.trust.reject(STRANGER)
    assert "Waiting to be accepted" not in (await load(client, "/view/data")).text


async def test_who_only_reads_is_not_shown_who_waits(node: PinnedNode) -> None:
    client = create_app(node, load_settings({"trust_loopback": False}, {})).test_client()
    for path in ("/", KEYS, f"{KEYS}?accept={fingerprint(STRANGER)}", "/view/data"):
        page = await load(client, path)
        assert spoken(STRANGER) not in page.text and "192.0.2.7" not in page.text
        assert "Waiting" not in page.text
    answer = await client.post(KEYS, data=b"do=accept&compared=yes&key=" + STRANGER.encode(), headers=FORM)
    assert (answer.status_code, node.trust.trusts(STRANGER)) == (401, False)


async def test_a_key_that_is_gone_is_told(client: Client) -> None:
    answer = await client.get(f"{KEYS}?distrust={fingerprint(FRIEND)}")
    assert answer.status_code == 422
    assert "is known here any more" in await answer.get_data(as_text=True)


async def test_it_speaks_spanish(client: Client, node: PinnedNode) -> None:
    for path in ("/", KEYS):
        page = await load(client, path, Accept_Language="es")
        assert "Esperan a ser aceptados" in page.text and "Rechazar" in page.text
        assert "Accept" not in page.text
