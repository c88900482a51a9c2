"""Label spaces: what may be one, and how a peer's is read."""

from __future__ import annotations

import contextlib
import json
import unicodedata
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flnet.errors import LabelsRefused
from flnet.labels.spaces import (
    MAX_BYTES,
    MAX_CELLS,
    MAX_CLASSES,
    Correspondence,
    Labelling,
    LabelSpace,
    from_weights,
    must_be_learnable,
    read_fields,
    read_toml,
)
from tests.labels.spaces import COARSE, FINE, NESTED


def test_classes_have_numbers_in_their_order() -> None:
    assert (len(FINE), FINE.number("viral"), FINE.number("pneumonia")) == (3, 2, None)


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


# Correspondences: columns are distributions, and whatever is not says which class is at fault.


def test_a_nested_space_from_a_table_without_weights() -> None:
    table = [("normal", "normal", 1.0), ("pneumonia", "bacterial", 1.0), ("pneumonia", "viral", 1.0)]
    made = from_weights(FINE, COARSE, table)
    assert made.matrix.tolist() == NESTED
    assert made == Correspondence(FINE, COARSE, NESTED)
    assert hash(made) == hash(Correspondence(FINE, COARSE, NESTED))


def test_an_overlapping_space_needs_weights() -> None:
    table = [("normal", "normal", 1.0), ("normal", "viral", 0.2), ("pneumonia", "viral", 0.8)]
    made = from_weights(FINE, COARSE, [*table, ("pneumonia", "bacterial", 1.0)])
    assert made.matrix.tolist() == [[1, 0, 0.2], [0, 1, 0.8]]


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


@given(arrays(np.float64, (2, 3), elements=st.floats(allow_nan=True) | st.sampled_from([0.0, 0.25, 0.75, 1.0])))
def test_any_matrix_gives_distributions_or_a_refusal(matrix: Any) -> None:
    try:
        made = Correspondence(FINE, COARSE, matrix).matrix
    except LabelsRefused:
        return
    assert (made >= 0).all()
    assert np.abs(made.sum(axis=0) - 1).max() < 1e-12


# What people write about labels: TOML, and whatever else they may hand in.


SPACE = 'id = "two"\nclasses = ["normal", "pneumonia"]\n'
DESIRED = '[desired]\nid = "three"\nclasses = ["normal", "bacterial", "viral"]\n'
MAPPING = '[mapping]\nnormal = ["normal"]\npneumonia = ["bacterial", "viral"]\n'


def toml(text: str) -> Labelling:
    return read_toml(text.encode())


def test_a_file_says_space_desired_space_and_mapping() -> None:
    assert toml(SPACE + DESIRED + MAPPING) == Labelling(COARSE, FINE, Correspondence(FINE, COARSE, NESTED))


def test_classes_are_alike_in_any_form_of_their_umlauts() -> None:
    made = toml(unicodedata.normalize("NFD", 'id = "x"\nclasses = ["Blüten", "Obst"]\n'))
    assert made.space.classes == ("Blüten", "Obst")


def test_without_a_mapping_it_has_to_be_estimated() -> None:
    assert toml(SPACE + DESIRED) == Labelling(COARSE, FINE)
    assert toml(SPACE) == Labelling(COARSE)


def test_how_a_node_learns_from_its_labels_stands_before_the_spaces() -> None:
    made = toml(
        SPACE
        + 'schedule = "parallel"\nsteps = 7\nestimate = true\nrows = 9\nfixed = 0.5\nmixed = 2\nturning = 4\n'
        + DESIRED
    )
    assert made == Labelling(
        COARSE, FINE, None, "parallel", 7, estimate=True, rows=9, fixed=0.5, mixed=2, turning=4
    )
    assert not made.is_desired
    assert made.target == FINE
    assert toml(SPACE).is_desired


POOLED = '[pooled]\nid = "two"\nclasses = ["normal", "pneumonia"]\n'
FINE_SPACE = 'id = "three"\nclasses = ["normal", "bacterial", "viral"]\n'


def test_counts_are_pooled_where_all_nodes_know_whose_they_are() -> None:
    coarse = toml(SPACE + "pool_counts = true\n" + DESIRED)
    assert (coarse.pool_counts, coarse.pooled) == (True, None)
    assert toml(SPACE + "pool_counts = true\n" + DESIRED + POOLED) == coarse
    fine = toml(FINE_SPACE + "pool_counts = true\n" + POOLED)
    assert fine.pooled == COARSE
    assert read_fields(json.loads(json.dumps(fine.fields()))) == fine


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (FINE_SPACE + "pool_counts = true\n", "needs \\[pooled\\], the label space"),
        (FINE_SPACE + POOLED, "needs the line pool_counts = true"),
        (
            SPACE + "pool_counts = true\n" + DESIRED + POOLED.replace('"two"', '"2"'),
            "'2'; expected the label space of this file, 'two'",
        ),
    ],
)
def test_whose_counts_they_are_has_to_be_clear(text: str, words: str) -> None:
    with pytest.raises(LabelsRefused, match=words):
        toml(text)


@pytest.mark.parametrize("lines", ["", "estimate = true\nthreshold = 0.9\nsteps = 3\n"])
@pytest.mark.parametrize("spaces", ["", DESIRED, DESIRED + MAPPING])
def test_what_was_read_is_read_again_from_its_fields(lines: str, spaces: str) -> None:
    made = toml(SPACE + lines + spaces)
    assert read_fields(json.loads(json.dumps(made.fields()))) == made


@pytest.mark.parametrize(
    "fields", [None, [], {}, {"id": 1, "classes": ["a"]}, {"id": "a", "classes": ["a"], "x": 1}]
)
def test_fields_that_say_no_labelling_are_refused(fields: object) -> None:
    with pytest.raises(LabelsRefused):
        read_fields(fields)


def test_who_cannot_learn_is_told_what_is_missing() -> None:
    for text in (SPACE, SPACE + DESIRED + MAPPING, SPACE + "estimate = true\n" + DESIRED):
        must_be_learnable(toml(text))
    with pytest.raises(
        LabelsRefused, match=r"correspond to those of 'three': add a .mapping., or set estimate = true"
    ):
        must_be_learnable(toml(SPACE + DESIRED))


def test_weights_make_classes_overlap() -> None:
    mapping = "[mapping]\nnormal = { normal = 1, viral = 0.25 }\npneumonia = { bacterial = 1, viral = 0.75 }"
    made = toml(SPACE + DESIRED + mapping).correspondence
    assert made is not None
    assert made.matrix.tolist() == [[1, 0, 0.25], [0, 1, 0.75]]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("id = ", "this is no TOML text in UTF-8"),
        ("id = 3\nclasses = []", "id: Input should be a valid string"),
        ('id = "two"', "classes: Field required"),
        (SPACE + 'clases = ["x"]', "clases: Extra inputs are not permitted"),
        (
            SPACE + 'aggregation = "agg1"',
            "aggregation is 'agg1'; expected a rule that counts all nodes alike: agg0, med",
        ),
        (
            SPACE + 'pool_counts = true\naggregation = "krum:1"\n' + DESIRED,
            "pool_counts = true needs aggregation = 'agg0'",
        ),
        (SPACE + MAPPING, r"a \[mapping\] needs a \[desired\] label space"),
        (SPACE + DESIRED + '[mapping]\nnormal = ["flu"]', "'flu' is no class of the label space 'three'"),
        (
            SPACE + DESIRED + '[mapping]\nnormal = ["normal"]',
            "bacterial, viral: nothing says which class of 'two'",
        ),
        (SPACE + DESIRED + "[mapping]\nnormal = { normal = nan }", "finite number"),
        (SPACE + DESIRED + "[mapping]\nnormal = { normal = -1 }", "greater than or equal to 0"),
        (SPACE + DESIRED + "[mapping]\nnormal = { normal = 1" + "0" * 400 + " }", "mapping.normal"),
        (SPACE + DESIRED + "[mapping]\nnormal = { normal = 1" + "0" * 5000 + " }", "no TOML text"),
        (SPACE + "x = " + "[" * 50_000, "this is no TOML text in UTF-8"),
        ("#" * (MAX_BYTES + 1), "1000001 bytes are too many for a table of classes"),
    ],
)
def test_a_wrong_toml_file_is_refused_in_words(text: str, fault: str) -> None:
    with pytest.raises(LabelsRefused, match=fault):
        toml(text)


@given(st.binary(max_size=60) | st.text("coarse,desird\n;'\"=[]{}1.#x", max_size=60).map(str.encode))
@example(b"\xff\xfe")
def test_any_bytes_give_a_labelling_or_a_refusal(data: bytes) -> None:
    with contextlib.suppress(LabelsRefused):
        read_toml(data)
