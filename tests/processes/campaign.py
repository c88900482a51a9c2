"""Five nodes of which one after another is killed in the middle of a round, and comes back."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import httpx

from flnet.cli.local_mesh import free_ports
from tests.processes.crashing import LEDGER, POINT, SEEN, Point, arm
from tests.processes.harness import DEADLINE_SECONDS, Harness, RealNode, until
from tests.processes.ledger import Taken, faults, gaps, read_ledger

NODES = 5
STARTER, OTHER, RETURNING = "starter", "other", "returning"  # what a node is in the round in which it is killed
ANYWHERE = Point("random", "time", "-")
SETTLED_SECONDS = 1.5  # that nobody opens a round after its starter died, until it counts as never begun
LONGEST_KILL_SECONDS = 0.5  # after the start of a round, for a kill at a random time
RETURN_SECONDS = 3.0  # the same, for a node that comes back at that time
SETTINGS = {
    "WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG": "20",
    "WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG_MARGIN": "0.2",
    "REQUEST_TIMEOUT_IN_SECONDS": "2",
}


class CrashHarness(Harness):
    """Nodes that die at the point that is written into their file."""

    module = "tests.processes.crashing"

    def __init__(self, folder: Path, base_port: int) -> None:
        super().__init__(folder)
        self._ports = iter(free_ports(NODES, base_port))  # not the system's own: they must be free again later

    def port(self) -> int:
        return next(self._ports)

    def file(self, kind: str, name: str) -> Path:
        """Where a node writes, or looks into, for this variable."""
        return self.folder / f"{name}.{kind.lower()}"

    def variables(self, index: int, values: Mapping[str, str]) -> dict[str, str]:
        files = {kind: str(self.file(kind, values["NODE_ID"])) for kind in (POINT, SEEN, LEDGER)}
        return super().variables(index, values) | files


@dataclass
class Report:
    """What came of the kills so far.

    Attributes:
        kills: by role and point.
        missed: points that a node did not pass in its round.
        gaps: rounds that a node does not know, and in which it promised nothing.
        broken: what should not be, in sentences.
    """

    kills: dict[tuple[str, Point], int] = field(default_factory=dict)
    missed: list[tuple[str, Point]] = field(default_factory=list)
    taken: int = 0
    rounds: int = 0
    gaps: int = 0
    broken: list[str] = field(default_factory=list)

    @property
    def killed(self) -> int:
        """How many kills there were."""
        return sum(self.kills.values())


class Campaign:
    """Kills nodes of one mesh, and looks after each kill whether all is as it was promised."""

    def __init__(self, harness: CrashHarness, chance: Random) -> None:
        self.harness, self._chance, self.report = harness, chance, Report()

    def points(self) -> dict[str, list[Point]]:
        """Let all nodes do rounds, and tell which points the one that starts them passes, and which the others."""
        first, *others = self.harness.nodes
        for _ in range(2):
            self._round(first, self.harness.nodes)
        seen = {node.name: self._seen(node) for node in self.harness.nodes}
        there = set().union(*(seen[node.name] for node in others))
        return {STARTER: sorted(seen[first.name]), OTHER: sorted(there), RETURNING: [ANYWHERE]}

    def kill(self, role: str, point: Point) -> None:
        """Kill a node at this point, let the others end the round, take it back, and do a round with all."""
        victim, starter = self._cast(role)
        away = [node for node in self.harness.nodes if node is not victim]
        if role == RETURNING:
            victim.kill()
            self._round(starter, away)
        number = max(node.job()["current_round"] for node in away) + 1
        if point != ANYWHERE:
            arm(self.harness.file(POINT, victim.name), point, number)
        if role == RETURNING:
            self.harness.again(victim)  # and killed again while it comes up, or gets what it has missed
        self._start(starter)
        if point == ANYWHERE:
            time.sleep(self._chance.uniform(0, RETURN_SECONDS if role == RETURNING else LONGEST_KILL_SECONDS))
            victim.process.kill()
        if not self._dies(victim, number):
            self.harness.file(POINT, victim.name).unlink(missing_ok=True)
            self.report.missed.append((role, point))
            self.report.rounds += 1
            return
        self.report.kills[role, point] = self.report.kills.get((role, point), 0) + 1
        self._ended(away, number, may_be_void=victim is starter)
        self.harness.again(victim)
        self.harness.up(victim)
        self.harness.meshed(*self.harness.nodes)
        until(lambda: _idle(self.harness.nodes), f"rest after the return of {victim.name}")
        # Who missed the newest round and starts the next one sits it out: its model is old.
        behind = victim.job()["current_round"] < max(node.job()["current_round"] for node in away)
        starter = self._chance.choice(away if behind else self.harness.nodes)
        self._round(starter, self.harness.nodes, complete=True)
        self.check(f"after {role} died {point}")

    def check(self, when: str) -> None:
        """Hold what was promised against what is remembered."""
        histories = {node.name: node.history() for node in self.harness.nodes}
        taken = self.taken()
        self.report.taken = len(taken)
        self.report.gaps = sum(len(gaps(history)) for history in histories.values())
        for fault in faults(taken, histories):
            if not any(known.endswith(fault) for known in self.report.broken):
                self.report.broken.append(f"{when}: {fault}")

    def taken(self) -> list[Taken]:
        """All updates that a peer answered 200 to."""
        files = [self.harness.file(LEDGER, node.name) for node in self.harness.nodes]
        lines = [line for file in files if file.exists() for line in file.read_text().splitlines(keepends=True)]
        return read_ledger(lines)

    def _cast(self, role: str) -> tuple[RealNode, RealNode]:
        victim, other = self._chance.sample(self.harness.nodes, 2)
        return victim, victim if role == STARTER else other

    def _start(self, starter: RealNode) -> None:
        try:
            answer = starter.trigger()
        except httpx.TransportError:  # it died before it could answer
            return
        assert answer.status_code == 202, f"{starter.name} starts no round: {answer.text}"

    def _round(self, starter: RealNode, nodes: Sequence[RealNode], complete: bool = False) -> None:
        """A round of all these nodes, which ends with one model; complete: with an update of each in it."""
        answer = starter.trigger()
        assert answer.status_code == 202, f"{starter.name} starts no round: {answer.text}"
        number = answer.json()["round"]  # a higher one, if the starter had missed rounds
        until(lambda: _at_rest(nodes, number, or_later=True), f"the end of round {number}, of {starter.name}")
        self.report.rounds += 1
        number = nodes[0].job()["current_round"]
        told = {node.name: node.job()["digest"][:10] for node in nodes}
        assert len(set(told.values())) == 1, f"round {number} ended with several models: {told}"
        if complete:
            for node in nodes:
                names = node.history()[-1]["contributors"]
                assert names == sorted(n.name for n in nodes), f"{node.name} averaged {names} in round {number}"

    def _dies(self, victim: RealNode, number: int) -> bool:
        """Whether the victim dies before the round is over at all nodes."""

        def decided() -> bool:
            return victim.process.poll() is not None or _at_rest(self.harness.nodes, number)

        until(decided, f"death of {victim.name}, or the end of round {number}")
        try:
            victim.process.wait(0.2)
        except Exception:
            return False
        return True

    def _ended(self, nodes: Sequence[RealNode], number: int, may_be_void: bool) -> None:
        """Wait for the end of the round, or, if its starter died, until it is clear that there is none."""
        since = time.monotonic()

        def ended() -> bool:
            nonlocal since
            if _at_rest(nodes, number):
                return True
            if not (may_be_void and _at_rest(nodes, number - 1)):
                since = time.monotonic()
            return time.monotonic() - since > SETTLED_SECONDS

        until(ended, f"the end of round {number} without its dead", DEADLINE_SECONDS)
        self.report.rounds += 1

    def _seen(self, node: RealNode) -> set[Point]:
        lines = self.harness.file(SEEN, node.name).read_text().splitlines()
        return {Point(*line.split()) for line in lines}


@contextmanager
def campaign(folder: Path, seed: int, base_port: int, **settings: str) -> Iterator[Campaign]:
    """Five nodes that are up, and whose trainings end at once."""
    harness = CrashHarness(folder, base_port)
    try:
        harness.go()
        for _ in range(NODES):
            harness.start(**SETTINGS, **settings)
        harness.ready()
        yield Campaign(harness, Random(seed))
    finally:
        harness.stop()


def _idle(nodes: Sequence[RealNode]) -> bool:
    """Whether all these nodes are between rounds."""
    try:
        return all(node.job()["phase"] == "IDLE" for node in nodes)
    except httpx.TransportError:
        return False


def _at_rest(nodes: Sequence[RealNode], number: int, or_later: bool = False) -> bool:
    """Whether all these nodes have ended the round of this number, or, if it may be, together a later one."""
    try:
        jobs = [node.job() for node in nodes]
    except httpx.TransportError:
        return False
    rounds = {job["current_round"] for job in jobs}
    is_over = all(job["phase"] == "IDLE" for job in jobs) and len(rounds) == 1
    return is_over and (rounds == {number} or (or_later and max(rounds) > number))
