"""Announcements until everyone knows everyone.

García Pérez (2021), section 3.2.2: a node announces itself to a peer that it was given, is told whom it lacks,
and goes on until none is left. In addition a node announces itself to peers that its caller names and it lacks
(else two joined pairs would stay half joined), and announces itself once more to a peer that answered before it
heard of those met in the meantime (else nodes that join at the same time would miss each other). It tries silent
addresses again with growing pauses. Two nodes that probe each other also exchange all that they know of members.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flnet.membership.probing import Pauses
from flnet.membership.roster import Roster
from flnet.params.params import PeerId
from flnet.protocol.effects import Effect, Publish, SendAnnounce, SetTimer
from flnet.protocol.messages import MAX_PEERS, News, Peer
from flnet.text import text

RETRY = "announce:"  # name of the timer after which an address is tried again, before the address


class Announcer:
    """Which addresses are being asked, and which are tried again when."""

    def __init__(self, me: PeerId, roster: Roster, pauses: Pauses) -> None:
        self.asking: dict[str, frozenset[PeerId]] = {}  # announcements under way: address, peers named in it
        self.failures: dict[str, int] = {}
        self.bootstrap: tuple[str, ...] = ()
        self.remembered: tuple[str, ...] = ()  # without any member they are the only way back
        self.untried: list[str] = []  # of those remembered, where one after another is tried after a failure
        self._me, self._roster, self._pauses = me, roster, pauses

    def to(self, addresses: Iterable[str], incarnation: int, members: tuple[News, ...]) -> list[Effect]:
        """Announce this node at these addresses, except where it is just doing so."""
        fresh = [address for address in dict.fromkeys(addresses) if address not in self.asking]
        known = tuple(member.peer for member in self._roster if member.alive)[:MAX_PEERS]
        self.asking.update(dict.fromkeys(fresh, frozenset(PeerId(peer.id) for peer in known)))
        return [SendAnnounce(address, known, incarnation, members) for address in fresh]

    def answered(self, address: str) -> frozenset[PeerId]:
        """An announcement was answered: the peers that were named in it."""
        self.failures.pop(address, None)
        return self.asking.pop(address, frozenset())

    def failed(self, address: str, reason: str) -> list[Effect]:
        """An announcement was not answered: when it is tried again, if at all."""
        self.asking.pop(address, None)
        self.failures[address] = count = self.failures.get(address, 0) + 1
        owned = any(member.peer.address == address for member in self._roster)
        needed = address in self.bootstrap or (address in self.remembered and not self._roster.known)
        if not owned and not needed and count >= self._pauses.hearsay_attempts:
            del self.failures[address]
            return []
        words = text(
            "{address} does not answer the announcement ({reason}); trying again until it does", address, reason
        )
        if not needed:  # another node named it, and may read this, but is not to learn what answers there
            words = text("{address} does not answer the announcement", address)
        tell = [Publish("announce_failed", words, {"address": address})] if count == 1 else []
        return [self.retry(address), *tell]

    def next_untried(self, failed: str) -> list[str]:
        """The remembered address to try after this one failed, if there is one."""
        return [self.untried.pop()] if self.untried and failed in self.remembered else []

    def retry(self, address: str) -> SetTimer:
        """The timer after which an address is tried again; later each time."""
        count = self.failures.get(address, 1)
        pause = min(self._pauses.first * 2 ** min(count - 1, 16), self._pauses.longest)
        return SetTimer(RETRY + address, pause, pause / 2)

    def new_among(self, peers: Sequence[Peer]) -> list[str]:
        """Addresses of named peers that are unknown here, as many as there is room for."""
        known = self._roster.known
        return self.new_of([p.address for p in peers if p.ip and p.id != self._me and PeerId(p.id) not in known])

    def new_of(self, addresses: Sequence[str]) -> list[str]:
        """Those of these addresses at which no member is and none is asked, as many as there is room for."""
        if not addresses:
            return []
        asked = self.asking.keys() | self.failures.keys()  # those that failed have timers
        taken = self._roster.addresses
        room = MAX_PEERS - len(self._roster.known) - len(asked)
        return [each for each in addresses if each not in asked and each not in taken][: max(room, 0)]
