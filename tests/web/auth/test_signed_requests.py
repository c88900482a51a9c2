"""The web layer of a node in a mesh with a key, asked over real sockets and in pieces."""

from __future__ import annotations

import gc
import json
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quart import Quart, Request

from flnet.errors import NotAccepted, PeerError, PeerRefused, SignatureNeeded, SignatureRefused, TransportError
from flnet.node.interface import Body
from flnet.node.trust import Trust
from flnet.security.signing import Caller, RequestSigner
from flnet.web.app import create_app
from flnet.web.auth.signed_requests import MAX_REPORTED, SignedRequests
from flnet.wire.binary_codec import BINARY_TYPE
from flnet.wire.http import HttpTransport
from flnet.wire.transport import Reply
from tests.security.keypairs import OTHER_MESH, TestKey, learnt, seal, sent, verifier
from tests.web.conftest import SETTINGS, Client, Running, served
from tests.web.fake_node import FakeNode

ANNOUNCE = {"iAm": {"id": "a", "ip": "127.0.0.1", "port": 4001}, "myKnownPeers": []}
BODY = json.dumps(ANNOUNCE).encode()
JSON = "application/json"
PATHS = ("/announce", "/probe", "/training", "/training/model_params", "/training/model_params/accuracy")


class Keyed(FakeNode):
    """A twin node of a mesh with a key."""

    def __init__(self) -> None:
        super().__init__()
        self.verifier = self.signing = verifier()
        self.signers: list[str] = []

    async def receive(self, path: str, body: Body, content_type: str, caller_ip: str, signer: str = "") -> Reply:
        self.signers.append(signer)
        return await super().receive(path, body, content_type, caller_ip, signer)


@pytest.fixture
def node() -> Keyed:
    return Keyed()


@asynccontextmanager
async def peer(made: RequestSigner) -> AsyncIterator[HttpTransport]:
    transport = HttpTransport(60.0, random.Random(0), signer=made)
    try:
        yield transport
    finally:
        await transport.close()


async def test_a_node_of_the_mesh_is_let_in_and_reads_signed_answers(running: Running, node: Keyed) -> None:
    async with running() as port, peer(seal()) as http:
        address = f"127.0.0.1:{port}"
        reply = await http.send(address, "/announce", BODY, JSON)
        info = await http.fetch(address, "/info")
        refused = await http.fetch(address, "/jobs/NONE/history?last=3")

    assert (reply.status, reply.signer) == (201, TestKey(2).text)
    assert (info.status, info.signer) == (200, TestKey(2).text)
    assert (refused.status, refused.signer) == (404, TestKey(2).text)
    assert node.signers == [TestKey(1).text]
    assert node.reported == []


async def test_a_restarted_node_is_told_the_new_session(running: Running, node: Keyed, app: Quart) -> None:
    async with running() as port, peer(seal()) as http:
        await http.send(f"127.0.0.1:{port}", "/announce", BODY, JSON)
        node.verifier.me = verifier(session="e" * 32).me
        reply = await http.send(f"127.0.0.1:{port}", "/announce", BODY, JSON)

    assert reply.status == 201
    assert node.reported == []


async def test_another_mesh_key_is_told_on_both_sides(running: Running, node: Keyed) -> None:
    async with running() as port, peer(seal(mesh=OTHER_MESH)) as http:
        for _ in range(2):
            with pytest.raises(PeerRefused, match="403 signature_refused: the mesh key is another one"):
                await http.send(f"127.0.0.1:{port}", "/announce", BODY, JSON)

    assert len(node.reported) == 1 and "FLNET_MESH_KEY" in node.reported[0]
    assert node.signers == []


async def test_an_open_node_is_no_peer_of_this_one() -> None:
    async with served(create_app(FakeNode(), SETTINGS)) as port, peer(seal()) as http:
        with pytest.raises(TransportError, match="not signed"):
            await http.send(f"127.0.0.1:{port}", "/announce", BODY, JSON)


@pytest.mark.parametrize("path", PATHS)
async def test_what_is_not_signed_is_refused_with_whom_to_sign_for(client: Client, node: Keyed, path: str) -> None:
    answer = await client.post(path, data=BODY, headers={"Content-Type": JSON})

    assert answer.status_code == 401
    assert (await answer.get_json())["error"] == "signature_needed"
    assert answer.headers["WWW-Authenticate"] == node.verifier.me.challenge
    assert node.signers == []


@pytest.mark.parametrize("path", ["/announce/", "//announce", "/%61nnounce", "/announce?x", "/ANNOUNCE"])
async def test_no_other_way_to_write_a_path_leads_around(client: Client, node: Keyed, path: str) -> None:
    answer = await client.post(path, data=BODY, headers={"Content-Type": JSON})

    assert answer.status_code >= 300
    assert node.signers == []


async def test_parameters_are_for_nodes_only(client: Client) -> None:
    assert (await client.get(f"/training/model_params/{'0' * 64}")).status_code == 401


async def test_people_read_and_act_as_before(client: Client) -> None:
    for path in ("/info", "/", "/health", "/jobs"):
        assert (await client.get(path)).status_code == 200


async def test_strangers_read_nothing_of_the_mesh(app: Quart, node: Keyed) -> None:
    client = app.test_client()
    scope = {"client": ("10.0.0.9", 1)}
    for path in (
        "/",
        "/info",
        "/events",
        "/events.jsonl",
        "/peers",
        "/mesh",
        "/trust",
        "/jobs/MNIST",
        "/jobs/MNIST/history",
        "/jobs/MNIST/history.csv",
        "/jobs/MNIST/models",
        "/jobs/MNIST/models/ab",
        "/jobs/MNIST/models/ab/card",
        "/view/models/MNIST",
    ):
        assert (await client.get(path, scope_base=scope)).status_code == 401, path
    for path in ("/health", "/openapi.json", "/sign-in"):
        assert (await client.get(path, scope_base=scope)).status_code == 200, path
    node.reasons = ["MNIST is still loading its data"]
    ready = await client.get("/ready", scope_base=scope)
    assert (ready.status_code, (await ready.get_json())["reasons"]) == (503, [])
    browser = {"Accept": "text/html,*/*;q=0.8"}
    led = await client.get("/", scope_base=scope, headers=browser)
    assert (led.status_code, led.headers["Location"]) == (302, "/sign-in")


def signed_headers(node: Keyed, body: bytes, path: str = "/announce", content_type: str = JSON) -> dict[str, str]:
    here = learnt(seal(), node.verifier)
    made = here.request("b:1", "POST", path, "", sha256(body).digest(), content_type)
    return {**made.headers, "Content-Type": content_type}


async def test_a_changed_body_is_refused_and_told(client: Client, node: Keyed) -> None:
    answer = await client.post("/announce", data=BODY + b" ", headers=signed_headers(node, BODY))

    assert answer.status_code == 403
    assert "changed on the way" in (await answer.get_json())["message"]
    assert node.signers == [] and len(node.reported) == 1


async def test_the_refusal_of_what_was_let_in_is_signed(client: Client, node: Keyed) -> None:
    answer = await client.post("/announce", data=b"{}", headers=signed_headers(node, b"{}"))

    assert answer.status_code == 422
    assert "Signature" in answer.headers


async def test_a_request_is_taken_once(client: Client, node: Keyed) -> None:
    headers = signed_headers(node, BODY)

    assert (await client.post("/announce", data=BODY, headers=headers)).status_code == 201
    again = await client.post("/announce", data=BODY, headers=headers)
    assert again.status_code == 403 and "second time" in (await again.get_json())["message"]
    assert len(node.signers) == 1


async def test_the_body_of_a_stranger_is_not_taken_in(client: Client, node: Keyed) -> None:
    inspected: list[str] = []

    def inspect(path: str, content_type: str, head: memoryview, total: int) -> bool:
        inspected.append(path)
        return True

    node.inspect = inspect  # type: ignore[method-assign]
    headers = {"Content-Type": BINARY_TYPE, "Content-Length": "1000000"}
    answer = await client.post("/training/model_params", data=b"x" * 1_000_000, headers=headers)

    assert answer.status_code == 401
    assert inspected == []


HEADERS = ("Signature-Input", "Signature", "Content-Digest", "Flnet-Receiver")
PRINTABLE = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=120)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(headers=st.dictionaries(st.sampled_from(HEADERS), PRINTABLE), path=st.sampled_from((*PATHS, "/info")))
async def test_any_signature_is_refused_in_words(
    client: Client, node: Keyed, headers: dict[str, str], path: str
) -> None:
    answer = await client.post(path, data=BODY, headers={"Content-Type": JSON, **headers})

    if path == "/info" and not {"Signature-Input", "Flnet-Receiver"} & set(headers):
        assert answer.status_code == 405  # nothing of a signature: as without a key
    else:
        assert answer.status_code in (401, 403)
        assert (await answer.get_json())["error"] in ("signature_needed", "signature_refused")
    assert node.signers == []


async def test_nothing_of_a_refused_request_is_kept(client: Client) -> None:
    def kept() -> int:
        gc.collect()
        return sum(issubclass(type(one), Request) for one in gc.get_objects())

    before = kept()
    for _ in range(20):
        assert (await client.post("/announce", json=ANNOUNCE)).status_code == 401
    assert kept() - before <= 2


class Receiver:
    """Where signed requests arrive, looked at by their heads alone."""

    def __init__(self, trust: Trust | None = None) -> None:
        self.reported: list[str] = []
        self.signed = SignedRequests(verifier(mesh=None) if trust else verifier(), self._publish, trust)

    def _publish(self, kind: str, words: str) -> None:
        assert kind == "refused_here"
        self.reported.append(words)

    def enter(self, headers: Mapping[str, str], path: str = "/announce") -> Caller:
        return self.signed.enter("POST", path, "", {"Content-Type": JSON, **headers}.get, "10.0.0.1")


@pytest.mark.parametrize(
    ("headers", "error", "words"),
    [
        ({}, SignatureNeeded, "10.0.0.1 to /announce"),
        (sent(learnt(seal(mesh=OTHER_MESH), verifier())).headers, SignatureRefused, "FLNET_MESH_KEY"),
        (sent(seal()).headers, SignatureNeeded, ""),  # the first call of a node that can sign is no news
        (
            sent(learnt(seal(), verifier(session="e" * 32))).headers,
            SignatureNeeded,
            "",
        ),  # nor that of one it knew before
    ],
)
def test_a_stranger_is_reported_once(headers: Mapping[str, str], error: type[PeerError], words: str) -> None:
    receiver = Receiver()
    for _ in range(3):
        with pytest.raises(error):
            receiver.enter(headers)
    assert len(receiver.reported) == (1 if words else 0)
    assert all(words in told for told in receiver.reported)


def test_no_flood_of_strangers_fills_the_event_log() -> None:
    receiver = Receiver()
    for number in range(MAX_REPORTED + 10):
        receiver.signed.report(f"10.0.{number // 256}.{number % 256}", "/announce", PeerError("no"))
    assert len(receiver.reported) == MAX_REPORTED


async def test_strangers_of_a_pinned_mesh_may_announce_themselves_and_nothing_else() -> None:
    trust = Trust(TestKey(2).text)
    await trust.accept(TestKey(1).text)
    receiver = Receiver(trust)

    def call(key: int, path: str, run: str) -> None:
        receiver.enter(
            sent(learnt(seal(key, mesh=None, run=run * 16), verifier(mesh=None)), path=path).headers, path
        )

    call(1, "/announce", "0")
    call(1, "/probe", "1")
    call(3, "/announce", "0")
    with pytest.raises(NotAccepted):
        call(3, "/probe", "1")
    assert len(receiver.reported) == 1
    await trust.reject(TestKey(3).text)
    with pytest.raises(NotAccepted):
        call(3, "/announce", "f")
