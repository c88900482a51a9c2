"""What the membership hears, and what jobs hear of it."""

from __future__ import annotations

from dataclasses import dataclass

from flnet.events.base import Event
from flnet.messages import News, Peer
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
    """The node runs.

    Attributes:
        bootstrap: addresses ("host:port") that may lead to the mesh, tried until they answer.
        remembered: addresses of peers that an earlier run of this node knew, tried some times, and for as long as
            no peer is known.
    """

    bootstrap: tuple[str, ...] = ()
    remembered: tuple[str, ...] = ()
    keys: tuple[tuple[PeerId, str], ...] = ()  # of peers that an earlier run knew


@dataclass(frozen=True)
class Leaving(Event):
    """This node is about to stop."""


@dataclass(frozen=True)
class AnnounceReceived(Event):
    """A node announced itself and the peers that it knows; its address is complete.

    Attributes:
        incarnation: None from a node that says nothing of it, as the thesis' nodes.
        members: all that it knows of members.
    """

    peer: Peer
    known: tuple[Peer, ...] = ()
    accepts: frozenset[str] = frozenset()
    incarnation: int | None = None
    members: tuple[News, ...] = ()
    key: str | None = None


@dataclass(frozen=True)
class AnnounceAnswered(Event):
    """A node answered our announcement: who it is, and to whom we announce ourselves next."""

    address: str
    peer: Peer
    announce_to: tuple[Peer, ...] = ()
    accepts: frozenset[str] = frozenset()
    incarnation: int | None = None
    members: tuple[News, ...] = ()
    key: str | None = None


@dataclass(frozen=True)
class AnnounceFailed(Event):
    """Nobody usable answered at this address; `code` is that of a refusal."""

    address: str
    reason: str
    code: str = ""


@dataclass(frozen=True)
class TrustChanged(Event):
    """In a pinned mesh: these fingerprints are not trusted any more, nodes at these addresses are from now on."""

    gone: tuple[str, ...] = ()
    come: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShutOutBy(Event):
    """In a pinned mesh: a member does not accept this node's key (any more)."""

    peer: PeerId


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


@dataclass(frozen=True)
class ProbeReceived(Event):
    """A node asks whether this one is there; see `flnet.messages.Probe`."""

    peer: Peer
    incarnation: int = 0
    news: tuple[News, ...] = ()
    target: PeerId | None = None
    reached: PeerId | None = None
    missed: PeerId | None = None
    key: str | None = None


@dataclass(frozen=True)
class IdentityDisputed(Event):
    """A node at this address claimed the name of a peer, and has another key, or none."""

    peer: PeerId
    key: str | None
    address: str


@dataclass(frozen=True)
class PeerForgotten(Event):
    """A person says that this peer is gone for good."""

    peer: PeerId


@dataclass(frozen=True)
class ProbeAnswered(Event):
    """A peer answered a probe of ours; `about` is whom it was asked to probe."""

    peer: PeerId
    about: PeerId | None = None
    incarnation: int = 0
    news: tuple[News, ...] = ()


@dataclass(frozen=True)
class ProbeFailed(Event):
    """A probe of ours was not answered in time; `about` is whom the peer was asked to probe."""

    peer: PeerId
    about: PeerId | None = None
    reason: str = ""
