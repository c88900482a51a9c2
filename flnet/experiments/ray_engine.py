"""Cells on a Ray cluster: the same batches and the same numbers as on this machine, on as many as there are.

Ray comes with the extra `ray` and is loaded when this engine runs. The machines of the cluster need flnet, the
trainers' frameworks and the data sets, at the paths that they have here. What travels is JSON, both ways.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from flnet.errors import LocalError, NotOffered
from flnet.experiments.base import Cell, Outcome, batches
from flnet.experiments.child import order_of, serve, settings_line
from flnet.settings import Settings


class RayEngine:
    """Runs batches of cells as tasks of Ray, one processor each."""

    def __init__(self, settings: Settings, address: str | None = None, workers: int | None = None) -> None:
        """Args:
        address: of a cluster that runs ("auto" for the one of this machine); None starts one here for the time.
        workers: processors of a cluster that is started here; all if None.
        """
        self._settings, self._address, self._workers = settings, address, workers

    def run(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Outcome]]:
        """Each cell with what came of it, as soon as that is known; what is under way ends with the iterator.

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
        here = {"address": self._address} if self._address else {"num_cpus": self._workers}
        try:
            ray.init(**here, include_dashboard=False, log_to_driver=False)
        except Exception as exc:  # a bare one where its processes do not start in time
            ray.shutdown()
            raise LocalError(f"no cluster of Ray at {self._address or 'this machine'}: {exc}") from exc

    def _results(self, ray: Any, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Outcome]]:
        task = ray.remote(num_cpus=1, max_retries=1)(obey)
        under_way = {task.remote(order(batch, self._settings)): batch for batch in batches(cells)}
        try:
            while under_way:
                (first, *_), _ = ray.wait(list(under_way), num_returns=1)
                batch = under_way.pop(first)
                yield from zip(batch, _outcomes(ray, first, len(batch)), strict=True)
        finally:
            for left in under_way:
                ray.cancel(left, force=True)


def order(cells: Sequence[Cell], settings: Settings) -> str:
    """What another process needs to know to run these cells together: the lines that a child of this one gets."""
    return f"{settings_line(settings)}\n{order_of(cells)}\n"


def obey(text: str) -> str:
    """Run the cells of an order; the line that says what came of them."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    said: list[Any] = []
    serve(io.StringIO(text), said.append)
    return json.dumps(said[-1])


def _outcomes(ray: Any, task: Any, count: int) -> list[Outcome]:
    """Of a task that ended; where it failed, its reason for each of its cells."""
    try:
        return [Outcome.model_validate(outcome) for outcome in json.loads(ray.get(task))]
    except ray.exceptions.RayError as exc:
        first = str(exc).strip().partition("\n")[0]
        return [Outcome(reason=f"its task of Ray failed: {first[:500]}")] * count


def _ray() -> Any:
    try:
        import ray  # noqa: PLC0415
    except ImportError as exc:
        words = 'this engine needs Ray, which is not installed; install it (pip install "flnet[ray]")'
        raise NotOffered(words) from exc
    return ray
