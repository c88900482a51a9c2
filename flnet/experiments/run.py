"""Runs cells: a batch in this process, and many in worker processes of this machine or on a Ray cluster.

The cells of a batch are meshes that are trained together in one process, driven in step. Engines run the same batches
and give the same numbers.

As a program it is a worker, `python -m flnet.experiments.run PARENT NICENESS`: it reads requests as lines of JSON,
first the settings and then batches of cells, and writes progress and outcomes likewise. What a trainer prints goes
to stderr. It ends with its input, or with its parent.

Ray comes with the extra `ray`, and is loaded when its engine runs. The machines of the cluster need flnet, the
trainers' frameworks and the data sets, at the same paths as here. Cells and outcomes travel as JSON.
"""

from __future__ import annotations

import gc
import io
import itertools
import json
import os
import platform
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from flnet.compute.assignment import thread_bounds
from flnet.compute.worker import be_killed_with
from flnet.errors import LocalError, NotOffered
from flnet.experiments.cells import Cell, Outcome, batches
from flnet.experiments.folds import Fold
from flnet.experiments.learners import LINKED, carry_out, learners_of, trainer_file
from flnet.experiments.mesh import CellMesh
from flnet.experiments.schedules import ScheduledMesh
from flnet.installing import install
from flnet.settings import Settings
from flnet.temporary import temporary_folder

Progress = Callable[[float], None]  # takes the part that is done, in [0, 1]
Reply = Callable[[Any], None]
AnyMesh = CellMesh | ScheduledMesh
# Thresholds of the collector: meshes leave no cycles, and it took a quarter of the time.
RARELY = (100_000, 20, 20)
SETTINGS = frozenset({"datasets_path", "trainers_path", "device"})  # those that decide numbers


def run_together(
    cells: Sequence[Cell], settings: Settings, progress: Progress = lambda done: None
) -> list[Outcome]:
    """Train a batch of cells as one computation, and return their outcomes.

    Args:
        settings: where data sets and trainers are, and the device.
        progress: is told from time to time how much is done.
    """
    began, worked = time.monotonic(), time.process_time()
    with temporary_folder("cells") as folder:
        places = [folder / str(number) for number in range(len(cells))]
        meshes = [_mesh(cell, settings, place) for cell, place in zip(cells, places, strict=True)]
        outcomes = _drive(meshes, progress)
    costs = {
        "seconds": (time.monotonic() - began) / len(cells),
        "processor_seconds": (time.process_time() - worked) / len(cells),
        "machine": machine(),
    }
    return [
        outcome.model_copy(update={**costs, "data": _without_links(outcome.data, place, settings)})
        for outcome, place in zip(outcomes, places, strict=True)
    ]


def _without_links(data: str, place: Path, settings: Settings) -> str:
    """A description of data that names the folder of data sets instead of the links to it."""
    return data.replace(str(place / LINKED), str(settings.datasets_path))


def machine() -> str:
    """Describe this machine: processor, number of processors, system."""
    return f"{_processor()}, {os.cpu_count()} processors, {platform.system()}, Python {platform.python_version()}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def _mesh(cell: Cell, settings: Settings, place: Path) -> AnyMesh | Outcome:
    """The mesh of a cell, or the reason why there is none."""
    kind = ScheduledMesh if cell.setup.is_schedule and cell.setup.kind == "federated" else CellMesh
    try:
        file = trainer_file(cell.setup.trainer, settings)
        fold = Fold.of_cell(cell)
        learners = learners_of(cell, file, settings, place, fold.seed)
        if cell.setup.kind == "central" and cell.setup.parts:
            nodes = cell.model_copy(update={"setup": cell.setup.model_copy(update={"kind": "lone"})})
            parts, left_out = fold.divided(learners_of(nodes, file, settings, place / "parts", fold.seed))
            fold.set_apart(parts)
            return CellMesh(cell, learners, parts, left_out)
        learners, left_out = fold.divided(learners)
        fold.set_apart(learners)
        return CellMesh(cell, learners, left_out=left_out) if kind is CellMesh else kind(cell, learners)
    except LocalError as exc:
        return Outcome(reason=exc.message)


def _drive(made: Sequence[AnyMesh | Outcome], progress: Progress) -> list[Outcome]:
    """Drive the meshes in step until all of them have finished: the work that they wait for is done together."""
    outcomes: list[Outcome | None] = [item if isinstance(item, Outcome) else None for item in made]
    meshes = {number: item for number, item in enumerate(made) if not isinstance(item, Outcome)}
    while meshes:
        orders = []
        for number, mesh in list(meshes.items()):
            try:
                due = mesh.advance()
            except LocalError as exc:
                outcomes[number], due = Outcome(reason=exc.message), []
            if not due:
                outcomes[number] = outcomes[number] or mesh.outcome()
                meshes.pop(number).end()
            orders += due
        carry_out(orders)
        for mesh in meshes.values():
            mesh.resume()
        progress((sum(mesh.done for mesh in meshes.values()) + len(made) - len(meshes)) / len(made))
    return [outcome for outcome in outcomes if outcome is not None]


# The worker.


def request(cells: Sequence[Cell]) -> str:
    """The line that asks a worker for a batch of cells."""
    return json.dumps([cell.model_dump(mode="json") for cell in cells])


def settings_line(settings: Settings) -> str:
    """The first line that a worker reads.

    Every worker computes with one thread: with more, sums may differ in the last digit.
    """
    return json.dumps({**settings.model_dump(mode="json", include=set(SETTINGS)), "compute_threads": 1})


def reply_of(line: str) -> float | list[Outcome]:
    """Parse a line of a worker: its progress, or the outcomes of the batch."""
    reply = json.loads(line)
    if isinstance(reply, float | int):
        return float(reply)
    return [Outcome.model_validate(outcome) for outcome in reply]


def serve(requests: IO[str], reply: Reply) -> None:
    """Run the batch of each line."""
    settings = Settings.model_validate_json(requests.readline())
    for line in requests:
        cells = [Cell.model_validate(cell) for cell in json.loads(line)]
        outcomes = run_together(cells, settings, reply)
        reply([outcome.model_dump(mode="json") for outcome in outcomes])


def main(parent: int, niceness: int) -> None:
    """Run requests from stdin until it ends.

    Args:
        parent: id of the process that started this one.
        niceness: how far to step back behind other processes.
    """
    be_killed_with(parent)
    if niceness and hasattr(os, "nice"):
        os.nice(niceness)
    gc.set_threshold(*RARELY)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends this process
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def reply(value: Any) -> None:
        out.write(json.dumps(value) + "\n")
        out.flush()

    serve(sys.stdin, reply)


# By worker: its batch, and the part that is done.
WorkerProgress = Callable[[Mapping[int, tuple[Sequence[Cell], float]]], None]
ENDING_SECONDS = 5.0  # for an idle worker to end by itself


class LocalEngine:
    """Runs cells in child processes, each of which loads one trainer, because frameworks do not tolerate each other."""

    def __init__(
        self, settings: Settings, workers: int = 1, progress: WorkerProgress = lambda busy: None, nice: int = 0
    ) -> None:
        """Args:
        settings: where data sets and trainers are, and the device.
        workers: number of processes, which does not change the numbers.
        progress: is told from time to time what each worker does, and how much of it is done.
        nice: how far the workers step back behind other processes.
        """
        self._settings, self._workers, self._nice = settings, workers, nice
        self._progress = progress

    def run(self, cells: Sequence[Cell]) -> Generator[tuple[Cell, Outcome], None, None]:
        """Yield each cell with its outcome as soon as it is known."""
        with temporary_folder("experiment") as folder:
            pool = _Pool(self._settings, batches(cells), self._nice, folder)
            try:
                for _ in range(self._workers):
                    pool.start_worker()
                while pool.busy:
                    yield from pool.receive()
                    self._progress(pool.busy)
            finally:
                pool.close()


class _Pool:
    """The workers of one run.

    Attributes:
        busy: by worker, its batch, and the part that is done.
    """

    def __init__(self, settings: Settings, waiting: Sequence[Sequence[Cell]], nice: int, folder: Path) -> None:
        """Args:
        settings, nice: as in `LocalEngine`.
        waiting: the batches.
        folder: for temporary files of the workers, which end by a kill and remove none.
        """
        self.busy: dict[int, tuple[Sequence[Cell], float]] = {}
        self._settings, self._nice, self._folder = settings, nice, folder
        self._waiting = deque(waiting)
        self._lines: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        self._workers: dict[int, _Worker] = {}
        self._numbers = itertools.count()

    def start_worker(self) -> None:
        """Start a worker with the next batch, if there is one."""
        if self._waiting:
            number, trainer = next(self._numbers), self._waiting[0][0].setup.trainer
            self._workers[number] = _Worker(number, trainer, self._settings, self._lines, self._nice, self._folder)
            self._send(number)

    def receive(self) -> list[tuple[Cell, Outcome]]:
        """Wait for a line of a worker, and return the cells that are done; if the worker died, with that reason."""
        number, line = self._lines.get()
        if number not in self.busy:
            return []  # an idle worker ended
        cells = self.busy[number][0]
        if not line:
            del self.busy[number]
            reason = f"the process that trained it ended with code {self._workers.pop(number).end(is_idle=True)}"
            self.start_worker()
            return [(cell, Outcome(reason=reason)) for cell in cells]
        reply = reply_of(line)
        if isinstance(reply, float):
            self.busy[number] = (cells, reply)
            return []
        del self.busy[number]
        self._continue(number)
        return list(zip(cells, reply, strict=True))

    def close(self) -> None:
        """End all workers."""
        for number, worker in self._workers.items():
            worker.end(is_idle=number not in self.busy)

    def _continue(self, number: int) -> None:
        """Give the next batch to this worker, or to a new one if it needs another trainer."""
        if self._waiting and self._waiting[0][0].setup.trainer == self._workers[number].trainer:
            self._send(number)
            return
        self._workers.pop(number).end(is_idle=True)
        self.start_worker()

    def _send(self, number: int) -> None:
        cells = self._waiting.popleft()
        self._workers[number].send(request(cells))
        self.busy[number] = (cells, 0.0)


class _Worker:
    """One worker process, and the thread that reads its output."""

    def __init__(
        self,
        number: int,
        trainer: str,
        settings: Settings,
        lines: queue.SimpleQueue[tuple[int, str]],
        nice: int,
        folder: Path,
    ) -> None:
        self.number, self.trainer = number, trainer
        self._process = subprocess.Popen(  # noqa: S603  this interpreter, and two numbers
            [sys.executable, "-m", "flnet.experiments.run", str(os.getpid()), str(nice)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, **thread_bounds(1), "TMPDIR": str(folder)},
        )
        self.send(settings_line(settings))
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    def end(self, *, is_idle: bool) -> int:
        """End it, by a kill unless it is idle, and return its exit code."""
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

    def send(self, line: str) -> None:
        """Write a line to its input."""
        assert self._process.stdin is not None
        with suppress(OSError):  # it died, which the reading thread reports
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def _read(self, lines: queue.SimpleQueue[tuple[int, str]]) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                lines.put((self.number, line))
        lines.put((self.number, ""))


class RayEngine:
    """Runs batches of cells as Ray tasks with one processor each."""

    def __init__(self, settings: Settings, address: str | None = None, workers: int | None = None) -> None:
        """Args:
        address: of a running cluster ("auto" for the one of this machine); None starts one here meanwhile.
        workers: number of processors of a cluster that is started here; None for all.
        """
        self._settings, self._address, self._workers = settings, address, workers

    def run(self, cells: Sequence[Cell]) -> Generator[tuple[Cell, Outcome], None, None]:
        """Yield each cell with its outcome as soon as it is known; closing the iterator ends all tasks.

        Raises:
            NotOffered: Ray is not installed.
            LocalError: there is no such cluster.
        """
        ray = _ray()
        is_ours = not ray.is_initialized()
        if is_ours:
            self._connect(ray)
        try:
            yield from self._results(ray, cells)
        finally:
            if is_ours:
                ray.shutdown()

    def _connect(self, ray: Any) -> None:
        cluster = {"address": self._address} if self._address else {"num_cpus": self._workers}
        try:
            ray.init(**cluster, include_dashboard=False, log_to_driver=False)
        except Exception as exc:  # Ray raises a bare Exception if its processes do not start in time
            ray.shutdown()
            raise LocalError(f"no cluster of Ray at {self._address or 'this machine'}: {exc}") from exc

    def _results(self, ray: Any, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Outcome]]:
        task = ray.remote(num_cpus=1, max_retries=1)(run_batch)
        running = {task.remote(batch_request(batch, self._settings)): batch for batch in batches(cells)}
        try:
            while running:
                (first, *_), _ = ray.wait(list(running), num_returns=1)
                batch = running.pop(first)
                yield from zip(batch, _outcomes(ray, first, len(batch)), strict=True)
        finally:
            for left in running:
                ray.cancel(left, force=True)


def batch_request(cells: Sequence[Cell], settings: Settings) -> str:
    """The input with which a worker process of this machine would run these cells together."""
    return f"{settings_line(settings)}\n{request(cells)}\n"


def run_batch(text: str) -> str:
    """Run the cells of a request, and return their outcomes as JSON."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    replies: list[Any] = []
    serve(io.StringIO(text), replies.append)
    return json.dumps(replies[-1])


def _outcomes(ray: Any, task: Any, count: int) -> list[Outcome]:
    """The outcomes of a task that has ended; if it failed, the reason for each of its cells."""
    try:
        return [Outcome.model_validate(outcome) for outcome in json.loads(ray.get(task))]
    except ray.exceptions.RayError as exc:
        first = str(exc).strip().partition("\n")[0]
        return [Outcome(reason=f"its task of Ray failed: {first[:500]}")] * count


def _ray() -> Any:
    try:
        import ray  # noqa: PLC0415
    except ImportError as exc:
        message = f"this engine needs Ray, which is not installed; install it ({install('ray')})"
        raise NotOffered(message) from exc
    return ray


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
