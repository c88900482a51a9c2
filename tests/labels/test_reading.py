"""What people write about labels: TOML and CSV, and whatever else they may hand in."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flnet.labels import (
    MAX_BYTES,
    Correspondence,
    Labelling,
    must_be_learnable,
    read_csv,
    read_fields,
    read_toml,
)
from flnet.refusals import LabelsRefused
from tests.labels.spaces import COARSE, FINE, NESTED

SPACE = 'id = "two"\nclasses = ["normal", "pneumonia"]\n'
DESIRED = '[desired]\nid = "three"\nclasses = ["normal", "bacterial", "viral"]\n'
MAPPING = '[mapping]\nnormal = ["normal"]\npneumonia = ["bacterial", "viral"]\n'
CSV = "coarse,desired\nnormal,normal\npneumonia,bacterial\npneumonia,viral\n"


def toml(text: str) -> Labelling:
    return read_toml(text.encode())


def test_a_file_says_space_desired_space_and_mapping() -> None:
    assert toml(SPACE + DESIRED + MAPPING) == Labelling(COARSE, FINE, Correspondence(FINE, COARSE, NESTED))


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
        (SPACE + MAPPING, r"a \[mapping\] needs the \[desired\] label space beside it"),
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


@pytest.mark.parametrize(
    "text",
    [
        CSV,
        CSV.replace(",", ";"),
        CSV.replace(",", "\t").replace("\n", "\r\n"),
        "\ufeff" + CSV + "\n  \n",
        "Weight, desired ,coarse\n1,normal,normal\n1.0,bacterial,pneumonia\n1e0, viral ,pneumonia",
        'coarse,desired\n"normal","normal"\n"pneumonia",bacterial\npneumonia,"viral"',
    ],
)
def test_a_table_in_all_its_usual_forms(text: str) -> None:
    assert read_csv(text.encode(), FINE, COARSE) == Correspondence(FINE, COARSE, NESTED)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "the first line of the table is nothing; expected coarse, desired, weight"),
        ("fine,coarse\n", "the first line of the table is fine, coarse"),
        (CSV + "normal\n", "line 5 has 1 cells; expected 2"),
        (
            "coarse,desired,weight\nnormal,viral,much",
            "line 2: the weight is 'much'; expected a number from 0 to 1",
        ),
        ("coarse,desired,weight\nnormal,viral,nan", "line 2: the weight is 'nan'"),
        ("coarse,desired,weight\nnormal,viral,-1", "line 2: the weight is '-1'"),
        ("coarse,desired,weight\nnormal,viral,1_0", "line 2: the weight is '1_0'"),
        (CSV + "normal,viral\n", "the weights of 'viral' in the classes of 'two' add up to 2"),
        ('coarse,desired\n"normal', "this is no CSV text in UTF-8"),
        ("coarse,desired\n" + "n" * 200_000, "this is no CSV text"),
    ],
)
def test_a_wrong_table_is_refused_in_words(text: str, fault: str) -> None:
    with pytest.raises(LabelsRefused, match=fault):
        read_csv(text.encode(), FINE, COARSE)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(LabelsRefused, match="no TOML text"):
        read_toml(b"\xff\xfe")
    with pytest.raises(LabelsRefused, match="no CSV text"):
        read_csv(b"\xff\xfe", FINE, COARSE)


@settings(deadline=None)
@given(st.binary(max_size=60) | st.text("coarse,desird\n;'\"=[]{}1.#x", max_size=60).map(str.encode))
def test_any_bytes_give_a_labelling_or_a_refusal(data: bytes) -> None:
    for read in (
        read_toml,
        lambda some: read_csv(some, FINE, COARSE),
        lambda some: read_csv(b"coarse,desired\n" + some, FINE, COARSE),
    ):
        try:
            read(data)
        except LabelsRefused:
            continue
