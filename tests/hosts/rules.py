"""What befalls packets between hosts, and the state of each way of a link; the clock comes from outside.

The k-th packet of a direction draws the k-th chances of that direction's own generator, under whatever rule, so
that its fate follows from the seed, from k and from the rule at that time, and from nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

HEADER_BYTES = 20  # of IPv4 without options; what is corrupted lies behind it
HELD_BACK_SECONDS = 0.05  # by which a reordered packet comes late, so that later ones overtake it
BACKLOG_SECONDS = 2.0  # of packets that wait before a slow link; what comes on top is dropped


@dataclass(frozen=True)
class Rule:
    """How one direction of a link treats packets.

    Attributes:
        delay: seconds that each packet takes.
        jitter: up to so many seconds more; packets keep their order.
        loss, duplicate, reorder, corrupt: probabilities in [0, 1], each packet for itself.
        rate: bytes per second; None: no limit.
        cut: nothing passes.
    """

    delay: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    corrupt: float = 0.0
    rate: float | None = None
    cut: bool = False


class Due(NamedTuple):
    """A packet that arrives at this time, in seconds of the caller's clock."""

    at: float
    packet: bytes


class _Chances(NamedTuple):
    """All that is drawn for one packet, whether its rule asks for it or not."""

    loss: float
    jitter: float
    duplicate: float
    reorder: float
    corrupt: float
    place: float


class Direction:
    """One way between two hosts."""

    def __init__(self, seed: int, source: int, target: int) -> None:
        self._chance = Random(f"{seed}: {source} to {target}")
        self._free = 0.0  # when the link has sent what waits before it
        self._last = 0.0  # arrival of the last packet that keeps its order
        self.carried, self.dropped = 0, 0

    def carry(self, packet: bytes, rule: Rule, now: float) -> list[Due]:
        """When this packet arrives, and as what: not at all, once or twice."""
        drawn = _Chances(*(self._chance.random() for _ in _Chances._fields))
        sent = self._sent(len(packet), rule, now)
        if rule.cut or drawn.loss < rule.loss or sent is None:
            self.dropped += 1
            return []
        self.carried += 1
        at = sent + rule.delay + rule.jitter * drawn.jitter
        if drawn.reorder < rule.reorder:
            at += HELD_BACK_SECONDS
        else:
            self._last = at = max(at, self._last)
        if drawn.corrupt < rule.corrupt:
            packet = flipped(packet, drawn.place)
        return [Due(at, packet)] * (2 if drawn.duplicate < rule.duplicate else 1)

    def _sent(self, size: int, rule: Rule, now: float) -> float | None:
        """When the last byte is on the link; None if too much waits already."""
        if rule.rate is None or rule.cut:
            return now
        begin = max(now, self._free)
        if begin - now > BACKLOG_SECONDS:
            return None
        self._free = begin + size / rule.rate
        return self._free


def flipped(packet: bytes, place: float) -> bytes:
    """The packet with one bit turned over behind its header; `place` in [0, 1) says where."""
    bits = (len(packet) - HEADER_BYTES) * 8
    if bits <= 0:
        return packet
    byte, bit = divmod(int(place * bits), 8)
    changed = bytearray(packet)
    changed[HEADER_BYTES + byte] ^= 1 << bit
    return bytes(changed)


class Rules:
    """The rules of all links; they may change while packets are on their way. Hosts are numbered from 0."""

    def __init__(self, everywhere: Rule | None = None) -> None:
        self._everywhere = everywhere or Rule()
        self._special: dict[tuple[int, int], Rule] = {}
        self._island: dict[int, int] = {}

    def rule(self, source: int, target: int) -> Rule:
        """What holds from one host to another now."""
        rule = self._special.get((source, target), self._everywhere)
        islands = self._island  # read once: another thread may put another in its place
        return rule if islands.get(source) == islands.get(target) else replace(rule, cut=True)

    def set_all(self, rule: Rule) -> None:
        """Let this hold between all hosts, in place of whatever held before; islands stay."""
        self._special, self._everywhere = {}, rule

    def set_one_way(self, source: int, target: int, rule: Rule) -> None:
        """Let this hold from one host to another, but not back."""
        self._special = {**self._special, (source, target): rule}

    def cut(self, source: int, target: int) -> None:
        """Let nothing pass from one host to another; what goes the other way still passes."""
        self.set_one_way(source, target, replace(self.rule(source, target), cut=True))

    def part(self, *islands: Iterable[int]) -> None:
        """Let nothing pass between these groups; hosts in none of them form one more."""
        self._island = {host: number for number, island in enumerate(islands, 1) for host in island}

    def heal(self) -> None:
        """Mend cuts and join islands; delays, losses and the like stay."""
        self._special = {way: replace(rule, cut=False) for way, rule in self._special.items()}
        self._island = {}
