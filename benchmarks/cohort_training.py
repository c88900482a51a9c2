"""python -m benchmarks.cohort_training CLIENTS REPETITIONS: seconds of training MLFedAvg's network on many nodes.

Prints JSON. The ways take turns in one process with two threads: all networks as one computation, one after the
other as a node trains them, and one after the other as a loop in plain PyTorch does it. Between them a product of
two large matrices says what the machine can do at that moment.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from itertools import pairwise

import numpy as np
import torch

from benchmarks.cohort import Found
from flnet.params.params import Params
from flnet.trainer import DataInfo, Fit, Task
from trainers._multi_label import NodeData, Side
from trainers.MULTI_LABEL import HIDDEN, MultiLabelNet

THREADS = 2
COLUMNS, ROWS, LABELS, EPOCHS = 294, 300, 4, 1  # of the data set scene; rows and labels differ between nodes
PRODUCT = 1024  # rows and columns of the large matrices
Job = tuple[MultiLabelNet, Task]


def main() -> None:
    """Measure, and print what was found."""
    clients, repetitions = map(int, sys.argv[1:])
    print(json.dumps(asdict(measured(clients, repetitions))))


def measured(clients: int, repetitions: int, rows: int = ROWS) -> Found:
    """All ways in turns, after one round to warm up."""
    jobs = cohort(clients, rows)
    ways: dict[str, Callable[[], object]] = {
        "together": lambda: MultiLabelNet.fit_many(jobs),
        "one by one": lambda: one_by_one(jobs),
        "plain": lambda: [plain(trainer, task) for trainer, task in jobs],
    }
    comparison = Found({name: [] for name in ways}, {name: [] for name in ways}, flop(jobs), [], apart(jobs))
    for way in ways.values():
        way()
    for _ in range(repetitions):
        comparison.flops.append(_product_flops())
        for name, way in ways.items():
            began, used = time.perf_counter(), time.process_time()
            way()
            comparison.wall[name].append(time.perf_counter() - began)
            comparison.processor[name].append(time.process_time() - used)
    return comparison


def cohort(clients: int, rows: int = ROWS) -> list[Job]:
    """Nodes with rows drawn at random: some more, some fewer, with 2 to 4 labels."""
    chance, jobs = np.random.default_rng(0), []
    for number in range(clients):
        labels, own = LABELS - number % 3, rows + 17 * number % 31
        sizes = {"train": own, "validation": own // 3, "test": own // 3, "common": own // 3}
        sides = {
            name: Side(
                chance.random((size, COLUMNS), np.float32), (chance.random((size, labels)) < 0.3).astype(np.uint8)
            )
            for name, size in sizes.items()
        }
        info = DataInfo("drawn", sizes, tuple(f"label {i}" for i in range(labels)))
        trainer = MultiLabelNet(NodeData(sides, sides.pop("common"), info, (), {}), THREADS)
        params = Params(trainer.initial_params(0))
        jobs.append((trainer, Task(params, trainer.defaults.model_copy(update={"e": EPOCHS}), number)))
    return jobs


def one_by_one(jobs: list[Job]) -> list[Fit]:
    """As nodes do it."""
    return [trainer.fit(task) for trainer, task in jobs]


def plain(trainer: MultiLabelNet, task: Task) -> torch.nn.Module:
    """The same training as one writes it in PyTorch, with layers, a loss and an optimiser of the framework."""
    x, y = trainer._train.x, trainer._train.y
    widths = (x.shape[1], *HIDDEN, y.shape[1])
    dense = [torch.nn.Linear(*pair) for pair in pairwise(widths)]
    net = torch.nn.Sequential(dense[0], torch.nn.ReLU(), dense[1], torch.nn.ReLU(), dense[2])
    optimiser = torch.optim.Adam(net.parameters(), task.hyper.u, eps=1e-7)
    loss_of = torch.nn.BCEWithLogitsLoss()
    for _ in range(task.hyper.e):
        for rows in torch.split(torch.randperm(len(y)), task.hyper.b):
            optimiser.zero_grad()
            loss_of(net(x[rows]), y[rows].float()).backward()
            optimiser.step()
    return net


def flop(jobs: list[Job]) -> float:
    """Two for each number of a weight matrix and row: forward, for its gradient, and (not at the first) back."""
    total = 0.0
    for trainer, task in jobs:
        rows, columns = trainer._train.x.shape
        first, others = columns * HIDDEN[0], HIDDEN[0] * HIDDEN[1] + HIDDEN[1] * trainer._train.y.shape[1]
        total += 2.0 * rows * task.hyper.e * (2 * first + 3 * others)
    return total


def apart(jobs: list[Job]) -> float:
    """How far parameters trained together are from those trained one by one."""
    pairs = zip(MultiLabelNet.fit_many(jobs), one_by_one(jobs), strict=True)
    return max(float(np.abs(a.params[name] - b.params[name]).max()) for a, b in pairs for name in a.params)


def _product_flops() -> float:
    """Of the best of some products of two large matrices."""
    left, right = (torch.rand(PRODUCT, PRODUCT) for _ in range(2))
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        torch.mm(left, right)
        seconds.append(time.perf_counter() - began)
    return 2.0 * PRODUCT**3 / min(seconds)


if __name__ == "__main__":
    main()
