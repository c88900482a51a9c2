"""Rounds with secure sums, compared with plain rounds of the same works, and the time when a third of the nodes vanishes.

Both meshes are up at the same time, and their series take turns. Bytes are those of updates and of the conversation about
the sum, as the nodes note them. In the last part 10 of 30 nodes are killed while all of them train.
"""

from __future__ import annotations

import time
from statistics import median

from benchmarks.bounds import BOUNDS
from benchmarks.nodes import Ask, Mesh, NotDone, mesh
from benchmarks.options import Options
from benchmarks.report import Row
from benchmarks.trainers._work import WORKS
from benchmarks.trainers.STILL import BYTES, SECONDS

PATIENCE_S = 100.0
TURNS = 5
MANY, GONE = 30, 10
TRAINING_S = 3.0
MODEL_BYTES = 440_616


def run(options: Options) -> None:
    """W1 and W2, and 30 nodes of which 10 vanish."""
    for name in ("W1", "W2"):
        _work(options, name)
    _vanishing(options)


def _work(options: Options, name: str) -> None:
    work, place = WORKS[name], options.place(f"secure-{name}")
    count, rounds = options.nodes or work.nodes, max(2, options.times(work.rounds))
    seconds: dict[str, list[float]] = {"agg1": [], "secure": []}
    processor: dict[str, list[float]] = {"agg1": [], "secure": []}
    try:
        with (
            mesh(_ask(name, count, "agg1"), place / "plain", options.base_port) as plain,
            mesh(_ask(name, count, "secure"), place / "secure", options.base_port + 100) as secure,
        ):
            for nodes in (plain, secure):
                nodes.wait_until_ready()
                nodes.series(1, PATIENCE_S)
            for _ in range(options.times(TURNS)):
                for rule, nodes in (("agg1", plain), ("secure", secure)):
                    nodes.series(1, PATIENCE_S)
                    series = nodes.series(rounds + 1, PATIENCE_S)
                    seconds[rule].append(median(series.rounds_s()))
                    processor[rule].append(series.cpu_s / (rounds + 1))
            sent = {rule: _bytes(nodes) for rule, nodes in (("agg1", plain), ("secure", secure))}
    except NotDone as exc:
        options.report.add(Row(f"{name}: secure sums", "", [], note=str(exc)))
        return
    what = "plain rounds"
    words = f"{name}: a secure round of {count} nodes"
    options.report.add(Row(words, "s", seconds["secure"], seconds["agg1"], what, BOUNDS["secure.time"]))
    options.report.add(Row(f"{words}, processor time", "s", processor["secure"], processor["agg1"], what))
    options.report.add(
        Row(f"{words}, bytes sent by all", "kB", [sent["secure"]], [sent["agg1"]], what, BOUNDS["secure.bytes"])
    )


def _vanishing(options: Options) -> None:
    count, gone = (9, 3) if options.quick else (MANY, GONE)
    environ = {BYTES: str(MODEL_BYTES), SECONDS: str(TRAINING_S)}
    ask = Ask("STILL", count, _ask("STILL", count, "secure").settings, environ)
    words = f"a secure round of {count} nodes, of which {gone} are killed while they train"
    try:
        with mesh(ask, options.place("secure-vanishing"), options.base_port) as nodes:
            nodes.wait_until_ready()
            nodes.series(1, PATIENCE_S)
            healthy = nodes.series(3, PATIENCE_S).rounds_s()
            disturbed = _killed(nodes, gone)
        options.report.add(
            Row(words, "s", [disturbed], healthy, "a round without deaths", BOUNDS["secure.recovery"])
        )
    except NotDone as exc:
        options.report.add(Row(words, "s", [], note=str(exc)))


def _killed(nodes: Mesh, gone: int) -> float:
    """Seconds of a round whose last nodes are killed while all train, until all others have closed it."""
    started = time.time()
    number = nodes.clients[0].trigger(nodes.trainer, 1)
    time.sleep(TRAINING_S / 2)
    for node in nodes.nodes[-gone:]:
        node.process.kill()
    left = Mesh(nodes.nodes[:-gone], nodes.clients[:-gone], nodes.ask)
    left.until(
        lambda client: (
            client.job(nodes.trainer).get("current_round") == number
            and client.job(nodes.trainer).get("phase") == "IDLE"
        ),
        PATIENCE_S,
        f"done with round {number}",
    )
    records = [records[-1] for records in left.history()]
    if any(len(record["contributors"]) < len(left.nodes) for record in records):
        raise NotDone(f"round {number} closed without nodes that were there: {records[0]['outcome']}")
    return time.time() - started


def _ask(trainer: str, count: int, rule: str) -> Ask:
    settings = {
        "wait_time_in_seconds_to_force_fedavg": PATIENCE_S,
        "aggregation": rule,
        "mesh_name": f"secure-{rule}",
    }
    return Ask(trainer, count, settings, {})


def _bytes(nodes: Mesh) -> float:
    """kB of a round that all nodes have sent, the median of the newest ones."""
    rounds = zip(*(records[-5:] for records in nodes.history()), strict=True)
    return float(median(sum(record["bytes"]["sent"] for record in records) / 1e3 for records in rounds))
