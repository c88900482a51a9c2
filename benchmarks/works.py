"""The three works: rounds of flnet and of the plain mesh, in turns, while the nodes stay up."""

from __future__ import annotations

from statistics import median

from benchmarks.bounds import BOUNDS
from benchmarks.floors import plain_run
from benchmarks.nodes import Ask, Mesh, NotDone, mesh
from benchmarks.options import Options
from benchmarks.plain_mesh import PlainRun
from benchmarks.report import Row
from benchmarks.trainers._work import WORKS

PATIENCE_S = 100.0  # for one series of rounds
TURNS = 3


def run(options: Options) -> None:
    """W1, W2 and W3."""
    for name in WORKS:
        one(options, name)


def one(options: Options, name: str) -> None:
    """One work: seconds per round in steady state, the first round, memory, accuracy."""
    work, report = WORKS[name], options.report
    count, rounds = options.nodes or work.nodes, max(2, options.times(work.rounds))
    ask = Ask(name, count, {"wait_time_in_seconds_to_force_fedavg": PATIENCE_S}, {})
    ours: list[float] = []
    cpu: list[float] = []
    plain: list[PlainRun] = []
    bare: list[PlainRun] = []
    words, what, note = f"{name}: a round of {count} nodes", "plain HTTP mesh", ""
    try:
        with mesh(ask, options.place(f"works-{name}"), options.base_port) as nodes:
            nodes.wait_until_ready()
            first = nodes.series(1, PATIENCE_S).first_s()
            report.add(Row(f"{name}: first round, from the trigger on", "s", [first]))
            for _ in range(options.times(TURNS)):
                plain.append(plain_run(name, count, rounds))
                bare.append(plain_run(name, count, rounds, "sockets"))
                nodes.series(1, PATIENCE_S)  # no first round counts: those of the plain meshes do not either
                series = nodes.series(rounds + 1, PATIENCE_S)
                ours.append(median(series.rounds_s()))
                cpu.append(series.cpu_s / (rounds + 1))
            report.add(Row(f"{name}: memory, sum of PSS", "MB", [nodes.mb()], [plain[-1].mb], what))
            done = len(nodes.history()[0])
            same = f"after {done} rounds; the {what} after {rounds + 1}: {plain[-1].accuracy:.3f}"
            report.add(Row(f"{name}: accuracy at the end", "", _accuracies(nodes), note=same))
    except NotDone as exc:
        note = str(exc)
    report.add(Row(words, "s", ours, [median(run.rounds_s) for run in plain], what, BOUNDS[f"works.{name}"], note))
    report.add(Row(words, "s", ours, [median(run.rounds_s) for run in bare], "plain mesh, bare sockets"))
    # What the others on this machine do slows a round down, but adds little to the time that it is worked for.
    words = f"{name}: processor time of all {count} nodes, a round"
    report.add(Row(words, "s", cpu, [run.cpu_s for run in plain], what))


def _accuracies(nodes: Mesh) -> list[float]:
    return [float(records[-1]["post_fedavg_accuracy"] or 0.0) for records in nodes.history()]
