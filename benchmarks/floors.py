"""The floors by themselves: what the same exchanges and the same works cost without flnet."""

from __future__ import annotations

import json
from statistics import median

from benchmarks.options import Options, in_process
from benchmarks.plain_mesh import PlainRun
from benchmarks.report import Row
from benchmarks.trainers._work import WORKS

TURNS = 3


def run(options: Options) -> None:
    """Bare exchanges, then the plain mesh over bare sockets, compared with the one over HTTP."""
    report = options.report
    for nodes, size in ((4, 40_000_000), (16, 31_400)):
        seconds = bare_exchange(nodes, size, options.times(TURNS))
        per = size * nodes * (nodes - 1) / median(seconds) / 1e9
        name = f"{nodes} processes, {size:,} bytes each to each, bare sockets"
        report.add(Row(name, "s", seconds, note=f"{per:.2f} GB/s in all"))
    for name, work in WORKS.items():
        count = options.nodes or work.nodes
        over_http, over_sockets = [], []
        for _ in range(options.times(TURNS)):
            http = plain_run(name, count, work.rounds)
            sockets = plain_run(name, count, work.rounds, "sockets")
            over_http.append(median(http.rounds_s))
            over_sockets.append(median(sockets.rounds_s))
        what, note = "over bare sockets", f"{http.mb:.0f} MB; first round after {http.start_s:.1f} s"
        report.add(
            Row(f"{name}: a round of the plain mesh over HTTP", "s", over_http, over_sockets, what, note=note)
        )


def bare_exchange(nodes: int, nbytes: int, repetitions: int) -> list[float]:
    """Seconds of exchanges over bare sockets, in fresh processes; the first one, which warms up, is left out."""
    text = in_process("socket_mesh", nodes, nbytes, repetitions + 1)
    values: list[float] = json.loads(text)
    return values[1:]


def plain_run(name: str, count: int, rounds: int, way: str = "http") -> PlainRun:
    """A run of the plain mesh, forked from a fresh process."""
    text = in_process("plain_mesh", name, "--way", way, "--nodes", count, "--rounds", rounds)
    return PlainRun(**json.loads(text))
