"""Whether the other nodes reach this one: only their own requests show it, as answers come over connections from here.

A node behind a firewall or an address translation hears all others answer, and gets no update of theirs. Members of a mesh
probe each other every few seconds, so if none of them has called for a minute, its address is closed to them, or wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from flnet.text import joined, text

SILENCE_S = 60.0
MOST_SHOWN = 3  # relays


class Reachability:
    """When each of the other nodes last called this one."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Args:
        now: seconds of a clock that only goes forward.
        """
        self._now = now
        self._called: dict[str, float] = {}
        self._met: dict[str, float] = {}  # since when each one is known to be there

    def called(self, peer: str) -> None:
        """A node sent a request."""
        if peer in self._met:
            self._called[peer] = self._now()

    def count(self, members: Collection[str]) -> None:
        """Note which members rounds count on now, as they answer; what is known of others is forgotten."""
        if self._met.keys() != set(members):
            now = self._now()
            self._met = {peer: self._met.get(peer, now) for peer in members}
            self._called = {peer: at for peer, at in self._called.items() if peer in self._met}

    def why_not(self, port: int, relays: Sequence[str] = ()) -> str:
        """Why this node is thought to be out of the others' reach; empty if it is not, or too little time has passed.

        Args:
            relays: "host:port" of relays that it could use.
        """
        now = self._now()
        silent_since = max([min(self._met.values(), default=now), *self._called.values()])
        if now - silent_since < SILENCE_S:
            return ""
        told = text(
            "no other node has called this one at port {port} for a minute, though {count} answer it: a firewall, an "
            "address translation or a wrong FLNET_NODE_IP keeps them out, and it gets no updates (docs/overlays.md)",
            port,
            len(self._met),
        )
        if not relays:
            return told
        shown = ", ".join(f"FLNET_RELAY={relay}" for relay in relays[:MOST_SHOWN])
        return joined([told, text("others would reach it through a relay of this mesh: {settings}", shown)])
