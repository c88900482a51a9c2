"""Kills nodes at every step of a round, again and again: `python -m tests.processes.kills --kills 100`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import click
import httpx

from tests.processes.campaign import ANYWHERE, OTHER, STARTER, Campaign, Report, campaign
from tests.processes.crashing import Point

EVERY = 6  # which kill comes at a random time
MOST_SHOWN = 20  # broken promises in the table


def plan(points: dict[str, list[Point]], chance: Random) -> Iterator[tuple[str, Point]]:
    """Every point of every role, in random order, again and again; some kills at random times among them."""
    number = 0
    while True:
        pairs = [(role, point) for role, found in points.items() for point in found]
        for pair in chance.sample(pairs, len(pairs)):
            number += 1
            if number % EVERY == 0:
                yield chance.choice((STARTER, OTHER)), ANYWHERE
            yield pair


def run(kills: int, seed: int, folder: Path, base_port: int, compute: str) -> Report:
    """So many kills; ends early when the mesh cannot be brought back."""
    chance = Random(seed)
    with campaign(folder, seed, base_port, COMPUTE=compute) as mesh:
        points = mesh.points()
        click.echo(
            f"seed {seed}; points: " + ", ".join(f"{len(found)} as {role}" for role, found in points.items())
        )
        for role, point in plan(points, chance):
            is_back = attempt(mesh, role, point)
            if not is_back or mesh.report.killed >= kills:
                break
    return mesh.report


def attempt(mesh: Campaign, role: str, point: Point) -> bool:
    """One kill; False if the mesh did not come back, which is noted as broken."""
    broken, missed = len(mesh.report.broken), len(mesh.report.missed)
    began, is_back = time.monotonic(), True
    try:
        mesh.kill(role, point)
    except (AssertionError, httpx.HTTPError) as exc:
        is_back = False
        mesh.report.broken.append(f"{role} killed {point}: {exc}")
        _tell_all(mesh)
    verdict = "not passed" if len(mesh.report.missed) > missed else "ok"
    if new := mesh.report.broken[broken:]:
        verdict = f"BROKEN: {new[0]}" + (f" (and {len(new) - 1} more)" if new[1:] else "")
    click.echo(f"{mesh.report.killed:4} {role:<9} {point!s:<34} {time.monotonic() - began:5.1f} s  {verdict}")
    return is_back


def _tell_all(mesh: Campaign) -> None:
    for node in mesh.harness.nodes:
        try:
            job = node.job()
            told = f"round {job['current_round']} {job['phase']}, waits for {job['waiting_for']}, {node.states()}"
        except httpx.HTTPError as exc:
            told = f"process {node.process.poll()}: {exc}"
        click.echo(f"     {node.name}: {told}")


def table(report: Report) -> str:
    """What was done and what came of it."""
    lines = [f"{role:<9} {point!s:<34} {count:4}" for (role, point), count in sorted(report.kills.items())]
    lost = sum("took the update" in fault for fault in report.broken)
    return "\n".join(
        [
            *lines,
            f"kills {report.killed}, rounds {report.rounds}, points not passed {len(report.missed)}",
            f"updates that a peer took {report.taken}, of these lost {lost}; "
            f"rounds unknown to a node that was down {report.gaps}",
            *(f"BROKEN {fault}" for fault in report.broken[:MOST_SHOWN]),
            *([f"and {more} more"] if (more := len(report.broken) - MOST_SHOWN) > 0 else []),
        ]
    )


@click.command()
@click.option("--kills", default=100, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--port", default=21700, show_default=True, help="Nodes take free ports from here on.")
@click.option("--compute", type=click.Choice(["thread", "process"]), default="thread", show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), help="Keep states and logs here.")
def main(kills: int, seed: int, port: int, compute: str, folder: Path | None) -> None:
    """Kill nodes of a mesh of five with SIGKILL at every step of a round; exit code 1 if a promise was broken."""
    with tempfile.TemporaryDirectory() as temporary:
        place = folder or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        report = run(kills, seed, place, port, compute)
    click.echo(table(report))
    raise SystemExit(1 if report.broken else 0)


if __name__ == "__main__":
    main()
