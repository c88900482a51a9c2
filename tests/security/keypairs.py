"""Real Ed25519 keys for tests, and the two sides of an exchange."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from flnet.security.signatures import MeshKey
from flnet.security.signing import Caller, RequestSigner, RequestVerifier, SignedRequest

SESSION = "0123456789abcdef" * 2
RUN = "00112233aabbccdd"


class TestKey:
    """A key pair that is made from one byte."""

    __test__ = False  # no test class

    def __init__(self, seed: int) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)

    @cached_property
    def text(self) -> str:
        return base64.b64encode(self._private.public_key().public_bytes_raw()).decode()

    def sign(self, data: bytes) -> bytes:
        return self._private.sign(data)

    def verify(self, key: str, signature: bytes, data: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(base64.b64decode(key)).verify(signature, data)
        except (InvalidSignature, ValueError):
            return False
        return True


MESH = MeshKey("correct horse battery staple")
OTHER_MESH = MeshKey("correct horse battery stable")


def verifier(seed: int = 2, mesh: MeshKey | None = MESH, session: str = SESSION) -> RequestVerifier:
    return RequestVerifier(TestKey(seed), mesh, lambda: session)


def seal(seed: int = 1, mesh: MeshKey | None = MESH, run: str = RUN) -> RequestSigner:
    return RequestSigner(TestKey(seed), mesh, run)


def learnt(sender: RequestSigner, receiver: RequestVerifier, address: str = "b:1") -> RequestSigner:
    """The sender, after it was told who is at this address."""
    first = sender.request(address, "POST", "/announce", "", b"")
    assert sender.learn(address, first, 401, {"WWW-Authenticate": receiver.me.challenge}.get)
    return sender


def sent(
    sender: RequestSigner, body: bytes = b"{}", path: str = "/announce", address: str = "b:1"
) -> SignedRequest:
    return sender.request(address, "POST", path, "", sha256(body).digest(), "application/json")


def admitted(
    receiver: RequestVerifier,
    headers: Mapping[str, str],
    path: str = "/announce",
    method: str = "POST",
    query: str = "",
) -> Caller:
    kept = {"Content-Type": "application/json", **headers}
    return receiver.admit(method, path, query, kept.get)
