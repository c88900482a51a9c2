"""Small requests to other nodes: announcements, introductions, and what peers report of themselves.

In a pinned mesh a stranger is told no more than who this node is. Round-trip times are smoothed (Jacobson, 1988).
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from flnet.errors import FlnetError, LocalError, PeerRefused, StrangerThere, TransportError
from flnet.fingerprints import read_fingerprint, short
from flnet.membership.members import Members
from flnet.names import check_name
from flnet.node.inbound import located
from flnet.node.interface import PeerInfo, View
from flnet.node.trust import Trust
from flnet.protocol.effects import SendAnnounce
from flnet.protocol.events import AnnounceAnswered, AnnounceFailed, Event
from flnet.protocol.messages import Announce, AnnounceReply, Packet
from flnet.security.trust_book import MOST_KEPT
from flnet.text import text
from flnet.wire.json_codec import JsonCodec
from flnet.wire.transport import Reply, Transport

OTHER_KEY = text("its answer names another key than the one that signed it")
PATH = "/introductions"
PAUSE_SECONDS = 5.0  # between two questions to the same introducer
HURRY_SECONDS = 1.0  # while somebody waits whom it may introduce
ANSWER_SECONDS = 5.0
log = logging.getLogger(__name__)
GAIN = 1 / 8  # what the newest measurement weighs; Jacobson (1988), and RFC 6298, section 2
SECONDS = 2.0  # a page should not wait longer for a peer
ASKED = ("alive", "suspect")  # who is held for dead, has left or is not accepted yet is not waited for
KEPT_SECONDS = 1.0  # whoever asks within that time is told the same: many pages ask peers no more often than one


class AnnouncementSender:
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


class Introductions:
    """What introducers said last holds until they say something else, over restarts, too."""

    def __init__(self, trust: Trust, transport: Transport, peers: Callable[[], Sequence[View]]) -> None:
        """Args:
        peers: views of the members, with their keys.
        """
        self._trust, self._transport, self._peers = trust, transport, peers

    async def run(self) -> None:
        """Ask them all, again and again."""
        while True:
            await self.ask()
            await asyncio.sleep(HURRY_SECONDS if self._trust.pending() else PAUSE_SECONDS)

    async def ask(self) -> None:
        """Ask all introducers that are there, once."""
        introducers = [
            peer for peer in self._peers() if peer["state"] == "alive" and self._trust.is_introducer(peer["key"])
        ]
        await asyncio.gather(*(self._ask(peer["address"], peer["key"]) for peer in introducers))

    async def _ask(self, address: str, key: str) -> None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reply = await self._transport.fetch(address, PATH)
        except (TimeoutError, TransportError):
            return  # what it said last holds
        vouched = vouched_in(reply) if reply.status == 200 and reply.signer == key else None
        if vouched is None:
            return
        try:
            await self._trust.introduced(key, vouched)
        except LocalError as exc:
            log.warning("whom an introducer vouches for could not be kept: %s", exc)


def introductions_of(trust: Trust) -> dict[str, Any]:
    """What an introducer answers: those whom its people accepted, by fingerprint and name."""
    return {"introductions": [{"fingerprint": mark, "name": name} for mark, name in trust.vouches()]}


def vouched_in(reply: Reply) -> list[tuple[str, str]] | None:
    """Fingerprints and names in such an answer; None if it is none, and nothing of it is taken then."""
    try:
        rows = json.loads(reply.body)["introductions"]
        if not isinstance(rows, list) or len(rows) > MOST_KEPT:
            return None
        return [
            (read_fingerprint(row["fingerprint"]), check_name(row["name"]) if row["name"] else "") for row in rows
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


class Distances:
    """A moving average of round-trip times for each peer; kept in memory only."""

    def __init__(self, most: int = 512) -> None:
        """Args:
        most: peers that are remembered; whoever was measured the longest ago is forgotten first.
        """
        self._most = most
        self._seconds: OrderedDict[str, float] = OrderedDict()

    def measured(self, peer_id: str, seconds: float) -> None:
        """A small request was answered so many seconds after it was sent; what is no duration is left out."""
        if not (math.isfinite(seconds) and seconds >= 0):
            return
        before = self._seconds.pop(peer_id, seconds)
        self._seconds[peer_id] = before + GAIN * (seconds - before)
        if len(self._seconds) > self._most:
            self._seconds.popitem(last=False)

    def rtt_ms(self, peer_id: str) -> float | None:
        """Milliseconds to this peer and back, to a hundredth; None while nothing was measured."""
        seconds = self._seconds.get(peer_id)
        return None if seconds is None else round(1000 * seconds, 2)


class PeerInfos:
    """What the peers say of themselves, asked of all at once, and kept for a moment."""

    def __init__(self, transport: Transport, peers: Callable[[], Sequence[View]], distances: Distances) -> None:
        """Args:
        peers: the other nodes, as this one knows them.
        distances: told how long answers took.
        """
        self._transport, self._peers, self._distances = transport, peers, distances
        self._asking = asyncio.Lock()
        self._until = float("-inf")
        self._kept: Sequence[PeerInfo] = ()

    async def get(self) -> Sequence[PeerInfo]:
        """What each peer says, at most KEPT_SECONDS old."""
        async with self._asking:
            now = asyncio.get_running_loop().time
            if now() >= self._until:
                self._kept = await asyncio.gather(
                    *(_ask(self._transport, peer, self._distances) for peer in self._peers())
                )
                self._until = now() + KEPT_SECONDS
            return self._kept


async def _ask(transport: Transport, peer: View, distances: Distances) -> PeerInfo:
    name, address = peer["id"], peer["address"]
    if peer["state"] not in ASKED:
        return PeerInfo(name, address, error=peer["reason"] or text("does not answer"))
    now = asyncio.get_running_loop().time
    asked = now()
    try:
        async with asyncio.timeout(SECONDS):
            reply = await transport.fetch(address, "/info")
        distances.measured(name, now() - asked)
        if reply.signer is not None and short(reply.signer) != peer["fingerprint"]:
            return PeerInfo(name, address, error=text("another node than {peer} answers there", name))
        info = json.loads(reply.body)
    except TimeoutError:
        return PeerInfo(name, address, error=text("no answer in {seconds} s", f"{SECONDS:g}"))
    except (TransportError, ValueError, RecursionError) as exc:
        return PeerInfo(name, address, error=text("no usable answer: {reason}", exc))
    if reply.status != 200 or not isinstance(info, dict):
        return PeerInfo(name, address, error=text("answered {status} instead of its state", reply.status))
    return PeerInfo.claimed(name, address, info)
