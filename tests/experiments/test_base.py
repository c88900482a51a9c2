"""Cells are known by what decides their numbers; outcomes give a number, or the reason why there is none."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from flnet.experiments.base import Cell, Outcome, Setup, batches
from flnet.training.method import Method


def cell(seed: int = 0, row: str = "r", **says: object) -> Cell:
    return Cell(row=row, column="c", seed=seed, setup=Setup.model_validate({"trainer": "MNIST", **says}))


def test_a_key_says_what_decides_the_numbers_and_nothing_else() -> None:
    assert cell().key == cell(row="another place").key
    assert cell().key == cell(together=8, needs=("mnist",)).key
    assert cell().key == cell(nodes=10).key  # as many as there are anyway
    assert len({cell().key, cell(1).key, cell(nodes=9).key, cell(options={"noise": "none"}).key}) == 4


def test_what_decides_nothing_for_its_kind_is_no_part_of_a_key() -> None:
    among: dict[str, Any] = {"aggregation": "agg0", "participation": 0.5, "exchange": True}
    parts: dict[str, Any] = {"nodes": 4, "partition": "dirichlet:0.1"}
    assert cell(kind="lone", **among).key == cell(kind="lone").key
    assert cell(kind="lone", **parts).key != cell(kind="lone").key
    assert cell(kind="central", **among, **parts).key == cell(kind="central").key
    assert len({cell(**among).key, cell(**parts).key, cell(kind="lone").key, cell(kind="central").key}) == 4


def test_a_cell_goes_through_json() -> None:
    one = cell(3, options={"deal": [3, 3]}, until="accuracy>=0.9", curves=("after.f1_macro",))
    again = Cell.model_validate_json(one.model_dump_json())
    assert again == one
    assert again.key == one.key


@pytest.mark.parametrize(
    "wrong",
    [
        {"trainer": "../MNIST"},
        {"nodes": 0},
        {"partition": "dirichlet"},
        {"partition": "pathological:2.5"},
        {"until": "it is good"},
        {"aggregation": "agg3"},
        {"rate": float("nan")},
        {"participation": 0},
        {"attack": "bribe"},
        {"hostile": -1},
        {"personal_model": "mine"},
        {"options_file": "../a.toml"},
        {"unknown": 1},
    ],
)
def test_a_wrong_setup_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Setup.model_validate({"trainer": "MNIST", **wrong})


def test_a_value_is_made_of_the_nodes_that_have_it() -> None:
    outcome = Outcome(rounds=3, figures={"after.accuracy": (0.5, None, 0.75)}, bytes=12)
    assert outcome.value("after.accuracy") == 0.625
    assert outcome.value("after.accuracy", "min") == 0.5
    assert outcome.value("after.accuracy", "max") == 0.75
    assert outcome.value("bytes") == 12
    assert outcome.value("after.loss") is None
    assert Outcome(reason="no data", bytes=12).value("bytes") is None


def test_a_course_is_the_mean_round_by_round() -> None:
    curves = {"after.accuracy": ((0.5, None, 0.25), (1.0, None, None))}
    assert Outcome(rounds=3, curves=curves).course("after.accuracy") == [0.75, 0.25]
    assert Outcome().course("after.accuracy") == []


def test_seeds_of_one_setup_are_trained_together() -> None:
    three = [cell(seed, together=2) for seed in (0, 1, 2)]
    assert batches(three) == [(three[0], three[1]), (three[2],)]
    assert batches(three[1:]) == [(three[1],), (three[2],)]  # whatever is done already: seeds keep their group
    assert batches([cell(0), cell(1)]) == [(cell(0),), (cell(1),)]
    mixed = [cell(0, together=2), cell(0, together=2, nodes=3), cell(1, together=2)]
    assert batches(mixed) == [(mixed[0], mixed[2]), (mixed[1],)]


def test_keys_stay_what_they_were_so_that_finished_cells_are_found() -> None:
    options: dict[str, Any] = {"options_file": "multi_label.toml", "options": {"deal": [4, 3]}}
    one = cell(
        3, trainer="MULTI_LABEL", nodes=4, until="mlfedavg cumulative", partition="dirichlet:0.30", **options
    )
    assert one.key == "9fdbabfbc96f397499889d0dc767ec8c1a94694bfb88b443f36a7944c156e607"


def test_a_setup_says_what_is_done_around_trainings() -> None:
    plain, other = cell().setup, cell(local_training="proximal:0.1", personal_model="increment:2").setup
    assert plain.method == Method()
    assert other.method == Method("proximal:0.1", "increment:2")
    assert len({cell().key, cell(attack="sign-flip", hostile=1).key, cell(hostile=1).key}) == 3
    assert cell(kind="lone", attack="sign-flip", hostile=1).key == cell(kind="lone").key


def test_where_there_is_one_model_it_is_the_one_that_answers() -> None:
    one = Outcome(figures={"after.accuracy": (0.5, 0.7)})
    two = Outcome(figures={"after.accuracy": (0.5, 0.7), "after.answered_accuracy": (0.8, None)})
    assert one.value("after.answered_accuracy") == pytest.approx(0.6)
    assert two.value("after.answered_accuracy") == 0.8
