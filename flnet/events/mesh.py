"""What the membership hears, and what jobs hear of it."""

from __future__ import annotations

from dataclasses import dataclass

from flnet.events.base import Event
from flnet.messages import Peer
from flnet.params import PeerId


@dataclass(frozen=True)
class PeerSeen(Event):
    """A peer is known and reachable."""

    peer: PeerId


@dataclass(frozen=True)
class PeerLost(Event):
    """A peer is not reachable any more."""

    peer: PeerId
    reason: str


@dataclass(frozen=True)
class MeshStarted(Event):
    """The node runs; these addresses ("host:port") may lead to the mesh."""

    bootstrap: tuple[str, ...] = ()


@dataclass(frozen=True)
class AnnounceReceived(Event):
    """A node announced itself and the peers that it knows; its address is complete."""

    peer: Peer
    known: tuple[Peer, ...] = ()
    accepts: frozenset[str] = frozenset()


@dataclass(frozen=True)
class AnnounceAnswered(Event):
    """A node answered our announcement: who it is, and to whom we announce ourselves next."""

    address: str
    peer: Peer
    announce_to: tuple[Peer, ...] = ()
    accepts: frozenset[str] = frozenset()


@dataclass(frozen=True)
class AnnounceFailed(Event):
    """Nobody usable answered at this address."""

    address: str
    reason: str


@dataclass(frozen=True)
class ContactMade(Event):
    """A request from this peer came, or one of ours was answered by it."""

    peer: PeerId


@dataclass(frozen=True)
class ContactLost(Event):
    """A request of ours to this peer did not get through."""

    peer: PeerId
    reason: str


@dataclass(frozen=True)
class FormRefused(Event):
    """A peer does not read the form of parameters that it once said it reads."""

    peer: PeerId
