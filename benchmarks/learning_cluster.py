"""Simulated nodes that really learn: the digits of MNIST by softmax regression, in virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flnet.datasets.labelled import Labelled
from flnet.params.params import Array, Params, PeerId
from flnet.protocol.effects import Average, Evaluate, Train
from flnet.protocol.events import Evaluated, Event, MeshStarted, Prepared, Trained
from flnet.protocol.messages import Packet
from flnet.rounds.settings import Rules, Waits
from flnet.simulation.cluster import Cluster
from flnet.simulation.node import TRAINER, SimulatedNode, declared
from flnet.simulation.schedule import Faults
from flnet.trainer import TrainerSettings
from trainers._digits import load_digits

RATE, BATCH, TRAIN_ROWS = 0.1, 32, 24_000
PATIENCE = Waits(average=60.0, margin=5.0, start=5.0, claims=65.0)


@dataclass(frozen=True)
class Digits:
    """Pixels in [0, 1], (n, p), and their labels, to learn from and to measure on."""

    x: Array
    y: Array
    test_x: Array
    test_y: Array


@dataclass(frozen=True)
class Course:
    """What came of some rounds.

    Attributes:
        accuracies: of the average on all test rows, by round.
        bytes: of all bodies that moved.
        seconds: of virtual time.
        training_s: that a node which is not slow trains.
        counted: by node, averages with its update.
        examples: by node, behind its last update.
    """

    accuracies: list[float]
    bytes: int
    seconds: float
    training_s: float
    counted: list[int]
    examples: list[int]


class LearningCluster(Cluster):
    """A cluster in which every node learns from a part of its own."""

    def __init__(
        self,
        size: int,
        data: Digits,
        batch_s: float,
        *,
        rules: Rules | None = None,
        slow: Mapping[int, float] | None = None,
        limit: float | None = None,
        left_out: int = 0,
    ) -> None:
        """Args:
        batch_s: of virtual time that a node takes for a batch.
        slow: by the number of a node, how many times slower it is.
        limit: seconds that slow nodes train at most.
        left_out: of the last nodes, which are not there; the others have the same parts.
        """
        super().__init__(size - left_out, 1, Faults(digests=1.0, push_bytes=10**9), PATIENCE, rules=rules)
        self.data, self.batch_s, self.slow, self.limit = data, batch_s, dict(slow or {}), limit
        order = np.random.default_rng(5).permutation(len(data.y))
        self.parts = dict(zip(self.nodes, np.array_split(order, size), strict=False))
        self.numbers = {name: number for number, name in enumerate(self.nodes)}
        self.last: dict[PeerId, int] = {}
        self.moved = 0
        encode = self.network.encode

        def counted(packet: Packet) -> bytes:
            body = encode(packet)
            to = len(self.nodes) - 1 if packet.params is not None else 1
            self.moved += len(body) * to
            return body

        self.network.encode = counted  # type: ignore[method-assign]

    def run(self, rounds: int) -> Course:
        """Let the first node ask for rounds, and all of them end."""
        first = self._join()
        began, self.moved = self.clock.now, 0
        self.trigger(first.id, rounds)
        if not self.run_until_idle(1e6):
            raise RuntimeError(f"rounds do not end on {self.busy()}")
        records = first.job.records()
        batches = -(-len(next(iter(self.parts.values()))) // BATCH)
        return Course(
            [record["post_fedavg_accuracy"] for record in records],
            self.moved,
            self.clock.now - began,
            batches * self.batch_s,
            [sum(name in record["contributors"] for record in records) for name in self.nodes],
            [self.last.get(name, 0) for name in self.nodes],
        )

    def over_time(self, seconds: float, every: float) -> list[float]:
        """Let nodes train without a pause for so many seconds of virtual time.

        Returns:
            The mean over the nodes of the accuracy of the model that each one holds, every so many seconds.
        """
        first = self._join()
        alone = self.rules is not None and self.rules.asynchronous
        for node in self.nodes.values() if alone else [first]:
            self.trigger(node.id, 1_000_000)
        results = []
        for _ in range(round(seconds / every)):
            self.run_for(every)
            held = [node.job.held.model for node in self.nodes.values()]
            results.append(float(np.mean([self.accuracy(model.shared) for model in held if model is not None])))
        return results

    def _join(self) -> SimulatedNode:
        """Let all nodes find each other; the first one."""
        first = next(iter(self.nodes.values()))
        pixels, classes = self.data.x.shape[1], int(self.data.y.max()) + 1
        start = Params({"w": np.zeros((pixels, classes), np.float32), "b": np.zeros(classes, np.float32)})
        for node in self.nodes.values():
            node.tell(TRAINER, Prepared(declared(), start))
            node.tell(None, MeshStarted(() if node is first else (first.address,)))
        self.run_for(30)
        return first

    def work(self, node: SimulatedNode, effect: Train | Average | Evaluate) -> tuple[float, Event]:
        """Train and measure in earnest; averages are those of every cluster."""
        match effect:
            case Train():
                return self._train(node, effect)
            case Evaluate(key, _, shared):
                return 0.05, Evaluated(key, shared.digest, self.accuracy(shared))
        return super().work(node, effect)

    def accuracy(self, params: Params) -> float:
        """Of a model on all test rows."""
        scores = self.data.test_x @ params["w"] + params["b"]
        return float((scores.argmax(axis=1) == self.data.test_y).mean())

    def _train(self, node: SimulatedNode, effect: Train) -> tuple[float, Event]:
        slower = self.slow.get(self.numbers[node.id], 1.0)
        rows = np.random.default_rng([effect.key.number, self.numbers[node.id]]).permutation(self.parts[node.id])
        batches = [rows[at : at + BATCH] for at in range(0, len(rows), BATCH)]
        each = self.batch_s * slower
        if self.limit is not None and slower > 1:
            batches = batches[: max(1, int(np.ceil(self.limit / each)))]
        w, b = effect.params["w"].copy(), effect.params["b"].copy()
        for batch in batches:
            x, y = self.data.x[batch], self.data.y[batch]
            error = _softmax(x @ w + b)
            error[np.arange(len(y)), y] -= 1
            w -= np.float32(RATE / len(y)) * (x.T @ error)
            b -= np.float32(RATE) * error.mean(axis=0)
        seen, seconds = sum(map(len, batches)), len(batches) * each
        self.last[node.id] = seen
        learnt = Params({"w": w, "b": b})
        return seconds, Trained(effect.key, learnt, seen, self.accuracy(learnt), seconds=seconds)


def _softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Array = powers / powers.sum(axis=1, keepdims=True)
    return shares


def digits(folder: str | None, state: Path) -> Digits:
    """MNIST where the folder of data sets has it, else the digits that come with scikit-learn.

    Args:
        folder: of data sets.
        state: where the split is kept.
    """
    state.mkdir(parents=True, exist_ok=True)
    trainer = load_digits(TrainerSettings(Path(folder) if folder else None, state))
    x, y = _flat(trainer.train)
    return Digits(x[:TRAIN_ROWS], y[:TRAIN_ROWS], *_flat(trainer.official or trainer.test))


def _flat(side: Labelled) -> tuple[Array, Array]:
    pixels = side.x.reshape(len(side), -1).astype(np.float32) / np.float32(255)
    return pixels, np.asarray(side.y)
