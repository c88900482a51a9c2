"""/trust: who waits, who is accepted and who stays out, for persons of the node."""

from __future__ import annotations

from typing import Any

import pytest

from flnet.fingerprints import fingerprint, words
from flnet.settings import load_settings
from flnet.web.api.trust import AcceptedView, TrustView
from flnet.web.app import create_app
from tests.web.conftest import SETTINGS, Client
from tests.web.fake_node import FakeNode
from tests.web.trusting import EVIL, FRIEND, OWN, STRANGER, PinnedNode, marks


@pytest.fixture
def node() -> PinnedNode:
    return PinnedNode()


async def known(client: Client) -> TrustView:
    answer = await client.get("/trust")
    assert answer.status_code == 200
    return TrustView.model_validate_json(await answer.get_data())


async def ask(client: Client, what: str, **fields: Any) -> tuple[int, Any]:
    answer = await client.post(f"/trust/{what}", json=fields)
    return answer.status_code, await answer.get_json()


async def test_a_stranger_waits_until_a_person_accepts_it(client: Client, node: PinnedNode) -> None:
    node.trust.met(STRANGER, EVIL, "192.0.2.7:4000")
    found = await known(client)
    assert found.own is not None and found.own.words == words(OWN)
    (waiting,) = found.pending
    assert (waiting.name, waiting.address, waiting.key) == (EVIL, "192.0.2.7:4000", STRANGER)
    assert (waiting.words, waiting.since) == (words(STRANGER), 1_700_000_000.0)
    status, view = await ask(client, "accept", fingerprint=waiting.fingerprint)
    accepted = AcceptedView.model_validate(view)
    assert (status, accepted.accepted_by, accepted.is_introducer) == (200, "person", False)
    assert node.trust.trusts(STRANGER)
    found = await known(client)
    assert ([one.key for one in found.accepted], found.pending) == ([STRANGER], [])


async def test_a_key_is_accepted_however_it_is_written_and_before_it_calls(
    client: Client, node: PinnedNode
) -> None:
    typed = fingerprint(FRIEND).lower().replace("-", " ")
    status, view = await ask(client, "accept", fingerprint=typed, introducer=True)
    assert (status, view["key"], view["words"], view["is_introducer"]) == (200, "", words(FRIEND), True)
    assert (await ask(client, "accept", fingerprint=STRANGER))[0] == 200
    assert node.trust.is_introducer(FRIEND) and node.trust.trusts(STRANGER)


async def test_who_is_rejected_or_forgotten_stays_out(client: Client, node: PinnedNode) -> None:
    for key in (STRANGER, FRIEND):
        node.trust.met(key, "n", "192.0.2.7:4000")
    await ask(client, "accept", fingerprint=FRIEND)
    status, _ = await ask(client, "reject", fingerprint=STRANGER)
    assert status == 200
    status, view = await ask(client, "forget", fingerprint=FRIEND)
    assert (status, [one["fingerprint"] for one in view["refused"]]) == (200, marks(STRANGER, FRIEND))
    assert node.trust.is_out(STRANGER) and node.trust.is_out(FRIEND)
    assert (await known(client)).accepted == []


@pytest.mark.parametrize(
    ("what", "fields", "status", "code"),
    [
        ("accept", {"fingerprint": "AAAAA"}, 422, "invalid_message"),
        ("accept", {"fingerprint": OWN}, 422, "invalid_message"),
        ("accept", {}, 422, "invalid_message"),
        ("accept", {"fingerprint": STRANGER, "introducer": "yes"}, 422, "invalid_message"),
        ("accept", {"fingerprint": STRANGER, "introduces": True}, 422, "invalid_message"),
        ("accept", {"fingerprint": "A" * 301}, 422, "invalid_message"),
        ("reject", {"fingerprint": ["A"]}, 422, "invalid_message"),
        ("forget", {"fingerprint": STRANGER}, 404, "unknown_key"),
    ],
)
async def test_what_cannot_be_done_is_told(
    client: Client, node: PinnedNode, what: str, fields: dict[str, Any], status: int, code: str
) -> None:
    got, answer = await ask(client, what, **fields)
    assert (got, answer["error"]) == (status, code)
    assert node.told == []


@pytest.mark.parametrize("what", ["accept", "reject", "forget"])
async def test_in_another_mesh_nobody_is_accepted(what: str) -> None:
    client = create_app(FakeNode(), SETTINGS).test_client()
    assert (await ask(client, what, fingerprint=STRANGER))[1]["error"] == "not_pinned"
    empty = await known(client)
    assert (empty.own, empty.pending, empty.accepted, empty.refused) == (None, [], [], [])


@pytest.mark.parametrize("path", ["", "/accept", "/reject", "/forget"])
async def test_only_persons_of_the_node_see_and_decide(node: PinnedNode, path: str) -> None:
    client = create_app(node, load_settings({"trust_loopback": False}, {})).test_client()
    body = {"fingerprint": STRANGER}
    answer = await (client.post(f"/trust{path}", json=body) if path else client.get("/trust"))
    assert (answer.status_code, (await answer.get_json())["error"]) == (401, "sign_in_needed")
    assert not node.trust.trusts(STRANGER)


async def test_no_page_of_another_site_accepts(client: Client, node: PinnedNode) -> None:
    headers = {"Origin": "http://elsewhere.example"}
    answer = await client.post("/trust/accept", json={"fingerprint": STRANGER}, headers=headers)
    assert (answer.status_code, node.trust.trusts(STRANGER)) == (403, False)
