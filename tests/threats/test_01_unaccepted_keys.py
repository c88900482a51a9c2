"""A node whose key nobody accepted calls a pinned mesh: it may say who it is, and no more."""

from __future__ import annotations

import json

import pytest

from flnet.errors import PeerRefused, TransportError
from flnet.fingerprints import fingerprint
from flnet.node.trust import made_of
from flnet.protocol.messages import ModelParams
from flnet.web.auth.signed_requests import KNOCKS, SignedRequests
from flnet.wire.memory import MemoryTransport
from tests.node.mesh import MNIST_3_7, Mesh
from tests.node.test_keyed_mesh import start_round
from tests.node.test_trust import KEYS, add
from tests.security.keypairs import TestKey

JSON = "application/json"
X, Y = TestKey(201), TestKey(202)


def announcement(name: str, key: str) -> bytes:
    said = {"iAm": {"id": name, "ip": "127.0.0.1", "port": 6666}, "myKnownPeers": [], "key": key}
    return json.dumps(said).encode()


def caller(mesh: Mesh, key: TestKey) -> MemoryTransport:
    """Somebody with a key of its own, to whom any node is good enough."""
    return mesh.network.transport("127.0.0.1:6666", made_of(key, None).signer)


async def pair() -> Mesh:
    mesh = Mesh()
    await add(mesh, "a", trusts="b")
    await add(mesh, "b", "a", trusts="a")
    await mesh.full()
    return mesh


async def test_a_stranger_waits_and_takes_no_part() -> None:
    mesh = await pair()
    try:
        a = mesh.nodes["a"]
        assert a.trust is not None
        reply = await caller(mesh, X).send(a.me.address, "/announce", announcement("x", X.text), JSON)
        shown, peers = a.trust.pending(), [peer["id"] for peer in a.peers()]
    finally:
        await mesh.stop()
    assert reply.status == 403 and json.loads(reply.body)["error"] == "pending"
    assert b"127.0.0.1:4001" not in reply.body  # it learns of no member
    assert [(one["name"], one["key"]) for one in shown] == [("x", X.text)] and peers == ["b"]


async def test_a_stranger_reads_no_model_and_says_nothing_else() -> None:
    mesh = await pair()
    try:
        a = mesh.nodes["a"]
        model = a.core.jobs[MNIST_3_7].held.model
        assert model is not None
        fetched = f"{ModelParams.path}/{model.shared.digest}"
        for path in (fetched, "/info", "/introductions"):
            with pytest.raises(PeerRefused, match="not_accepted"):
                await caller(mesh, X).fetch(a.me.address, path)
        for path in ("/probe", "/training", ModelParams.path):
            with pytest.raises(PeerRefused, match="not_accepted"):
                await caller(mesh, X).send(a.me.address, path, b"not read", JSON)
        await start_round(a)
        await mesh.idle(0)
        contributors = a.history(MNIST_3_7)[-1]["contributors"]
    finally:
        await mesh.stop()
    assert contributors == ["a", "b"]


async def test_strangers_of_one_address_cannot_knock_as_often_as_they_like() -> None:
    mesh = await pair()
    try:
        a = mesh.nodes["a"]
        answers = []
        for number in range(int(KNOCKS) + 5):
            key = TestKey(100 + number)
            try:
                reply = await caller(mesh, key).send(a.me.address, "/announce", announcement("x", key.text), JSON)
                answers.append(reply.status)
            except TransportError as exc:
                answers.append(429 if "429" in str(exc) else 0)
    finally:
        await mesh.stop()
    assert answers[: int(KNOCKS)] == [403] * int(KNOCKS) and answers[-1] == 429


async def test_a_forgotten_node_stays_out_and_comes_back_under_no_name() -> None:
    mesh = await pair()
    try:
        a = mesh.nodes["a"]
        assert a.trust is not None
        await a.trust.forget(KEYS["b"])
        same = made_of(TestKey(4001 % 256), None).signer
        for name in ("b", "another"):
            with pytest.raises(PeerRefused, match="not_accepted"):
                await mesh.network.transport("127.0.0.1:6666", same).send(
                    a.me.address, "/announce", announcement(name, KEYS["b"]), JSON
                )
        waits = a.trust.pending()
        peers = [peer for peer in a.peers() if peer["state"] == "alive"]
    finally:
        await mesh.stop()
    assert waits == [] and peers == []


async def test_an_accepted_node_cannot_take_the_name_of_another_one() -> None:
    mesh = await pair()
    try:
        a = mesh.nodes["a"]
        assert a.trust is not None
        await a.trust.accept(fingerprint(Y.text))
        reply = await caller(mesh, Y).send(a.me.address, "/announce", announcement("b", Y.text), JSON)
        borrowed = await caller(mesh, Y).send(a.me.address, "/announce", announcement("b", KEYS["b"]), JSON)
    finally:
        await mesh.stop()
    assert reply.status == 409 and json.loads(reply.body)["error"] == "id_taken"
    assert borrowed.status == 403 and json.loads(borrowed.body)["error"] == "signature_refused"


async def test_a_recorded_request_of_an_accepted_node_is_refused_the_second_time() -> None:
    mesh = await pair()
    try:
        a = mesh.nodes["a"]
        assert a.signing is not None
        signed = SignedRequests(a.signing, a.feed.publish, a.trust)
        seal = made_of(TestKey(4001 % 256), None).signer
        await mesh.network.transport("127.0.0.1:4001", seal).send(
            a.me.address, "/probe", json.dumps({"iAm": {"id": "b", "port": 4001}, "key": KEYS["b"]}).encode(), JSON
        )
        recorded = seal.request(a.me.address, "GET", "/info", "", bytes(32))
        first = signed.enter("GET", "/info", "", recorded.headers.get, "127.0.0.1")
        with pytest.raises(Exception, match="answered before"):
            signed.enter("GET", "/info", "", recorded.headers.get, "127.0.0.1")
    finally:
        await mesh.stop()
    assert first.key == KEYS["b"]
