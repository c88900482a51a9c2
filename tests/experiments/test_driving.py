"""Cells that are trained together give what each gives alone; one that fails takes no other with it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from flnet.experiments.base import Cell, Outcome
from flnet.experiments.driving import machine, run_together
from tests.experiments.cells import TOLD, cell


def plain(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Without what differs from run to run."""
    return [outcome.model_copy(update={"seconds": 0.0, "processor_seconds": 0.0}) for outcome in outcomes]


def run(*cells: Cell) -> list[Outcome]:
    return plain(run_together(cells, TOLD))


def test_seeds_together_give_what_each_gives_alone() -> None:
    cells = [cell(seed) for seed in range(3)]
    assert run(*cells) == [found for one in cells for found in run(one)]


def test_meshes_of_unlike_length_run_together() -> None:
    one, two = run(cell(rounds=1), cell(rounds=4))
    assert (one.rounds, two.rounds) == (1, 4)


def test_data_are_named_by_their_folder_and_not_by_links_to_it(tmp_path: Path) -> None:
    told = TOLD.model_copy(update={"datasets_path": tmp_path})
    (outcome,) = run_together([cell(options_file="tiny.toml", options={"a": 1})], told)
    assert outcome.data == str(tmp_path)


def test_a_cell_that_fails_has_its_reason() -> None:
    without_data, whole = run(cell(901), cell(1))
    assert without_data.reason == "there are no points"
    assert whole.rounds == 3
    (unknown,) = run(cell(trainer="NONE"))
    assert unknown.reason.startswith("no trainer 'NONE'")


def test_progress_grows_to_the_end() -> None:
    told: list[float] = []
    run_together([cell(), cell(1)], TOLD, told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert len(set(told)) > 3


def test_outcomes_say_what_they_cost_and_where() -> None:
    (outcome,) = run_together([cell()], TOLD)
    assert outcome.seconds > 0
    assert outcome.processor_seconds > 0
    assert outcome.machine == machine()


@pytest.mark.slow
def test_the_nodes_own_trainers_learn() -> None:
    (outcome,) = run(cell(trainer="MNIST_3_7", nodes=2, rounds=2))
    assert outcome.reason == ""
    assert outcome.data
