"""A batch of the split network over two real nodes, compared with the same batch in one process.

Census data in shape: 32,561 people, 63 and 29 columns, batches of 256. An epoch at the nodes and an epoch in one process
take turns. A batch over a link also takes its bytes at the speed of the link, and its round trips; these are measured
in the same run, and taken off before the two are compared. One batch in flight makes two requests, one after the other:
its outputs, and then its gradients. With more in flight both directions overlap, and batches share a request; one round
trip for all of them is taken off. The figure with one round trip for the single batch stands beside it. Seconds of an
epoch are those of its training, hold-out rows included, without the asking before. In one process, too, a model of the
second node's own columns is trained with each batch, as a label holder does.
"""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

import numpy as np

from benchmarks.bounds import BOUNDS
from benchmarks.nodes import Ask, Mesh, mesh
from benchmarks.options import Options
from benchmarks.report import Row
from benchmarks.trainers.COLUMNS import CUT, IN_FLIGHT, ROWS, GeneratedColumns
from flnet.algorithms.vertical.aligned_batches import AlignedBatches
from flnet.vertical_trainer import BottomModel, TopModel

PEOPLE = 32_561
EPOCHS = 6
PATIENCE_S = 300.0
LINK_BYTES = 64_000_000
PIECE = 1 << 20


class Epoch(NamedTuple):
    """Of one epoch at the nodes, per batch.

    Attributes:
        wall, processor: ms; the processor time is that of all nodes and their training children.
        nbytes: both ways.
    """

    wall: float
    processor: float
    nbytes: float


def run(options: Options) -> None:
    """With one, four and sixteen batches in flight."""
    people = PEOPLE // 4 if options.quick else PEOPLE
    speed = link_speed()
    options.report.say(f"split: {speed / 1e6:.0f} MB/s over loopback")
    for in_flight in (1, 4, 16):
        _measure(options, people, in_flight, speed)


def _measure(options: Options, people: int, in_flight: int, speed: float) -> None:
    alone = OneProcess(people)
    environ = {ROWS: str(people), IN_FLIGHT: str(in_flight)}
    place = options.place(f"split-{in_flight}")
    with mesh(Ask("COLUMNS", 2, {}, environ), place, options.base_port) as nodes:
        nodes.wait_until_ready()
        nodes.train(1, PATIENCE_S)  # with the alignment
        alone.epoch()
        turns = [(alone.epoch(), epoch_of(nodes, alone.steps)) for _ in range(options.times(EPOCHS))]
        trip = median(peer["rtt_ms"] for client in nodes.clients for peer in client.peers())
    joint, epochs = [wall for wall, _ in turns], [epoch for _, epoch in turns]
    link = median(epoch.nbytes for epoch in epochs) / speed * 1e3
    words = f"a batch over two nodes, {in_flight} in flight"
    walls = ", ".join(f"{epoch.wall:.1f}" for epoch in epochs)
    bare = [epoch.wall - link for epoch in epochs]
    note = f"{walls} ms in all; {epochs[0].nbytes / 1e3:.0f} kB take {link:.2f} ms, a round trip {trip:.1f} ms"
    # Outputs and gradients of a batch are a request each, so it may be said to wait for one round trip or for two.
    for count, trips in (("both round trips", 2 / in_flight), ("one round trip", 1 / in_flight)):
        ours = [max(wall - trips * trip, 0.0) for wall in bare]
        options.report.add(
            Row(f"{words}, without bytes and {count}", "ms", ours, joint, "in one process", BOUNDS["split"], note)
        )
    processor = [epoch.processor for epoch in epochs]
    options.report.add(Row(f"processor time of {words}", "ms", processor, joint, "in one process"))


def epoch_of(nodes: Mesh, steps: int) -> Epoch:
    """One epoch at the nodes."""
    before = nodes.cpu_s()
    nodes.train(1, PATIENCE_S)
    processor = nodes.cpu_s() - before
    records = [history[-1] for history in nodes.history()]
    wall = max(record["seconds"]["train"] for record in records)
    nbytes = sum(record["bytes"]["sent"] for record in records)
    return Epoch(1e3 * wall / steps, 1e3 * processor / steps, nbytes / steps)


class OneProcess:
    """The same network, batches and hold-out rows without messages, and the model of the label holder's own columns.

    Attributes:
        steps: batches of an epoch.
    """

    def __init__(self, people: int) -> None:
        self._trainers = [GeneratedColumns(part, 2, people, 1) for part in (1, 2)]
        hyper = self._trainers[0].defaults
        self._bottoms = [trainer.bottom_model(seed, hyper) for seed, trainer in enumerate(self._trainers)]
        self._ends = np.cumsum([bottom.width for bottom in self._bottoms])
        top = self._trainers[1].top_model(int(self._ends[-1]), 2, hyper)
        assert top is not None
        self._top: TopModel = top
        own, own_top = self._trainers[1].bottom_model(1, hyper), self._trainers[1].top_model(CUT, 2, hyper)
        assert own_top is not None
        self._own: tuple[BottomModel, TopModel] = own, own_top
        self._batches, self._epoch = AlignedBatches(people, hyper.b, 0, "benchmark"), 0
        self.steps = math.ceil(len(self._batches.trained) / hyper.b)

    def epoch(self) -> float:
        """Train an epoch, and measure it on hold-out rows; ms of a batch."""
        begun = time.perf_counter()
        for batch in self._batches.training(self._epoch):
            rows = batch.positions
            outputs = [
                bottom.forward(0, trainer.features(rows))
                for bottom, trainer in zip(self._bottoms, self._trainers, strict=True)
            ]
            labels = self._trainers[1].labels(rows)
            _, gradient = self._top.step(np.hstack(outputs), labels)
            for bottom, part in zip(self._bottoms, np.split(gradient, self._ends[:-1], axis=1), strict=True):
                bottom.backward(0, part)
            own, own_top = self._own
            own.backward(0, own_top.step(own.forward(0, self._trainers[1].features(rows)), labels).gradient)
        held = [batch.positions for batch in self._batches.hold_out()]
        inputs = [
            np.concatenate([bottom.outputs(trainer.features(rows)) for rows in held])
            for bottom, trainer in zip(self._bottoms, self._trainers, strict=True)
        ]
        truth = self._trainers[1].labels(np.concatenate(held))
        self._top.evaluate(np.hstack(inputs), truth)
        self._own[1].evaluate(self._own[0].outputs(self._trainers[1].features(np.concatenate(held))), truth)
        self._epoch += 1
        return 1e3 * (time.perf_counter() - begun) / self.steps


def link_speed() -> float:
    """Bytes a second through one TCP connection over loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = threading.Thread(target=_send, args=(server.getsockname(),))
        sender.start()
        connection, _ = server.accept()
        begun = time.perf_counter()
        with connection:
            received = sum(_received(connection))
        sender.join()
        return received / (time.perf_counter() - begun)


def _send(address: tuple[str, int]) -> None:
    piece = bytes(PIECE)
    with socket.create_connection(address) as connection:
        for _ in range(LINK_BYTES // PIECE):
            connection.sendall(piece)


def _received(connection: socket.socket) -> Iterator[int]:
    while data := connection.recv(PIECE):
        yield len(data)
