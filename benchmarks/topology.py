"""Rounds whose updates travel in segments, compared with a full mesh: bytes, and seconds on slow and on fast links.

Bytes are those of the loopback device of a namespace of its own. On slow links each node is a host of its own
(`benchmarks.limited_links`); both meshes train one after the other there, because together they would share the processors.
"""

from __future__ import annotations

import argparse
import json
import secrets
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from benchmarks.bounds import BOUNDS
from benchmarks.limited_links import BITS, NETWORK, Host, address_of, can_limit, limited_hosts
from benchmarks.nodes import ANSWER_S, Ask, Mesh, NotDone, end, environment, mesh
from benchmarks.options import Options
from benchmarks.report import Row
from benchmarks.trainers.STILL import ALL, BYTES
from benchmarks.wire import counted
from flnet.cli import local_mesh as processes
from flnet.cli.client import NodeClient
from flnet.cli.local_mesh import NodeProcess

SMALL, LARGE = 4_000_000, 40_000_000
COUNTS = (4, 8, 16, 32)
MBIT, MANY, FEW = 100, 16, 4
ROUNDS = 3
PORT = 4000  # on each host
PATIENCE_S = 300.0
KINDS = ("mesh", "segments")


def run(options: Options) -> None:
    """Bytes for 4 to 32 nodes; 4 nodes without limits; 16 nodes on 100 Mbit/s."""
    for count in COUNTS[:2] if options.quick else COUNTS if options.full else COUNTS[:3]:
        _bytes(options, count)
    _fast(options)
    _slow(options)


def _bytes(options: Options, count: int) -> None:
    for kind in ("segments", "segments:3"):
        copies = int(kind.partition(":")[2] or 1)
        figures = counted(options, ["--topology", kind, "safetensors", str(SMALL), str(count)])
        words = f"{kind}: MB a node sends in a round of {count} nodes"
        least, what = (1 + copies) * SMALL / 1e6, f"{1 + copies} models"
        bound = 2.1 * copies / (1 + copies)
        if isinstance(figures, str):
            options.report.add(Row(words, "MB", [], note=figures))
        else:
            options.report.add(Row(words, "MB", [figures["mb"] / count], [least], what, bound))


def _fast(options: Options) -> None:
    count = options.nodes or FEW
    words = f"40 MB, {count} nodes, no limits: a round in segments"
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    try:
        with ExitStack() as stack:
            meshes = {
                kind: stack.enter_context(
                    mesh(_ask(kind, count), options.place(f"topology-{kind}"), options.base_port + place * 100)
                )
                for place, kind in enumerate(KINDS)
            }
            for nodes in meshes.values():
                nodes.wait_until_ready()
                nodes.series(1, PATIENCE_S)
            for _ in range(options.times(3)):
                for kind, nodes in meshes.items():
                    seconds[kind] += nodes.series(ROUNDS + 1, PATIENCE_S).rounds_s()
        row = Row(words, "s", seconds["segments"], seconds["mesh"], "the same in a mesh", BOUNDS["segments.fast"])
    except NotDone as exc:
        row = Row(words, "s", [], note=str(exc))
    options.report.add(row)


def _slow(options: Options) -> None:
    count, nbytes = options.nodes or (4 if options.quick else MANY), LARGE
    words = f"40 MB, {count} nodes on {MBIT} Mbit/s: a round"
    if not can_limit():
        options.report.add(Row(words, "s", [], note="network namespaces cannot be made here"))
        return
    seconds = {}
    for kind in KINDS:
        with limited_hosts(count, MBIT) as (outside, hosts):
            arguments = [
                kind,
                str(nbytes),
                str(options.place(f"slow-{kind}")),
                *(each.namespace for each in hosts),
            ]
            command = outside.inside([sys.executable, "-m", "benchmarks.topology", *arguments])
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            options.report.add(
                Row(f"{words}, {kind}", "s", [], note=f"ended with code {done.returncode}; see above")
            )
            return
        seconds[kind] = json.loads(done.stdout)["rounds"]
    least = 2 * nbytes * 8 / (MBIT * 1e6)
    segments = f"{words} in segments"
    options.report.add(
        Row(f"{words} in a mesh", "s", seconds["mesh"], [(count - 1) / 2 * least], "bytes / bandwidth")
    )
    options.report.add(
        Row(segments, "s", seconds["segments"], seconds["mesh"], "the same in a mesh", BOUNDS["segments.slow"])
    )
    options.report.add(
        Row(segments, "s", seconds["segments"], [least], "2 models / bandwidth", BOUNDS["segments.least"])
    )


def _ask(kind: str, count: int, nbytes: int = LARGE) -> Ask:
    settings = {
        "topology": kind,
        "mesh_name": f"topology-{kind}",
        "wait_time_in_seconds_to_force_fedavg": PATIENCE_S,
        "request_timeout_in_seconds": 120,
    }
    return Ask("STILL", count, settings, {BYTES: str(nbytes), ALL: "1"})


def main() -> None:
    """On the host at the bridge: start a node on each of the others, train, print the seconds of the rounds as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind")
    parser.add_argument("nbytes", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("namespaces", nargs="+")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    ask, token = _ask(asked.kind, len(asked.namespaces), asked.nbytes), secrets.token_hex(16)
    with environment(ask), ExitStack() as stack:
        nodes = []
        for number, name in enumerate(asked.namespaces):
            nodes.append(
                start_on(Host(name, address_of(number)), number, len(asked.namespaces), asked.folder, token)
            )
            stack.callback(end, nodes[-1].process)
        clients = [stack.enter_context(NodeClient(node.address, ANSWER_S, token)) for node in nodes]
        made = Mesh(nodes, clients, ask, {"Authorization": f"Bearer {token}"})
        made.wait_until_ready()
        made.series(1, 2 * PATIENCE_S)
        series = made.series(ROUNDS + 1, 4 * PATIENCE_S)
    print(json.dumps({"rounds": series.rounds_s(), "lost": series.lost(), "cpu": series.cpu_s}))


class _FarNode(NodeProcess):
    """A node on a host of its own."""

    @property
    def address(self) -> str:
        """The address of its REST API."""
        return self.id


def start_on(host: Host, number: int, count: int, folder: Path, token: str) -> NodeProcess:
    """Start a node on a host, of so many; it announces itself to the first one.

    Args:
        number: of the host, from 0.
        folder: for its state and its log.
        token: of its operator.
    """
    settings = {
        "node_id": f"node-{number}",
        "node_ip": host.address,
        "node_port": PORT,
        "listen_address": host.address,
        "allowed_networks": f"{NETWORK}.0/{BITS}",
        "trainers": "STILL",
        "data_shard": f"{number + 1}/{count}",
        "state_path": folder / f"node-{number}",
        "operator_token": token,
    }
    if number:
        settings["bootstrap_pairs"] = f"{address_of(0)}:{PORT}"
    log = folder / f"node-{number}.log"
    with log.open("wb") as output:
        command = host.inside(processes.node_command(settings))
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    return _FarNode(f"{host.address}:{PORT}", PORT, log, process)


if __name__ == "__main__":
    main()
