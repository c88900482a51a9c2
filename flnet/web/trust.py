"""/trust: which keys this node of a pinned mesh accepts, which wait, which stay out; for persons."""

from __future__ import annotations

from typing import Any

import orjson
from pydantic import Field
from quart import Blueprint, Response

from flnet.errors import UnreadableBody
from flnet.messages.people import PersonMessage
from flnet.node.base import Node
from flnet.node.introductions import PATH, introductions_of
from flnet.node.trust import Trust
from flnet.web.answers import json_answer
from flnet.web.body import read_body
from flnet.web.refusals import NotPinned
from flnet.web.training import acceptable_type

_WRITTEN = Field(max_length=300, description="a whole fingerprint however typed, or a public key in base64")


class NameKey(PersonMessage):
    """POST /trust/reject and /trust/forget: which key is meant."""

    fingerprint: str = _WRITTEN


class AcceptKey(PersonMessage):
    """POST /trust/accept: trust a key, also one that has not called yet.

    Attributes:
        introducer: whether those whom its node accepted are accepted here, too; false takes that away.
    """

    fingerprint: str = _WRITTEN
    introducer: bool = Field(default=False, strict=True)


def trust_routes(node: Node) -> Blueprint:
    """The endpoints; a node of another mesh answers that nobody is known, and decides nothing."""
    routes = Blueprint("trust", __name__)

    @routes.get("/trust")
    async def known() -> Response:
        return json_answer(trust_view(node))

    @routes.get(PATH)
    async def introductions() -> Response:
        return json_answer(introductions_of(trust_of(node)))

    @routes.post("/trust/accept")
    async def accept() -> Response:
        asked: AcceptKey = AcceptKey.read(await _fields())
        return json_answer(dict(await trust_of(node).accept(asked.fingerprint, asked.introducer)))

    @routes.post("/trust/reject")
    async def reject() -> Response:
        asked: NameKey = NameKey.read(await _fields())
        await trust_of(node).reject(asked.fingerprint)
        return json_answer(trust_view(node))

    @routes.post("/trust/forget")
    async def forget() -> Response:
        asked: NameKey = NameKey.read(await _fields())
        await trust_of(node).forget(asked.fingerprint)
        return json_answer(trust_view(node))

    return routes


def trust_of(node: Node) -> Trust:
    """Whom this node trusts.

    Raises:
        NotPinned: in its mesh nobody is accepted by a key.
    """
    if node.trust is None:
        raise NotPinned("this mesh is not pinned: nobody waits here, and no key is accepted or turned away")
    return node.trust


def trust_view(node: Node) -> dict[str, Any]:
    """All keys that this node knows, with its own; JSON-ready."""
    trust = node.trust
    if trust is None:
        return {"own": None, "pending": [], "accepted": [], "refused": []}
    return {
        "own": dict(trust.own()),
        "pending": [dict(one) for one in trust.pending()],
        "accepted": [dict(one) for one in trust.accepted()],
        "refused": [dict(one) for one in trust.refused()],
    }


async def _fields() -> Any:
    acceptable_type()
    try:
        return orjson.loads(await read_body())
    except orjson.JSONDecodeError as exc:
        raise UnreadableBody(f"the body is no JSON: {exc}") from exc
