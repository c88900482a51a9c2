"""The links of nodes to the network, and how long transfers take that share them.

A node has one link, with a rate up and a rate down. The network between the links is never the bottleneck. Transfers share
a link max-min fairly: no transfer can get more without taking it from one that has no more. That is what TCP comes close to
where round trips are alike (Bertsekas and Gallager, Data Networks, 2nd edition 1992, section 6.5.2). One transfer after the
other would be simpler, and a link would be busy for as long; but then nobody sees what happens when all nodes download from
the same few at once: with fair shares they all wait for the last byte, and all other links are idle meanwhile.

What TCP sends in the first round trip anyway passes at once, before longer transfers, which stand still meanwhile: with
fair shares it would take a few milliseconds more. Losses, the slow start of TCP and processors cost nothing here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from flnet.params.params import Array

K = TypeVar("K")
BURST = 10 * 1448  # bytes: the initial window of TCP (RFC 6928) in packets of Ethernet
LEFT = 0.5  # bytes; less than this is an error of rounding
# Bytes of a transfer for each bit of Ethernet, after the headers of TCP, IP and the frame.
PAYLOAD = 1448 / 1538 / 8


@dataclass(frozen=True)
class Link:
    """The link of one node.

    Attributes:
        up, down: bytes a second.
        latency: seconds from the node to the middle of the network; a round trip crosses two links both ways.
        is_shared: whether what is sent and what is received share the rate `up`, as on a radio channel.
    """

    up: float
    down: float
    latency: float
    is_shared: bool = False


LINKS: Mapping[str, Link] = {
    # Gigabit Ethernet (IEEE 802.3ab) over one switch.
    "lan": Link(1e9 * PAYLOAD, 1e9 * PAYLOAD, 0.0001),
    # Fast Ethernet (IEEE 802.3u), as many single-board computers have, over one switch.
    "100mbit": Link(1e8 * PAYLOAD, 1e8 * PAYLOAD, 0.00025),
    # What a laptop in another room than its access point of 802.11ac often gets; each node has an access point of its own.
    "wifi": Link(1e8 * PAYLOAD, 1e8 * PAYLOAD, 0.003, is_shared=True),
    # VDSL2 with vectoring (ITU-T G.993.5) as it is sold: 100 Mbit/s down and 40 up; two lines have a round trip of 40 ms.
    "dsl": Link(4e7 * PAYLOAD, 1e8 * PAYLOAD, 0.010),
}


def fair_rates(capacities: Array, first: Array, second: Array) -> Array:
    """The max-min fair rates of transfers, each of which crosses two links.

    In each step all links are filled of which no transfer would get less at its other link.

    Args:
        capacities: of each link, in bytes a second, (links,).
        first, second: by transfer: its links, (transfers,).

    Returns:
        Bytes a second, (transfers,).
    """
    rates, left, links = np.zeros(len(first)), capacities.astype(float), len(capacities)
    waiting = np.arange(len(first))
    while len(waiting):
        a, b = first[waiting], second[waiting]
        share = left / np.maximum(np.bincount(a, minlength=links) + np.bincount(b, minlength=links), 1)
        rate = np.minimum(share[a], share[b])
        less_elsewhere = np.bincount(a, rate < share[a], links) + np.bincount(b, rate < share[b], links)
        is_filled = (less_elsewhere[a] == 0) | (less_elsewhere[b] == 0)
        a, b, rate = a[is_filled], b[is_filled], rate[is_filled]
        rates[waiting[is_filled]] = rate
        left -= np.bincount(a, rate, links) + np.bincount(b, rate, links)
        waiting = waiting[~is_filled]
    return rates


class SharedLinks(Generic[K]):
    """The transfers that are under way between some nodes, which are known by their numbers.

    Latency is not part of it: a transfer takes from its first byte on the link of the sender to its last one.
    """

    def __init__(self, links: Sequence[Link]) -> None:
        """Args:
        links: of each node.
        """
        count = len(links)
        self._capacities = np.array([link.up for link in links] + [link.down for link in links])
        self._down = [number if link.is_shared else count + number for number, link in enumerate(links)]
        self._busy = np.zeros(2 * count)  # seconds for which a link is still busy with short messages
        self._free = [0.0] * count  # when the short messages that a node has sent are on their way
        self._now = 0.0
        self._keys: list[K] = []
        self._first, self._second = np.zeros(0, int), np.zeros(0, int)
        self._left, self._rates = np.zeros(0), np.zeros(0)
        self._is_stale = False

    def pass_short(self, now: float, sender: int, receiver: int, size: float) -> float:
        """Send a message of at most BURST bytes; return when its last byte arrives, but for the latency."""
        self._go_on(now)
        down = self._down[receiver]
        upwards, downwards = size / self._capacities[sender], size / self._capacities[down]
        self._busy[sender] += upwards
        self._busy[down] += downwards
        self._free[sender] = max(now, self._free[sender]) + upwards
        return float(self._free[sender] + downwards)

    def start(self, now: float, sender: int, receiver: int, size: float, key: K) -> None:
        """Begin a transfer of so many bytes.

        Args:
            key: by which `ended` names it.
        """
        self._go_on(now)
        self._keys.append(key)
        self._first, self._second = np.append(self._first, sender), np.append(self._second, self._down[receiver])
        self._left = np.append(self._left, size)
        self._is_stale = True

    def next_end(self) -> float:
        """When the next transfer ends if none begins before; infinity if there is none."""
        if not self._keys:
            return math.inf
        if self._is_stale:
            self._rates = fair_rates(self._capacities, self._first, self._second)
            self._is_stale = False
        return float(self._now + (self._standstill() + self._left / self._rates).min())

    def ended(self, now: float) -> list[K]:
        """Let time pass; return the transfers that have ended."""
        self._go_on(now)
        is_over = self._left <= LEFT
        if not is_over.any():
            return []
        over = [key for key, ends in zip(self._keys, is_over, strict=True) if ends]
        self._keys = [key for key, ends in zip(self._keys, is_over, strict=True) if not ends]
        self._first, self._second = self._first[~is_over], self._second[~is_over]
        self._left = self._left[~is_over]
        self._is_stale = True
        return over

    def _standstill(self) -> Array:
        return np.maximum(self._busy[self._first], self._busy[self._second])

    def _go_on(self, now: float) -> None:
        passed = now - self._now
        if passed <= 0:
            return
        self.next_end()  # the rates of the time that has passed
        if self._keys:
            self._left -= self._rates * np.maximum(passed - self._standstill(), 0.0)
        self._busy = np.maximum(self._busy - passed, 0.0)
        self._now = now
