"""Bounds of measurements: the largest ratio to the baseline, or the largest figure."""

from __future__ import annotations

BOUNDS = {
    "works.W1": 1.4,
    "works.W2": 1.3,
    "works.W3": 1.8,
    "exchange.large": 2.0,
    "wire": 1.02,
    "codec.encode": 3.0,
    "codec.decode": 3.0,
    "averaging": 3.0,
    "memory.idle": 95.0,  # MB
    "memory.after": 100.0,  # MB
    "latency.p99": 25.0,  # ms
    "latency.max": 150.0,  # ms
    "forming.30": 4.0,  # seconds
    "forming.100": 30.0,  # seconds
    "forming.memory.30": 3000.0,  # MB
    "forming.memory.100": 10_000.0,  # MB
    "curves": 0.01,  # of accuracy
    "uneven.accuracy": 0.01,  # of accuracy
    "uneven.bytes": 0.55,
    "uneven.time": 1.5,
    "cohort": 0.333,  # three times as fast
    "alignment.seconds": 60.0,
    "alignment.memory": 300.0,  # MB
    "split": 3.0,
    "secure.time": 1.6,
    "secure.bytes": 1.1,
    "secure.recovery": 3.0,
    "segments.fast": 1.0,
    "segments.slow": 0.2,  # five times as fast
    "segments.least": 1.4,
    "joining.peers": 0.45,  # a third of the time, and something for the connections and the digest
    "joining.least": 1.4,
    "page.paint": 1000.0,  # ms
    "page.weight": 200.0,  # kB
    "page.event": 1000.0,  # ms
    "page.idle": 1.0,  # percent of a core
}
