"""/trust: which keys this node of a pinned mesh accepts, which wait, which stay out; for the operator."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from flnet.errors import NotPinned, TrustFull, UnknownKey
from flnet.node import interface
from flnet.node.announcements import PATH, introductions_of
from flnet.node.interface import Node
from flnet.node.trust import Trust
from flnet.protocol.messages import PersonMessage
from flnet.rounds.view import View
from flnet.text import text
from flnet.web.api.messages import UNSIGNED
from flnet.web.auth.permissions import Who
from flnet.web.routes import MESH, NODES, Api

api = Api()
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


class OwnKeyView(View):
    """The key of this node, as people at other nodes have to see it."""

    key: str = Field(description="public key in base64")
    fingerprint: str = Field(description="all of it")
    words: str = Field(description="the first six words of it")


class KeyView(View):
    """A key of another node in a pinned mesh; name and address are what its node said, for people only."""

    name: str
    address: str
    key: str = Field(description="public key in base64; empty until its node called")
    fingerprint: str = Field(description="all of it")
    words: str = Field(description="the first six words of it")
    since: float = Field(description="seconds since the epoch, by this node's clock")
    introduced_by: str | None = Field(description="fingerprint of the introducer that vouches for it")


class AcceptedView(KeyView):
    """A key that is trusted."""

    is_introducer: bool = Field(description="whether those whom its node accepted are accepted here")
    accepted_by: Literal["person", "settings", "introducer"]


class TrustView(View):
    """All keys that a node of a pinned mesh knows; empty, and own null, in an open or keyed mesh."""

    own: OwnKeyView | None
    pending: list[KeyView] = Field(description="that wait for a person, oldest first")
    accepted: list[AcceptedView]
    refused: list[KeyView] = Field(description="that were rejected or forgotten, and stay out")


class IntroducedView(View):
    """One node that people accepted here."""

    fingerprint: str
    name: str = Field(description="as the node calls itself; empty while it has not said so")


class IntroductionsView(View):
    """For whom a node of a pinned mesh vouches."""

    introductions: list[IntroducedView]


@api.get("/trust", MESH, answer=TrustView, who=Who.OPERATOR)
async def known(node: Node) -> interface.View:
    """In a pinned mesh: keys that are accepted, that wait for a person, and that stay out."""
    return trust_view(node)


@api.post("/trust/accept", MESH, answer=AcceptedView, refuses=(NotPinned, TrustFull))
async def accept(node: Node, asked: AcceptKey) -> interface.View:
    """Trust a key, and those whom its node introduces if that is wanted."""
    return dict(await trust_of(node).accept(asked.fingerprint, asked.introducer))


@api.post("/trust/reject", MESH, answer=TrustView, refuses=(NotPinned,))
async def reject(node: Node, asked: NameKey) -> interface.View:
    """Let a key wait no longer: it stays out until a person accepts it."""
    await trust_of(node).reject(asked.fingerprint)
    return trust_view(node)


@api.post("/trust/forget", MESH, answer=TrustView, refuses=(NotPinned, UnknownKey))
async def forget(node: Node, asked: NameKey) -> interface.View:
    """Trust a key no longer, nor those whom only its node introduced."""
    await trust_of(node).forget(asked.fingerprint)
    return trust_view(node)


@api.get(PATH, NODES, answer=IntroductionsView, refuses=(*UNSIGNED, NotPinned))
async def introductions(node: Node) -> interface.View:
    """In a pinned mesh: whom people accepted here, for the nodes that take this one for an introducer."""
    return introductions_of(trust_of(node))


def trust_of(node: Node) -> Trust:
    """Whom this node trusts.

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
