"""What one node holds: idle with all trainers, with its training child, and after training."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.bounds import BOUNDS
from benchmarks.machine import proportional_mb, resident_mb
from benchmarks.nodes import Ask, Mesh, NotDone, single
from benchmarks.options import Options
from benchmarks.report import Report, Row

IDLE_S = 4  # after which the training child is ended
PATIENCE_S = 90.0
TRAINER = "MNIST"


def run(options: Options) -> None:
    """Without data sets but with what comes with the trainers; then with FLNET_DATASETS_PATH where it is set."""
    with_data = Path(options.datasets) if options.datasets else None
    one(options, "without data sets", {"datasets_path": options.place("no-data-sets")})
    if with_data is not None:
        one(options, "with data sets", {"datasets_path": with_data})
    else:
        options.report.add(Row("memory with data sets", "MB", [], note="FLNET_DATASETS_PATH names none"))


def one(options: Options, words: str, settings: dict[str, object]) -> None:
    """One node by itself, all trainers registered."""
    options.place("no-data-sets").mkdir(parents=True, exist_ok=True)
    report = options.report
    asked = {"worker_idle_seconds": IDLE_S, "trainers_path": "", **settings}  # only what comes with flnet
    with single(
        Ask("", 1, asked, {}), options.place(f"memory-{words[:4].strip()}"), options.base_port, own={}
    ) as nodes:
        nodes.until(_loaded, PATIENCE_S, "done with loading")
        _weigh(report, f"{words}, all trainers loaded", nodes)
        _wait(lambda: not nodes.children(), PATIENCE_S)
        _weigh(report, f"{words}, idle", nodes, BOUNDS["memory.idle"])
        nodes.trainer = TRAINER
        try:
            nodes.series(1, PATIENCE_S)
        except NotDone as exc:
            report.add(Row(f"{words}, {TRAINER} trained", "MB", [], note=str(exc)))
            return
        _weigh(report, f"{words}, {TRAINER} trained", nodes)
        _wait(lambda: not nodes.children(), PATIENCE_S)
        _weigh(report, f"{words}, idle after training", nodes, BOUNDS["memory.after"])


def _loaded(client: object) -> bool:
    jobs = client.info()["jobsInfo"]  # type: ignore[attr-defined]
    return all(job.get("phase") != "LOADING" for job in jobs)


def _wait(done: Callable[[], bool], patience: float) -> None:
    """Until it is so, or the time is over: what is there then is weighed all the same, and shows it."""
    deadline = time.monotonic() + patience
    while not done() and time.monotonic() < deadline:
        time.sleep(0.2)


def _weigh(report: Report, words: str, nodes: Mesh, bound: float | None = None) -> None:
    pid, children = nodes.nodes[0].process.pid, nodes.children()
    report.add(Row(f"{words}: the node, RSS", "MB", [resident_mb(pid)], bound=bound))
    report.add(Row(f"{words}: the node, PSS", "MB", [proportional_mb(pid)]))
    if children:
        rss = " + ".join(f"{resident_mb(child):.0f}" for child in children)
        pss = sum(proportional_mb(child) for child in children)
        report.add(Row(f"{words}: its children, PSS", "MB", [pss], note=f"{len(children)}; RSS {rss} MB"))
