"""Asks the introducers of a pinned mesh, from time to time, for whom they vouch."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from typing import Any

from flnet.errors import LocalError, TransportError
from flnet.fingerprints import read_fingerprint
from flnet.names import check_name
from flnet.node.trust import Trust, View
from flnet.transport import Reply, Transport
from flnet.trust.book import MOST_KEPT

PATH = "/introductions"
PAUSE_SECONDS = 5.0  # between two questions to the same introducer
HURRY_SECONDS = 1.0  # while somebody waits whom it may introduce
ANSWER_SECONDS = 5.0
log = logging.getLogger(__name__)


class Introductions:
    """What introducers said last holds until they say something else, over restarts, too."""

    def __init__(self, trust: Trust, transport: Transport, peers: Callable[[], Sequence[View]]) -> None:
        """Args:
        peers: views of the members, with their keys.
        """
        self._trust, self._transport, self._peers = trust, transport, peers

    async def run(self) -> None:
        """Ask them all, again and again."""
        while True:
            await self.ask()
            await asyncio.sleep(HURRY_SECONDS if self._trust.pending() else PAUSE_SECONDS)

    async def ask(self) -> None:
        """Ask all introducers that are there, once."""
        there = [one for one in self._peers() if one["state"] == "alive" and self._trust.is_introducer(one["key"])]
        await asyncio.gather(*(self._ask(one["address"], one["key"]) for one in there))

    async def _ask(self, address: str, key: str) -> None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reply = await self._transport.fetch(address, PATH)
        except (TimeoutError, TransportError):
            return  # what it said last holds
        vouched = vouched_in(reply) if reply.status == 200 and reply.signer == key else None
        if vouched is None:
            return
        try:
            await self._trust.introduced(key, vouched)
        except LocalError as exc:
            log.warning("whom an introducer vouches for could not be kept: %s", exc)


def introductions_of(trust: Trust) -> dict[str, Any]:
    """What an introducer answers: those whom its people accepted, by fingerprint and name."""
    return {"introductions": [{"fingerprint": mark, "name": name} for mark, name in trust.vouches()]}


def vouched_in(reply: Reply) -> list[tuple[str, str]] | None:
    """Fingerprints and names in such an answer; None if it is none, and nothing of it is taken then."""
    try:
        rows = json.loads(reply.body)["introductions"]
        if not isinstance(rows, list) or len(rows) > MOST_KEPT:
            return None
        return [
            (read_fingerprint(row["fingerprint"]), check_name(row["name"]) if row["name"] else "") for row in rows
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
