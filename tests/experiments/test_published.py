"""The file of published values, and how a table quotes from it."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import SettingsError
from flnet.experiments.plan import find_plan, read_plan, shipped
from flnet.experiments.published import RANK_TEST, WORKS, Quotation, Value, published_lines, published_tests
from tests.experiments.cells import TABLE


@pytest.mark.parametrize(
    ("given_value", "low", "high", "ends"),
    [
        (0.5, 0.5, 0.5, (0.5,)),
        (1, 1, 1, (1,)),
        ("0.7520", 0.752, 0.752, (0.752,)),
        ("7.65e-11", 7.65e-11, 7.65e-11, (7.65e-11,)),
        ("> 0.96", 0.96, inf, (0.96,)),
        ("< 2", -inf, 2, (2,)),
        ("0.98 to 0.99", 0.98, 0.99, (0.98, 0.99)),
    ],
)
def test_a_value_is_a_number_a_bound_or_a_range(
    given_value: object, low: float, high: float, ends: tuple[float, ...]
) -> None:
    value = Value.of(given_value)
    assert (value.low, value.high, value.ends) == (low, high, ends)
    assert value.printed == str(given_value)
    assert Value.of(value) is value
    assert value.is_number == (low == high)
    assert value.is_bound == (inf in (-low, high))


@pytest.mark.parametrize("wrong", ["", "about 0.9", ">0.96", "0.9 to 0.8", "nan", True, None])
def test_other_texts_are_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        Value.of(wrong)


@given(st.floats(-2, 2), st.floats(-2, 2), st.floats(-2, 2))
def test_differences_are_to_the_nearest_end(first: float, second: float, number: float) -> None:
    low, high = sorted((first, second))
    assert Value(low, low, "").difference(number) == number - low
    distance = Value(low, high, "").difference(number)
    assert distance == (number - low if number < low else number - high if number > high else 0)
    assert Value(low, inf, "").difference(number) == min(0, number - low)


# The file.


def test_no_value_is_there_twice_and_each_has_a_place() -> None:
    lines = published_lines()
    assert len(lines) > 300
    keys = [(line.work, line.row, line.column, line.measure) for line in lines]
    assert len(set(keys)) == len(keys)
    assert {line.work for line in lines} <= set(WORKS)
    assert all(line.place and line.place == line.place.strip() for line in lines)


def test_tables_quote_from_the_file_alone() -> None:
    """No shipped table has a value of its own, and each quoted one is that of the file."""
    known = {(line.work, line.value.printed, line.measure) for line in published_lines()}
    for name, path in shipped().items():
        assert "value =" not in path.read_text("utf-8").split("[base]")[0], name
        plan = find_plan(name)
        works = {work for work in WORKS if f'work = "{work}"' in path.read_text("utf-8")}
        assert bool(plan.published) == bool(works), name
        for value in plan.published:  # "local, local model" has the "local" of another column of the source
            names = {value.measure, value.measure.partition(", ")[0]}
            assert any((w, value.value.printed, name) in known for w in works for name in names), value


def test_a_table_takes_the_rows_that_it_has(tmp_path: Path) -> None:
    quotation = Quotation(work="delgado2024")
    (cell,) = quotation.cells(["scene"], ["agg0", "mine"], ["F1-CTG", "bytes"])
    assert (cell.row, cell.column, cell.value.low, cell.seeds) == ("scene", "agg0", 0.752, 30)
    moved = Quotation(
        work="tornaria2024", of_row="5 schools a round", row="five", of_column="10 rounds", column="ten"
    )
    (cell,) = moved.cells(["five"], ["ten"], ["pair Jaccard"])
    assert (cell.row, cell.column, cell.value.printed) == ("five", "ten", "> 0.96")
    several = Quotation(
        work="delgado2024",
        of_row="scene",
        row=("first", "second", "third"),
        of_column="agg0",
        column="mine",
        of_measure="F1-CTG",
        measure="F1",
    )
    cells = several.cells(["first", "second"], ["mine"], ["F1", "F1-CTG"])
    assert [(cell.row, cell.column, cell.measure, cell.value.low) for cell in cells] == [
        ("first", "mine", "F1", 0.752),
        ("second", "mine", "F1", 0.752),
    ]
    with pytest.raises(SettingsError, match="delgado2024 has no published value for a row"):
        quotation.cells(["scene"], ["mine"], ["F1-CTG"])
    path = tmp_path / "own.toml"
    for work, words in (("nobody", "no published values of 'nobody'"), ("garcia2021", "has no published value")):
        path.write_text(TABLE.replace("[base]", f'[[published]]\nwork = "{work}"\n[base]'), "utf-8")
        with pytest.raises(SettingsError, match=words):
            read_plan(path)


def test_rank_tests_are_read_whole() -> None:
    tests = {(test.measure, len(test.columns)): test for test in published_tests(["delgado2024", "garcia2021"])}
    assert len(tests) == 8
    assert tests["F1-CTG", 3].ranks == (1.8128, 2.1536, 2.0335)
    assert tests["F1-CTG", 2].printed_p == 7.65e-11
    assert tests["SA-CTL", 2].printed_p is None
    lines = [line for line in published_lines() if line.row == RANK_TEST]
    assert len(lines) == sum(2 + len(test.ranks) + (test.printed_p is not None) for test in tests.values())
