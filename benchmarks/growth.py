"""How a round without training grows: with the nodes (2 to 16), and with the model (31 KB to 40 MB)."""

from __future__ import annotations

from benchmarks.floors import bare_exchange
from benchmarks.nodes import Ask, NotDone, mesh
from benchmarks.options import Options
from benchmarks.report import Row
from benchmarks.trainers.STILL import BYTES

COUNTS = (2, 4, 8, 16)
SIZES = (31_400, 440_616, 4_000_000, 40_000_000)
SIZE, COUNT = 440_616, 4  # what stays while the other one grows
ROUNDS = 6
PATIENCE_S = 60.0


def run(options: Options) -> None:
    """First the nodes, then the model."""
    for count in COUNTS[::2] if options.quick else COUNTS:
        one(options, count, SIZE)
    for nbytes in SIZES[::2] if options.quick else SIZES:
        if nbytes != SIZE:
            one(options, options.nodes or COUNT, nbytes)


def one(options: Options, count: int, nbytes: int) -> None:
    """One point of the curve, with the same transfers over bare sockets."""
    words, what = f"{count} nodes, {nbytes:,} bytes: a round", "bare transfers"
    settings = {"wait_time_in_seconds_to_force_fedavg": PATIENCE_S}
    try:
        ask = Ask("STILL", count, settings, {BYTES: str(nbytes)})
        with mesh(ask, options.place(f"growth-{count}-{nbytes}"), options.base_port) as nodes:
            nodes.wait_until_ready()
            nodes.series(1, PATIENCE_S)
            bare = bare_exchange(count, nbytes, ROUNDS)
            ours = nodes.series(ROUNDS + 1, PATIENCE_S).rounds_s()
        options.report.add(Row(words, "s", ours, bare, what))
    except NotDone as exc:
        options.report.add(Row(words, "s", [], note=str(exc)))
