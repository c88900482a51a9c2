"""What was finished is kept, whatever came in between, and what gave no numbers is tried again."""

from __future__ import annotations

from pathlib import Path

import pytest

from flnet.errors import LocalError
from flnet.experiments.base import Cell, Outcome, Setup
from flnet.experiments.results import FILE, Results

DONE = Outcome(rounds=1, figures={"after.accuracy": (0.1 + 0.2, None)}, seconds=1.5)


def cells(count: int = 3) -> list[Cell]:
    return [Cell(row="r", column="c", seed=seed, setup=Setup(trainer="MNIST")) for seed in range(count)]


def test_finished_cells_are_found_again(tmp_path: Path) -> None:
    one, two, three = cells()
    first = Results(tmp_path / "new" / "folder")
    assert first.missing([one, one, two]) == [one, two]
    first.add([(one, DONE), (two, Outcome(reason="no data"))])
    again = Results(tmp_path / "new" / "folder")
    assert again.get(one) == DONE  # to the last bit
    assert again.get(two) == Outcome(reason="no data")
    assert again.get(three) is None
    assert again.missing([one, two, three]) == [two, three]


def test_the_last_word_on_a_cell_counts(tmp_path: Path) -> None:
    (one,) = cells(1)
    results = Results(tmp_path)
    results.add([(one, Outcome(reason="no data"))])
    results.add([(one, DONE)])
    assert Results(tmp_path).get(one) == results.get(one) == DONE
    assert len(results) == 1


def test_a_torn_line_is_passed_over_and_spoils_no_other(tmp_path: Path) -> None:
    one, two, three = cells()
    Results(tmp_path).add([(one, DONE), (two, DONE)])
    path = tmp_path / FILE
    whole = path.read_bytes()
    for cut in (1, 20, 200):
        path.write_bytes(whole[:-cut])
        results = Results(tmp_path)
        left = [two] if cut > 1 else []  # the end of the line alone is no loss
        assert results.missing([one, two]) == left
        results.add([(three, DONE)])
        assert Results(tmp_path).missing([one, two, three]) == left


def test_lines_of_an_older_flnet_do_not_count(tmp_path: Path) -> None:
    (one,) = cells(1)
    Results(tmp_path).add([(one, DONE)])
    path = tmp_path / FILE
    path.write_text(path.read_text("utf-8").replace(one.key, "0" * 64), "utf-8")
    assert Results(tmp_path).missing([one]) == [one]


def test_a_folder_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(LocalError, match="results cannot be kept"):
        Results(tmp_path / "file" / "folder")
