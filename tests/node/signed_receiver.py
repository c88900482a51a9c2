"""The receiving side of a node of a mesh with a key, as its web layer is, over the in-memory network."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256

from flnet.errors import NotAccepted, PeerError, SignatureNeeded
from flnet.node.own_trainers import PATH as OFFERED
from flnet.node.runtime import NodeRuntime
from flnet.node.trust import INTRODUCTIONS, Signing, Trust, introductions_of, made_of
from flnet.protocol.messages import ModelParams
from flnet.security.signatures import MeshKey
from flnet.settings import Settings
from flnet.store.base import Store
from flnet.web.auth.signed_requests import SignedRequests
from flnet.wire.binary_codec import BINARY_TYPE
from flnet.wire.memory import SignedReceiver
from flnet.wire.transport import FORMS_HEADER, Reply, forms_of
from tests.security.keypairs import TestKey

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

    assert node.signing is not None
    signed = SignedRequests(node.signing, node.feed.publish, node.trust)

    async def receive(path: str, body: bytes, content_type: str, caller: str, headers: Mapping[str, str]) -> Reply:
        assert node.signing is not None
        ip = caller.rpartition(":")[0]
        header = {"Content-Type": content_type, **headers}.get
        plain, _, query = path.partition("?")
        try:
            known = signed.enter("POST" if content_type else "GET", plain, query, header, ip)
        except SignatureNeeded as exc:
            return refusal(exc, {"WWW-Authenticate": node.signing.me.challenge})
        except NotAccepted as exc:
            return refusal(exc)
        known.sent(sha256(body).digest())
        is_pulled = path.startswith(PARAMS) and not body
        try:
            reply = await answer(node, path, body, content_type, ip, known.key, headers)
        except PeerError as exc:
            reply = refusal(exc)
        digest = None if is_pulled else sha256(reply.body).digest()
        return replace(reply, headers=node.signing.answer(known, reply.status, reply.content_type, digest))

    return receive


async def answer(
    node: NodeRuntime,
    path: str,
    body: bytes,
    content_type: str,
    ip: str,
    key: str,
    headers: Mapping[str, str],
) -> Reply:
    if path.startswith(PARAMS) and not body:
        forms = forms_of(headers.get(FORMS_HEADER))
        return Reply(200, bytes(await node.held(path.removeprefix(PARAMS), (), forms)), BINARY_TYPE)
    if path == INTRODUCTIONS and node.trust is not None:
        return Reply(200, json.dumps(introductions_of(node.trust)).encode())
    if path == OFFERED:
        return Reply(200, json.dumps({"trainers": list(await node.own_trainers.offered())}).encode())
    if not body:
        return Reply(200, json.dumps(node.info()).encode())
    return await node.receive(path, body, content_type, ip, key)


def refusal(error: PeerError, headers: Mapping[str, str] | None = None) -> Reply:
    said = {"error": error.code, "message": error.message, **error.details()}
    return Reply(error.status, json.dumps(said).encode(), headers=headers or {})
