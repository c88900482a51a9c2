"""/trust: the keys that this node of a pinned mesh accepts, that are pending, and that are rejected; for the operator."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from flnet.errors import NotPinned, TrustFull, UnknownKey
from flnet.node import interface
from flnet.node.interface import Node
from flnet.node.trust import INTRODUCTIONS, Trust, introductions_of
from flnet.protocol.messages import PersonMessage
from flnet.rounds.view import View
from flnet.text import text
from flnet.web.api.messages import UNSIGNED
from flnet.web.auth.permissions import Who
from flnet.web.routes import MESH, NODES, Api

api = Api()
_WRITTEN = Field(max_length=300, description="a complete fingerprint in any notation, or a public key in base64")


class NameKey(PersonMessage):
    """POST /trust/reject and /trust/forget: which key is meant."""

    fingerprint: str = _WRITTEN


class AcceptKey(PersonMessage):
    """POST /trust/accept: trust a key, even if its node has not called yet.

    Attributes:
        introducer: whether the nodes that its node accepted are accepted here too; false revokes this.
    """

    fingerprint: str = _WRITTEN
    introducer: bool = Field(default=False, strict=True)


class OwnKeyView(View):
    """The key of this node, for comparison with what people see at other nodes."""

    key: str = Field(description="public key in base64")
    fingerprint: str = Field(description="the complete fingerprint")
    words: str = Field(description="the first six words of the fingerprint")


class KeyView(View):
    """A key of another node in a pinned mesh. Name and address are its own statements and only for display."""

    name: str
    address: str
    key: str = Field(description="public key in base64; empty until its node has called")
    fingerprint: str = Field(description="the complete fingerprint")
    words: str = Field(description="the first six words of the fingerprint")
    since: float = Field(description="seconds since the epoch, by this node's clock")
    introduced_by: str | None = Field(description="fingerprint of the introducer that vouches for it")


class AcceptedView(KeyView):
    """An accepted key."""

    is_introducer: bool = Field(description="whether the nodes that its node accepted are accepted here")
    accepted_by: Literal["person", "settings", "introducer"]


class TrustView(View):
    """All keys that a node of a pinned mesh knows. In an open or keyed mesh the lists are empty and own is null."""

    own: OwnKeyView | None
    pending: list[KeyView] = Field(description="keys that wait for a person, oldest first")
    accepted: list[AcceptedView]
    refused: list[KeyView] = Field(description="keys that were rejected or forgotten")


class IntroducedView(View):
    """One node that people accepted here."""

    fingerprint: str
    name: str = Field(description="name that the node states; empty until it has stated one")


class IntroductionsView(View):
    """The nodes for which a node of a pinned mesh vouches."""

    introductions: list[IntroducedView]


@api.get("/trust", MESH, answer=TrustView, who=Who.OPERATOR)
async def known(node: Node) -> interface.View:
    """In a pinned mesh: the keys that are accepted, pending, and rejected."""
    return trust_view(node)


@api.post("/trust/accept", MESH, answer=AcceptedView, refuses=(NotPinned, TrustFull))
async def accept(node: Node, asked: AcceptKey) -> interface.View:
    """Accept a key, and on request the keys that its node introduces."""
    return dict(await trust_of(node).accept(asked.fingerprint, asked.introducer))


@api.post("/trust/reject", MESH, answer=TrustView, refuses=(NotPinned,))
async def reject(node: Node, asked: NameKey) -> interface.View:
    """Reject a pending key: its node stays out until a person accepts it."""
    await trust_of(node).reject(asked.fingerprint)
    return trust_view(node)


@api.post("/trust/forget", MESH, answer=TrustView, refuses=(NotPinned, UnknownKey))
async def forget(node: Node, asked: NameKey) -> interface.View:
    """Forget an accepted key, and the keys that only its node introduced."""
    await trust_of(node).forget(asked.fingerprint)
    return trust_view(node)


@api.get(INTRODUCTIONS, NODES, answer=IntroductionsView, refuses=(*UNSIGNED, NotPinned))
async def introductions(node: Node) -> interface.View:
    """In a pinned mesh: the nodes that people accepted here, for nodes that use this one as an introducer."""
    return introductions_of(trust_of(node))


def trust_of(node: Node) -> Trust:
    """The keys that this node knows.

    Raises:
        NotPinned: in its mesh nobody is accepted by a key.
    """
    if node.trust is None:
        raise NotPinned(text("this mesh is not pinned: nobody waits here, and no key is accepted or turned away"))
    return node.trust


def trust_view(node: Node) -> dict[str, Any]:
    """All keys that this node knows, with its own; JSON-ready."""
    trust = node.trust
    if trust is None:
        return {"own": None, "pending": [], "accepted": [], "refused": []}
    return {
        "own": dict(trust.own()),
        "pending": [dict(key) for key in trust.pending()],
        "accepted": [dict(key) for key in trust.accepted()],
        "refused": [dict(key) for key in trust.refused()],
    }
