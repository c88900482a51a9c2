"""Builders for tests of the membership."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from flnet.fingerprints import key_text
from flnet.membership.members import Members
from flnet.membership.probing import Pauses
from flnet.membership.state import MeshState
from flnet.params.params import PeerId
from flnet.protocol.effects import Effect, Publish, SendAnnounce, SendProbe
from flnet.protocol.events import AnnounceReceived, ContactLost, ProbeFailed, TimerFired
from flnet.protocol.messages import News, Peer, StateWord
from tests.helpers import peer

E = TypeVar("E", bound=Effect)


def at(name: str, port: int = 0, ip: str = "10.0.0.1") -> Peer:
    """A peer with a port of its own."""
    return peer(name, port or 4000 + ord(name[0]), ip)


def members(
    name: str = "m", *known: str, prune: bool = False, ip: str | None = None, signs: bool = False
) -> Members:
    pauses = Pauses(first=1, longest=8, hearsay_attempts=3)
    me, key = peer(name, 4000 + ord(name[0]), ip), key_of(name) if signs else None
    m = Members(MeshState(me, Random(1), prune, pauses, key=key, proves_keys=signs))
    for other in known:
        m.receive(AnnounceReceived(at(other), key=key_of(other) if signs else None))
    return m


def key_of(name: str) -> str:
    """The public key of a peer where claims are signed."""
    return key_text(name.encode().ljust(32, b"."))


def of(kind: type[E], effects: Sequence[Effect]) -> list[E]:
    return [effect for effect in effects if isinstance(effect, kind)]


def kinds(effects: Sequence[Effect]) -> list[str]:
    """What people hear, in its order."""
    return [effect.kind for effect in of(Publish, effects)]


def announced(effects: Sequence[Effect]) -> list[str]:
    """The addresses to which this node announces itself."""
    return [effect.address for effect in of(SendAnnounce, effects)]


def address(name: str) -> str:
    return at(name).address


def at_news(name: str, state: StateWord, incarnation: int, by: str | None = None) -> News:
    """What somebody says of a peer."""
    return News(id=name, ip="10.0.0.1", port=4000 + ord(name[0]), state=state, incarnation=incarnation, by=by)


def signed_news(name: str, state: StateWord, incarnation: int, by: str | None = None) -> News:
    """The same with a signature that was found right."""
    signature = f"{by or name}{state}{incarnation}".rjust(86, "0") + "=="
    return at_news(name, state, incarnation, by).model_copy(update={"signature": signature})


def probes(effects: Sequence[Effect]) -> list[SendProbe]:
    return of(SendProbe, effects)


def tick(m: Members, times: int = 1, late: float = 0.0) -> list[Effect]:
    """Let ticks pass; all that they asked for."""
    return [effect for _ in range(times) for effect in m.receive(TimerFired("tick", late))]


def silence(m: Members, peer: PeerId, ticks: int = 1) -> list[Effect]:
    """Probes of this peer, by this node and by helpers, fail for so many ticks; no other is answered."""
    effects = m.receive(ContactLost(peer, "timed out"))
    for _ in range(ticks):
        for probe in probes(effects[:]):
            about = PeerId(probe.message.target.id) if probe.message.target else None
            if peer in (probe.to, about):
                effects += m.receive(ProbeFailed(probe.to, about, "timed out"))
        effects += tick(m)
    return effects


def miss(m: Members, peer: PeerId) -> list[Effect]:
    """A peer does not answer one probe of this node."""
    return [*m.receive(ContactLost(peer, "")), *m.receive(ProbeFailed(peer, None, "timed out"))]


def bury(m: Members, peer: PeerId) -> list[Effect]:
    """Let a peer die, as far as this node is concerned."""
    return silence(m, peer, ticks=40)
