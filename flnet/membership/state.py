"""The state of the membership, which its steps read and change."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from flnet.membership.announcing import Announcer
from flnet.membership.probing import Pauses, Prober
from flnet.membership.roster import NEW, Member, Roster, Status
from flnet.params.params import PeerId, Rng
from flnet.protocol.messages import MAX_PEERS, News, Peer

KEPT_AHEAD = 16  # by how much the incarnation is higher that is saved for the next start of this node


class Meeting(NamedTuple):
    """What a node said of itself when it announced itself."""

    peer: Peer
    accepts: frozenset[str]
    incarnation: int | None
    key: str | None


@dataclass
class Doubted:
    """A claim that a live member is gone or elsewhere, until the member was asked where it was.

    Attributes:
        claim: dead or left; for a move that it is alive.
        move: an announcement in its name at another address.
        is_asked: whether the member was probed since.
        has_answered: whether it answered before, and is asked once more.
    """

    claim: Status = NEW
    move: Meeting | None = None
    is_asked: bool = False
    has_answered: bool = False


class StatedDigests:
    """What members said lately of whom they know; at most one value for each."""

    def __init__(self) -> None:
        self._stated: dict[PeerId, tuple[str | None, int]] = {}

    def note(self, peer: PeerId, digest: str | None, tick: int) -> None:
        """A member stated this digest, or none, as nodes of earlier versions."""
        self._stated[peer] = digest, tick

    def keep_to(self, members: Container[PeerId]) -> None:
        """Forget what others said than these."""
        self._stated = {peer: stated for peer, stated in self._stated.items() if peer in members}

    def differing(self, own: str, tick: int) -> list[PeerId]:
        """Members that said something else since the last tick; what is older is forgotten."""
        self._stated = {peer: stated for peer, stated in self._stated.items() if stated[1] >= tick - 1}
        return [peer for peer, (digest, _) in self._stated.items() if digest != own]


class MeshState:
    """Everything that changes in the membership.

    Attributes:
        me: this node; its address changes when a relay grants it another one.
        incarnation: how often an accusation of this node was shown to be wrong.
        joined: whether an announcement was ever answered, either way.
        helping: members that are probed for others: the member, and who asked.
        troubled: members that some message did not reach; jobs hear when they answer anything again.
        doubted: live members of which somebody claims that they are gone.
        left: whether this node said that it goes.
        disputes: names that another node claims too, and the key of the one that was refused.
        waits_at: addresses of nodes of a pinned mesh that have not accepted this one.
        refused_at: addresses of peers that refuse this node because its name belongs to another one.
        kept: the incarnation that is saved for the next start; only where claims are signed.
    """

    def __init__(
        self,
        me: Peer,
        rng: Rng,
        prune: bool = False,
        pauses: Pauses | None = None,
        accepts: Sequence[str] = (),
        key: str | None = None,
        *,
        proves_keys: bool = False,
        asks_at_once: bool = False,
    ) -> None:
        """Args:
        rng: draws whom to probe, to ask for help and to tell.
        prune: forget a peer that is dead instead of trying it again.
        accepts: forms of parameters that this node reads besides the thesis' JSON.
        key: public key by which this node is known, if it keeps one.
        proves_keys: whether messages prove the key of their sender, and claims are signed, as in a keyed or
            pinned mesh.
        asks_at_once: whether each new node is probed at once, because rounds need to know who is there.
        """
        self.me, self.my_id, self.key = me, PeerId(me.id), key
        self.accepts = tuple(accepts) or None
        self.proves_keys, self.asks_at_once = proves_keys, asks_at_once
        self.pauses = pauses or Pauses()
        self.incarnation = self.kept = 0
        self.joined = False
        self.left = False
        self.roster = Roster(self.my_id, prune, signs=proves_keys)
        self.announcer = Announcer(self.my_id, self.roster, self.pauses)
        self.prober = Prober(self.pauses, rng)
        self.digests = StatedDigests()
        self.helping: dict[PeerId, set[PeerId]] = {}
        self.troubled: set[PeerId] = set()
        self.doubted: dict[PeerId, Doubted] = {}
        self.disputes: dict[PeerId, str | None] = {}
        self.refused_at: set[str] = set()
        self.waits_at: set[str] = set()

    def keep_to_members(self) -> None:
        """Forget what is known of who is no member any more: names cost a stranger nothing."""
        known = self.roster.known
        self.prober.keep_to(known)
        self.digests.keep_to(known)
        self.troubled &= known.keys()
        named = known.keys() | self.roster.keys.keys() | {self.my_id}
        self.disputes = {peer: key for peer, key in self.disputes.items() if peer in named}

    def key_of(self, peer: PeerId) -> str | None:
        """The key to which a name belongs, as far as it is known."""
        return self.key if peer == self.my_id else self.roster.key_of(peer)

    def fits(self, peer: PeerId, key: str | None) -> bool:
        """Whether who has this key may use this name."""
        return self.key_of(peer) in (None, key)

    def all_news(self) -> tuple[News, ...]:
        """The news about all members of whom others may hear."""
        told = (member for member in self.roster if not self.roster.awaits_proof(member))
        return tuple(self.roster.news(member) for member in told)[: 2 * MAX_PEERS]

    def introduction(self) -> News:
        """The news that this node is alive, with what it announces of itself."""
        own = Member(
            self.me, Status(incarnation=self.incarnation), accepts=frozenset(self.accepts or ()), key=self.key
        )
        return own.introduction
