"""Cells whose nodes label differently: who trains when, with which labels, and what sits out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flnet.experiments.base import Outcome, Setup
from flnet.experiments.driving import run_together
from flnet.experiments.learners import learners_of, trainer_file
from flnet.experiments.plan import find_plan
from flnet.labels import must_be_learnable, read_fields
from flnet.settings import Settings
from tests.experiments.cells import cell

PAIRS = {"01": ["0", "1"], "23": ["2", "3"], "45": ["4", "5"], "67": ["6", "7"], "89": ["8", "9"]}
DESIRED = {"id": "digits", "classes": [str(digit) for digit in range(10)]}
LABELS = {"id": "pairs", "classes": list(PAIRS), "desired": DESIRED, "mapping": PAIRS, "rows": 50}
NAME = "after.global_accuracy"
COUNTS = (10, 30, 36, 50, 72, 90, 108, 180, 200, 216, 540)  # of fine labels


def digits(**says: Any) -> Any:
    return cell(
        trainer="SMALL_DIGITS", nodes=5, rate=0.01, batch=16, **{"labels": LABELS, "curves": (NAME,), **says}
    )


def outcome(**says: Any) -> Outcome:
    (found,) = run_together([digits(**says)], Settings())
    assert found.reason == ""
    return found


def test_one_node_has_few_labels_of_the_desired_space_and_all_others_have_coarse_ones(tmp_path: Path) -> None:
    learners = learners_of(digits(), trainer_file("SMALL_DIGITS", Settings()), Settings(), tmp_path)
    turns = [one.declaration.turn for one in learners]
    assert [turn is not None and turn.is_desired for turn in turns] == [True, False, False, False, False]
    assert len({tuple(sorted(one.declaration.agreement.items())) for one in learners}) == 1


def test_nodes_take_turns_and_learn_from_each_other() -> None:
    found = outcome(rounds=40)
    assert found.figures["before.global_accuracy"][0] is None  # the last round was for the others
    assert None not in found.figures["before.global_accuracy"][1:]
    (last,) = set(found.figures[NAME])
    assert last is not None
    assert last > 0.85


def test_a_trainer_that_sits_out_is_no_failure() -> None:
    labels = {**LABELS, "estimate": True, "schedule": "parallel"}
    found = outcome(rounds=2, labels=labels)
    assert found.rounds == 2
    assert found.figures["before.global_accuracy"][1:] == (None,) * 4


def test_labels_that_say_nothing_usable_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Extra inputs|not permitted|unknown"):
        Setup(trainer="SMALL_DIGITS", labels={**LABELS, "stepps": 3})


def test_the_tables_of_fedmt_have_four_nodes_with_coarse_labels() -> None:
    for name in ("fedmt", "fedmt-mnist", "fedmt-cifar", "fedmt-chest"):
        setups = {(one.row, one.column): one.setup for one in find_plan(name).cells()}
        for (_, column), setup in setups.items():
            said = read_fields(setup.labels)
            must_be_learnable(said)
            assert not said.is_desired
            assert (setup.nodes, setup.fine) == {
                "fine alone": (1, 1),
                "coarse only": (5, 0),
                "all fine": (5, 5),
            }.get(column, (5, 1))
            assert said.estimate == column.startswith("estimated")
            assert (said.rows or 0) in (100_000,) if column == "all fine" else said.rows in COUNTS


def test_without_fedmt_heads_differ_or_coarse_labels_come_first() -> None:
    heads = outcome(rounds=4, labels={**LABELS, "heads": "private"})
    assert len(set(heads.figures[NAME])) == 5  # each node has a model of its own
    first = outcome(rounds=4, labels={**LABELS, "schedule": "coarse-first", "turning": 3})
    assert first.figures["before.global_accuracy"][1:] == (None,) * 4  # the last round is for the fine node
    assert first.figures["before.global_accuracy"][0] is not None
