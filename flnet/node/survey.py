"""Asks all peers what they say of themselves, for the page and for pictures of the mesh."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from flnet.errors import TransportError
from flnet.fingerprints import short
from flnet.node.base import View
from flnet.node.distances import Distances
from flnet.transport import Transport

SECONDS = 2.0  # a page should not wait longer for a peer
ASKED = ("alive", "suspect")  # who is held for dead, has left or is not accepted yet is not waited for
KEPT_SECONDS = 1.0  # whoever asks within that time is told the same: many pages ask peers no more often than one


class Survey:
    """What the peers say of themselves, asked of all at once, and kept for a moment."""

    def __init__(
        self, transport: Transport, peers: Callable[[], Sequence[View]], distances: Distances | None = None
    ) -> None:
        """Args:
        peers: the other nodes, as this one knows them.
        distances: told how long answers took.
        """
        self._transport, self._peers = transport, peers
        self._distances = distances or Distances()
        self._asking = asyncio.Lock()
        self._until = float("-inf")
        self._kept: Sequence[View] = ()

    async def get(self) -> Sequence[View]:
        """One view per peer, at most KEPT_SECONDS old; see `flnet.node.base.Node.peer_infos`."""
        async with self._asking:
            now = asyncio.get_running_loop().time
            if now() >= self._until:
                self._kept = await asyncio.gather(
                    *(_ask(self._transport, peer, self._distances) for peer in self._peers())
                )
                self._until = now() + KEPT_SECONDS
            return self._kept


async def _ask(transport: Transport, peer: View, distances: Distances) -> View:
    answer: dict[str, Any] = {"id": peer["id"], "address": peer["address"], "info": None, "error": None}
    if peer["state"] not in ASKED:
        return {**answer, "error": peer["reason"] or "does not answer"}
    now = asyncio.get_running_loop().time
    asked = now()
    try:
        async with asyncio.timeout(SECONDS):
            reply = await transport.fetch(peer["address"], "/info")
        distances.measured(peer["id"], now() - asked)
        if reply.signer is not None and short(reply.signer) != peer["fingerprint"]:
            return {**answer, "error": f"another node than {peer['id']} answers there"}
        info = json.loads(reply.body)
    except TimeoutError:
        return {**answer, "error": f"no answer in {SECONDS:g} s"}
    except (TransportError, ValueError, RecursionError) as exc:
        return {**answer, "error": f"no usable answer: {exc}"}
    if reply.status != 200 or not isinstance(info, dict):
        return {**answer, "error": f"answered {reply.status} instead of its state"}
    return {**answer, "info": info}
