"""What was aimed at: the largest ratio to what stands beside a measurement, or the largest figure itself."""

from __future__ import annotations

BOUNDS = {
    "works.W1": 1.5,
    "works.W2": 1.5,
    "works.W3": 1.5,
    "exchange.large": 2.0,
    "exchange.small": 10.0,  # 240 messages of 31 KB: HTTP itself costs several times a bare socket
    "wire": 1.1,
    "codec.encode": 1.5,
    "codec.decode": 1.5,
    "averaging": 4.0,
    "memory.idle": 80.0,  # MB
    "latency.p99": 50.0,  # ms
    "forming": 1.0,  # seconds a node
    "curves": 0.01,  # of accuracy
}
