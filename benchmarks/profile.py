"""Where one round's time goes: the last node of every step, processor time, and one node under cProfile."""

from __future__ import annotations

import io
import pstats
from itertools import pairwise
from statistics import median

from benchmarks.machine import cpu_seconds
from benchmarks.nodes import Ask, Mesh, NotDone, Series, mesh, single
from benchmarks.options import Options
from benchmarks.report import Row, columns, short
from benchmarks.trainers._work import WORKS

STEPS = ("round_opened", "trained", "averaged", "measured", "round_closed")
PATIENCE_S = 100.0
LINES = 25  # of the profile that are shown


def run(options: Options) -> None:
    """W2 and W3, one node more than usual: the one that is profiled."""
    for name in ("W2", "W3"):
        one(options, name)


def one(options: Options, name: str) -> None:
    """One work: the steps as the feeds tell them, the processor time, the profile."""
    work = WORKS[name]
    count, rounds = options.nodes or work.nodes, max(2, options.times(work.rounds))
    ask = Ask(name, count, {"wait_time_in_seconds_to_force_fedavg": PATIENCE_S}, {})
    try:
        with mesh(ask, options.place(f"profile-{name}"), options.base_port) as nodes:
            nodes.wait_until_ready()
            nodes.series(1, PATIENCE_S)
            before = _cpu(nodes)
            series = nodes.series(rounds, PATIENCE_S)
            after = _cpu(nodes)
            _steps(options, f"{name}, {count} nodes", series)
            for what, was, now in zip(("nodes", "children"), before, after, strict=True):
                words = f"{name}: processor time of all {what}, a round"
                options.report.add(Row(words, "s", [(now - was) / rounds]))
            if not options.quick:
                _profiled(options, name, nodes, rounds)
    except NotDone as exc:
        options.report.add(Row(f"{name}: profile", "s", [], note=str(exc)))


def _cpu(nodes: Mesh) -> tuple[float, float]:
    own = [node.process.pid for node in nodes.nodes]
    return sum(map(cpu_seconds, own)), sum(map(cpu_seconds, nodes.children()))


def _steps(options: Options, words: str, series: Series) -> None:
    lines = [(f"{words}: step", "median s", "from - to, s", "spread over nodes, s")]
    for begin, end in pairwise(STEPS):
        spans = series.spans_s(begin, end)
        apart = [max(times) - min(times) for n in series.numbers if (times := series.times(end, n))]
        if spans:
            ends = f"{short(min(spans))} - {short(max(spans))}"
            lines.append((f"{begin} to {end}", short(median(spans)), ends, short(median(apart))))
    lines.append(("whole round", short(median(series.rounds_s())), "", ""))
    options.report.write(columns(lines))


def _profiled(options: Options, name: str, nodes: Mesh, rounds: int) -> None:
    """One more node joins, under cProfile: only its event loop's thread is seen, training is in the child."""
    file = options.place(f"{name}.profile")
    own = {"bootstrap_pairs": nodes.nodes[0].address}
    wrap = ["-m", "cProfile", "-o", str(file)]
    with single(nodes.ask, options.place(f"profiled-{name}"), nodes.nodes[-1].port + 1, own=own, wrap=wrap):
        nodes.until(lambda client: len(client.peers()) == len(nodes.nodes), PATIENCE_S, "joined by one more")
        nodes.series(1, PATIENCE_S)
        nodes.series(rounds, PATIENCE_S)
    text = io.StringIO()
    pstats.Stats(str(file), stream=text).sort_stats("tottime").print_stats(LINES)
    options.report.write(
        f"{name}: one node's event loop in {rounds + 1} rounds, under cProfile\n{text.getvalue()}"
    )
