"""Meshes of 10, 30 and 100 nodes: until everyone knows everyone, their memory, rounds of all, and one with deaths.

The topology is a mesh, in which each node sends its update to each other one, so a round of 100 nodes has 9,900 updates.
"""

from __future__ import annotations

import time

from benchmarks.bounds import BOUNDS
from benchmarks.machine import cpu_seconds, proportional_mb
from benchmarks.nodes import Ask, Mesh, NotDone, mesh
from benchmarks.options import Options
from benchmarks.report import Report, Row
from benchmarks.trainers._work import WORKS
from benchmarks.trainers.STILL import BYTES, SECONDS
from flnet.cli.client import NodeClient

COUNTS = (10, 30)
MANY = 100  # with --full; these have a trainer without a framework
PATIENCE_S = 170.0
ROUNDS = 5
TIMER_S = 600.0  # of a round: 100 nodes on two busy cores need minutes for the 9,900 updates of one
TRAINING_S = 1.0  # in which nodes are killed
IDLE_S = 10.0  # for which idle nodes are watched


def run(options: Options) -> None:
    """Each size in turn."""
    counts = (options.nodes,) if options.nodes else COUNTS[:1] if options.quick else COUNTS
    for count in (*counts, MANY) if options.full and not options.nodes else counts:
        one(options, count)


def one(options: Options, count: int) -> None:
    """Start, wait, weigh, do rounds, kill a tenth."""
    trainer = "W3" if count < MANY else "STILL"
    settings = {"worker_idle_seconds": 600, "wait_time_in_seconds_to_force_fedavg": TIMER_S}
    ask = Ask(trainer, count, settings, {BYTES: str(WORKS["W3"].nbytes), SECONDS: str(TRAINING_S)})
    report, words = options.report, f"{count} nodes with {trainer}"
    started = time.monotonic()
    try:
        with mesh(ask, options.place(f"forming-{count}"), options.base_port) as nodes:
            last = time.monotonic()
            nodes.until(lambda client: _alive(client.peers()) == count - 1, PATIENCE_S, "complete")
            formed = time.monotonic()
            each = sum(cpu_seconds(node.process.pid) for node in nodes.nodes) / count
            note = f"starting the processes took {last - started:.1f} s more; {each:.2f} s of a processor a node"
            bound = BOUNDS.get(f"forming.{count}")
            report.add(Row(f"{words}: everyone knows everyone", "s", [formed - last], bound=bound, note=note))
            nodes.wait_until_ready(PATIENCE_S)
            ready = time.monotonic() - last
            report.add(Row(f"{words}: data loaded everywhere too", "s", [ready]))
            _idle(report, words, nodes)
            _rounds(report, words, nodes)
            _memory(report, words, nodes)
            _deaths(report, words, nodes, count // 10)
    except NotDone as exc:
        report.add(Row(words, "s", [], note=str(exc)))


def _alive(peers: list[dict[str, object]] | object) -> int:
    assert isinstance(peers, list)
    return sum(peer.get("state") == "alive" for peer in peers)


def _idle(report: Report, words: str, nodes: Mesh) -> None:
    before = nodes.cpu_s()
    time.sleep(IDLE_S)
    used = 1000 * (nodes.cpu_s() - before) / IDLE_S / len(nodes.nodes)
    report.add(Row(f"{words}: processor of an idle node in a second", "ms", [used]))


def _memory(report: Report, words: str, nodes: Mesh) -> None:
    own = [proportional_mb(node.process.pid) for node in nodes.nodes]
    everything, count = nodes.mb(), len(nodes.nodes)
    each = f"{sum(own) / count:.0f} MB a node"
    report.add(Row(f"{words}: memory of the nodes alone, sum of PSS", "MB", [sum(own)], note=each))
    each, bound = f"{everything / count:.0f} MB a node", BOUNDS.get(f"forming.memory.{count}")
    report.add(Row(f"{words}: memory with all training children", "MB", [everything], bound=bound, note=each))


def _rounds(report: Report, words: str, nodes: Mesh) -> None:
    series = nodes.series(ROUNDS, ROUNDS * TIMER_S)
    lost = series.lost()
    note = f"{lost} of {ROUNDS * len(nodes.nodes)} rounds of nodes were averaged without someone"
    report.add(Row(f"{words}: a round", "s", series.rounds_s(), note=note))


def _deaths(report: Report, words: str, nodes: Mesh, gone: int) -> None:
    """A round whose last nodes are killed while they train, until all others have closed it."""
    started = time.monotonic()
    number = nodes.clients[0].trigger(nodes.trainer, 1)
    time.sleep(TRAINING_S / 2)
    for node in nodes.nodes[-gone:]:
        node.process.kill()
    left = Mesh(nodes.nodes[:-gone], nodes.clients[:-gone], nodes.ask)

    def closed(client: NodeClient) -> bool:
        job = client.job(nodes.trainer)
        return int(job.get("current_round") or 0) >= number and job.get("phase") == "IDLE"

    left.until(closed, 2 * TIMER_S, f"done with round {number}")
    seconds = time.monotonic() - started
    contributors = [len(records[-1]["contributors"]) for records in left.history()]
    whole = sum(count >= len(left.nodes) for count in contributors)
    note = f"{whole} of {len(left.nodes)} averages have all nodes that live"
    report.add(Row(f"{words}: a round in which {gone} are killed", "s", [seconds], bound=TIMER_S, note=note))
