"""Builders for tests of the membership."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from flnet.effects import Effect, SendAnnounce
from flnet.events import AnnounceReceived
from flnet.jobs import Members, Pauses
from flnet.messages import Peer
from tests.helpers import peer

E = TypeVar("E", bound=Effect)


def at(name: str, port: int = 0, ip: str = "10.0.0.1") -> Peer:
    """A peer with a port of its own."""
    return peer(name, port or 4000 + ord(name[0]), ip)


def members(name: str = "m", *known: str, prune: bool = False, ip: str | None = None) -> Members:
    m = Members(
        peer(name, 4000 + ord(name[0]), ip), prune, Pauses(first=1, longest=8, refresh=15, hearsay_attempts=3)
    )
    for other in known:
        m.receive(AnnounceReceived(at(other)))
    return m


def of(kind: type[E], effects: Sequence[Effect]) -> list[E]:
    return [effect for effect in effects if isinstance(effect, kind)]


def announced(effects: Sequence[Effect]) -> list[str]:
    """The addresses to which this node announces itself."""
    return [effect.address for effect in of(SendAnnounce, effects)]


def address(name: str) -> str:
    return at(name).address
