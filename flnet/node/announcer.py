"""Announces this node at addresses; in a pinned mesh a stranger is told no more than who this is."""

from __future__ import annotations

import json

from flnet.codec import JsonCodec
from flnet.effects import SendAnnounce
from flnet.errors import FlnetError, PeerRefused
from flnet.events import AnnounceAnswered, AnnounceFailed, Event
from flnet.membership import Members
from flnet.messages import Announce, AnnounceReply, Packet
from flnet.names import check_name
from flnet.node.translate import located
from flnet.node.trust import Trust
from flnet.signing.refusals import StrangerThere
from flnet.transport import Reply, Transport

OTHER_KEY = "its answer names another key than the one that signed it"


class Announcer:
    """Sends announcements, and turns what comes back into an event."""

    def __init__(self, transport: Transport, members: Members) -> None:
        self._transport, self._members = transport, members
        self._json = JsonCodec()

    async def announce(self, effect: SendAnnounce, trust: Trust | None = None) -> Event:
        """Announce this node at an address.

        Args:
            trust: of a pinned mesh; hears who is met that is not accepted.

        Returns:
            AnnounceAnswered or AnnounceFailed.
        """
        address = effect.address
        message = Announce(
            i_am=self._members.me,
            my_known_peers=list(effect.known),
            accepts=self._members.accepts,
            incarnation=effect.incarnation,
            members=list(effect.members),
            key=self._members.key,
        )
        try:
            body = self._json.encode(Packet(message))
            reply = await self._transport.send(address, Announce.path, body, self._json.content_type)
            if reply.status >= 400:
                refusal = refusal_of(reply)
                return AnnounceFailed(address, str(refusal), refusal.error)
            answer = self._json.decode(AnnounceReply, reply.body).message
        except StrangerThere as exc:
            return await self._knock(address, exc, trust)
        except PeerRefused as exc:
            return AnnounceFailed(address, str(exc), exc.error)
        except FlnetError as exc:
            return AnnounceFailed(address, str(exc))
        assert isinstance(answer, AnnounceReply)
        if reply.signer is not None and answer.key != reply.signer:
            return AnnounceFailed(address, OTHER_KEY)
        if trust is not None and reply.signer is not None:
            trust.met(reply.signer, answer.i_am.id, address)
        host = address.rpartition(":")[0].strip("[]")
        others = tuple(peer for peer in answer.announce_yourself_to_peers if peer.ip)
        accepts = frozenset(answer.accepts or ())
        members, peer = tuple(answer.members or ()), located(answer.i_am, host)
        return AnnounceAnswered(address, peer, others, accepts, answer.incarnation, members, answer.key)

    async def _knock(self, address: str, met: StrangerThere, trust: Trust | None) -> Event:
        """Tell a stranger who this node is, and no more, so that its person can accept it; so can ours."""
        failed = AnnounceFailed(address, str(met), met.code)
        if trust is None or not met.key or trust.is_out(met.key):
            return failed
        trust.met(met.key, "", address)
        body = self._json.encode(Packet(Announce(i_am=self._members.me, key=self._members.key, knock=True)))
        try:
            reply = await self._transport.knock(address, Announce.path, body, self._json.content_type)
        except FlnetError:
            return failed
        if name := node_in(reply):
            trust.met(met.key, name, address)
        return failed


def node_in(reply: Reply) -> str:
    """What a node that was knocked at calls itself; empty if it does not say so."""
    try:
        return check_name(json.loads(reply.body)["node"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


def refusal_of(reply: Reply) -> PeerRefused:
    """What a peer's error answer says; any body will do."""
    return PeerRefused.read(reply.status, reply.body)
