"""The engine of one machine: some processes, each of which trains one batch of cells after the other."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from flnet.errors import WorkerDied
from flnet.experiments.base import Cell, Outcome, batches
from flnet.experiments.child import answer_of, order_of, settings_line
from flnet.settings import Settings
from flnet.training.backend import thread_bounds

Progress = Callable[[Mapping[int, tuple[Sequence[Cell], float]]], None]  # what each worker has in hand, how far
ENDING_SECONDS = 5.0  # for a worker without orders to end by itself


class LocalEngine:
    """Runs cells in child processes of this one."""

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
        """Each cell with what came of it.

        Raises:
            WorkerDied: a process ended without an answer.
        """
        waiting = list(reversed(batches(cells)))
        said: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        workers = [_Worker(i, self._settings, said, self._nice) for i in range(min(self._workers, len(waiting)))]
        at_work: dict[int, tuple[Sequence[Cell], float]] = {}
        try:
            for worker in workers:
                at_work[worker.number] = (worker.ask(waiting.pop()), 0.0)
            while at_work:
                number, line = said.get()
                if not line:
                    raise workers[number].died(at_work)
                answer = answer_of(line)
                in_hand = at_work.pop(number)[0]
                if isinstance(answer, float):
                    at_work[number] = (in_hand, answer)
                    self._progress(at_work)
                    continue
                yield from zip(in_hand, answer, strict=True)
                if waiting:
                    at_work[number] = (workers[number].ask(waiting.pop()), 0.0)
                self._progress(at_work)
        finally:
            for worker in workers:
                worker.end(is_idle=worker.number not in at_work)


class _Worker:
    """One child, and the thread that hears it."""

    def __init__(
        self, number: int, settings: Settings, said: queue.SimpleQueue[tuple[int, str]], nice: int
    ) -> None:
        self.number = number
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

    def ask(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        """Have these cells trained together."""
        self._tell(order_of(cells))
        return cells

    def died(self, at_work: Mapping[int, tuple[Sequence[Cell], float]]) -> WorkerDied:
        """What to say when it is gone."""
        where = "; ".join(f"{cell.row}, {cell.column}, seed {cell.seed}" for cell in at_work[self.number][0][:3])
        return WorkerDied(f"the process that trained {where} ended with code {self._process.wait()}")

    def end(self, *, is_idle: bool) -> None:
        """Let it go; one that is at work is killed."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        if not is_idle:
            self._process.kill()
        try:
            self._process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

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
