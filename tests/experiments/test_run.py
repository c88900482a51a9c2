"""Batches of cells give the numbers that each cell gives alone, in this process, in workers, and on Ray."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from flnet.errors import LocalError, NotOffered
from flnet.experiments.cells import Cell, Outcome, Setup, batches
from flnet.experiments.run import (
    LocalEngine,
    RayEngine,
    batch_request,
    machine,
    reply_of,
    request,
    run_batch,
    run_together,
    serve,
    settings_line,
)
from flnet.installing import install
from flnet.settings import Settings
from tests.experiments.cells import SETTINGS, TRAINERS, cell


def without_costs(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Outcomes without what differs from run to run."""
    return [outcome.model_copy(update={"seconds": 0.0, "processor_seconds": 0.0}) for outcome in outcomes]


def run(*cells: Cell) -> list[Outcome]:
    return without_costs(run_together(cells, SETTINGS))


def numbers(results: Iterable[tuple[Cell, Outcome]]) -> dict[str, Outcome]:
    """The outcomes by cell, without what differs from run to run."""
    return {each.key: without_costs([outcome])[0] for each, outcome in results}


def test_cells_that_are_trained_together_give_what_each_gives_alone() -> None:
    cells = [cell(seed) for seed in range(3)]
    assert run(*cells) == [outcome for each in cells for outcome in run(each)]
    assert [outcome.rounds for outcome in run(cell(rounds=1), cell(rounds=4))] == [1, 4]


def test_a_failing_cell_has_its_reason_and_spoils_no_other() -> None:
    without_data, good = run(cell(901), cell(1))
    assert without_data.reason == "there are no points"
    assert good.rounds == 3
    (unknown,) = run(cell(trainer="NONE"))
    assert unknown.reason.startswith("no trainer 'NONE'")


def test_outcomes_name_their_costs_their_machine_and_the_folder_of_their_data(tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"datasets_path": tmp_path})
    (outcome,) = run_together([cell(options_file="tiny.toml", options={"a": 1})], settings)
    assert outcome.seconds > 0
    assert outcome.processor_seconds > 0
    assert outcome.machine == machine()
    assert outcome.data == str(tmp_path)  # and not the folder of links


def test_progress_grows_to_the_end() -> None:
    progress: list[float] = []
    run_together([cell(), cell(1)], SETTINGS, progress.append)
    assert progress == sorted(progress)
    assert progress[-1] == 1.0
    assert len(set(progress)) > 3


@pytest.mark.slow
def test_the_trainers_of_nodes_learn() -> None:
    (outcome,) = run(cell(trainer="MNIST_3_7", nodes=2, rounds=2))
    assert outcome.reason == ""
    assert outcome.data


# Workers.


def test_a_worker_serves_one_request_after_the_other() -> None:
    lines = [settings_line(SETTINGS), request([cell(0), cell(1)]), request([cell(2, rounds=1)])]
    replies: list[Any] = []
    serve(io.StringIO("".join(line + "\n" for line in lines)), replies.append)
    decoded = [reply_of(json.dumps(reply)) for reply in replies]
    batches = [reply for reply in decoded if isinstance(reply, list)]
    assert [[outcome.rounds for outcome in batch] for batch in batches] == [[3, 3], [1]]
    assert max(reply for reply in decoded if isinstance(reply, float)) == 1.0
    outcome = Outcome(rounds=1, figures={"after.accuracy": (0.1 + 0.2, None)}, bytes=7)
    assert reply_of(json.dumps([outcome.model_dump(mode="json")])) == [outcome]
    assert reply_of("1") == 1.0


def test_a_worker_gets_the_settings_that_decide_numbers_and_one_thread() -> None:
    key = "0123456789abcdef0123456789"
    settings = Settings(trainers_path=TRAINERS, device="cpu", compute_threads=8, mesh_key=key)
    received = Settings.model_validate_json(settings_line(settings))
    assert (received.trainers_path, received.device, received.compute_threads) == (TRAINERS, "cpu", 1)
    assert key not in settings_line(settings)


def children() -> set[int]:
    return {child.pid for child in psutil.Process(os.getpid()).children()}


@pytest.mark.slow
def test_workers_give_the_same_numbers_and_leave_no_process() -> None:
    cells = [
        *(cell(seed, together=2, partition="dirichlet:0.5") for seed in range(3)),
        *(cell(kind="lone"), cell(kind="central"), cell(901)),
    ]
    before = children()
    theirs = numbers(LocalEngine(SETTINGS, 2).run(cells))
    assert theirs == {each.key: run(each)[0] for each in cells}
    assert len({outcome.value("after.accuracy") for outcome in theirs.values()}) > 3
    assert children() <= before


@pytest.mark.slow
def test_progress_is_reported_and_closing_the_iterator_ends_the_workers() -> None:
    progress: list[float] = []
    before = children()
    engine = LocalEngine(SETTINGS, 1, lambda busy: progress.extend(done for _, done in busy.values()))
    results = engine.run([cell(seed, rounds=100) for seed in range(2)])
    next(results)
    results.close()
    assert children() <= before
    assert any(0 < done < 1 for done in progress)


@pytest.mark.slow
def test_a_run_that_is_interrupted_leaves_no_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def interrupt(busy: Mapping[int, tuple[Sequence[Cell], float]]) -> None:
        if any(0 < done < 1 for _, done in busy.values()):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(LocalEngine(SETTINGS, 1, interrupt).run([cell(rounds=100)]))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_worker_loads_one_trainer_and_if_it_dies_its_cells_have_that_reason(tmp_path: Path) -> None:
    text = (TRAINERS / "TINY.py").read_text("utf-8")
    for old, new in {
        "return DataInfo(self.place": "return DataInfo(str(os.getpid())",
        "w, b = task.params": "if task.hyper.e == 9:\n            os._exit(7)\n        w, b = task.params",
    }.items():
        assert old in text
        text = text.replace(old, new)
    for name in ("ONE", "TWO"):
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
    settings = SETTINGS.model_copy(update={"trainers_path": tmp_path})
    cells = [
        cell(seed, trainer=name, epochs=epochs)
        for seed, (name, epochs) in enumerate([("ONE", 1), ("ONE", 1), ("TWO", 9), ("TWO", 1)])
    ]
    outcomes = {each.seed: outcome for each, outcome in LocalEngine(settings, 1).run(cells)}
    reasons = {seed: outcome.reason for seed, outcome in outcomes.items()}
    assert reasons == {0: "", 1: "", 2: "the process that trained it ended with code 7", 3: ""}
    processes = [outcomes[seed].data for seed in (0, 1, 3)]
    assert processes[0] == processes[1] != processes[2]


# Ray, or a stand-in for it.

SETUP = Setup(trainer="MNIST_3_7", nodes=3, rounds=2, together=2)
CELLS = [Cell(row="digits", column="agg1", seed=seed, setup=SETUP) for seed in range(4)]


class RayError(Exception):
    """As ray.exceptions has it."""


class StandIn:
    """Ray in this process: a task runs when its result is asked for."""

    def __init__(self, run: Callable[[str], str]) -> None:
        self.exceptions = SimpleNamespace(RayError=RayError)
        self.run, self.calls, self.cancelled = run, list[str](), list[int]()
        self.tasks: list[str] = []

    def is_initialized(self) -> bool:
        return False

    def init(self, **options: Any) -> None:
        self.calls.append(f"init {options.get('address') or options.get('num_cpus')}")

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


def seeds_of(text: str) -> list[int]:
    """The seeds of a request."""
    return [each["seed"] for each in json.loads(text.splitlines()[1])]


def made_up(text: str) -> str:
    """An outcome for each cell, without training."""
    return json.dumps([{"rounds": seed + 1} for seed in seeds_of(text)])


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn(made_up)
    monkeypatch.setitem(sys.modules, "ray", stand_in)
    return stand_in


def test_ray_runs_a_task_for_each_batch(ray: StandIn) -> None:
    results = RayEngine(Settings(), workers=2).run(CELLS)
    assert {each.seed: outcome.rounds for each, outcome in results} == {0: 1, 1: 2, 2: 3, 3: 4}
    assert len(ray.tasks) == len(batches(CELLS)) == 2
    assert (ray.calls, ray.cancelled) == (["init 2", "shutdown"], [])


def test_a_task_of_ray_gets_only_what_another_machine_needs(ray: StandIn) -> None:
    list(RayEngine(Settings(compute_threads=3), "10.0.0.1:6379").run(CELLS[:1]))
    settings, cells = ray.tasks[0].splitlines()
    assert set(json.loads(settings)) == {"datasets_path", "trainers_path", "compute_threads", "device"}
    assert [Cell.model_validate(each) for each in json.loads(cells)] == CELLS[:1]
    assert ray.calls[0] == "init 10.0.0.1:6379"


def test_the_cells_of_a_failed_task_have_its_reason(ray: StandIn) -> None:
    def fails(text: str) -> str:
        if 0 in seeds_of(text):
            raise RayError("the worker died\nand more")
        return made_up(text)

    ray.run = fails
    reasons = {each.seed: outcome.reason for each, outcome in RayEngine(Settings()).run(CELLS)}
    failed = "its task of Ray failed: the worker died"
    assert reasons == {0: failed, 1: failed, 2: "", 3: ""}


def test_closing_the_iterator_cancels_the_tasks_of_ray(ray: StandIn) -> None:
    results = RayEngine(Settings()).run(CELLS)
    next(results)
    results.close()
    assert (ray.cancelled, ray.calls[-1]) == ([0], "shutdown")


@pytest.mark.parametrize("error", [ConnectionError, Exception])
def test_a_cluster_that_does_not_exist_is_reported(
    error: type[Exception], ray: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(**_: Any) -> None:
        raise error("nobody there")

    monkeypatch.setattr(ray, "init", refuses)
    with pytest.raises(LocalError, match=r"10\.0\.0\.1.*nobody there"):
        list(RayEngine(Settings(), "10.0.0.1:6379").run(CELLS))
    assert ray.calls == ["shutdown"]  # of what was half started


def test_without_ray_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NotOffered, match=re.escape(install("ray"))):
        list(RayEngine(Settings()).run(CELLS))


def test_a_request_gives_the_same_numbers_elsewhere() -> None:
    replies = json.loads(run_batch(batch_request(CELLS[:2], Settings())))
    here = without_costs(run_together(CELLS[:2], Settings()))
    assert without_costs(map(Outcome.model_validate, replies)) == here
    assert not here[0].reason


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::Warning:ray")
def test_ray_gives_the_same_numbers() -> None:
    pytest.importorskip("ray", reason="Ray is not installed; pip install flnet[ray]")
    on_ray = numbers(RayEngine(Settings(), workers=2).run(CELLS))
    here: dict[str, Outcome] = {}
    for batch in batches(CELLS):
        here |= numbers(zip(batch, run_together(batch, Settings()), strict=True))
    assert on_ray == here
    assert all(not outcome.reason for outcome in here.values())
