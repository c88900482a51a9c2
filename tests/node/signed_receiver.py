"""The receiving side of a node of a mesh with a key, as its web layer is, over the in-memory network."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256

from flnet.codec import BINARY_TYPE
from flnet.errors import PeerError
from flnet.messages import ModelParams
from flnet.node import NodeRuntime, introductions
from flnet.node.keyed import Signing, made_of
from flnet.node.trust import Trust
from flnet.settings import Settings
from flnet.signing import MeshKey
from flnet.signing.refusals import NotAccepted, SignatureNeeded
from flnet.store import Store
from flnet.transport import Reply
from flnet.transport.memory import SignedReceiver
from tests.signing.keypairs import TestKey

PARAMS = f"{ModelParams.path}/"


@lru_cache
def stretched(secret: str) -> MeshKey:
    """The key of this secret, stretched once."""
    return MeshKey(secret)


def signing(port: int, secret: str | None, trust: Trust | None = None) -> Signing | None:
    """What a node at this port signs with."""
    if trust is not None:
        return made_of(TestKey(port % 256), None, trust.trusts)
    return made_of(TestKey(port % 256), stretched(secret)) if secret else None


def trust_for(port: int, settings: Settings, store: Store, publish: Callable[..., object]) -> Trust | None:
    """Whom a node at this port of a pinned mesh trusts."""
    if settings.mode != "pinned":
        return None
    own = TestKey(port % 256).text
    return Trust(own, store, publish, peers=settings.trusted_peers, introducers=settings.introducers)


def signed_receiver(node: NodeRuntime) -> SignedReceiver:
    """What the network calls at a node's address."""

    async def receive(path: str, body: bytes, content_type: str, caller: str, headers: Mapping[str, str]) -> Reply:
        door, ip = node.door, caller.rpartition(":")[0]
        assert door is not None
        header = {"Content-Type": content_type, **headers}.get
        plain, _, query = path.partition("?")
        try:
            known = door.enter("POST" if content_type else "GET", plain, query, header, ip)
        except SignatureNeeded as exc:
            return refusal(exc, {"WWW-Authenticate": door.challenge})
        except NotAccepted as exc:
            return refusal(exc)
        known.sent(sha256(body).digest())
        is_pulled = path.startswith(PARAMS) and not body
        try:
            reply = await answer(node, path, body, content_type, ip, known.key)
        except PeerError as exc:
            reply = refusal(exc)
        digest = None if is_pulled else sha256(reply.body).digest()
        return replace(reply, headers=door.answer(known, reply.status, reply.content_type, digest))

    return receive


async def answer(node: NodeRuntime, path: str, body: bytes, content_type: str, ip: str, key: str) -> Reply:
    if path.startswith(PARAMS) and not body:
        return Reply(200, bytes(await node.held(path.removeprefix(PARAMS))), BINARY_TYPE)
    if path == introductions.PATH and node.trust is not None:
        return Reply(200, json.dumps(introductions.introductions_of(node.trust)).encode())
    if not body:
        return Reply(200, json.dumps(node.info()).encode())
    return await node.receive(path, body, content_type, ip, key)


def refusal(error: PeerError, headers: Mapping[str, str] | None = None) -> Reply:
    said = {"error": error.code, "message": error.message, **error.details()}
    return Reply(error.status, json.dumps(said).encode(), headers=headers or {})
