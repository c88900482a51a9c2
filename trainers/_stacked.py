"""Many small dense networks as one computation: their parameters stacked, each step one matrix product for all.

A step of a network of 30,000 parameters takes a framework longer to start than to compute. So K networks of one
shape do their steps together, by batched products, with the derivatives written out; each keeps its own rows,
their own order, and an Adam of its own. Where networks differ they are padded and the padding weighs nothing: the
last layer may have other widths (private heads), a batch fewer rows, a training fewer steps. Results are those of
`_dense.train` up to rounding. A stack of one network takes half the time of `_dense.train` too, because nothing is
recorded for derivatives and Adam is one call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from flnet.trainer import Array

from ._dense import Learner, Learnt
from ._descent import BETAS, EPSILON
from ._torch import shuffled

NUMBERS_AT_ONCE = 400_000  # parameters of the networks of one stack: so many, with moments, stay in the cache
STEPS_AT_ONCE = 8  # whose rows are gathered together


def train_together(learners: Sequence[Learner]) -> list[Learnt]:
    """What `_dense.train` gives for each of them, in their order."""
    results: dict[int, Learnt] = {}
    for numbers in _stackable(learners):
        results.update(zip(numbers, _Training([learners[number] for number in numbers]).run(), strict=True))
    return [results[number] for number in range(len(learners))]


def _stackable(learners: Sequence[Learner]) -> Iterator[list[int]]:
    """The numbers of learners that fit together, those with the most steps first, not too many at once."""
    alike: dict[object, list[int]] = defaultdict(list)
    for number, learner in enumerate(learners):
        params, hyper = learner.task.params, learner.task.hyper
        shapes = tuple(params[f"{layer}.weight"].shape[1] for layer in learner.layers)
        how = (hyper.b, hyper.u, learner.task.proximal, learner.x.device)
        alike[tuple(learner.layers), shapes, *how].append(number)
    for numbers in alike.values():
        numbers.sort(key=lambda number: -_steps(learners[number]))
        size = max(sum(value.size for value in learners[number].task.params.values()) for number in numbers)
        most = max(1, NUMBERS_AT_ONCE // size)
        count = -(-len(numbers) // most)
        yield from ([int(n) for n in part] for part in np.array_split(numbers, count))


def _steps(learner: Learner) -> int:
    return -(-learner.y.shape[0] // learner.task.hyper.b) * learner.task.hyper.e


class Stack:
    """K networks of one shape but for the width of the last layer.

    Attributes:
        tensors: of each layer in turn the weights (K, outputs, inputs) and the biases (K, 1, outputs).
        widths: of the last layer, for each network.
    """

    def __init__(self, models: Sequence[Mapping[str, Array]], layers: Sequence[str], device: torch.device) -> None:
        self.layers = layers
        self.widths = [len(model[f"{layers[-1]}.bias"]) for model in models]
        self.tensors = []
        for layer in layers:
            weights, biases = ([model[f"{layer}.{kind}"] for model in models] for kind in ("weight", "bias"))
            self.tensors.append(torch.from_numpy(_padded(weights)).to(device))
            self.tensors.append(torch.from_numpy(_padded(biases)[:, None]).to(device))

    def outputs(self, x: Tensor) -> Tensor:
        """One score per label before the sigmoid, (K, n, M), for rows (K, n, V)."""
        return activations(self.tensors, x)[-1]

    def params(self, number: int) -> dict[str, Array]:
        """Copies of the parameters of one network."""
        arrays = {}
        for at, layer in enumerate(self.layers):
            width = self.widths[number] if at == len(self.layers) - 1 else None
            weights, biases = (tensor[number].clone() for tensor in self.tensors[2 * at : 2 * at + 2])
            arrays[f"{layer}.weight"] = weights[:width].cpu().numpy()
            arrays[f"{layer}.bias"] = biases[0, :width].cpu().numpy()
        return arrays


def activations(tensors: Sequence[Tensor], x: Tensor) -> list[Tensor]:
    """What goes into each layer, and the scores at the end."""
    layers = [x]
    for at in range(0, len(tensors), 2):
        scores = torch.baddbmm(tensors[at + 1], layers[-1], tensors[at].transpose(1, 2))
        layers.append(scores if at == len(tensors) - 2 else scores.relu_())
    return layers


class _Training:
    """One training of a stack; networks with more steps come first, so that those at work are always a front."""

    def __init__(self, learners: Sequence[Learner]) -> None:
        first = learners[0]
        self._learners, self._device = learners, first.x.device
        self._size, self._rate = first.task.hyper.b, first.task.hyper.u
        self._stack = Stack([one.task.params for one in learners], first.layers, self._device)
        self._mu = first.task.proximal
        self._start = [tensor.clone() for tensor in self._stack.tensors] if self._mu else []
        self._batches = [shuffled(one.y.shape[0], one.task) for one in learners]
        width = max(self._stack.widths)
        labels = torch.arange(width) < torch.tensor(self._stack.widths)[:, None]
        self._labels = (labels / labels.sum(1, keepdim=True))[:, None].to(self._device)
        rows = STEPS_AT_ONCE * self._size
        self._x = torch.empty(len(learners), rows, first.x.shape[1], device=self._device)
        self._y = torch.zeros(len(learners), rows, width, device=self._device)
        self._weights = torch.empty(len(learners), rows, 1, device=self._device)
        self._losses = torch.zeros(len(learners), dtype=torch.float64)  # over the steps so far
        self._ended: dict[int, Learnt] = {}  # those whose time was over

    @torch.inference_mode()
    def run(self) -> list[Learnt]:
        """Train all to their ends."""
        counts = [_steps(learner) for learner in self._learners]
        front, adam = len(counts), _StackedAdam(self._stack.tensors, self._rate)
        tensors = gradients = [tensor[:front] for tensor in self._stack.tensors]
        for step in range(counts[0]):
            if step == 0 or counts[front - 1] <= step:
                front = sum(count > step for count in counts)
                tensors, gradients = adam.front(front)
            if step % STEPS_AT_ONCE == 0:
                self._gather(step, front)
            at = step % STEPS_AT_ONCE * self._size
            self._derive(tensors, gradients, slice(at, at + self._size))
            adam.step()
            if self._tell(step + 1, counts[:front]):
                break
        return self._learnt(counts)

    def _derive(self, tensors: Sequence[Tensor], gradients: Sequence[Tensor], rows: slice) -> None:
        """The gradients of the mean binary cross-entropy over the rows and labels of each network."""
        front = len(tensors[0])
        *inputs, scores = activations(tensors, self._x[:front, rows])
        y, weights = self._y[:front, rows], self._weights[:front, rows] * self._labels[:front]
        losses = F.binary_cross_entropy_with_logits(scores, y, weights, reduction="none")
        self._losses[:front] += losses.sum((1, 2)).cpu().double()
        error = scores.sigmoid_().sub_(y).mul_(weights)
        for layer in reversed(range(len(inputs))):
            torch.bmm(error.transpose(1, 2), inputs[layer], out=gradients[2 * layer])
            torch.sum(error, 1, keepdim=True, out=gradients[2 * layer + 1])
            if layer:
                error = torch.bmm(error, tensors[2 * layer]).mul_(inputs[layer] > 0)
        for gradient, tensor, start in zip(gradients, tensors, self._start, strict=False):
            gradient.add_(tensor - start[:front], alpha=self._mu)

    def _next_rows(self, number: int, step: int) -> tuple[Tensor, Tensor]:
        """Row numbers of the next steps of a network, each short batch padded with row 0, and the weight of each."""
        batches = self._batches[number]
        steps = range(step, min(step + STEPS_AT_ONCE, len(batches)))
        numbers = torch.zeros(len(steps), self._size, dtype=torch.int64)
        shares = torch.zeros(len(steps), self._size)
        for at, one in enumerate(steps):
            rows = batches[one]
            numbers[at, : len(rows)] = rows
            shares[at, : len(rows)] = 1 / len(rows)
        return numbers.view(-1).to(self._device), shares.view(-1).to(self._device)

    def _gather(self, step: int, front: int) -> None:
        """Bring the rows of the next steps together."""
        for number, learner in enumerate(self._learners[:front]):
            rows, shares = self._next_rows(number, step)
            end, width = rows.shape[0], self._stack.widths[number]
            torch.index_select(learner.x, 0, rows, out=self._x[number, :end])
            self._y[number, :end, :width] = learner.y[rows]
            self._weights[number, :end, 0] = shares

    def _tell(self, done: int, counts: Sequence[int]) -> bool:
        """Report, and keep what those have whose time is over; whether it is over for all that are at work."""
        for number, (learner, count) in enumerate(zip(self._learners, counts, strict=False)):
            if number in self._ended:
                continue
            learner.task.progress(done, count)
            if learner.task.is_over():
                self._ended[number] = self._result(number, done)
        return all(number in self._ended for number in range(len(counts)))

    def _learnt(self, counts: Sequence[int]) -> list[Learnt]:
        return [self._ended.get(number) or self._result(number, count) for number, count in enumerate(counts)]

    def _result(self, number: int, done: int) -> Learnt:
        return Learnt(self._stack.params(number), float(self._losses[number]) / done, done)


class _StackedAdam:
    """Adam for each network of a stack; all that are at work have done the same number of steps."""

    def __init__(self, tensors: Sequence[Tensor], rate: float) -> None:
        self._rate, self._steps = rate, torch.zeros((), device=tensors[0].device)
        gradients = [torch.empty_like(t) for t in tensors]
        self._all = [tensors, gradients, *([torch.zeros_like(t) for t in tensors] for _ in range(2))]
        self._at_work = [list(kind) for kind in self._all]

    def front(self, count: int) -> tuple[list[Tensor], list[Tensor]]:
        """From now on the first so many only: their parameters, and where their gradients belong."""
        self._at_work = [[tensor[:count] for tensor in kind] for kind in self._all]
        return self._at_work[0], self._at_work[1]

    def step(self) -> None:
        """One step against the gradients."""
        self._steps += 1
        params, gradients, means, squares = self._at_work
        torch._fused_adam_(
            params,
            gradients,
            means,
            squares,
            [],
            [self._steps] * len(params),
            lr=self._rate,
            beta1=BETAS[0],
            beta2=BETAS[1],
            weight_decay=0.0,
            eps=EPSILON,
            amsgrad=False,
            maximize=False,
        )


def _padded(arrays: Sequence[Array]) -> Array:
    """Arrays that differ in their first axis, stacked, with zeros where one is shorter."""
    longest = max(map(len, arrays))
    padded = np.zeros((len(arrays), longest, *arrays[0].shape[1:]), arrays[0].dtype)
    for row, array in zip(padded, arrays, strict=True):
        row[: len(array)] = array
    return padded
