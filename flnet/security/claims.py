"""Signs what this node claims of members, and checks what others claim, in a keyed or pinned mesh.

Nodes pass claims on, so the signature of a request proves only who repeats them. A claim that a member is alive or left is
signed by that member, and one that it does not answer by the node that accuses it. The membership gets a signature only
if it is right, and only where it makes a difference; it takes a claim without one as a reason to ask the member.

Likewise a node signs what it states about segments (`flnet.protocol.segments`): of its update, and of what it made. Who
was told something else can pass that on. There a signature is needed, and a message with a wrong one is refused.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

from flnet.errors import ContributionRefused
from flnet.membership.members import Members
from flnet.params.params import PeerId
from flnet.protocol.events import AnnounceAnswered, AnnounceReceived, Event, ProbeAnswered, ProbeReceived
from flnet.protocol.messages import (
    Announce,
    AnnounceReply,
    Message,
    ModelParams,
    News,
    Probe,
    ProbeReply,
    contribution_of,
)
from flnet.protocol.segments import SegmentsMessage, SignedOfferPart, SumPart
from flnet.protocol.updates import Contribution
from flnet.security.signatures import NodeKey
from flnet.text import text

MOST_CHECKED = 32  # signatures in one message
MOST_WRONG = 4  # of them, after which no more are checked: who sends that many makes them up
REMEMBERED = 1024  # own signatures
CLAIMS: Mapping[type[Message], str] = {  # the field of a message that holds them
    Announce: "members",
    AnnounceReply: "members",
    Probe: "news",
    ProbeReply: "news",
}

M = TypeVar("M", bound=Message)
E = TypeVar("E", bound=Event)


class ClaimSigner:
    """Signs the claims of one node, and checks those that it receives."""

    def __init__(self, node: NodeKey, members: Members, mesh: str) -> None:
        """Args:
        members: of the node, which know whose key is whose.
        mesh: the name of the mesh, which signatures cover.
        """
        self._node, self._members, self._mesh = node, members, mesh
        self._signature = lru_cache(REMEMBERED)(self._made)

    def signed(self, message: M) -> M:
        """A message with a signature for each claim that is this node's own, and for what it states about segments."""
        if isinstance(message, ModelParams) and message.segments:
            return message.model_copy(update=self._signed_offer(message))
        if isinstance(message, SegmentsMessage) and isinstance(message.part, SumPart):
            return message.model_copy(update={"part": self._signed_sum(message, message.part)})
        field = CLAIMS.get(type(message))
        news: Sequence[News] = (getattr(message, field) or ()) if field else ()
        if field is None or not news:
            return message
        return message.model_copy(update={field: [self._with_signature(item) for item in news]})

    def checked(self, event: E) -> E:
        """What others claim, without signatures that are wrong, or that would change nothing here."""
        if isinstance(event, ProbeReceived | ProbeAnswered):
            return replace(event, news=self._proven(event.news)) if event.news else event
        if isinstance(event, AnnounceReceived | AnnounceAnswered):
            return replace(event, members=self._proven(event.members)) if event.members else event
        return event

    def check(self, message: Message) -> None:
        """Whether what a message states about segments is signed by who states it.

        Raises:
            ContributionRefused: it is not.
        """
        stated = self._stated_in(message)
        if stated is None:
            return
        speaker, key, signature, statement = stated
        is_own = bool(key and signature) and self._members.key_of(PeerId(speaker)) == key
        if not is_own or not self._node.verify(key, base64.b64decode(signature), statement):
            raise ContributionRefused(text("what {peer} states about segments is not signed by it", speaker))

    def _stated_in(self, message: Message) -> tuple[str, str, str, bytes] | None:
        """Who states something about segments, with which key and signature, and the bytes that these cover."""
        stated: Contribution | None = None
        match message:
            case SegmentsMessage(part=SumPart() as part):
                maker = PeerId(part.maker or message.sender)
                statement = part.statement(maker, message.trainer, message.key_of_round)
                return maker, part.key or "", part.signature or "", statement
            case SegmentsMessage(part=SignedOfferPart() as offer):
                stated = offer.contribution(message.trainer, message.key_of_round)
            case ModelParams() if message.segments and not message.group:  # what is masked proves nothing
                stated = contribution_of(message)
                if stated is None:
                    return message.sender, "", "", b""
        return None if stated is None else (stated.peer, stated.key, stated.signature, stated.statement())

    def _signed_offer(self, message: ModelParams) -> Mapping[str, str]:
        """The signature of an offer, which covers the segments, so that others can compare it with what they were told."""
        stated = contribution_of(message.model_copy(update={"key": self._node.text, "signature": None}))
        return {} if stated is None else {"key": stated.key, "signature": self._signature(stated.statement())}

    def _signed_sum(self, message: SegmentsMessage, part: SumPart) -> SumPart:
        if part.is_passed_on:
            return part
        statement = part.statement(message.sender, message.trainer, message.key_of_round)
        return part.model_copy(update={"key": self._node.text, "signature": self._signature(statement)})

    def _with_signature(self, item: News) -> News:
        if item.speaker != self._members.me.id:
            return item
        signature = self._signature(item.statement(self._mesh, self._node.text))
        return item.model_copy(update={"signature": signature})

    def _made(self, statement: bytes) -> str:
        return base64.b64encode(self._node.sign(statement)).decode("ascii")

    def _proven(self, news: Sequence[News]) -> tuple[News, ...]:
        checked = wrong = 0
        proven = []
        for item in news:
            may_check = item.signature is not None and checked < MOST_CHECKED and wrong < MOST_WRONG
            key = self._members.key_to_check(item) if may_check else None
            is_right = key is not None and self._is_right(item, key)
            checked += key is not None
            wrong += key is not None and not is_right
            is_left_out = item.signature is not None and not is_right
            proven.append(item.model_copy(update={"signature": None}) if is_left_out else item)
        return tuple(proven)

    def _is_right(self, item: News, key: str) -> bool:
        signature = base64.b64decode(item.signature or "")
        return self._node.verify(key, signature, item.statement(self._mesh, key))
