"""Three real nodes of a keyed mesh train while one of them is attacked in all ways at once.

    python -m tests.threats.siege --seconds 600

prints how each attack was answered, and what it did to the node: how long its operator waited for answers, its memory
and its log, and the rounds that all three nodes averaged; each against a calm time before. The exit code is 1 if one
of the bounds of `misses` is missed.
"""

from __future__ import annotations

import argparse
import http.client
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from flnet.web.server import raise_file_limit
from tests.mesh_name import MESH_HEADERS
from tests.processes.harness import RealNode, until
from tests.threats.assault import NAMES as ALL
from tests.threats.assault import Assault
from tests.threats.one_by_one import MESH_KEY, OLD_TOKEN, TOKEN, Besieged
from tests.threats.stranger import MEGA
from tests.threats.watching import Answers, listed, mega, p99

SECONDS, CALM_SECONDS = 600.0, 60.0
ROUNDS = 100_000  # more than end in any time
OPERATOR_PATHS = ("/health", "/jobs/SLOW", "/peers", "/")
ASK_SECONDS, LOOK_SECONDS = 0.2, 1.0
MOST_WAIT, REFUSED_SECONDS = 1.0, 30.0  # of the operator
MOST_GROWTH, MOST_LOG = 150 * MEGA, MEGA  # bytes
LEAST_ROUNDS = 2.0  # in a minute: members that send no updates cost some seconds in each
PATIENCE = "10"  # seconds
NAMES = frozenset({"n0", "n1", "n2"})
ROUND_SECONDS = 1.0  # that a training takes, so that the log is not filled by rounds


@dataclass
class Seen:
    """What was seen of the attacked node in some time.

    Attributes:
        waits: seconds that the operator waited for each answer; REFUSED_SECONDS more for a request that was refused.
        memory: bytes of the process and its children, at each look.
        log: bytes that were added to its log.
        rounds: that all three nodes averaged.
        restarts: how often a person had to ask for rounds again.
        seconds: how long it took.
        tracebacks: in the log.
    """

    waits: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    log: int = 0
    rounds: int = 0
    restarts: int = 0
    seconds: float = 0.0
    tracebacks: int = 0

    @property
    def per_minute(self) -> float:
        """Rounds in a minute."""
        return 60 * self.rounds / self.seconds


def misses(calm: Seen, siege: Seen) -> list[str]:
    """The bounds that were missed."""
    told = []
    if p99(siege.waits) > MOST_WAIT:
        told.append(f"the operator waited {p99(siege.waits):.2f} s at p99, more than {MOST_WAIT:g} s")
    if siege.per_minute < LEAST_ROUNDS:
        told.append(f"{siege.per_minute:.1f} rounds per minute, {calm.per_minute:.1f} in a calm time")
    return [*told, *damage(calm, siege)]


def damage(calm: Seen, siege: Seen) -> list[str]:
    """Those of the bounds that no slow machine excuses."""
    growth = max(siege.memory) - max(calm.memory)
    told = []
    if growth > MOST_GROWTH:
        told.append(f"memory grew by {mega(growth)} MB, more than {mega(MOST_GROWTH)} MB")
    if siege.log > MOST_LOG:
        told.append(f"{siege.log / MEGA:.2f} MB were added to the log, more than {mega(MOST_LOG)} MB")
    if siege.restarts:
        told.append(f"a person's series was cut short {siege.restarts} times")
    if siege.tracebacks:
        told.append(f"the log has {siege.tracebacks} tracebacks")
    if refused := sum(seconds >= REFUSED_SECONDS for seconds in siege.waits):
        told.append(f"the operator was refused {refused} times, or not answered")
    return told


class Observer:
    """Watches the attacked node as its operator does, and the rounds from another one."""

    def __init__(self, node: RealNode, other: RealNode, log: Path) -> None:
        self._node, self._other, self._log = node, other, log
        self._rounds: set[tuple[int, str]] = set()

    def during(self, ends: threading.Event, seconds: float) -> Seen:
        """What is seen in this time, or until the event is set."""
        seen, begun, size = Seen(), time.monotonic(), self._log_size()
        self._note_rounds()
        before = len(self._rounds)
        over = threading.Event()
        asking = threading.Thread(target=self._ask, args=(seen, over))
        asking.start()
        while time.monotonic() - begun < seconds and not ends.wait(LOOK_SECONDS):
            seen.memory.append(self._memory())
            self._note_rounds()
            seen.restarts += self._go_on()
        over.set()
        asking.join()
        self._note_rounds()
        seen.rounds, seen.seconds = len(self._rounds) - before, time.monotonic() - begun
        seen.log = self._log_size() - size
        seen.tracebacks = self._log.read_text(errors="replace").count("Traceback")
        return seen

    def _ask(self, seen: Seen, over: threading.Event) -> None:
        """Request pages and figures as the operator, each over a connection of its own."""
        number = 0
        while not over.wait(ASK_SECONDS):
            path, begun = OPERATOR_PATHS[number % len(OPERATOR_PATHS)], time.monotonic()
            number += 1
            seen.waits.append(self._answered(path, begun))

    def _answered(self, path: str, begun: float) -> float:
        line = http.client.HTTPConnection("127.0.0.1", self._node.port, timeout=REFUSED_SECONDS)
        try:
            line.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}", **MESH_HEADERS})
            answer = line.getresponse()
            answer.read()
            refused = answer.status >= 400
        except OSError:
            refused = True
        finally:
            line.close()
        return time.monotonic() - begun + (REFUSED_SECONDS if refused else 0.0)

    def _note_rounds(self) -> None:
        with suppress(httpx.HTTPError, ValueError):
            for record in self._other.history():
                if set(record["contributors"]) >= NAMES:
                    self._rounds.add((record["round"], record["initiator"]))

    def _go_on(self) -> bool:
        """Ask for rounds again if the series is over; whether that was needed."""
        with suppress(httpx.HTTPError, ValueError):
            job = self._other.job()
            if not job["rounds_left"] and job["phase"] == "IDLE":
                return self._other.trigger(rounds=ROUNDS).status_code == 202
        return False

    def _memory(self) -> int:
        process = psutil.Process(self._node.process.pid)
        size = 0
        for one in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                size += one.memory_info().rss
        return size

    def _log_size(self) -> int:
        return self._log.stat().st_size


@contextmanager
def training(folder: Path) -> Iterator[Besieged]:
    """Three nodes that train round after round, each for ROUND_SECONDS."""
    made = Besieged(folder, ROUND_SECONDS, WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG=PATIENCE)
    try:
        made.ready()
        yield made
    finally:
        made.stop()


def besiege(
    made: Besieged, seconds: float, calm_seconds: float, only: Sequence[str] = ALL
) -> tuple[Seen, Seen, Mapping[str, Answers]]:
    """The calm time, the siege, and how each attack was answered.

    Args:
        only: names of attacks.
    """
    at, (first, other, _) = made.target(), made.nodes
    assault = Assault((at.port, at.other_port, MESH_KEY, TOKEN, OLD_TOKEN), seconds, only)
    observer, never = Observer(first, other, made.folder / "n0.log"), threading.Event()
    try:
        assert other.trigger(rounds=ROUNDS).status_code == 202
        until(lambda: len(other.history()) >= 3, "three rounds")
        calm = observer.during(never, calm_seconds)
        assault.begin()
        seen = observer.during(never, seconds)
        return calm, seen, assault.answers()
    finally:
        assault.stop()


def described(calm: Seen, siege: Seen, answers: Mapping[str, Answers]) -> list[str]:
    """The figures, as Markdown."""
    lines = ["| attack | answered |", "| --- | --- |"]
    lines += [f"| {name} | {listed(Counter(dict(told.most_common(5))))} |" for name, told in answers.items()]
    lines += ["", "| | calm | siege | bound |", "| --- | --- | --- | --- |"]
    medians = (f"{statistics.median(calm.waits):.3f}", f"{statistics.median(siege.waits):.3f}")
    rows: Sequence[tuple[str, str, str, str]] = (
        ("seconds", f"{calm.seconds:.0f}", f"{siege.seconds:.0f}", ""),
        ("answers to the operator", str(len(calm.waits)), str(len(siege.waits)), ""),
        ("the operator's wait, median, s", *medians, ""),
        ("the operator's wait, p99, s", f"{p99(calm.waits):.3f}", f"{p99(siege.waits):.3f}", f"{MOST_WAIT:g}"),
        ("memory at most, MB", mega(max(calm.memory)), mega(max(siege.memory)), f"+{mega(MOST_GROWTH)}"),
        ("memory at the end, MB", mega(calm.memory[-1]), mega(siege.memory[-1]), ""),
        ("log, kB", f"{calm.log / 1000:.0f}", f"{siege.log / 1000:.0f}", f"{MOST_LOG / 1000:.0f}"),
        ("rounds of all three", str(calm.rounds), str(siege.rounds), ""),
        (
            "per minute",
            f"{calm.per_minute:.1f}",
            f"{siege.per_minute:.1f}",
            f"{LEAST_ROUNDS:.1f}",
        ),
        ("series asked for again", str(calm.restarts), str(siege.restarts), "0"),
    )
    return lines + [f"| {' | '.join(row)} |" for row in rows]


def main() -> int:
    """Attack, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of the siege")
    parser.add_argument("--calm", type=float, default=CALM_SECONDS, help="seconds of calm before it")
    parser.add_argument("--only", nargs="+", default=ALL, choices=ALL, metavar="ATTACK", help=", ".join(ALL))
    asked = parser.parse_args()
    raise_file_limit()
    with tempfile.TemporaryDirectory() as folder, training(Path(folder)) as made:
        calm, seen, answers = besiege(made, asked.seconds, asked.calm, asked.only)
    wrong = misses(calm, seen)
    print("\n".join(described(calm, seen, answers)))
    print("\n".join(wrong) or "all bounds held")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
