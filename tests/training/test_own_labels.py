"""Words as labels of two spaces: which one is meant, and by what rows are dealt."""

from __future__ import annotations

from flnet.labels import read_fields
from flnet.training.own_labels import OwnLabels, counted

SPACES = {
    "id": "two",
    "classes": ["healthy", "ill"],
    "desired": {"id": "three", "classes": ["healthy", "cold", "flu"]},
    "mapping": {"healthy": ["healthy"], "ill": ["cold", "flu"]},
}


def spaces() -> OwnLabels:
    found = OwnLabels.of(read_fields(SPACES))
    assert found is not None
    return found


def test_a_word_is_a_class_of_the_own_space_first() -> None:
    assert spaces().words == ("healthy", "ill", "cold", "flu")
    fine, coarse = spaces().numbers(["ill", "flu", "healthy", ""])
    assert (fine.tolist(), coarse.tolist()) == ([-1, 2, -1, -1], [1, -1, 0, -1])


def test_a_row_may_carry_both_labels() -> None:
    fine, coarse = spaces().numbers(["flu", "healthy", "", "cold"], ["ill", "healthy", "ill", ""])
    assert (fine.tolist(), coarse.tolist()) == ([2, 0, -1, 1], [1, 0, 1, -1])


def test_rows_are_dealt_by_the_finest_label_that_they_have() -> None:
    fine, coarse = spaces().numbers(["ill", "flu", "healthy"])
    assert spaces().kinds(fine, coarse).tolist() == [4, 2, 3]
    assert counted(fine, 3) == (0, 0, 1)


def test_who_labels_in_the_desired_space_has_its_words_alone() -> None:
    assert OwnLabels.of(None) is None
    found = OwnLabels.of(read_fields(SPACES["desired"]))
    assert found == OwnLabels(("healthy", "cold", "flu"))
    assert found.words == found.desired
    named = OwnLabels.of(read_fields(SPACES), ["a", "b", "c"])
    assert named is not None and named.desired == ("a", "b", "c")
