"""Meshes of 10, 30 and 100 nodes: until everyone knows everyone, what they hold in memory, and five rounds."""

from __future__ import annotations

import time

from benchmarks.bounds import BOUNDS
from benchmarks.machine import proportional_mb
from benchmarks.nodes import Ask, Mesh, NotDone, mesh
from benchmarks.options import Options
from benchmarks.report import Report, Row
from benchmarks.trainers._work import WORKS
from benchmarks.trainers.STILL import BYTES

COUNTS = (10, 30)
MANY = 100  # with --full; these have a trainer without a framework
PATIENCE_S = 170.0
ROUNDS = 5


def run(options: Options) -> None:
    """Each size in turn."""
    counts = (options.nodes,) if options.nodes else COUNTS[:1] if options.quick else COUNTS
    for count in (*counts, MANY) if options.full else counts:
        one(options, count)


def one(options: Options, count: int) -> None:
    """Start, wait, weigh, do rounds."""
    trainer = "W3" if count < MANY else "STILL"
    ask = Ask(trainer, count, {"worker_idle_seconds": 600}, {BYTES: str(WORKS["W3"].nbytes)})
    report, words = options.report, f"{count} nodes with {trainer}"
    started = time.monotonic()
    try:
        with mesh(ask, options.place(f"forming-{count}"), options.base_port) as nodes:
            last = time.monotonic()
            nodes.until(lambda client: _alive(client.peers()) == count - 1, PATIENCE_S, "complete")
            formed = time.monotonic()
            note = f"starting the processes took {last - started:.1f} s more"
            bound = BOUNDS["forming"] * count
            report.add(Row(f"{words}: everyone knows everyone", "s", [formed - last], bound=bound, note=note))
            nodes.wait_until_ready(PATIENCE_S)
            ready = time.monotonic() - last
            report.add(Row(f"{words}: data loaded everywhere too", "s", [ready]))
            _memory(report, words, nodes)
            _rounds(report, words, nodes)
    except NotDone as exc:
        report.add(Row(words, "s", [], note=str(exc)))


def _alive(peers: list[dict[str, object]] | object) -> int:
    assert isinstance(peers, list)
    return sum(peer.get("state") == "alive" for peer in peers)


def _memory(report: Report, words: str, nodes: Mesh) -> None:
    own = [proportional_mb(node.process.pid) for node in nodes.nodes]
    everything, count = nodes.mb(), len(nodes.nodes)
    each = f"{sum(own) / count:.0f} MB a node"
    report.add(Row(f"{words}: memory of the nodes alone, sum of PSS", "MB", [sum(own)], note=each))
    each = f"{everything / count:.0f} MB a node"
    report.add(Row(f"{words}: memory with all training children", "MB", [everything], note=each))


def _rounds(report: Report, words: str, nodes: Mesh) -> None:
    series = nodes.series(ROUNDS, PATIENCE_S)
    lost = series.lost()
    note = f"{lost} of {ROUNDS * len(nodes.nodes)} rounds of nodes were averaged without someone"
    report.add(Row(f"{words}: a round", "s", series.rounds_s(), note=note))
