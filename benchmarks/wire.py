"""Bytes on the wire per round, counted by the loopback device of a network namespace of our own.

The namespace is made by unshare(1); where that is not allowed, nothing is counted and the table says so.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.bounds import BOUNDS
from benchmarks.machine import loopback_bytes
from benchmarks.nodes import Ask, known, mesh
from benchmarks.options import Options
from benchmarks.report import Row
from benchmarks.trainers.STILL import ALL, BYTES

ENCODINGS = ("safetensors", "float16", "int8", "json")
MNIST_BYTES = 4 * 110_154
SIZES = {"MNIST": MNIST_BYTES, "40 MB": 40_000_000}
NODES = 4
ROUNDS = 5
PATIENCE_S = 100.0
PROBES = Path("/proc/sys/net/ipv4/tcp_early_retrans")
SET_FLAGS, IS_UP = 0x8914, 1  # SIOCSIFFLAGS and IFF_UP of Linux's <linux/if.h>


def run(options: Options) -> None:
    """Every encoding that this version knows, at both sizes; JSON at the smaller one only."""
    if not _can_unshare():
        options.report.add(Row("bytes on the wire", "MB", [], note="unshare -rn is not allowed here"))
        return
    encodings = [encoding for encoding in ENCODINGS if known({"wire": encoding})] or ["default"]
    for size, nbytes in SIZES.items():
        for encoding in encodings:
            if nbytes > MNIST_BYTES and encoding in ("json", "default"):
                options.report.add(
                    Row(f"{size}, {encoding}", "MB", [], note="left out: JSON takes minutes a round")
                )
            elif not options.quick or nbytes == MNIST_BYTES:
                one(options, encoding, size, nbytes)


def one(options: Options, encoding: str, size: str, nbytes: int) -> None:
    """One encoding at one size, in a namespace of its own."""
    count = options.nodes or NODES
    result = counted(options, [encoding, str(nbytes), str(count)])
    name = f"{size}, {encoding}: bytes of a round of {count} nodes"
    if isinstance(result, str):
        options.report.add(Row(name, "MB", [], note=result))
        return
    least = count * (count - 1) * nbytes / 1e6
    bound = BOUNDS["wire"] * {"float16": 0.5, "int8": 0.26, "json": 10.0}.get(encoding, 1.0)
    note = f"idle {result['idle_kb_s']:.1f} kB/s"
    what = "N(N-1) float32 updates"
    options.report.add(Row(name, "MB", [result["mb"]], [least], what, bound, note))


def counted(options: Options, arguments: Sequence[str]) -> dict[str, float] | str:
    """Count the bytes of rounds in a namespace of its own: MB a round, kB/s between rounds; or why that failed.

    Args:
        arguments: encoding, bytes of the model, nodes; see `main`.
    """
    if not _can_unshare():
        return "unshare -rn is not allowed here"
    inner = [sys.executable, "-m", "benchmarks.wire", *arguments, str(options.place("wire"))]
    done = subprocess.run(["unshare", "-rn", *inner], stdout=subprocess.PIPE, text=True, timeout=300, check=False)
    return f"ended with code {done.returncode}; see above" if done.returncode else dict(json.loads(done.stdout))


def main() -> None:
    """Inside the namespace: bring its loopback up, run some rounds, print what they took as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("encoding")
    parser.add_argument("nbytes", type=int)
    parser.add_argument("nodes", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--topology")
    asked = parser.parse_args()
    _loopback_up()
    _only_once()
    settings = {} if asked.encoding == "default" else {"wire": asked.encoding}
    settings |= {"topology": asked.topology} if asked.topology else {}
    settings |= {"wait_time_in_seconds_to_force_fedavg": PATIENCE_S}
    # Equal parts of updates would travel once only.
    ask = Ask("STILL", asked.nodes, settings, {BYTES: str(asked.nbytes), **({ALL: "1"} if asked.topology else {})})
    with mesh(ask, asked.folder, 4900) as nodes:
        nodes.wait_until_ready()
        nodes.series(1, PATIENCE_S)
        before, begun = loopback_bytes(), time.monotonic()
        time.sleep(2.0)
        idle = (loopback_bytes() - before) / (time.monotonic() - begun) / 1000
        before = loopback_bytes()
        nodes.train(ROUNDS, PATIENCE_S)
        print(json.dumps({"mb": (loopback_bytes() - before) / ROUNDS / 1e6, "idle_kb_s": idle}))


def _only_once() -> None:
    """Let the kernel send nothing twice that was not lost.

    After two milliseconds without an answer it repeats the end of what it sent (tail loss probes). On a loopback device
    nothing is lost, but where many nodes share two processors, answers are later than that.
    """
    with suppress(OSError):  # as root, or in a namespace of one's own, it is allowed
        PROBES.write_text("0", "ascii")


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SET_FLAGS, struct.pack("16sh", b"lo", IS_UP))


def _can_unshare() -> bool:
    try:
        return subprocess.run(["unshare", "-rn", "true"], check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    main()
