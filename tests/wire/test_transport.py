"""What both transports ask of a reply."""

from __future__ import annotations

import random
from collections.abc import Mapping
from hashlib import sha256

import pytest

from flnet.errors import PeerRefused, SignatureNeeded, TransportError
from flnet.params.blob import Blob
from flnet.security.signing import RequestVerifier
from flnet.wire.memory import MemoryNetwork
from flnet.wire.transport import OFF_LOOP_BYTES, Reply, sha256_of, wait_of
from tests.security.keypairs import OTHER_MESH, TestKey, seal, verifier


def test_a_peer_that_is_not_ready_or_asked_too_often_is_asked_again() -> None:
    assert wait_of(Reply(503, b'{"error": "not_ready", "message": "still loading"}')) == 0
    assert wait_of(Reply(429, b'{"error": "too_many_messages", "retryAfter": 3}')) == 3


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b'{"error": "not_ready"}'),
        (503, b'{"error": "overloaded"}'),
        (503, b"<html>busy</html>"),
        (503, b""),
        (503, b"\xff"),
        (503, b'["not_ready"]'),
        (503, b"[" * 60_000),
        (429, b'{"error": "too_many_messages"}'),
        (429, b'{"error": "too_many_messages", "retryAfter": -1}'),
        (429, b'{"error": "too_many_messages", "retryAfter": 1e999}'),
        (429, b'{"error": "too_many_messages", "retryAfter": 4000}'),
        (429, b'{"error": "too_many_messages", "retryAfter": "3"}'),
        (503, b'{"error": "not_ready", "x": "' + b"x" * 70_000 + b'"}'),
    ],
)
def test_other_answers_are_final(status: int, body: bytes) -> None:
    assert wait_of(Reply(status, body)) is None


# sealing


JSON = "application/json"


@pytest.mark.parametrize("size", [0, 10, OFF_LOOP_BYTES + 1])
async def test_a_body_is_hashed_as_it_is_sent(size: int) -> None:
    body = bytes(size)
    assert await sha256_of(None) == sha256(b"").digest()
    assert await sha256_of(body) == sha256(body).digest()
    assert await sha256_of(Blob([body[: size // 2], body[size // 2 :]])) == sha256(body).digest()


class Far:
    """A node that lets signed requests in, and counts what it was asked."""

    def __init__(self, verifier: RequestVerifier, answered: bytes = b"yes") -> None:
        self.verifier, self.answered = verifier, answered
        self.asked = 0
        self.callers: list[str] = []

    async def __call__(
        self, path: str, body: bytes, content_type: str, caller: str, headers: Mapping[str, str]
    ) -> Reply:
        self.asked += 1
        there = {"Content-Type": content_type, **headers}
        try:
            known = self.verifier.admit("POST" if content_type else "GET", *path.partition("?")[::2], there.get)
        except SignatureNeeded as exc:
            told = {"WWW-Authenticate": self.verifier.me.challenge}
            return Reply(exc.status, b'{"error": "signature_needed"}', headers=told)
        known.sent(sha256(body).digest())
        self.callers.append(known.key)
        digest = sha256(b"yes").digest()
        return Reply(200, self.answered, JSON, self.verifier.answer(known, 200, JSON, digest))


def network(far: Far) -> MemoryNetwork:
    made = MemoryNetwork(random.Random(0))
    made.register_signed("b:1", far)
    return made


async def test_the_first_request_learns_for_whom_to_sign_and_later_ones_know() -> None:
    far = Far(verifier())
    transport = network(far).transport("a:1", seal())

    first = await transport.send("b:1", "/announce", b"{}", JSON)
    second = await transport.fetch("b:1", "/info?last=1")

    assert (first.body, second.body) == (b"yes", b"yes")
    assert first.signer == TestKey(2).text
    assert far.callers == [TestKey(1).text] * 2
    assert far.asked == 3


async def test_a_peer_that_was_started_again_is_asked_twice() -> None:
    far = Far(verifier())
    transport = network(far).transport("a:1", seal())
    await transport.send("b:1", "/announce", b"{}", JSON)
    far.verifier = verifier(session="e" * 32)

    assert (await transport.send("b:1", "/announce", b"{}", JSON)).body == b"yes"
    assert far.asked == 4


async def test_a_changed_answer_is_none() -> None:
    far = Far(verifier(), answered=b"no!")

    with pytest.raises(TransportError, match="changed on the way"):
        await network(far).transport("a:1", seal()).send("b:1", "/announce", b"{}", JSON)


async def test_a_wrong_mesh_key_is_told_in_the_words_of_the_peer() -> None:
    far = Far(verifier(mesh=OTHER_MESH))

    with pytest.raises(PeerRefused, match="403 signature_refused"):
        await network(far).transport("a:1", seal()).send("b:1", "/announce", b"{}", JSON)


async def test_a_peer_that_asks_for_another_signature_each_time_is_given_up() -> None:
    class Fickle(Far):
        async def __call__(self, *what: object) -> Reply:
            self.asked += 1
            told = {"WWW-Authenticate": verifier(session=f"{self.asked:032x}").me.challenge}
            return Reply(401, b"{}", headers=told)

    far = Fickle(verifier())

    with pytest.raises(TransportError, match="again and again"):
        await network(far).transport("a:1", seal()).send("b:1", "/announce", b"{}", JSON)
    assert far.asked == 2


async def test_a_node_without_the_key_of_the_mesh_is_no_peer() -> None:
    made = MemoryNetwork(random.Random(0))

    async def thesis(path: str, body: bytes, content_type: str, caller: str) -> Reply:
        return Reply(201, b"{}")

    made.register("b:1", thesis)
    with pytest.raises(TransportError, match="not signed"):
        await made.transport("a:1", seal()).send("b:1", "/announce", b"{}", JSON)
