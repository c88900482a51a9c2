"""Nodes that train for hours while they are killed, stopped and cut off: `python -m tests.soak --hours 2`."""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import click
import httpx
import psutil

from tests.hosts.mesh import host_mesh
from tests.hosts.namespaces import unable
from tests.hosts.rules import Rule
from tests.processes.harness import Harness, RealNode, harness, until
from tests.soak.faults import LONG, SHORT, befall, draw, passing, possible
from tests.soak.growth import Bounds, Sample, broken, memory_slope
from tests.soak.holding import HOLDING

SETTINGS = {
    "TRAINERS": "SLOW",
    "COMPUTE": "process",
    "WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG": "5",
    "REQUEST_TIMEOUT_IN_SECONDS": "3",
    "LOGGING_LEVEL": "WARNING",
}
SAMPLE_SECONDS, RECOVERY_SECONDS = 10.0, 120.0
PASSING = ("-wal", "-shm")  # SQLite's own, which it fills to a bound and then uses again
SURPRISES = ("Traceback (most recent call last)", "could not be handled", "never retrieved")


class Soak:
    """One run."""

    def __init__(self, made: Harness, chance: Random, round_seconds: float) -> None:
        self.harness, self._chance, self._round_seconds = made, chance, round_seconds
        self.samples: list[Sample] = []
        self.faults: Counter[str] = Counter()
        self.started = 0
        self._began, self._next_sample, self._next_round = time.monotonic(), 0.0, 0.0

    def look(self) -> None:
        """Start a round and take samples when it is time."""
        now = time.monotonic() - self._began
        if now >= self._next_round:
            self._next_round = now + self._round_seconds
            self._start()
        if now >= self._next_sample:
            self._next_sample = now + SAMPLE_SECONDS
            for node in self.harness.nodes:
                with suppress(psutil.Error, httpx.HTTPError, FileNotFoundError):
                    self.samples.append(self._sample(node, now))

    def run(self, seconds: float, every: float, longest: float = LONG) -> None:
        """A fault at each interval, until the time is over; then all nodes must be one mesh again."""
        shortest = min(SHORT, longest / 2)
        meanwhile = passing(self.look)
        meanwhile(min(every, seconds))
        while time.monotonic() - self._began < seconds:
            fault = draw(self._chance, len(self.harness.nodes), possible(self.harness), shortest, longest)
            click.echo(f"{time.monotonic() - self._began:7.0f} s  {fault}")
            self.faults[fault.kind] += 1
            befall(self.harness, fault, meanwhile)
            meanwhile(max(min(1.0, every / 2), every - fault.seconds))

    def whole(self) -> str:
        """Why the nodes are no mesh any more; empty if they end a round with one model."""
        nodes = self.harness.nodes
        try:
            for node in nodes:
                self.harness.up(node, RECOVERY_SECONDS)
            self.harness.meshed(*nodes, seconds=RECOVERY_SECONDS)
            until(lambda: all(node.job()["phase"] == "IDLE" for node in nodes), "rest", RECOVERY_SECONDS)
            assert nodes[0].trigger().status_code == 202
            until(self._is_one, "one model at all nodes", RECOVERY_SECONDS)
        except (AssertionError, httpx.HTTPError) as exc:
            return f"the mesh does not recover: {exc}"
        return ""

    def surprises(self) -> list[str]:
        """What nodes logged that no node should."""
        found = []
        for log in sorted(self.harness.folder.glob("n*.log")):
            lines = log.read_text("utf-8", errors="replace").splitlines()
            found += [f"{log.name}: {line}" for line in lines if any(words in line for words in SURPRISES)]
        return found

    def _is_one(self) -> bool:
        jobs = [node.job() for node in self.harness.nodes]
        rested = all(job["phase"] == "IDLE" for job in jobs)
        return rested and len({(job["current_round"], job["digest"]) for job in jobs}) == 1

    def _start(self) -> None:
        node = self._chance.choice(self.harness.nodes)
        with suppress(httpx.HTTPError):
            answer = node.http.post("/training/trigger", json={"trainerId": "SLOW"}, timeout=0.5)
            self.started += answer.status_code == 202

    def _sample(self, node: RealNode, now: float) -> Sample:
        process = psutil.Process(node.process.pid)
        files = [path for path in self.harness.state(node).rglob("*") if path.is_file()]
        rounds = node.http.get("/jobs/SLOW", timeout=0.5).json()["current_round"]
        return Sample(
            at=now,
            node=node.name,
            process=process.pid,
            age=time.time() - process.create_time(),
            memory=process.memory_info().rss,
            handles=process.num_fds(),
            threads=process.num_threads(),
            files=len(files),
            stored=sum(path.stat().st_size for path in files if not path.name.endswith(PASSING)),
            rounds=rounds,
        )


@contextmanager
def nodes_of(folder: Path, count: int, seed: int) -> Iterator[Harness]:
    """As hosts where that is possible, else as processes."""
    if why := unable():
        click.echo(f"nodes are no hosts, and networks are not cut: {why}")
        with harness(folder) as made:
            yield _up(made, count)
    else:
        with host_mesh(folder, count, seed, Rule(delay=0.002, loss=0.001), **SETTINGS) as mesh:
            yield _up(mesh, count)


def _up(made: Harness, count: int) -> Harness:
    if HOLDING in os.environ:
        made.module = "tests.soak.holding"
    made.go()
    for _ in range(count):
        made.start(**SETTINGS)
    made.ready()
    return made


def table(soak: Soak, warm_up: float) -> str:
    """Each node's figures at the beginning and at the end."""
    lines = ["node  restarts  rounds  memory MB      MB per hour     handles    threads  files    stored kB"]
    for node in soak.harness.nodes:
        own = [sample for sample in soak.samples if sample.node == node.name]
        warm = [sample for sample in own if sample.age >= warm_up] or own
        if not warm:
            lines.append(f"{node.name:<5} no samples")
            continue
        one, two = warm[0], warm[-1]
        rise = memory_slope(own, warm_up)
        steep = f"{rise.per_hour:6.2f} +- {2 * rise.error:5.2f}" if rise else "too short      "
        lines.append(
            f"{node.name:<5} {len({sample.process for sample in own}) - 1:8}  {two.rounds:6}  "
            f"{one.memory / 1e6:5.1f} {two.memory / 1e6:5.1f}  {steep}  {one.handles:4} {two.handles:4}  "
            f"{one.threads:4} {two.threads:4}  {one.files:3} {two.files:3}  "
            f"{one.stored / 1e3:6.0f} {two.stored / 1e3:6.0f}"
        )
    return "\n".join(lines)


@click.command()
@click.option("--hours", default=2.0, show_default=True)
@click.option("--nodes", default=5, show_default=True, type=click.IntRange(min=3))
@click.option("--seed", default=1, show_default=True)
@click.option("--every", default=30.0, show_default=True, help="Seconds from fault to fault.")
@click.option("--longest", default=LONG, show_default=True, help="Seconds that a fault lasts at most.")
@click.option("--round-seconds", default=10.0, show_default=True, help="Seconds from round to round.")
@click.option("--warm-up", default=900.0, show_default=True, help="Seconds of each process that do not count.")
@click.option("--memory", default=1.0, show_default=True, help="Megabytes per hour that a node may grow.")
@click.option("--folder", type=click.Path(path_type=Path), help="Keep states and logs here.")
def main(
    hours: float,
    nodes: int,
    seed: int,
    every: float,
    longest: float,
    round_seconds: float,
    warm_up: float,
    memory: float,
    folder: Path | None,
) -> None:
    """Let nodes train for hours under faults; exit code 1 if one of them grows, or the mesh does not recover."""
    with tempfile.TemporaryDirectory() as temporary:
        place = folder or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        with nodes_of(place, nodes, seed) as made:
            soak = Soak(made, Random(seed), round_seconds)
            soak.run(hours * 3600, every, longest)
            faults = [why] if (why := soak.whole()) else []
        for name in (node.name for node in made.nodes):
            own = [sample for sample in soak.samples if sample.node == name]
            faults += broken(name, own, warm_up, Bounds(memory=memory))
        faults += soak.surprises()
        click.echo(
            f"seed {seed}, {hours:g} h, {nodes} nodes, rounds started {soak.started}, faults {dict(soak.faults)}"
        )
        click.echo(table(soak, warm_up))
    for fault in faults:
        click.echo(f"BROKEN {fault}")
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
