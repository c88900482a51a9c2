"""The three works: model, training and data of each, for nodes of flnet and for the plain mesh alike."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from flnet.trainer import Array, DataInfo, Fit, HyperParams, Score, Task, Trainer, TrainerSettings

FEATURES, CLASSES, TEST_ROWS = 784, 10, 500
NOISE = 6.0  # standard deviation around a class's prototype, so that the accuracy stays below 1 for a while
RATE, BATCH = 0.05, 64


@dataclass(frozen=True)
class Work:
    """One work: so many nodes train a net of these layers on so many rows each."""

    layers: tuple[int, ...]
    rows: int
    nodes: int
    rounds: int

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of all arrays, weights (outputs, inputs) before their bias."""
        pairs = zip(self.layers[:-1], self.layers[1:], strict=True)
        return [shape for inputs, outputs in pairs for shape in ((outputs, inputs), (outputs,))]

    @property
    def names(self) -> list[str]:
        """Of all arrays, in the order of `shapes`."""
        return [f"{kind}{at}" for at in range(len(self.layers) - 1) for kind in ("weight", "bias")]

    @property
    def numbers(self) -> int:
        """How many numbers the model has."""
        return sum(int(np.prod(shape)) for shape in self.shapes)

    @property
    def nbytes(self) -> int:
        """Bytes of one update."""
        return 4 * self.numbers


WORKS = {
    "W1": Work((FEATURES, 256, 128, CLASSES), rows=3000, nodes=4, rounds=10),
    "W2": Work((FEATURES, 2048, 2048, 2048, CLASSES), rows=64, nodes=4, rounds=5),
    "W3": Work((FEATURES, CLASSES), rows=64, nodes=16, rounds=5),
}


class Bench:
    """One node's data and the code that trains on them; a model is one flat float32 vector."""

    def __init__(self, work: Work, node: int, threads: int = 1) -> None:
        torch.set_num_threads(threads)
        self.work = work
        prototypes = torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(0))
        chance = torch.Generator().manual_seed(node + 1)
        self._train = _rows(prototypes, work.rows, chance)
        self._test = _rows(prototypes, TEST_ROWS, chance)

    def initial(self, seed: int) -> Tensor:
        """Fresh parameters: weights uniform within 1 / sqrt(inputs), biases 0."""
        flat = torch.zeros(self.work.numbers)
        chance = torch.Generator().manual_seed(seed)
        for view in self.views(flat):
            if view.dim() == 2:
                bound = float(view.shape[1]) ** -0.5
                view.uniform_(-bound, bound, generator=chance)
        return flat

    def views(self, flat: Tensor) -> list[Tensor]:
        """The arrays of a flat model, sharing its memory."""
        views, at = [], 0
        for shape in self.work.shapes:
            size = int(np.prod(shape))
            views.append(flat[at : at + size].view(shape))
            at += size
        return views

    def train(
        self,
        flat: Tensor,
        seed: int,
        epochs: int = 1,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        """Gradient descent on the own rows, in place."""
        params = [view.detach().requires_grad_() for view in self.views(flat)]
        x, y = self._train
        total = epochs * -(-len(y) // BATCH)
        for done, rows in enumerate(_batches(len(y), epochs, seed), start=1):
            loss = F.cross_entropy(_outputs(params, x[rows]), y[rows])
            gradients = torch.autograd.grad(loss, params)
            with torch.no_grad():
                for param, gradient in zip(params, gradients, strict=True):
                    param.add_(gradient, alpha=-RATE)
            progress(done, total)

    @torch.inference_mode()
    def accuracy(self, params: list[Tensor]) -> float:
        """Share of the own test rows that are told rightly, by a model given as its arrays."""
        x, y = self._test
        return float((_outputs(params, x).argmax(1) == y).float().mean())


class WorkTrainer(Trainer):
    """The same for a node of flnet."""

    defaults = HyperParams(e=1, u=RATE, b=BATCH)

    def __init__(self, work: Work, settings: TrainerSettings) -> None:
        self._bench = Bench(work, settings.shard[0] - 1, settings.threads)
        self._trained = torch.empty(work.numbers)  # models are trained here, so that no memory is asked for

    def data_info(self) -> DataInfo:
        """Made up."""
        rows = {"train": self._bench.work.rows, "test": TEST_ROWS}
        return DataInfo("prototypes and noise", rows, tuple("0123456789"), sample=True)

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        """As `Bench.initial`."""
        return self._named(self._bench.initial(seed))

    def fit(self, task: Task) -> Fit:
        """As `Bench.train`."""
        for name, view in self._named(self._trained).items():
            view[...] = task.params[name]
        self._bench.train(self._trained, task.seed, task.hyper.e, task.progress)
        return Fit(self._named(self._trained), examples=self._bench.work.rows)

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        """As `Bench.accuracy`, where the parameters lie."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # nothing is written
            arrays = [torch.from_numpy(params[name]) for name in self._bench.work.names]
        return Score(self._bench.accuracy(arrays), TEST_ROWS)

    def _named(self, flat: Tensor) -> dict[str, Array]:
        views = self._bench.views(flat)
        return {name: view.numpy() for name, view in zip(self._bench.work.names, views, strict=True)}


def _rows(prototypes: Tensor, count: int, chance: torch.Generator) -> tuple[Tensor, Tensor]:
    labels = torch.randint(CLASSES, (count,), generator=chance)
    noise = torch.randn(count, FEATURES, generator=chance)
    return prototypes[labels] + NOISE * noise, labels


def _batches(rows: int, epochs: int, seed: int) -> Iterator[Tensor]:
    chance = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        order = torch.randperm(rows, generator=chance)
        yield from (order[at : at + BATCH] for at in range(0, rows, BATCH))


def _outputs(params: list[Tensor], x: Tensor) -> Tensor:
    for at in range(0, len(params) - 2, 2):
        x = F.relu(F.linear(x, params[at], params[at + 1]))
    return F.linear(x, params[-2], params[-1])
