"""The batches of a training, drawn as they are needed: their memory depends neither on epochs nor on their number.

Usually each epoch has all rows, in a new order. A training that hides single rows (`Task.row_privacy`) draws each row for
each batch on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np

from flnet.security.noise import system_uniform
from flnet.trainer import Array, Task

B = TypeVar("B")  # an array or a tensor of row numbers


class Batches(Generic[B]):
    """The row numbers of each batch of a training, epoch by epoch; a sequence that holds one epoch's order at a time.

    It is made for reading in order. A batch of an earlier epoch may be read too: all orders up to it are drawn again.
    """

    def __init__(self, orders: Callable[[], Iterator[Any]], rows: int, task: Task) -> None:
        """Args:
        orders: begins to draw the rows' orders from the task's seed, one for each epoch.
        rows: in all.
        task: says how many epochs, and how many rows in a batch.
        """
        self._begin, self._size = orders, task.hyper.b
        self._in_epoch = -(-rows // self._size)
        self._count = task.hyper.e * self._in_epoch
        self._orders, self._epoch = orders(), -1
        self._order: Any = None

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, step: int) -> B:
        if not 0 <= step < self._count:
            raise IndexError(step)
        epoch, batch = divmod(step, self._in_epoch)
        if epoch < self._epoch:
            self._orders, self._epoch = self._begin(), -1
        while self._epoch < epoch:
            self._order, self._epoch = next(self._orders), self._epoch + 1
        start = batch * self._size
        rows: B = self._order[start : start + self._size]
        return rows

    def __iter__(self) -> Iterator[B]:
        return (self[step] for step in range(self._count))


class Drawn(Batches[B]):
    """As many batches, of which each row is in each with the same probability: Poisson sampling.

    Nobody can foresee the draws, and they are never repeated: reading a batch again draws another one. It may be empty.
    """

    def __init__(self, rows: Any, task: Task) -> None:
        """Args:
        rows: the numbers of all rows, an array or a tensor.
        task: says how many epochs, and how many rows are expected in a batch.
        """
        super().__init__(lambda: iter(()), len(rows), task)
        self._rows, self.expected = rows, min(task.hyper.b, len(rows))
        self.rate = self.expected / len(rows)

    def __getitem__(self, step: int) -> B:
        if not 0 <= step < len(self):
            raise IndexError(step)
        rows: B = self._rows[np.flatnonzero(system_uniform(len(self._rows)) < self.rate)]
        return rows


def shuffled(rows: int | Array, task: Task) -> Batches[Array]:
    """Batches of these row numbers, or of so many rows, in a new order in each epoch, or drawn."""
    if task.row_privacy is not None:
        return Drawn(np.arange(rows) if isinstance(rows, int) else rows, task)

    def orders() -> Iterator[Array]:
        chance = np.random.default_rng(task.seed)
        while True:
            yield chance.permutation(rows)

    return Batches(orders, rows if isinstance(rows, int) else len(rows), task)
