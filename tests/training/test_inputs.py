"""What a person wants judged is read exactly, or refused with what was expected and what came."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import InputRefused
from flnet.training.api import InputSpec
from flnet.training.inputs import MAX_INPUTS, read_inputs

IMAGE = InputSpec("image", (2, 2), 0, 255)
TABLE = InputSpec("table", (2,), names=("age", "height"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=12,
)


def test_nested_lists_of_numbers_become_an_array() -> None:
    inputs = read_inputs([[[0, 1], [2, 255.0]]], IMAGE)
    assert (inputs.shape, inputs.dtype.name) == ((1, 2, 2), "float32")
    assert inputs.ravel().tolist() == [0, 1, 2, 255]


def test_columns_may_come_by_name_in_any_order() -> None:
    assert read_inputs([{"height": 2, "age": 1}, [3, 4]], TABLE).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("values", "spec", "words"),
    [
        (5, IMAGE, "expected a list of 1 to 1000 inputs, got a int"),
        ([], IMAGE, "1 to 1000 inputs, got 0"),
        ([[0, 0]] * (MAX_INPUTS + 1), TABLE, "got 1001"),
        ([[[0, 1], [2]]], IMAGE, r"uneven; expected each of shape \[2, 2\]"),
        ([[[0, 1, 2], [2, 3, 4]]], IMAGE, r"shape \[1, 2, 3\]; expected \[n, 2, 2\]"),
        ([[0, 1]], IMAGE, r"shape \[1, 2\]; expected"),
        ([[["0", "1"], ["2", "3"]]], IMAGE, "something else than numbers"),
        ([[[None, 1], [2, 3]]], IMAGE, "something else than numbers"),
        ([[True, False]], TABLE, "something else than numbers"),
        ([[10**30, 1]], TABLE, "something else than numbers"),
        ([[[0, 1], [2, 256]]], IMAGE, r"input \[0, 1, 1\] is 256; expected 0 to 255"),
        ([[1, float("nan")]], TABLE, "input 0, column 'height', is not a finite number"),
        ([[1e39, 1]], TABLE, "column 'age', is not a finite number in float32"),
        ([{"age": 1}], TABLE, "input 0 lacks 'height'; the columns are 'age', 'height'"),
        ([{"age": 1, "height": 2, "x": 3}], TABLE, "input 0 has unknown 'x'"),
        ([{"a": 1}], IMAGE, r"input 0 is an object; expected \[2, 2\] numbers in lists"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(values: Any, spec: InputSpec, words: str) -> None:
    with pytest.raises(InputRefused, match=words):
        read_inputs(values, spec)


@given(JSON, st.sampled_from([IMAGE, TABLE]))
def test_anything_gives_inputs_or_a_refusal(values: Any, spec: InputSpec) -> None:
    try:
        inputs = read_inputs(values, spec)
    except InputRefused:
        return
    assert inputs.shape[1:] == spec.shape
    assert np.isfinite(inputs).all()
