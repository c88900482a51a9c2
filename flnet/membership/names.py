"""Names of nodes: a node is known by its key, and a name belongs to the first key that came with it.

In an open mesh nobody proves that a key is its own; this keeps apart nodes that got the same name by mistake, and
a node from its predecessor whose folder is lost. What must change together: the table in docs/membership.md.
"""

from __future__ import annotations

from flnet.errors import IdTaken, PeerError, StillThere, UnknownPeer
from flnet.fingerprints import short
from flnet.membership.state import MeshState
from flnet.params.params import PeerId
from flnet.protocol.effects import Effect, Publish
from flnet.protocol.events import IdentityDisputed
from flnet.protocol.messages import Peer
from flnet.text import text


class NameTaken(PeerError):
    """The caller's id belongs to a node with another key, as far as is known here."""

    status = IdTaken.status
    code = IdTaken.code

    def __init__(self, words: str, dispute: IdentityDisputed) -> None:
        """Args:
        dispute: what the membership hears of it, after it has refused.
        """
        super().__init__(words)
        self.dispute = dispute


def admit(s: MeshState, peer: Peer, key: str | None) -> None:
    """Whether a caller may use its name here.

    Raises:
        NameTaken: the name belongs to another key.
    """
    if s.fits(PeerId(peer.id), key):
        return
    known, claimed = short(s.key_of(PeerId(peer.id))), _claimed(key)
    words = text(
        "another node with the name {peer} and the fingerprint {part} is known here, and "
        "this one has {found}; give this one another FLNET_NODE_ID, or bring back its "
        "identity.key, or forget the other one at each node when it is gone for good",
        repr(peer.id),
        known,
        claimed,
    )
    raise NameTaken(words, IdentityDisputed(PeerId(peer.id), key, peer.address))


def disputed(s: MeshState, peer: PeerId, key: str | None, address: str) -> list[Effect]:
    """Handle a claim to a name that belongs to another node; each claimant is published once."""
    if s.fits(peer, key) or (peer in s.disputes and s.disputes[peer] == key):
        return []
    s.disputes[peer] = key
    claimed, known = _claimed(key), short(s.key_of(peer))
    words = text(
        "a node at {address} calls itself {peer} and has {found}; it is refused, because {other} has {part}",
        address,
        peer,
        claimed,
        peer,
        known,
    )
    return [Publish("identity_conflict", words, {"peer": peer})]


def refused(s: MeshState, address: str, reason: str) -> list[Effect]:
    """Publish, once for each peer, that it refuses this node because its name belongs to another one."""
    if address in s.refused_at:
        return []
    s.refused_at.add(address)
    words = text("{address} refuses this node: {reason}; trying again", address, reason)
    return [Publish("identity_conflict", words, {"address": address})]


def forget(s: MeshState, peer: PeerId) -> list[Effect]:
    """A person says that the node of this name is gone for good: the name is free here.

    Raises:
        UnknownPeer: nothing is known of it.
        StillThere: it takes part, and nobody else claims its name.
    """
    member = s.roster.known.get(peer)
    if member is None and s.roster.key_of(peer) is None:
        raise UnknownPeer(peer)
    if member is not None and member.alive and peer not in s.disputes:
        raise StillThere(peer)
    s.disputes.pop(peer, None)
    s.prober.forget(peer)
    s.troubled.discard(peer)
    return s.roster.forget(peer)


def _claimed(key: str | None) -> str:
    return text("the fingerprint {part}", short(key)) if key else text("no key")
