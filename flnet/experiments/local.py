"""The engine of one machine: some processes, each of which trains one batch of cells after the other."""

from __future__ import annotations

import itertools
import os
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from flnet.experiments.base import Cell, Outcome, batches
from flnet.experiments.child import answer_of, order_of, settings_line
from flnet.settings import Settings
from flnet.training.backend import thread_bounds

Progress = Callable[[Mapping[int, tuple[Sequence[Cell], float]]], None]  # what each worker has in hand, how far
ENDING_SECONDS = 5.0  # for a worker without orders to end by itself


class LocalEngine:
    """Runs cells in child processes of this one, each of which knows one trainer: frameworks bear no others."""

    def __init__(
        self, settings: Settings, workers: int = 1, progress: Progress = lambda at_work: None, nice: int = 0
    ) -> None:
        """Args:
        settings: where data sets and trainers lie, and the device.
        workers: how many processes; the numbers are the same with any number of them.
        progress: told from time to time what each worker has in hand, and how much of it is done.
        nice: by how much the workers step back behind other processes.
        """
        self._settings, self._workers, self._nice = settings, workers, nice
        self._progress = progress

    def run(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Outcome]]:
        """Each cell with what came of it."""
        crew = _Crew(self._settings, batches(cells), self._nice)
        try:
            for _ in range(self._workers):
                crew.hire()
            while crew.at_work:
                done = crew.hear()
                yield from done
                self._progress(crew.at_work)
        finally:
            crew.end()


class _Crew:
    """The workers of one run.

    Attributes:
        at_work: by worker, the cells that it has in hand, and the part of them that is done.
    """

    def __init__(self, settings: Settings, waiting: Sequence[Sequence[Cell]], nice: int) -> None:
        self.at_work: dict[int, tuple[Sequence[Cell], float]] = {}
        self._settings, self._nice = settings, nice
        self._waiting = deque(waiting)
        self._said: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        self._workers: dict[int, _Worker] = {}
        self._numbers = itertools.count()

    def hire(self) -> None:
        """Give the next cells, if there are any, to a new worker."""
        if self._waiting:
            number, trainer = next(self._numbers), self._waiting[0][0].setup.trainer
            self._workers[number] = _Worker(number, trainer, self._settings, self._said, self._nice)
            self._ask(number)

    def hear(self) -> list[tuple[Cell, Outcome]]:
        """Wait for a word of a worker; the cells that are done with it. Those of one that died say so."""
        number, line = self._said.get()
        if number not in self.at_work:
            return []  # the end of one that has nothing more to do
        cells = self.at_work[number][0]
        if not line:
            del self.at_work[number]
            reason = f"the process that trained it ended with code {self._workers.pop(number).end(is_idle=True)}"
            self.hire()
            return [(cell, Outcome(reason=reason)) for cell in cells]
        answer = answer_of(line)
        if isinstance(answer, float):
            self.at_work[number] = (cells, answer)
            return []
        del self.at_work[number]
        self._go_on(number)
        return list(zip(cells, answer, strict=True))

    def end(self) -> None:
        """Let all workers go."""
        for number, worker in self._workers.items():
            worker.end(is_idle=number not in self.at_work)

    def _go_on(self, number: int) -> None:
        """Give the next cells to this worker, or to a new one in its place if they are of another trainer."""
        if self._waiting and self._waiting[0][0].setup.trainer == self._workers[number].trainer:
            self._ask(number)
            return
        self._workers.pop(number).end(is_idle=True)
        self.hire()

    def _ask(self, number: int) -> None:
        cells = self._waiting.popleft()
        self._workers[number].ask(cells)
        self.at_work[number] = (cells, 0.0)


class _Worker:
    """One child, and the thread that hears it."""

    def __init__(
        self, number: int, trainer: str, settings: Settings, said: queue.SimpleQueue[tuple[int, str]], nice: int
    ) -> None:
        self.number, self.trainer = number, trainer
        self._process = subprocess.Popen(  # noqa: S603  this very interpreter, and two numbers
            [sys.executable, "-m", "flnet.experiments.child", str(os.getpid()), str(nice)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, **thread_bounds(1)},
        )
        self._tell(settings_line(settings))
        threading.Thread(target=self._hear, args=(said,), daemon=True).start()

    def ask(self, cells: Sequence[Cell]) -> None:
        """Have these cells trained together."""
        self._tell(order_of(cells))

    def end(self, *, is_idle: bool) -> int:
        """Let it go; one that is at work is killed. What it ended with."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        if not is_idle:
            self._process.kill()
        try:
            return self._process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # it is gone: the thread that hears it says so
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def _hear(self, said: queue.SimpleQueue[tuple[int, str]]) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                said.put((self.number, line))
        said.put((self.number, ""))
