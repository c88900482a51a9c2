"""What an attack does to a mesh that trains: measured from outside, judged, and put into a table."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import psutil

from tests.processes.harness import RealNode
from tests.threats.stranger import MEGA

Answers: TypeAlias = Counter[str]  # how often something was answered so
LOOK_SECONDS = 0.02
LOUD = (" WARNING ", " ERROR ", " CRITICAL ")
MOST_TOLD = 8  # sentences and lines of the log that one attack may be worth
MOST_GROWTH, MOST_PEAK = 48 * MEGA, 128 * MEGA  # of the memory: what stays, and what is taken for a moment
LET_IN = "2"  # what the status of an attempt that got in begins with


@dataclass(frozen=True)
class Found:
    """One attack, and what was seen meanwhile.

    Attributes:
        answers: of the node to the attack.
        told: sentences that a person of the node reads meanwhile, by kind, but for those on rounds; and warnings
            in its log.
        rounds: that all nodes averaged meanwhile.
        seconds: that a round took; `quiet` the same just before the attack.
        memory: of the node before, at most meanwhile, and afterwards, in bytes.
        health: seconds within which 99 of 100 GET /health were answered, before and during the attack.
    """

    name: str
    answers: Answers
    told: Answers
    rounds: int
    seconds: float
    quiet: float
    memory: tuple[int, int, int]
    health: tuple[float, float]


def faults(one: Found) -> list[str]:
    """What should not have been."""
    said = []
    got_in = {how: n for how, n in one.answers.items() if how.startswith(LET_IN) or how[:3] == "500"}
    if got_in or one.answers["no answer"]:
        said.append(f"it was not refused: {dict(one.answers)}")
    if not one.answers:
        said.append("nothing of it came to the node")
    if not one.rounds:
        said.append("no round of all nodes ended meanwhile")
    if sum(one.told.values()) > MOST_TOLD:
        said.append(f"it was told {sum(one.told.values())} times: {dict(one.told)}")
    before, most, after = one.memory
    if after - before > MOST_GROWTH or most - before > MOST_PEAK:
        said.append(f"memory went from {mega(before)} over {mega(most)} to {mega(after)} MB")
    return [f"{one.name}: {words}" for words in said]


def table(found: Sequence[Found]) -> str:
    """All of it, as Markdown."""
    lines = [
        "| attack | answered | told | rounds | s per round (before) | MB before, most, after | "
        "p99 of /health, ms |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in found:
        cells = (
            one.name,
            listed(one.answers),
            listed(one.told) or "-",
            str(one.rounds),
            f"{one.seconds:.2f} ({one.quiet:.2f})",
            ", ".join(mega(size) for size in one.memory),
            f"{1000 * one.health[1]:.0f} ({1000 * one.health[0]:.0f})",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def listed(counts: Answers) -> str:
    """Counts in words, the most frequent first."""
    return ", ".join(f"{count} x {what}" for what, count in counts.most_common())


def mega(size: int) -> str:
    """Bytes as megabytes."""
    return f"{size / MEGA:.0f}"


def p99(seconds: Sequence[float]) -> float:
    """What 99 of 100 were not above; 0 for none."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))] if ordered else 0.0


class Watcher:
    """Looks at the attacked node as a person does, and at the rounds from another one."""

    def __init__(self, node: RealNode, other: RealNode, log: Path) -> None:
        """Args:
        node: that is attacked; `other` one that is not.
        log: of the node.
        """
        self._node, self._other, self._log = node, other, log
        self._health: list[float] = []
        self._memory: list[int] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._quiet = (0.0, 0.0)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def quiet(self, seconds: float) -> None:
        """Let nothing happen but rounds, to compare with."""
        rounds, begun = self._rounds(), time.monotonic()
        self._health.clear()
        self._ending.wait(seconds)
        ended = self._rounds() - rounds
        self._quiet = ((time.monotonic() - begun) / max(ended, 1), p99(self._health))

    def during(self, name: str, attack: Callable[[], Answers]) -> Found:
        """What happens during this attack."""
        seen, loud, rounds, begun = self._last(), self._loud(), self._rounds(), time.monotonic()
        before = self._rss()
        self._health.clear()
        self._memory.clear()
        answers = attack()
        took, ended = time.monotonic() - begun, self._rounds() - rounds
        told = Counter(str(item["kind"]) for item in self._items() if item["id"] > seen and not item["trainer"])
        told.update({"line of the log": self._loud() - loud} if self._loud() > loud else {})
        return Found(
            name,
            answers,
            told,
            ended,
            took / max(ended, 1),
            self._quiet[0],
            (before, max(self._memory, default=before), self._rss()),
            (self._quiet[1], p99(self._health)),
        )

    def _items(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._node.http.get("/events.jsonl").text.splitlines()]

    def _last(self) -> int:
        return max((int(item["id"]) for item in self._items()), default=0)

    def _loud(self) -> int:
        return sum(any(word in line for word in LOUD) for line in self._log.read_text().splitlines())

    def _rounds(self) -> int:
        return sum(len(record["contributors"]) == 3 for record in self._other.history())

    def _rss(self) -> int:
        size: int = psutil.Process(self._node.process.pid).memory_info().rss
        return size

    def _look(self) -> None:
        while not self._ending.wait(LOOK_SECONDS):
            begun = time.monotonic()
            line = http.client.HTTPConnection("127.0.0.1", self._node.port, timeout=30)
            try:
                line.request("GET", "/health")
                line.getresponse().read()
            except OSError:
                begun -= 30.0  # as bad as no answer
            finally:
                line.close()
            self._health.append(time.monotonic() - begun)
            self._memory.append(self._rss())
