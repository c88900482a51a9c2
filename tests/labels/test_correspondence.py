"""Correspondences: columns are distributions, and whatever is not says which class is at fault."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flnet.labels import MAX_CELLS, Correspondence, LabelSpace, from_weights, identity
from flnet.refusals import LabelsRefused
from tests.labels.spaces import COARSE, FINE, NESTED


def test_a_nested_space_from_a_table_without_weights() -> None:
    table = [("normal", "normal", 1.0), ("pneumonia", "bacterial", 1.0), ("pneumonia", "viral", 1.0)]
    made = from_weights(FINE, COARSE, table)
    assert made.matrix.tolist() == NESTED
    assert made.is_nested
    assert made == Correspondence(FINE, COARSE, NESTED)
    assert hash(made) == hash(Correspondence(FINE, COARSE, NESTED))


def test_an_overlapping_space_needs_weights() -> None:
    table = [("normal", "normal", 1.0), ("normal", "viral", 0.2), ("pneumonia", "viral", 0.8)]
    made = from_weights(FINE, COARSE, [*table, ("pneumonia", "bacterial", 1.0)])
    assert made.matrix.tolist() == [[1, 0, 0.2], [0, 1, 0.8]]
    assert not made.is_nested


def test_rounded_weights_are_made_to_add_up_exactly() -> None:
    thirds = LabelSpace("thirds", ("a", "b", "c"))
    made = Correspondence(LabelSpace("one", ("x",)), thirds, [[0.3333333], [0.3333333], [0.3333333]])
    assert made.matrix.sum() == pytest.approx(1, abs=1e-15)


def test_nobody_changes_the_matrix_afterwards() -> None:
    given_one = np.array(NESTED, np.float64)
    made = Correspondence(FINE, COARSE, given_one)
    given_one[:] = 7
    assert made.matrix.tolist() == NESTED
    with pytest.raises(ValueError, match="read-only"):
        made.matrix[0, 0] = 0


def test_a_class_in_which_nothing_lies_is_named() -> None:
    other = LabelSpace("with others", ("normal", "pneumonia", "other"))
    assert Correspondence(FINE, other, [*NESTED, [0, 0, 0]]).silent == ("other",)
    assert identity(FINE).silent == ()


@pytest.mark.parametrize(
    ("matrix", "fault"),
    [
        ([[1, 0, 0]], r"has shape \[1, 3\]; expected \[2, 3\], a row for each class of 'two' and a column for"),
        ([[1, 0], [0]], "a table of numbers, with rows of one length"),
        ([["x", 0, 0], [0, 1, 1]], "a table of numbers"),
        (None, "has shape"),
        ([[1, 0, -0.1], [0, 1, 1.1]], "the weight of 'viral' in 'normal' is -0.1; expected"),
        ([[1, 0, np.nan], [0, 1, 1]], "the weight of 'viral' in 'normal' is nan"),
        ([[1, 0, 0], [0, 1, np.inf]], "the weight of 'viral' in 'pneumonia' is inf"),
        ([[1, 0, 0], [0, 0.9, 1]], "the weights of 'bacterial' in the classes of 'two' add up to 0.9; expected 1"),
        ([[1, 0, 0], [1, 1, 1]], "the weights of 'normal' in the classes of 'two' add up to 2"),
        ([[1, 0, 0], [0, 0, 0]], "bacterial, viral: nothing says which class of 'two' this is"),
        ([[1e308, 0, 0], [1e308, 1, 1]], "the weights of 'normal' in the classes of 'two' add up to inf"),
    ],
)
def test_what_is_no_correspondence_is_refused_in_words(matrix: Any, fault: str) -> None:
    with pytest.raises(LabelsRefused, match=fault):
        Correspondence(FINE, COARSE, matrix)


@pytest.mark.parametrize(
    ("pair", "fault"),
    [
        (
            ("influenza", "viral", 1.0),
            "'influenza' is no class of the label space 'two'; it has normal, pneumonia",
        ),
        (("normal", "fungal", 1.0), "'fungal' is no class of the label space 'three'; it has normal, bacterial"),
        (("normal", "normal", 0.0), "'normal' in 'normal' stands there twice"),
    ],
)
def test_a_table_of_classes_that_are_not_there_is_refused(pair: tuple[str, str, float], fault: str) -> None:
    with pytest.raises(LabelsRefused, match=fault):
        from_weights(FINE, COARSE, [("normal", "normal", 1.0), pair])


def test_of_many_classes_only_some_are_named() -> None:
    many = LabelSpace("many", tuple(f"c{number}" for number in range(40)))
    with pytest.raises(LabelsRefused, match="it has c0, c1, c2, c3, c4 and 35 more"):
        from_weights(many, COARSE, [("normal", "viral", 1.0)])


def test_too_large_a_table_is_refused_before_there_is_memory_for_it() -> None:
    many = LabelSpace("many", tuple(f"c{number}" for number in range(1000)))
    assert len(many) ** 2 > MAX_CELLS
    with pytest.raises(LabelsRefused, match="1000 x 1000 classes are too many for a correspondence"):
        Correspondence(many, many, [])
    with pytest.raises(LabelsRefused, match="1000 x 1000 classes are too many for a correspondence"):
        from_weights(many, many, [])


@settings(deadline=None)
@given(arrays(np.float64, (2, 3), elements=st.floats(allow_nan=True) | st.sampled_from([0.0, 0.25, 0.75, 1.0])))
def test_any_matrix_gives_distributions_or_a_refusal(matrix: Any) -> None:
    try:
        made = Correspondence(FINE, COARSE, matrix).matrix
    except LabelsRefused:
        return
    assert (made >= 0).all()
    assert np.abs(made.sum(axis=0) - 1).max() < 1e-12
