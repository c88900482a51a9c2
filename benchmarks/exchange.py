"""A round without training: from the last node's "trained" to all nodes' "round closed", compared with bare transfers."""

from __future__ import annotations

from benchmarks.bounds import BOUNDS
from benchmarks.floors import bare_exchange
from benchmarks.nodes import Ask, NotDone, mesh
from benchmarks.options import Options
from benchmarks.report import Row
from benchmarks.trainers.STILL import BYTES

PATIENCE_S = 100.0
TURNS = 3
ROUNDS = 4  # a series; its first round is left out
WARM = 5  # rounds until the memory of earlier models is used again
SIZES = {"large": (4, 40_000_000), "small": (16, 31_400)}


def run(options: Options) -> None:
    """4 nodes with 40 MB, and 16 with 31 KB."""
    for name, (nodes, nbytes) in SIZES.items():
        one(options, name, options.nodes or nodes, nbytes)


def one(options: Options, name: str, nodes: int, nbytes: int) -> None:
    """One size: repetitions of a series of rounds, each compared with the same transfers over bare sockets."""
    ask = Ask("STILL", nodes, {"wait_time_in_seconds_to_force_fedavg": PATIENCE_S}, {BYTES: str(nbytes)})
    ours: list[float] = []
    bare: list[float] = []
    whole: list[float] = []
    cold: list[float] = []
    note = ""
    rounds = 2 if options.quick else ROUNDS
    try:
        with mesh(ask, options.place(f"exchange-{name}"), options.base_port) as running:
            running.wait_until_ready()
            cold = running.series(WARM, PATIENCE_S).spans_s("trained", "round_closed")
            for _ in range(options.times(TURNS)):
                bare += bare_exchange(nodes, nbytes, rounds - 1)
                series = running.series(rounds, PATIENCE_S)
                ours += series.spans_s("trained", "round_closed")[1:]
                whole += series.rounds_s()
    except NotDone as exc:
        note = str(exc)
    words = f"{nodes} nodes, {nbytes:,} bytes"
    options.report.add(Row(f"{words}: the same in the first {WARM} rounds", "s", cold))
    bound = BOUNDS.get(f"exchange.{name}")
    what = f"{nodes * (nodes - 1)} bare transfers"
    options.report.add(Row(f"{words}: trained to closed", "s", ours, bare, what, bound, note))
    options.report.add(Row(f"{words}: whole round without training", "s", whole, bare, what, note=note))
