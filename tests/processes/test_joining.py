"""A real node that joins a mesh with a large model, while nodes are killed; bytes are counted before each peer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from flnet.rounds.parts import MOST_REQUESTS, PART_BYTES
from tests.processes.harness import Harness, RealNode, at_rest, digests, harness, kept, until
from tests.processes.proxy import ADDRESS, PIECE, Proxy

pytestmark = pytest.mark.slow
MB = 1_000_000
BYTES = 16 * MB
RATE = 2 * MB  # bytes per second of each peer, so that a download lasts some seconds
PATIENCE = 300.0  # seconds for a download, or two of them, on a busy machine
SMALL = MB  # more than all messages besides the model have
LARGE_TRAINER = f'''
"""A large model, of which each training changes one number."""

import numpy as np

from flnet.trainer import DataInfo, Fit, Score, Trainer


class Large(Trainer):
    def __init__(self, settings):
        self.part = float(settings.shard[0])

    def initial_params(self, seed):
        return {{"w": np.random.default_rng(0).standard_normal({BYTES // 4}, dtype="float32")}}

    def fit(self, task):
        w = task.params["w"].copy()
        w[0] += np.float32(self.part)
        return Fit({{"w": w}}, examples=10)

    def evaluate(self, params):
        return Score(0.5, examples=10)

    def data_info(self):
        return DataInfo(source="no data", rows={{"train": 10, "test": 10}}, sample=True)


def make_trainer(settings):
    return Large(settings)
'''


class Mesh:
    """Three nodes that have averaged, each behind a proxy, and one that joins."""

    def __init__(self, made: Harness, stack: ExitStack) -> None:
        (made.trainers / "LARGE.py").write_text(LARGE_TRAINER)
        self.made, self.proxies = made, list[Proxy]()
        for _ in range(3):
            port = made.port()
            self.proxies.append(stack.enter_context(Proxy(port, after=0)))
            made.start(NODE_PORT=str(port), NODE_IP=ADDRESS, TRAINERS="LARGE")
        made.ready()
        self.peers = list(made.nodes)
        self.peers[0].trigger("LARGE")
        until(lambda: at_rest(self.peers, 0, "LARGE"), "a round of all")
        for proxy in self.proxies:
            proxy.rate = RATE
        self.count()

    def count(self) -> None:
        """Count from now on."""
        for proxy in self.proxies:
            proxy.passed = 0

    @property
    def passed(self) -> list[int]:
        """Bytes that came from each peer."""
        return [proxy.passed for proxy in self.proxies]

    def join(self) -> RealNode:
        return self.made.start(TRAINERS="LARGE", WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG="600")

    def part_bytes(self, node: RealNode) -> int:
        """Bytes of the parts that a node keeps on its disk of a model that is not complete."""
        files = list((self.made.state(node) / "downloads").glob("*.parts"))
        return sum(path.stat().st_size for path in files) // PART_BYTES * PART_BYTES

    def has_model(self, node: RealNode) -> None:
        """Wait until a node holds the model of the others, and nothing else of it is left."""
        self.made.up(node)
        until(lambda: node.job("LARGE")["digest"] == self.peers[0].job("LARGE")["digest"], "the model", PATIENCE)
        until(lambda: not self.part_bytes(node), "the end of the file with its parts")


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[Mesh]:
    with harness(tmp_path) as made, ExitStack() as stack:
        yield Mesh(made, stack)


def test_all_peers_serve_parts_and_a_peer_that_is_killed_is_replaced(mesh: Mesh) -> None:
    node = mesh.join()
    until(lambda: mesh.part_bytes(node) >= 4 * PART_BYTES, "the first parts")
    mesh.peers[1].kill()
    mesh.has_model(node)
    assert min(mesh.passed) >= PART_BYTES
    assert BYTES <= sum(mesh.passed) <= BYTES + MOST_REQUESTS * PART_BYTES + SMALL


def test_a_node_that_is_killed_while_it_joins_goes_on_with_the_rest(mesh: Mesh) -> None:
    node = mesh.join()
    until(lambda: mesh.part_bytes(node) >= 8 * PART_BYTES, "the first parts")
    node.kill()
    here = mesh.part_bytes(node)
    assert 8 * PART_BYTES <= here < BYTES
    mesh.count()
    mesh.made.again(node)
    mesh.has_model(node)
    assert BYTES - here <= sum(mesh.passed) <= BYTES - here + len(mesh.peers) * PIECE + PART_BYTES + SMALL


def test_a_peer_that_serves_wrong_bytes_is_named_and_the_model_is_right(mesh: Mesh) -> None:
    mesh.proxies[1].spoils = True
    node = mesh.join()
    mesh.has_model(node)
    until(lambda: bool(node.told("parts_wrong")), "the event")
    (words,) = node.told("parts_wrong")
    assert words.startswith("n1 served other bytes than those of ")
    assert sum(mesh.passed) <= 3 * BYTES + SMALL
    assert len(digests(mesh.made.nodes, "LARGE")) == 1
    assert kept(mesh.peers, 0)
