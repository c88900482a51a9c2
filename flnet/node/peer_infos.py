"""What peers say of themselves when they are asked, and how far away they are.

Round-trip times are smoothed (Jacobson, 1988).
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from flnet.errors import TransportError
from flnet.fingerprints import short
from flnet.node.interface import PeerInfo, View
from flnet.text import text
from flnet.wire.transport import Transport, parsed

GAIN = 1 / 8  # what the newest measurement weighs; Jacobson (1988), and RFC 6298, section 2
INFO_BYTES = 1024 * 1024  # of an answer: a job takes up to some KB, each peer of the node some hundred bytes
SECONDS = 2.0  # a page should not wait longer for a peer
MOMENT_SECONDS = 0.3  # nor longer than this for one that has never answered, or did not when it was last asked
ASKED = ("alive", "suspect")  # who is held for dead, has left or is not accepted yet is not waited for
KEPT_SECONDS = (
    1.0  # requests within that time get the same answer, so many pages do not cause more requests than one
)


class Distances:
    """A moving average of round-trip times for each peer; kept in memory only."""

    def __init__(self, most: int = 512) -> None:
        """Args:
        most: number of peers that are kept; the one with the oldest measurement is removed first.
        """
        self._most = most
        self._seconds: OrderedDict[str, float] = OrderedDict()

    def measured(self, peer_id: str, seconds: float) -> None:
        """Record the round-trip time of a small request in seconds; invalid durations are ignored."""
        if not (math.isfinite(seconds) and seconds >= 0):
            return
        before = self._seconds.pop(peer_id, seconds)
        self._seconds[peer_id] = before + GAIN * (seconds - before)
        if len(self._seconds) > self._most:
            self._seconds.popitem(last=False)

    def rtt_ms(self, peer_id: str) -> float | None:
        """Milliseconds to this peer and back, to a hundredth; None while nothing was measured."""
        seconds = self._seconds.get(peer_id)
        return None if seconds is None else round(1000 * seconds, 2)


class PeerInfos:
    """The peers' answers to GET /info, requested concurrently and cached for a moment.

    A peer that does not answer is waited for once: later it is asked all the same, and what it answers is told from
    then on. One such peer would otherwise hold up every page of this node.
    """

    def __init__(self, transport: Transport, peers: Callable[[], Sequence[View]], distances: Distances) -> None:
        """Args:
        peers: the other nodes, as this one knows them.
        distances: told how long answers took.
        """
        self._transport, self._peers, self._distances = transport, peers, distances
        self._asking = asyncio.Lock()
        self._until = float("-inf")
        self._kept: Sequence[PeerInfo] = ()
        self._under_way: dict[str, asyncio.Task[PeerInfo]] = {}  # by peer
        self._last: dict[str, PeerInfo] = {}  # answers and failures, by peer

    async def get(self) -> Sequence[PeerInfo]:
        """The answer of each peer, at most KEPT_SECONDS old, or what it said before if it is late."""
        async with self._asking:
            now = asyncio.get_running_loop().time
            if now() >= self._until:
                self._kept = await self._ask_all(self._peers())
                self._until = now() + KEPT_SECONDS
            return self._kept

    async def ask(self, peers: Sequence[View]) -> Sequence[PeerInfo]:
        """The answers of these peers; each of them is asked now, and nothing of it is kept."""
        return await asyncio.gather(*(_ask(self._transport, peer, self._distances) for peer in peers))

    async def _ask_all(self, peers: Sequence[View]) -> Sequence[PeerInfo]:
        names = [str(peer["id"]) for peer in peers]
        self._last = {name: self._last[name] for name in names if name in self._last}
        tasks = {name: self._task(peer) for name, peer in zip(names, peers, strict=True)}
        patient = [task for name, task in tasks.items() if self._is_trusted(name)]
        if tasks:
            await asyncio.wait(tasks.values(), timeout=MOMENT_SECONDS)
        if patient:
            await asyncio.wait(patient)  # each of them ends by itself
        return [self._result(peer, tasks[name]) for name, peer in zip(names, peers, strict=True)]

    def _task(self, peer: View) -> asyncio.Task[PeerInfo]:
        """The request to a peer that is under way, or a new one."""
        name = str(peer["id"])
        if name not in self._under_way:
            task = asyncio.get_running_loop().create_task(_ask(self._transport, peer, self._distances))
            self._under_way[name] = task
            task.add_done_callback(partial(self._answered, name))
        return self._under_way[name]

    def _answered(self, name: str, task: asyncio.Task[PeerInfo]) -> None:
        del self._under_way[name]
        if not task.cancelled() and task.exception() is None:
            self._last[name] = task.result()

    def _is_trusted(self, name: str) -> bool:
        """Whether a peer can be expected to answer in time."""
        last = self._last.get(name)
        return self._distances.rtt_ms(name) is not None and (last is None or last.error is None)

    def _result(self, peer: View, task: asyncio.Task[PeerInfo]) -> PeerInfo:
        if task.done():
            return task.result()
        name, address = peer["id"], peer["address"]
        last = self._last.get(name)
        return last if last and last.address == address else PeerInfo(name, address, error=text("no answer yet"))


async def _ask(transport: Transport, peer: View, distances: Distances) -> PeerInfo:
    name, address = peer["id"], peer["address"]
    if peer["state"] not in ASKED:
        return PeerInfo(name, address, error=peer["reason"] or text("does not answer"))
    now = asyncio.get_running_loop().time
    asked = now()
    try:
        async with asyncio.timeout(SECONDS):
            reply = await transport.fetch(address, "/info", INFO_BYTES)
        distances.measured(name, now() - asked)
        if reply.signer is not None and short(reply.signer) != peer["fingerprint"]:
            return PeerInfo(name, address, error=text("another node than {peer} answers there", name))
        info = await parsed(partial(_info, name, address), reply.body)
    except TimeoutError:
        return PeerInfo(name, address, error=text("no answer in {seconds} s", f"{SECONDS:g}"))
    except (TransportError, ValueError, RecursionError) as exc:
        return PeerInfo(name, address, error=text("no usable answer: {reason}", exc))
    if reply.status != 200 or info is None:
        return PeerInfo(name, address, error=text("answered {status} instead of its state", reply.status))
    return replace(info, asked=asked)


def _info(name: str, address: str, body: bytes) -> PeerInfo | None:
    """The information in the body of an answer; None if it is JSON, but no information."""
    info = json.loads(body)
    return PeerInfo.claimed(name, address, info) if isinstance(info, dict) else None
