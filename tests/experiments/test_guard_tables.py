"""The tables on hostile and unlike nodes: what is in them, and the bounds that weights by consistency keep."""

from __future__ import annotations

from functools import cache

import pytest

from flnet.experiments.attacks import DEFAULTS, Attack
from flnet.experiments.base import Cell, Outcome
from flnet.experiments.driving import run_together
from flnet.experiments.plan import find_plan
from flnet.settings import Settings

RULE = "consistency"


@cache
def outcome(attack: str) -> Outcome:
    """Of the first seed, under weights by consistency."""
    cells = [cell for cell in find_plan("guard-attacks").cells(1) if (cell.row, cell.column) == (attack, RULE)]
    return run_together(cells, Settings(compute_threads=1))[0]


def figure(attack: str, name: str) -> float:
    found = outcome(attack).value(f"after.{name}")
    assert found is not None, outcome(attack).reason
    return found


def named(cell: Cell) -> str:
    return Attack.parse(cell.setup.attack).name if cell.setup.attack else ""


@pytest.mark.parametrize("table", ["guard-attacks", "guard-robustness"])
def test_every_attack_is_tried_against_every_rule(table: str) -> None:
    cells = find_plan(table).cells(1)
    for column in {cell.column for cell in cells}:
        assert {named(cell) for cell in cells if cell.column == column} == {"", *DEFAULTS}


def test_up_to_four_of_ten_are_hostile_with_alike_and_with_unlike_data() -> None:
    setups = [cell.setup for cell in find_plan("guard-robustness").cells(1)]
    assert {(setup.partition, setup.hostile) for setup in setups} == {
        (deal, hostile) for deal in ("iid", "dirichlet:0.3") for hostile in range(5)
    }
    assert {setup.nodes for setup in setups} == {10}


def test_all_rules_have_the_same_unlike_deals_without_attackers() -> None:
    cells = find_plan("guard-unlike").cells()
    assert {cell.setup.attack for cell in cells} == {""}
    assert {(cell.setup.partition, cell.seed) for cell in cells} == {("dirichlet:0.3", seed) for seed in range(5)}
    assert {"agg1", "consistency", "consistency:rows"} <= {cell.setup.aggregation for cell in cells}


def test_methods_are_compared_with_the_published_figures_of_the_same_scenario() -> None:
    plan = find_plan("guard-5b")
    methods = {cell.column: cell.setup.method for cell in plan.cells(1)}
    assert [(name, method.kind) for name, method in methods.items() if method.kind != "none"] == [
        ("APFL", "apfl"),
        ("FLProtector", "increment"),
    ]
    assert methods["SCAFFOLD"].controls and methods["FedProx"].mu == 0.01
    at = {(one.column, one.measure): one.value for one in plan.published}
    assert len(at) == 2 * len(methods)
    assert at["FLProtector", "global"] - at["APFL", "global"] == pytest.approx(0.154)


@pytest.mark.slow
def test_a_flip_of_five_times_is_left_out_and_costs_no_point() -> None:
    assert figure("no attack", "global_accuracy") - figure("sign-flip:5", "global_accuracy") <= 0.01
    assert figure("sign-flip:5", "hostile_weight") < 0.02


@pytest.mark.slow
def test_random_labels_cost_no_point() -> None:
    assert figure("no attack", "global_accuracy") - figure("label-flip", "global_accuracy") <= 0.01


@pytest.mark.slow
def test_a_backdoor_opens_less_than_one_in_ten() -> None:
    assert figure("backdoor", "backdoor_success") < 0.1
    assert figure("no attack", "global_accuracy") - figure("backdoor", "global_accuracy") <= 0.01
