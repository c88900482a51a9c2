"""The measurement in `tests.aggregation.weight_flips` gives the numbers of `flnet experiment`, and counts rightly."""

from __future__ import annotations

from pathlib import Path

import pytest

from flnet.algorithms.registry import parse_rule
from flnet.experiments.learners import learners_of, trainer_file
from flnet.experiments.run import run_together
from tests.aggregation.test_buffers import attacked
from tests.aggregation.weight_flips import (
    ATTACKS,
    MEAN,
    NODES,
    ROUNDS,
    RULES,
    Judged,
    Row,
    SharedWork,
    cell_of,
    kept,
    margins,
    measured,
    run,
    table,
    wanted,
)
from tests.experiments.cells import SETTINGS

ALONE = {"seconds": 0.0, "processor_seconds": 0.0, "machine": ""}


@pytest.mark.long
def test_shared_trainings_change_no_number(tmp_path: Path) -> None:
    pairs = [("krum:1", ATTACKS[0]), ("krum:1", ATTACKS[1]), ("cosine,agg1", ATTACKS[0]), (MEAN, ATTACKS[1])]
    cells = [cell_of("TINY", 3, *pair) for pair in pairs]
    learners, work = learners_of(cells[0], trainer_file("TINY", SETTINGS), SETTINGS, tmp_path), SharedWork()
    for cell in cells:
        _, outcome = measured(cell, learners, work)
        (expected,) = run_together([cell], SETTINGS)
        assert outcome.model_copy(update=ALONE) == expected.model_copy(update=ALONE), cell
    done = work.trainings
    assert done < len(cells) * NODES * ROUNDS
    measured(cell_of("TINY", 3, "krum:1", "weight-flip:7"), learners, work)
    assert work.trainings == done  # the factor changes nothing where the attacker is left out


def test_a_row_has_the_weights_and_what_the_rule_judged_by(tmp_path: Path) -> None:
    learners = learners_of(cell_of("TINY", 0, MEAN, ""), trainer_file("TINY", SETTINGS), SETTINGS, tmp_path)
    rows = {
        rule: measured(cell_of("TINY", 0, rule, "weight-flip"), learners, SharedWork())[0]
        for rule in (*RULES, MEAN)
    }
    assert rows[MEAN].weights == (pytest.approx(1 / NODES),) * ROUNDS
    assert rows[MEAN].left_out == (0,) * ROUNDS
    assert rows[MEAN].attacker == ()
    assert rows["krum:1"].left_out == (NODES - 2,) * ROUNDS  # all but the attacker and the chosen one
    for rule in RULES:
        row = rows[rule]
        assert row.weights == (0,) * ROUNDS
        for attacker, lowest, highest in zip(row.attacker, row.lowest, row.highest, strict=True):
            assert attacker <= 0 < lowest if "cosine" in rule else attacker > highest


@pytest.mark.parametrize("rule", ["krum:1", "cosine,agg1"])
def test_who_is_blind_for_buffers_judges_by_them_and_the_rule_does_not(rule: str) -> None:
    start, updates = attacked(1.0)
    seen, blind = Judged({}), Judged({}, is_blind=True)
    averages = [judged.watching(parse_rule(rule)).merge(None, start, updates) for judged in (seen, blind)]
    assert averages[0].params.digest == averages[1].params.digest
    far, near = (judged.by_round[start.number][updates[-1].peer] for judged in (seen, blind))
    assert far < 0 < near if "cosine" in rule else near > 1_000 * far  # its buffers are honest, and long


def test_a_run_goes_on_where_it_was_ended(tmp_path: Path) -> None:
    path, cells = tmp_path / "rows.jsonl", wanted("TINY", 2, 1)
    assert len(cells) == 2 * 6 + 3
    run(cells[:7], SETTINGS, path)
    first = path.read_text()
    run(cells, SETTINGS, path)
    assert path.read_text().startswith(first)
    assert len(path.read_text().splitlines()) == len(kept(path)) == len(cells)


def row(*weights: float, **fields: object) -> Row:
    shown = {"rule": "multi-krum:1", "attack": "weight-flip:1", "left_out": (1, 0, 0, 0), "accuracy": 0.5}
    judged = {"attacker": (6.0, 4, 4, 2), "lowest": (1.0,) * 4, "highest": (3.0, 2, 1, 4)}
    return Row.model_validate({"trainer": "T", "seed": 0, "weights": weights, **shown, **judged, **fields})


def test_a_seed_passes_if_the_attacker_counts_in_no_round() -> None:
    rows = [row(0, 0, 0, 0), row(0, 0, 0, 0.1, accuracy=0.3), row(0.1, 0, 0.1, 0, accuracy=0.4)]
    line = table(rows, "multi-krum:1", "weight-flip:1")
    assert line == "| `multi-krum:1` | weight-flip:1 | 1 of 3 | 3 of 12 | 3 of 84 | 0.4000 ± 0.0816 |"


def test_margins_are_those_of_the_seed_in_which_the_attacker_came_nearest() -> None:
    rows = [row(0, 0, 0, 0), row(0, 0, 0, 0, attacker=(3.0, 8, 8, 8))]
    assert margins(rows, "multi-krum:1", "a") == "| `multi-krum:1` | a | 1.00 | 2.00 | 4.00 | 0.50 |"
    angles = [row(0, 0, 0, 0, attacker=(at, -0.5, -0.5, -0.5), lowest=(0.2, at, 0.3, 0.3)) for at in (-0.5, -0.25)]
    line = margins(angles, "cosine,agg1", "a")
    assert line == "| `cosine,agg1` | a | -0.25, +0.20 | -0.50, -0.50 | -0.50, +0.30 | -0.50, +0.30 |"
