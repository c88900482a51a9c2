"""Label spaces: what may be one, and how a peer's is read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flnet.labels import MAX_CLASSES, LabelSpace, read_space
from flnet.refusals import LabelsRefused
from tests.labels.spaces import COARSE, FINE

anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["id", "classes", "x"]), inner, max_size=3)
        | st.fixed_dictionaries({"id": inner, "classes": inner})
    ),
)


def test_classes_have_numbers_in_their_order() -> None:
    assert (len(FINE), FINE.number("viral"), FINE.number("pneumonia")) == (3, 2, None)


def test_a_space_comes_back_from_what_it_says_of_itself() -> None:
    assert read_space(json.loads(json.dumps(FINE.view()))) == FINE


def test_the_order_of_the_classes_is_part_of_the_digest_and_the_id_is_not() -> None:
    turned = LabelSpace("three", FINE.classes[::-1])
    renamed = LabelSpace("III", FINE.classes)
    assert FINE.digest == renamed.digest != turned.digest
    assert COARSE.digest != FINE.digest


@pytest.mark.parametrize(
    ("id", "classes", "fault"),
    [
        ("", ("a",), "the id of a label space must have 1 to 64 characters, not 0"),
        ("a\n", ("a",), "the id of a label space must be printable"),
        ("a", (), "has 0 classes; expected 1 to 1000"),
        ("a", tuple(map(str, range(MAX_CLASSES + 1))), "has 1001 classes"),
        ("a", ("b", ""), "'' is no name for a class"),
        ("a", (" b",), "' b' is no name for a class"),
        ("a", ("b" * 201,), "is no name for a class: expected 1 to 200 printable"),
        ("a", ("b\0",), "no name for a class"),
        ("a", ("b", "c", "b"), "the label space 'a' has the class 'b' twice"),
    ],
)
def test_what_is_no_space_is_refused_in_words(id: str, classes: tuple[str, ...], fault: str) -> None:
    with pytest.raises(LabelsRefused, match=fault):
        LabelSpace(id, classes)


@pytest.mark.parametrize(
    "fields",
    [None, [], {"id": "a"}, {"id": "a", "classes": "ab", "x": 1}, {"id": 1, "classes": ["a"]}]
    + [{"id": "a", "classes": classes} for classes in (None, "ab", [1], {"a": 1}, [["a"]])],
)
def test_what_a_peer_sends_instead_of_a_space_is_refused(fields: Any) -> None:
    with pytest.raises(LabelsRefused):
        read_space(fields)


@settings(deadline=None)
@given(anything)
def test_anything_gives_a_space_or_a_refusal(fields: Any) -> None:
    try:
        space = read_space(fields)
    except LabelsRefused:
        return
    assert space.view() == fields
