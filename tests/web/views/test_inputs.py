"""What comes in a form, as a question: worked examples, and nothing but a refusal for anything else."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.exceptions import UnsupportedMediaType

from flnet.errors import InputRefused, PeerError, UnreadableBody
from flnet.node.base import Question
from flnet.training.inputs import MAX_INPUTS
from flnet.web.views.inputs import MOST_CELLS, Handed, is_upload, question_of, read_form

from ..view_nodes import DIGITS, TABLE

SMALL = {**DIGITS, "shape": [2, 3]}
URL = "application/x-www-form-urlencoded"
PNG = b"\x89PNG and so on"


def multipart(**parts: bytes) -> bytes:
    """A form as a browser sends it, with the boundary B; the part "file" is a file."""
    body = b""
    for name, content in parts.items():
        named = b'; filename="x.png"' if name == "file" else b""
        body += b'--B\r\nContent-Disposition: form-data; name="' + name.encode() + b'"' + named + b"\r\n\r\n"
        body += content + b"\r\n"
    return body + b"--B--\r\n"


def rows(pasted: str, inputs: Any = TABLE) -> Any:
    return question_of(Handed({"rows": pasted}), inputs).inputs


def test_both_kinds_of_forms_are_read() -> None:
    found = read_form(multipart(digest=b"ab", file=PNG), "multipart/form-data", {"boundary": "B"})
    assert (found.fields, found.file) == ({"digest": "ab"}, PNG)
    assert read_form(b"digest=ab&rows=1%2C2", URL, {}) == Handed({"digest": "ab", "rows": "1,2"})


@pytest.mark.parametrize("body", [b"", b"--B", b"--B\r\nX: y\r\n\r\nz", multipart(file=b"") * 2, b"\0" * 99])
def test_a_broken_multipart_form_is_refused_or_empty(body: bytes) -> None:
    try:
        found = read_form(body, "multipart/form-data", {"boundary": "B"})
    except UnreadableBody:
        return
    assert found == Handed()


def test_a_form_of_too_many_parts_or_without_boundary_or_of_another_type_is_refused() -> None:
    many = b"".join(multipart(**{f"p{n}": b"1"})[:-7] for n in range(2001)) + b"--B--\r\n"
    with pytest.raises(UnreadableBody, match="more than 2000 parts"):
        read_form(many, "multipart/form-data", {"boundary": "B"})
    with pytest.raises(UnreadableBody, match="more than 2000 parts"):
        read_form(b"&".join([b"a=1"] * 2001), URL, {})
    with pytest.raises(UnreadableBody):
        read_form(multipart(file=PNG), "multipart/form-data", {})
    with pytest.raises(UnsupportedMediaType, match="expected a form"):
        read_form(b"{}", "application/json", {})


@given(st.binary(max_size=300), st.sampled_from(["multipart/form-data", URL]))
def test_no_bytes_do_more_than_be_refused(body: bytes, kind: str) -> None:
    for inputs in (SMALL, TABLE):
        with suppress(PeerError):
            question_of(read_form(body, kind, {"boundary": "B"}), inputs)


def test_a_picture_goes_before_a_drawing_and_the_model_is_chosen() -> None:
    handed = Handed({"pixels": "0,1", "digest": "ab"}, PNG)
    assert question_of(handed, DIGITS) == Question(picture=PNG, digest="ab")


def test_a_drawing_is_put_into_the_range_and_shape_of_the_trainer() -> None:
    drawn = Handed({"pixels": "0,51,102,153,204,255"})
    assert question_of(drawn, SMALL).inputs == [[[0, 51, 102], [153, 204, 255]]]
    found = question_of(drawn, {**SMALL, "low": -1, "high": 1, "shape": [2, 3, 1]}).inputs
    assert [value for line in found[0] for (value,) in line] == pytest.approx([-1, -0.6, -0.2, 0.2, 0.6, 1])


@pytest.mark.parametrize("pixels", ["1,2,3", "1,2,3,4,5,x", "1,2,3,4,5,", "nan,1,1,1,1,1", "inf,1,1,1,1,1", ""])
def test_another_drawing_is_refused(pixels: str) -> None:
    with pytest.raises(InputRefused):
        question_of(Handed({"pixels": pixels}), SMALL)


@pytest.mark.parametrize(
    ("pasted", "found"),
    [
        ("1,2,3", [[1, 2, 3]]),
        ("1\t2\t-3e-2\r\n\r\n.5\t+6\t7.\n", [[1, 2, -0.03], [0.5, 6, 7]]),
        ("1; 2;3", [[1, 2, 3]]),
        ("weight,age,height\n3,1,2", [{"weight": 3, "age": 1, "height": 2}]),
        ("age;height;weight;remark\n1;2;3;4", [{"age": 1, "height": 2, "weight": 3}]),
        ('"age","height","weight"\n1,2,3', [{"age": 1, "height": 2, "weight": 3}]),
    ],
)
def test_rows_are_read_with_their_separators_and_names(pasted: str, found: Any) -> None:
    assert rows(pasted) == found
    assert question_of(Handed(file=("\ufeff" + pasted).encode()), TABLE).inputs == found


@pytest.mark.parametrize(
    ("pasted", "words"),
    [
        ("1,,3", "the first row is neither numbers nor the names"),
        ("1,2,3\n1,,3", "row 2, column 'height' is empty"),
        ("1,2,3\n4,5,<b>", "row 2, column 'weight' is '<b>'"),
        ("1,2,3\n1,2,3,x", "row 2, cell 4 is 'x'"),
        ("age,height\n1", "row 1 has 1 cells; the first row names 2 columns"),
        ("age,age\n1,1", "names a column twice"),
        ("1,2,3\nnan,inf,1", "row 2, column 'age' is 'nan'"),
        ('"1,2,3', "cannot be read"),
    ],
)
def test_rows_with_a_fault_are_refused_with_its_place(pasted: str, words: str) -> None:
    with pytest.raises(InputRefused, match=words.replace("(", "[(]")):
        rows(pasted)


def test_a_column_of_words_stands_for_the_columns_of_its_words() -> None:
    inputs = {**TABLE, "names": ["age", "sex=f", "sex=m"]}
    assert rows("sex,age,remark\nm,41,x\nf,7,y", inputs) == [
        {"age": 41, "sex=f": 0, "sex=m": 1},
        {"age": 7, "sex=f": 1, "sex=m": 0},
    ]
    assert rows("age,sex=f,sex=m\n41,0,1", inputs) == [{"age": 41, "sex=f": 0, "sex=m": 1}]
    with pytest.raises(InputRefused, match="row 2, column 'sex' is 'x'; expected f, m"):
        rows("age,sex\n1,f\n1,x", inputs)
    with pytest.raises(InputRefused, match="column 'sex' is ''"):
        rows("age,sex\n1,", inputs)


def test_more_rows_than_are_judged_at_once_are_refused_before_they_are_read() -> None:
    assert len(rows("age,height,weight\n" + "1,2,3\n" * MAX_INPUTS)) == MAX_INPUTS
    with pytest.raises(InputRefused, match=f"at most {MAX_INPUTS} are judged at once"):
        rows("x\n" * (MAX_INPUTS + 2))
    with pytest.raises(InputRefused, match="judged at once"):
        rows("," * (MOST_CELLS + 1))


def test_fields_are_one_row() -> None:
    filled = {"column-0": "41", "column-1": " 1.8", "column-2": "8e1"}
    assert question_of(Handed(filled), TABLE).inputs == [[41, 1.8, 80]]
    with pytest.raises(InputRefused, match="column 'weight' is empty"):
        question_of(Handed({**filled, "column-2": ""}), TABLE)
    with pytest.raises(InputRefused, match="nothing to judge yet"):
        question_of(Handed(), TABLE)
    with pytest.raises(InputRefused, match="no rows"):
        question_of(Handed(file=b"\n\n"), TABLE)


def test_only_the_form_itself_may_bring_much() -> None:
    assert is_upload("/view/predict/MNIST")
    assert not any(map(is_upload, ("/view/predict/", "/view/models/MNIST", "/view/predict/a/b")))
