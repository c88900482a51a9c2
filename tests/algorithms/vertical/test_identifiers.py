"""Ids by one rule: what is equal, what is refused, and that refusals count rows and never name one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.algorithms.vertical.identifiers import RULE, RULE_IN_WORDS, Column, normalised, normalised_column
from flnet.errors import AlignmentRefused

NAN = float("nan")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (7, "7"),
        (7.0, "7"),
        ("7", "7"),
        (" 7 ", "7"),
        ("7.00", "7"),
        (0.0, "0"),
        (-0.0, "0"),
        (-12, "-12"),
        ("-12.0", "-12"),
        ("007", "007"),  # text with leading zeros is another id
        ("007.0", "007.0"),
        ("7.5", "7.5"),
        ("7.", "7."),
        (".0", ".0"),
        ("+7", "+7"),
        ("1e3", "1e3"),
        ("\u0667", "\u0667"),  # a seven in Arabic: no ASCII digit
        (10**30, "1" + "0" * 30),
        ("  María\t", "maría"),
        ("Mari\u0301a", "mar\u00eda"),  # decomposed and composed
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("\ufeffid-1\u200b\u00a0", "id-1"),
        ("Ana  Pérez", "ana  pérez"),  # spaces within count
        ("   ", ""),
    ],
)
def test_one_id_has_one_form(written: str | float, expected: str) -> None:
    assert normalised(written) == expected


def test_marks_in_any_order_are_one_id() -> None:
    """The iota below becomes a letter when case is folded, so marks have to be in order before."""
    assert normalised("\u03b1\u0345\u0301") == normalised("\u03b1\u0301\u0345") == normalised("\u1fb4")


@given(st.text())
def test_the_form_of_a_form_is_itself(value: str) -> None:
    assert normalised(normalised(value)) == normalised(value)


@given(st.integers(-(2**53) + 1, 2**53 - 1))
def test_a_whole_number_is_one_id_however_it_is_written(number: int) -> None:
    forms: list[Any] = [number, float(number), str(number), f" {number}.0", np.int64(number), np.float64(number)]
    assert {normalised(form) for form in forms} == {str(number)}


@pytest.mark.parametrize("value", [7.5, NAN, math.inf])
def test_a_number_that_is_not_whole_has_no_form(value: float) -> None:
    with pytest.raises(ValueError, match="value="):
        normalised(value)


@pytest.mark.parametrize(
    "column",
    [
        [3, 1, 2],
        (3.0, 1.0, 2.0),
        ["3", "1.0", " 2"],
        np.array([3, 1, 2], np.int16),
        np.array([3, 1, 2], np.float32),
        np.array(["3", "1", "2"]),
        np.array([3, np.int8(1), 2.0], object),
        np.ma.array([3, 1, 2], mask=False),
    ],
)
def test_columns_of_every_type_give_the_same_ids_in_the_order_of_rows(column: Column) -> None:
    assert normalised_column(column) == ["3", "1", "2"]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ([], "no rows"),
        (np.zeros((2, 2)), "2 dimensions"),
        (["a", None, "", " \ufeff"], "3 of 4 ids are missing or empty"),
        ([1.0, NAN], "1 of 2 ids are missing"),
        (np.ma.array([1, 2, 3], mask=[False, True, True]), "2 of 3 ids are missing"),
        (["a", 1, 2.0], "1 are text and 2 numbers"),
        ([True, b"x", "c", 1j], "3 of 4 ids are neither text nor numbers"),
        (np.array(["2020-01-01"], "datetime64[D]"), "1 of 1 ids are neither"),
        ([1, 2.5, math.inf], "2 of 2 ids are not whole"),
        ([1.0, 2.0**53], "1 of 2 ids are not whole, or too large to be exact"),
        (np.array([1, 2**24], np.float32), "1 of 2 ids are not whole, or too large to be exact"),
        (["a", "\ud800"], "1 of 2 ids contain characters that are not valid"),
        (["7", " 7", "7.0", "8"], "2 of 4 ids repeat the id of an earlier row"),
        ([7, 7.0], "1 of 2 ids repeat"),
    ],
)
def test_a_wrong_column_is_refused_with_the_number_of_rows(column: Column, words: str) -> None:
    with pytest.raises(AlignmentRefused, match=words):
        normalised_column(column)


def test_a_refusal_does_not_name_an_id() -> None:
    for column in (
        ["secret-1", "SECRET-1"],
        ["secret-1", None],
        ["secret-1", 4711],
        ["secret-1", "secret-\udfff"],
    ):
        with pytest.raises(AlignmentRefused) as refused:
            normalised_column(column)
        assert "secret" not in refused.value.message.casefold()
        assert "4711" not in refused.value.message


def test_large_whole_numbers_are_exact_as_integers() -> None:
    assert normalised_column([2**53, 2**53 + 1, 2**64]) == [
        "9007199254740992",
        "9007199254740993",
        "18446744073709551616",
    ]


def test_the_rule_has_a_name_and_words() -> None:
    assert RULE == "flnet-ids-1", "a changed rule needs another name, so that nodes with different rules refuse"
    assert "007" in RULE_IN_WORDS
