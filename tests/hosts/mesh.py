"""A mesh whose nodes are hosts: real processes, each in its own network namespace behind the switch."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.hosts.hosts import BITS, NETWORK, Network, network
from tests.hosts.rules import Rule, Rules
from tests.processes.harness import DEADLINE_SECONDS, Harness, RealNode, at_rest, until

PORT = 4000  # on every host: each has ports of its own
TRAINER = "MNIST_3_7"  # numpy alone, three kilobytes of parameters, and an accuracy that means something


class HostMesh(Harness):
    """Starts one node on each host, in their order."""

    def __init__(self, folder: Path, made: Network, common: Mapping[str, str]) -> None:
        super().__init__(folder)
        self.network, self._common = made, common

    @property
    def rules(self) -> Rules:
        """What befalls packets between the nodes; changes hold at once."""
        return self.network.rules

    def port(self) -> int:
        return PORT

    def place(self, index: int) -> dict[str, str]:
        hosts = self.network.hosts
        return {
            "NODE_IP": hosts[index].address,
            "LISTEN_ADDRESS": "0.0.0.0",
            "BOOTSTRAP_PAIRS": f"{hosts[0].address}:{PORT}" if index else "",
            "TRAINERS": TRAINER,
            "DATA_SHARD": f"{index + 1}/{len(hosts)}",
            "ALLOWED_NETWORKS": f"{NETWORK}/{BITS}",
            **self._common,
        }

    def client(self, index: int, port: int) -> httpx.Client:
        return self.network.hosts[index].client(port)

    def process(self, index: int, values: Mapping[str, str]) -> subprocess.Popen[bytes]:
        log = self.folder / f"n{index}.log"
        return self.network.hosts[index].start(self.command(), log, self.variables(index, values))

    def start_all(self, seconds: float = DEADLINE_SECONDS) -> None:
        """A node on every host; afterwards all see all."""
        for _ in self.network.hosts:
            self.start()
        self.ready(seconds)


@contextmanager
def host_mesh(
    folder: Path, count: int, seed: int, everywhere: Rule | None = None, **settings: str
) -> Iterator[HostMesh]:
    """Hosts for so many nodes that train MNIST_3_7."""
    with network(count, seed, everywhere) as made:
        mesh = HostMesh(folder, made, settings)
        try:
            yield mesh
        finally:
            mesh.stop()


def train(
    nodes: Sequence[RealNode], starter: RealNode, seconds: float = DEADLINE_SECONDS, trainer: str = TRAINER
) -> int:
    """Let one of these nodes start a round, and wait until all of them have ended it; its number."""
    answer = starter.trigger(trainer)
    assert answer.status_code == 202, answer.text
    number: int = answer.json()["round"]
    names = ", ".join(node.name for node in nodes)
    until(lambda: at_rest(nodes, number, trainer), f"the end of round {number} at {names}", seconds)
    return number


def table(title: str, nodes: Sequence[RealNode], trainer: str = TRAINER) -> str:
    """Round, model and accuracies of each node, for people who read what a test measured."""
    lines = [f"\n{title}", "node  round  digest      before  after   contributors"]
    for node in nodes:
        job: Mapping[str, Any] = node.job(trainer)
        before, after = (_figure(job[f"{when}_fedavg_accuracy"]) for when in ("pre", "post"))
        last = (node.history(trainer) or [{"contributors": []}])[-1]
        digest = (job["digest"] or "-")[:10]
        line = f"{node.name:<5} {job['current_round']:>5}  {digest:<10}  {before}  {after}  "
        took_part = last["contributors"]
        lines.append(line + (", ".join(took_part) if len(took_part) <= 5 else f"{len(took_part)} nodes"))
    return "\n".join(lines)


def watched(seconds: float, look: Callable[[], None], pause: float = 1.0) -> None:
    """Look again and again for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        look()
        time.sleep(pause)


def _figure(accuracy: float | None) -> str:
    return "     -" if accuracy is None else f"{accuracy:.4f}"
