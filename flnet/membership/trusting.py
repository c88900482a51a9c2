"""The membership of a pinned mesh: who is accepted is greeted, who is not any more is let go, on both sides.

Who may be a member is decided elsewhere: what strangers say does not get here.
"""

from __future__ import annotations

from collections.abc import Collection

from flnet.effects import Effect, Publish, SetTimer, TellJobs
from flnet.fingerprints import fingerprint
from flnet.membership.knowing import announce_to
from flnet.membership.state import MeshState
from flnet.params import PeerId


def changed(s: MeshState, gone: Collection[str], come: Collection[str]) -> list[Effect]:
    """Keys are not trusted any more, by fingerprint, and others are: their nodes are announced to at once."""
    names = [peer for peer, key in s.roster.all_keys().items() if fingerprint(key) in gone]
    left = [effect for peer in names for effect in _drop(s, peer, f"{peer} is not accepted here any more")]
    s.waits_at -= set(come)
    return [*left, *announce_to(s, come)]


def shut_out(s: MeshState, peer: PeerId) -> list[Effect]:
    """A member does not accept this node any more: it is none for this node either, and is asked again."""
    member = s.roster.known.get(peer)
    if member is None:
        return []
    address = member.peer.address
    left = _drop(s, peer, f"{peer} does not accept this node any more")
    trying = [effect for effect in s.announcer.failed(address, "") if isinstance(effect, SetTimer)]
    return [*left, *trying]


def waiting(s: MeshState, address: str, reason: str) -> list[Effect]:
    """Who is at an address has not accepted this node; people hear of it once for each address."""
    if address in s.waits_at:
        return []
    s.waits_at.add(address)
    words = f"this node waits to be accepted at {address}: {reason}"
    return [Publish("trust_waits", words, {"address": address})]


def _drop(s: MeshState, peer: PeerId, words: str) -> list[Effect]:
    s.disputes.pop(peer, None)
    s.prober.forget(peer)
    s.troubled.discard(peer)
    jobs = [effect for effect in s.roster.forget(peer) if isinstance(effect, TellJobs)]
    told = [TellJobs(effect.peer, alive=effect.alive, reason=words) for effect in jobs]
    return [*told, Publish("peer_untrusted", words, {"peer": peer})]
