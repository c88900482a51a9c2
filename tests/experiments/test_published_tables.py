"""The plans that flnet ships: their cells are those of their sources, and some results stay within bounds."""

from __future__ import annotations

import hashlib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from flnet.experiments.cells import Cell, Outcome
from flnet.experiments.plan import find_plan, shipped
from flnet.experiments.run import run_together
from flnet.labels.spaces import must_be_learnable, read_fields
from flnet.params.params import PeerId
from flnet.rounds.participation import Participation
from flnet.settings import Settings
from tests.trainers.mooc_files import write_data

KEYS = {  # the digest of the keys of all cells; a plan that changes has other numbers than those that are published
    **{"central-or-federated": "d8edee8d7e1b", "dropout": "f29a0f037259", "fedmt": "79985d10d7f1"},
    **{"fedmt-chest": "667c0d427e4b", "fedmt-cifar": "96298448264f", "fedmt-mnist": "2afec7855fb8"},
    **{"guard-5b": "2ad20b9105dc", "guard-ablation": "c8240c7233df", "guard-attacks": "f519a5992f33"},
    **{"guard-d5": "584873d539e3", "guard-robustness": "9774692b31fa", "guard-unlike": "281346acc06c"},
    **{"guard-unknown": "b1614f4c3bcc"},
    **{"heterogeneity": "187d65aecc2b", "k-means": "eb853d5660f6", "mlfedavg": "5dc8d5fe8ec8"},
    **{"mlfedavg-corrected": "98a169ca8d54", "thesis-annex-1": "fba0f63a3766"},
    **{"node-privacy": "c84141795823", "topologies": "6e8de178c5c3", "rounds-to-central": "206439f34901"},
    **{"fedmt-robust": "e934e88feac4"},
    **{"private-heads": "b12db79a8e57", "who-benefits": "bf9e939f32ba", "left-out": "d5b0437c02d8"},
}


@pytest.mark.parametrize("name", sorted(shipped()))
def test_every_plan_is_complete_and_stays_as_it_was_published(name: str) -> None:
    plan = find_plan(name)
    keys = "".join(sorted(cell.key for cell in plan.cells()))
    assert hashlib.sha256(keys.encode()).hexdigest()[:12] == KEYS[name]
    assert plan.id == name
    assert plan.source
    assert plan.words
    quick = plan.cells(quick=True)
    assert len(plan.cells()) >= len(quick) > 0
    assert all(cell.setup.rounds <= 2 for cell in quick)


# MLFedAvg.

SEEDS = {
    **{"scene": 30, "yeast": 30, "HumanPseAAC": 5, "20NG": 8, "tmc2007_500": 30, "slashdot": 5},
    **{"YahooEducation": 5, "mediamill": 30, "reutersK500": 5, "Corel5k": 31},
}
LABELS = {
    **{"scene": 6, "yeast": 14, "HumanPseAAC": 14, "20NG": 20, "tmc2007_500": 22, "slashdot": 22},
    **{"YahooEducation": 33, "mediamill": 101, "reutersK500": 103, "Corel5k": 374},
}


@pytest.mark.parametrize("name", ["mlfedavg", "mlfedavg-corrected"])
def test_mlfedavg_has_the_data_sets_seeds_and_means_of_the_thesis(name: str) -> None:
    plan = find_plan(name)
    cells = plan.cells()
    assert Counter(cell.row for cell in cells) == {row: 4 * count for row, count in SEEDS.items()}
    assert sum(SEEDS.values()) == 179
    assert len(plan.published) == 10 * 4 * 4
    published = {(value.row, value.column, value.measure): value.value.low for value in plan.published}
    assert published["scene", "agg0", "F1-CTG"] == 0.7520
    assert published["reutersK500", "agg2", "SA-CTG"] == 0.3292
    assert published["Corel5k", "alone", "SA-CTL"] == 0.1984
    assert {row.name: sum(row.says["options"]["deal"]) for row in plan.rows} == LABELS
    assert all(row.says["nodes"] == len(row.says["options"]["deal"]) for row in plan.rows)
    assert all(cell.setup.options["draws"] == "notebook" for cell in cells)
    assert [cell.seed for cell in cells if (cell.row, cell.column) == ("reutersK500", "agg0")] == [1, 2, 3, 4, 40]
    assert {cell.seed for cell in cells if cell.row == "Corel5k"} == set(range(31))


def test_a_missing_data_set_is_a_reason(tmp_path: Path) -> None:
    cell = next(cell for cell in find_plan("mlfedavg").cells() if cell.row == "HumanPseAAC")
    (outcome,) = run_together([cell], Settings(datasets_path=tmp_path))
    assert "ml_humanpseaac.npz" in outcome.reason


# FedMT.

FEDMT = ("fedmt", "fedmt-mnist", "fedmt-cifar", "fedmt-chest")
COUNTS = (10, 30, 36, 50, 72, 90, 108, 180, 200, 216, 540)  # of fine labels
NODES = {"fine alone": (1, 1), "coarse only": (5, 0), "all fine": (5, 5)}


@pytest.mark.parametrize("name", FEDMT)
def test_fedmt_has_four_nodes_with_coarse_labels(name: str) -> None:
    setups = {(cell.row, cell.column): cell.setup for cell in find_plan(name).cells()}
    for (_, column), setup in setups.items():
        labels = read_fields(setup.labels)
        must_be_learnable(labels)
        assert not labels.is_desired
        assert (setup.nodes, setup.fine) == NODES.get(column, (5, 1))
        assert labels.estimate == column.startswith("estimated")
        assert labels.rows in ((100_000,) if column == "all fine" else COUNTS)


# Drop-out.

PARTS = {"C = 2 %": (1, 1), "C = 13 %": (7, 6), "C = 25 %": (14, 11), "C = 50 %": (27, 20), "C = 100 %": (54, 39)}


@pytest.mark.parametrize("column", PARTS)
def test_as_many_schools_train_in_a_round_as_the_column_says(column: str) -> None:
    def participants(cell: Cell) -> int:
        setup = cell.setup
        choice = Participation(setup.participation, setup.min_participants).choice_of(
            [PeerId(f"n{number}") for number in range(setup.nodes)]
        )
        return choice.take if choice else setup.nodes

    schools, courses = PARTS[column]
    cells = [cell for cell in find_plan("dropout").cells(1) if cell.column == column]
    assert {cell.setup.nodes: participants(cell) for cell in cells} == {54: schools, 39: courses}


def test_fourteen_schools_train_until_they_are_as_good_as_twenty_central_passes() -> None:
    plan = find_plan("rounds-to-central")
    assert [(value.row.rpartition(", ")[2], value.value.low) for value in plan.published] == [
        ("E = 2", 16),
        ("E = 10", 6),
    ]
    setups = {(cell.row, cell.column): cell.setup for cell in plan.cells()}
    for (_, column), setup in setups.items():
        passes = setup.rounds * (setup.epochs or 0)
        assert (passes == 20) if column == "central" else passes >= 80
        choice = Participation(setup.participation).choice_of([PeerId(f"n{number}") for number in range(54)])
        assert column == "central" or (choice is not None and choice.take == 14)


def test_schools_that_are_courses_learn_together(tmp_path: Path) -> None:
    """Five courses of made-up enrolments and five rounds; a model that always says "drops out" has 0.78."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    write_data(tmp_path, rows=1500)
    cells = [cell for cell in find_plan("dropout").cells(1) if cell.row.startswith("39 courses")]
    setup = next(cell.setup for cell in cells if cell.column == "C = 100 %")
    small = {"nodes": 5, "rounds": 5, "epochs": 4, "options": {"rows": 1500}}
    cell = cells[0].model_copy(update={"setup": setup.model_copy(update=small)})
    (outcome,) = run_together([cell], Settings(datasets_path=tmp_path))
    assert not outcome.reason
    (accuracy,) = set(outcome.figures["after.official_accuracy"])  # all nodes have the same average
    assert accuracy is not None
    assert accuracy > 0.82
    assert sum(rows or 0 for rows in outcome.examples) == pytest.approx(1350, abs=5)  # nine tenths of the rows


# Hostile nodes and different data.


@cache
def consistency_against(attack: str) -> Outcome:
    """The first seed of a row of "guard-attacks", with weights by consistency."""
    cells = find_plan("guard-attacks").cells(1)
    chosen = [cell for cell in cells if (cell.row, cell.column) == (attack, "consistency")]
    return run_together(chosen, Settings(compute_threads=1))[0]


@pytest.mark.long
@pytest.mark.parametrize(
    ("attack", "figure", "most"),
    [("sign-flip:5", "hostile_weight", 0.02), ("label-flip", "", 0.0), ("backdoor", "backdoor_success", 0.1)],
)
def test_weights_by_consistency_keep_these_bounds(attack: str, figure: str, most: float) -> None:
    def value(row: str, name: str) -> float:
        number = consistency_against(row).value(f"after.{name}")
        assert number is not None, consistency_against(row).reason
        return number

    assert value("no attack", "global_accuracy") - value(attack, "global_accuracy") <= 0.01
    assert not figure or value(attack, figure) < most
