"""The same numbers on a Ray cluster as here; without Ray, what the engine does by a stand-in for it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from flnet.errors import LocalError, NotOffered
from flnet.experiments.base import Cell, Outcome, Setup, batches
from flnet.experiments.driving import run_together
from flnet.experiments.ray_engine import RayEngine, obey, order
from flnet.settings import Settings

SETUP = Setup(trainer="MNIST_3_7", nodes=3, rounds=2, together=2)
CELLS = [Cell(row="digits", column="agg1", seed=seed, setup=SETUP) for seed in range(4)]


class RayError(Exception):
    """As ray.exceptions has it."""


class StandIn:
    """Ray in this process: a task runs when it is asked for."""

    def __init__(self, run: Callable[[str], str]) -> None:
        self.exceptions = SimpleNamespace(RayError=RayError)
        self.run, self.calls, self.cancelled = run, list[str](), list[int]()
        self.tasks: list[str] = []

    def is_initialized(self) -> bool:
        return False

    def init(self, **said: Any) -> None:
        self.calls.append(f"init {said.get('address') or said.get('num_cpus')}")

    def shutdown(self) -> None:
        self.calls.append("shutdown")

    def remote(self, **_: Any) -> Callable[[Any], Any]:
        def remote(text: str) -> int:
            self.tasks.append(text)
            return len(self.tasks) - 1

        return lambda task: SimpleNamespace(remote=remote)

    def wait(self, tasks: Sequence[int], num_returns: int) -> tuple[list[int], list[int]]:
        return [tasks[-1]], list(tasks[:-1])

    def get(self, task: int) -> str:
        return self.run(self.tasks[task])

    def cancel(self, task: int, force: bool) -> None:
        self.cancelled.append(task)


def cells_of(text: str) -> list[Any]:
    """The cells of an order."""
    found: list[Any] = json.loads(text.splitlines()[1])
    return found


def made_up(text: str) -> str:
    """An outcome for each cell, without training."""
    return json.dumps([{"rounds": cell["seed"] + 1} for cell in cells_of(text)])


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    ray = StandIn(made_up)
    monkeypatch.setitem(sys.modules, "ray", ray)
    return ray


def numbers(found: Iterator[tuple[Cell, Outcome]]) -> Mapping[int, Any]:
    """What must not depend on the engine."""
    return {cell.seed: (outcome.figures, outcome.bytes, outcome.rounds, outcome.reason) for cell, outcome in found}


def test_a_task_for_each_batch_and_all_cells_come_back(stand_in: StandIn) -> None:
    found = RayEngine(Settings(), workers=2).run(CELLS)
    assert {cell.seed: outcome.rounds for cell, outcome in found} == {0: 1, 1: 2, 2: 3, 3: 4}
    assert len(stand_in.tasks) == len(batches(CELLS)) == 2
    assert stand_in.calls == ["init 2", "shutdown"]
    assert stand_in.cancelled == []


def test_an_order_says_only_what_another_machine_needs(stand_in: StandIn) -> None:
    list(RayEngine(Settings(compute_threads=3), "10.0.0.1:6379").run(CELLS[:1]))
    settings, cells = stand_in.tasks[0].splitlines()
    assert set(json.loads(settings)) == {"datasets_path", "trainers_path", "compute_threads", "device"}
    assert [Cell.model_validate(cell) for cell in json.loads(cells)] == CELLS[:1]
    assert stand_in.calls[0] == "init 10.0.0.1:6379"


def test_a_task_that_fails_gives_its_cells_the_reason(stand_in: StandIn) -> None:
    def fails(text: str) -> str:
        if cells_of(text)[0]["seed"] == 0:
            raise RayError("the worker died\nand more")
        return made_up(text)

    stand_in.run = fails
    found = {cell.seed: outcome for cell, outcome in RayEngine(Settings()).run(CELLS)}
    assert [found[seed].reason for seed in range(4)] == [*["its task of Ray failed: the worker died"] * 2, "", ""]


def test_who_leaves_early_ends_what_is_under_way(stand_in: StandIn) -> None:
    results = RayEngine(Settings()).run(CELLS)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert stand_in.cancelled == [0]
    assert stand_in.calls[-1] == "shutdown"


@pytest.mark.parametrize("error", [ConnectionError, Exception])
def test_a_cluster_that_is_not_there_is_said(
    error: type[Exception], stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(**_: Any) -> None:
        raise error("nobody there")

    monkeypatch.setattr(stand_in, "init", refuses)
    with pytest.raises(LocalError, match=r"10\.0\.0\.1.*nobody there"):
        list(RayEngine(Settings(), "10.0.0.1:6379").run(CELLS))
    assert stand_in.calls == ["shutdown"]  # nothing half started stays behind


def test_without_ray_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NotOffered, match=r"flnet\[ray\]"):
        list(RayEngine(Settings()).run(CELLS))


def test_an_order_obeyed_elsewhere_gives_the_numbers_of_here() -> None:
    told = [Outcome.model_validate(outcome) for outcome in json.loads(obey(order(CELLS[:2], Settings())))]
    here = run_together(CELLS[:2], Settings())
    assert numbers(zip(CELLS, told, strict=False)) == numbers(zip(CELLS, here, strict=False))
    assert not here[0].reason


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::Warning:ray")
def test_ray_and_here_give_equal_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="Ray is not installed; pip install flnet[ray]")
    there = numbers(RayEngine(Settings(), workers=2).run(CELLS))
    here: dict[int, Any] = {}
    for batch in batches(CELLS):
        here |= numbers(zip(batch, run_together(batch, Settings()), strict=True))
    assert there == here
    assert all(not reason for *_, reason in there.values())
