"""How soon a node answers GET /health and /info: idle, while it trains flat out, and while 40 MB models move."""

from __future__ import annotations

import http.client
import threading
import time

from benchmarks.bounds import BOUNDS
from benchmarks.nodes import Ask, Mesh, NotDone, mesh, single
from benchmarks.options import Options
from benchmarks.report import Report, Row, percentile, short
from benchmarks.trainers.STILL import BYTES

PATHS = ("/health", "/info")
EVERY_S = 0.010
SECONDS = 9
EPOCHS = 5000
LARGE = 40_000_000
PATIENCE_S = 100.0


def run(options: Options) -> None:
    """A node by itself; then one of four that exchange large models."""
    seconds = options.times(SECONDS)
    with single(Ask("MNIST", 1, {}, {}), options.place("latency"), options.base_port, own={}) as nodes:
        nodes.wait_until_ready()
        for path in PATHS:
            _row(options.report, f"GET {path}, idle", probe(nodes, path, seconds))
        nodes.clients[0].edit("MNIST", {"e": EPOCHS})
        nodes.clients[0].trigger("MNIST", 1)
        for path in PATHS:
            latencies = probe(nodes, path, seconds)
            phase = nodes.clients[0].job("MNIST")["phase"]
            words = f"GET {path}, training" + ("" if phase == "TRAINING" else f" (but it was {phase} at the end)")
            _row(options.report, words, latencies, BOUNDS["latency.p99"])
            options.report.add(Row(f"{words}: longest", "ms", [max(latencies)], bound=BOUNDS["latency.max"]))
    if not options.quick:
        _while_models_move(options)


def _while_models_move(options: Options) -> None:
    with mesh(Ask("STILL", 4, {}, {BYTES: str(LARGE)}), options.place("latency-4"), options.base_port) as nodes:
        nodes.wait_until_ready()
        words = "GET /health, 4 nodes exchange 40 MB"
        try:
            nodes.series(1, PATIENCE_S)
            series = threading.Thread(target=nodes.series, args=(10, PATIENCE_S), daemon=True)
            series.start()
            latencies = probe(nodes, PATHS[0], SECONDS)
            series.join(PATIENCE_S)
            _row(options.report, words, latencies, BOUNDS["latency.p99"])
        except NotDone as exc:
            options.report.add(Row(words, "ms", [], note=str(exc)))


def probe(nodes: Mesh, path: str, seconds: float) -> list[float]:
    """Milliseconds that each answer took: one request every EVERY_S over one kept connection."""
    node = nodes.nodes[-1]
    host, _, port = node.address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30.0)
    latencies = []
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            begun = time.monotonic()
            connection.request("GET", path)
            connection.getresponse().read()
            taken = time.monotonic() - begun
            latencies.append(1000 * taken)
            time.sleep(max(0.0, EVERY_S - taken))
    finally:
        connection.close()
    return latencies


def _row(report: Report, words: str, latencies: list[float], bound: float | None = None) -> None:
    shares = {"p50": 0.5, "p90": 0.9, "max": 1.0}
    note = ", ".join(f"{name} {short(percentile(latencies, share))}" for name, share in shares.items())
    report.add(
        Row(
            f"{words}: p99",
            "ms",
            [percentile(latencies, 0.99)],
            bound=bound,
            note=f"{note}; {len(latencies)} asked",
        )
    )
