from __future__ import annotations

import unicodedata
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.exceptions import UnsupportedMediaType

from flnet.compute.prediction import MAX_INPUTS
from flnet.errors import InputRefused, NotOffered, PeerError, UnreadableBody
from flnet.node.interface import PredictionInput, View
from flnet.web.api.models import PREDICT_BYTES
from flnet.web.page.input_rows import MOST_CELLS
from flnet.web.page.predict import FormInput, form_of, question_of, read_form, result_of
from tests.web.conftest import Client
from tests.web.page_reading import FORM, Page, load
from tests.web.view_nodes import DIGITS, EVIL, NEW, OLD, TABLE, ViewNode, with_two_models

# What comes in a form, as a question: worked examples, and nothing but a refusal for anything else.


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
    return question_of(FormInput({"rows": pasted}), inputs).inputs


def test_both_kinds_of_forms_are_read() -> None:
    found = read_form(multipart(digest=b"ab", file=PNG), "multipart/form-data", {"boundary": "B"})
    assert (found.fields, found.file) == ({"digest": "ab"}, PNG)
    assert read_form(b"digest=ab&rows=1%2C2", URL, {}) == FormInput({"digest": "ab", "rows": "1,2"})


@pytest.mark.parametrize("body", [b"", b"--B", b"--B\r\nX: y\r\n\r\nz", multipart(file=b"") * 2, b"\0" * 99])
def test_a_broken_multipart_form_is_refused_or_empty(body: bytes) -> None:
    try:
        found = read_form(body, "multipart/form-data", {"boundary": "B"})
    except UnreadableBody:
        return
    assert found == FormInput()


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
    handed = FormInput({"pixels": "0,1", "digest": "ab"}, PNG)
    assert question_of(handed, DIGITS) == PredictionInput(picture=PNG, digest="ab")


def test_a_drawing_is_put_into_the_range_and_shape_of_the_trainer() -> None:
    drawn = FormInput({"pixels": "0,51,102,153,204,255"})
    assert question_of(drawn, SMALL).inputs == [[[0, 51, 102], [153, 204, 255]]]
    found = question_of(drawn, {**SMALL, "low": -1, "high": 1, "shape": [2, 3, 1]}).inputs
    assert [value for line in found[0] for (value,) in line] == pytest.approx([-1, -0.6, -0.2, 0.2, 0.6, 1])


@pytest.mark.parametrize("pixels", ["1,2,3", "1,2,3,4,5,x", "1,2,3,4,5,", "nan,1,1,1,1,1", "inf,1,1,1,1,1", ""])
def test_another_drawing_is_refused(pixels: str) -> None:
    with pytest.raises(InputRefused):
        question_of(FormInput({"pixels": pixels}), SMALL)


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
    assert question_of(FormInput(file=("\ufeff" + pasted).encode()), TABLE).inputs == found


def test_names_and_words_may_come_in_any_form_of_their_umlauts() -> None:
    inputs = {**TABLE, "names": ["größe", "hut=grün", "hut=rot"]}
    assert rows(unicodedata.normalize("NFD", "größe,hut\n2,grün"), inputs) == [
        {"größe": 2, "hut=grün": 1, "hut=rot": 0}
    ]


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
        ("1,2,a" + "\u0301" * 2000, "the rows cannot be read: more than 30 accents on one sign"),
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
    with pytest.raises(InputRefused, match="row 2, column 'sex' is 'x'; expected one of f, m"):
        rows("age,sex\n1,f\n1,x", inputs)
    with pytest.raises(InputRefused, match="row 1, column 'sex' is empty; expected one of f, m"):
        rows("age,sex\n1,", inputs)


def test_rows_of_a_training_file_may_lack_values_where_the_trainer_fills_them() -> None:
    inputs = {**TABLE, "names": ["age", "sex=f", "sex=m"], "ignored": ["id", "ill"], "gaps": True}
    assert rows("ill;id;sex;age\nyes;K1;m;41\nno;K2;;NA", inputs) == [
        {"age": 41, "sex=f": 0, "sex=m": 1},
        {"age": None, "sex=f": 0, "sex=m": 0},
    ]
    with pytest.raises(InputRefused, match="column 'age' is empty"):
        rows("sex,age\nm,", {**inputs, "gaps": False})


def test_rows_may_be_an_arff_file() -> None:
    inputs = {**TABLE, "names": ["age", "sex=f", "sex=m"]}
    head = "% people\n@relation r\n@attribute id string\n@attribute age numeric\n@attribute sex {f,m}\n@data\n"
    assert rows(head + "K1,41,m\n", inputs) == [{"age": 41, "sex=f": 0, "sex=m": 1}]
    assert rows(head + "{1 7}\n", inputs) == [{"age": 7, "sex=f": 1, "sex=m": 0}]
    with pytest.raises(InputRefused, match=r"the rows cannot be read: .*line 7: 2 values for 3 columns"):
        rows(head + "K1,41\n", inputs)
    with pytest.raises(InputRefused, match="at most 1000 are predicted at once"):
        rows(head + "{1 7}\n" * 1001, inputs)


def test_more_rows_than_are_predicted_at_once_are_refused_before_they_are_read() -> None:
    assert len(rows("age,height,weight\n" + "1,2,3\n" * MAX_INPUTS)) == MAX_INPUTS
    with pytest.raises(InputRefused, match=f"at most {MAX_INPUTS} are predicted at once"):
        rows("x\n" * (MAX_INPUTS + 2))
    with pytest.raises(InputRefused, match="predicted at once"):
        rows("," * (MOST_CELLS + 1))


def test_fields_are_one_row() -> None:
    filled = {"column-0": "41", "column-1": " 1.8", "column-2": "8e1"}
    assert question_of(FormInput(filled), TABLE).inputs == [{"age": 41, "height": 1.8, "weight": 80}]
    with pytest.raises(InputRefused, match=r"^column 'weight' is empty; expected a number"):
        question_of(FormInput({**filled, "column-2": ""}), TABLE)
    with pytest.raises(InputRefused, match="there is no input yet"):
        question_of(FormInput(), TABLE)
    with pytest.raises(InputRefused, match="no rows"):
        question_of(FormInput(file=b"\n\n"), TABLE)


WORDS = {**TABLE, "shape": [4], "names": ["age", "sex=f", "sex=m", "height"]}


def test_a_column_of_words_is_one_field_with_one_of_them() -> None:
    filled = {"column-0": "41", "column-1": "m", "column-2": "1.8"}
    (found,) = question_of(FormInput(filled), WORDS).inputs
    assert found == {"age": 41, "sex=f": 0, "sex=m": 1, "height": 1.8}
    with pytest.raises(InputRefused, match=r"^column 'sex' is empty; expected one of f, m$"):
        question_of(FormInput({**filled, "column-1": ""}), WORDS)
    with pytest.raises(InputRefused, match=r"^column 'sex' is 'x'; expected one of f, m$"):
        question_of(FormInput({**filled, "column-1": "x"}), WORDS)


def test_fields_may_be_empty_where_the_trainer_fills_gaps() -> None:
    gaps = {**WORDS, "gaps": True}
    assert question_of(FormInput({"column-2": "1.8"}), gaps).inputs == [
        {"age": None, "sex=f": 0, "sex=m": 0, "height": 1.8}
    ]
    with pytest.raises(InputRefused, match="there is no input yet"):
        question_of(FormInput({"column-0": " "}), gaps)


def test_a_file_that_is_not_utf_8_is_refused_with_advice() -> None:
    with pytest.raises(InputRefused, match="not text in UTF-8; save it as UTF-8"):
        question_of(FormInput(file="größe;age\n1;2".encode("latin-1")), TABLE)


HERE = "/view/predict/MNIST"
MULTIPART = {"Content-Type": "multipart/form-data; boundary=B"}


@pytest.fixture
def node() -> ViewNode:
    return with_two_models()


async def hand_in(client: Client, body: bytes, status: int = 200, headers: Any = None) -> Page:
    answer = await client.post(HERE, data=body, headers=headers or MULTIPART)
    assert answer.status_code == status
    assert answer.mimetype == "text/html"
    return Page(await answer.get_data(as_text=True))


async def test_a_picture_is_predicted_without_script_by_the_chosen_model(client: Client, node: ViewNode) -> None:
    page = await hand_in(client, multipart(digest=OLD.encode(), file=PNG))
    assert [(asked.picture, asked.digest) for asked in node.questions] == [(PNG, OLD)]
    assert "Prediction 1 Classes 0 10.0 % 1 70.0 % 2 20.0 %" in page.text
    assert "Predicted by the model cdcdcdcdcdcd of round 3." in page.text
    assert [bar["width"] for bar in page.all("rect") if bar["class"] == "value"] == ["10.0", "70.0", "20.0"]
    chosen = [option for option in page.all("option") if option.get("value") == OLD]
    assert "selected" in chosen[0]


async def test_a_drawing_reaches_the_node_as_numbers(client: Client, node: ViewNode) -> None:
    await hand_in(client, multipart(pixels=b",".join([b"7"] * 784), digest=NEW.encode(), file=b""))
    assert node.questions[0].inputs == [[[7.0] * 28] * 28]


async def test_the_form_offers_a_drawing_only_for_small_grey_pictures(client: Client, node: ViewNode) -> None:
    page = await load(client, HERE)
    assert len(page.all("canvas")) == 1
    assert "hidden" in next(div for div in page.all("div") if div.get("class") == "draw")  # script shows it
    assert "one digit, white on black" in page.text
    for shape in ([64, 64, 1], [28, 28, 3], [32, 32, 3]):
        node.more["MNIST"]["inputs"] = {**DIGITS, "shape": shape}
        page = await load(client, HERE)
        assert page.all("canvas") == []
        assert [field["accept"] for field in page.all("input") if field.get("type") == "file"]


async def test_a_table_has_a_field_for_each_column_which_keep_what_was_typed(
    client: Client, node: ViewNode
) -> None:
    node.more["MNIST"]["inputs"] = TABLE
    page = await hand_in(client, b"column-0=41&column-1=1.8&column-2=", 422, FORM)
    assert "column 'weight' is empty; expected a number" in page.text
    fields = {field["name"]: field.get("value") for field in page.all("input")}
    assert (fields["column-0"], fields["column-1"], fields["column-2"]) == ("41", "1.8", "")
    await hand_in(client, b"column-0=41&column-1=1.8&column-2=80&digest=", 200, FORM)
    row = {"age": 41, "height": 1.8, "weight": 80}
    assert [(asked.inputs, asked.digest) for asked in node.questions] == [([row], None)]
    assert "Rows of 3 numbers, at most 1000, with tabs" in page.text


async def test_a_column_of_words_has_a_menu_that_keeps_what_was_chosen(client: Client, node: ViewNode) -> None:
    node.more["MNIST"]["inputs"] = WORDS
    page = await hand_in(client, b"column-0=&column-1=m&column-2=1", 422, FORM)
    assert "column 'age' is empty; expected a number" in page.text
    assert [menu["name"] for menu in page.all("select")][-2:] == ["column-1", "digest"]
    options = [option for option in page.all("option") if option["value"] in ("", "f", "m")]
    assert [(option["value"], "selected" in option) for option in options] == [
        ("", False),
        ("f", False),
        ("m", True),
    ]
    assert [field["name"] for field in page.all("input") if field.get("inputmode")] == ["column-0", "column-2"]
    assert "Rows as in the table, at most 1000, with tabs" in page.text
    assert "age, sex (f, m), height" in page.text
    assert "sex=f" not in page.text and "may stay empty" not in page.text
    node.more["MNIST"]["inputs"] = {**WORDS, "gaps": True}
    page = await hand_in(client, b"column-0=&column-1=m&column-2=1", 200, FORM)
    assert "A field may stay empty if its value is missing." in page.text
    assert node.questions[0].inputs == [{"age": None, "sex=f": 0, "sex=m": 1, "height": 1}]


async def test_many_columns_are_pasted_and_not_typed(client: Client, node: ViewNode) -> None:
    names = [f"c{number}" for number in range(61)]
    node.more["MNIST"]["inputs"] = {**TABLE, "shape": [61], "names": names}
    page = await load(client, HERE)
    assert not any((field.get("name") or "").startswith("column-") for field in page.all("input"))
    assert len(page.all("textarea")) == 1
    assert "c0, c1, c2" in page.text


async def test_one_class_that_is_not_listed_is_named_as_one(client: Client, node: ViewNode) -> None:
    names = [f"label {number}" for number in range(21)]
    node.more["MNIST"]["inputs"] = TABLE
    node.answer = {
        **node.answer,
        "classes": names,
        "probabilities": [[0.0] * 20 + [1.0]],
        "predicted": [names[20]],
    }
    page = await hand_in(client, multipart(rows=b"1,2,3\n"))
    assert "and 1 more class" in page.text
    assert "1 more classes" not in page.text


async def test_many_rows_become_a_table(client: Client, node: ViewNode) -> None:
    node.more["MNIST"]["inputs"] = TABLE
    node.answer = {**node.answer, "probabilities": [[0.1, 0.7, 0.2]] * 6, "predicted": ["1"] * 6}
    page = await hand_in(client, multipart(rows=b"1,2,3\n" * 6))
    assert "6 rows Row Prediction Probability 1 1 70.0 % 2 1 70.0 %" in page.text
    assert len(node.questions[0].inputs) == 6


async def test_what_the_trainer_notes_is_shown(client: Client, node: ViewNode) -> None:
    node.answer = {**node.answer, "note": "this is no diagnosis"}
    assert "this is no diagnosis" in (await hand_in(client, multipart(file=PNG))).text


async def test_what_the_trainer_notes_is_shown_before_the_first_prediction_too(
    client: Client, node: ViewNode
) -> None:
    node.more["MNIST"]["note"] = "no diagnosis <b>ever</b>"
    page = await load(client, "/view/predict/MNIST")
    assert "no diagnosis <b>ever</b>" in page.text


@pytest.mark.parametrize(
    ("error", "status"), [(InputRefused("the picture cannot be read"), 422), (NotOffered("pictures need X"), 404)]
)
async def test_what_the_node_refuses_is_told_beside_the_form(
    client: Client, node: ViewNode, error: Exception, status: int
) -> None:
    node.failure = error
    page = await hand_in(client, multipart(file=PNG), status)
    assert str(error) in page.text
    assert len(page.all("canvas")) == 1


async def test_too_large_an_upload_and_another_type_are_told_in_words(client: Client, node: ViewNode) -> None:
    page = await hand_in(client, b"x" * (PREDICT_BYTES + 1), 413)
    assert f"at most {PREDICT_BYTES} bytes" in page.text
    page = await hand_in(client, b"{}", 415, {"Content-Type": "application/json"})
    assert "expected a form" in page.text
    assert node.questions == []


async def test_another_site_cannot_hand_anything_in(client: Client, node: ViewNode) -> None:
    answer = await client.post(HERE, data=b"rows=1", headers={**FORM, "Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403
    assert node.questions == []


async def test_a_trainer_without_predictions_says_so(client: Client, node: ViewNode) -> None:
    node.more["MNIST"]["inputs"] = None
    assert "This trainer offers no predictions." in (await load(client, HERE)).text
    assert "This trainer offers no predictions." in (await hand_in(client, multipart(file=PNG))).text


async def test_names_of_classes_and_columns_are_text_and_never_markup(client: Client, node: ViewNode) -> None:
    node.more["MNIST"]["inputs"] = {**TABLE, "names": [EVIL, '"><script>', "c"], "hint": EVIL}
    node.answer = {**node.answer, "classes": [EVIL, "1", "2"], "predicted": [EVIL], "note": EVIL}
    page = await hand_in(client, b"column-1=%22%3E%3Cb%3E&rows=1%2C2%2C3", 200, FORM)
    assert page.text.count(EVIL) >= 4
    assert "x onerror=alert(1)>" in [option.get("value") for option in page.all("option")]
    assert (len(page.all("img")), page.all("b"), page.inline) == (1, [], "")
    assert [field["value"] for field in page.all("input") if field.get("name") == "column-1"] == ['"><b>']


def test_several_labels_may_hold_at_once_or_none() -> None:
    found = {"classes": ["a", "b", "c"], "model": {"digest": NEW, "round": -1}}
    said = result_of({**found, "probabilities": [[0.9, 0.6, 0.1], [0, 0, 0]], "predicted": [["a", "b"], []]})
    assert [one.predicted for one in said.predictions] == ["a, b", ""]
    assert [bar.chosen for bar in said.predictions[0].bars] == [True, True, False]
    assert (said.round, said.digest) == ("", NEW[:12])


def test_scores_are_numbers_whose_bars_go_from_the_least_to_the_largest() -> None:
    found = {"classes": ["a", "b", "c"], "model": {"digest": NEW, "round": 1}}
    said = result_of({**found, "scores": [[-2.0, 2.0, 0.0]], "predicted": ["b"]})
    assert [(bar.words, bar.percent) for bar in said.predictions[0].bars] == [("-2", 0), ("2", 100), ("0", 50)]
    assert said.is_score
    same = result_of({**found, "scores": [[1.0, 1.0, 1.0]], "predicted": ["a"]})
    assert [bar.percent for bar in same.predictions[0].bars] == [0, 0, 0]


def test_of_many_classes_the_likeliest_are_shown() -> None:
    names = [f"label {number}" for number in range(100)]
    values = [number / 100 for number in range(100)]
    said = result_of(
        {"classes": names, "probabilities": [values], "predicted": [["label 99"]], "model": {"digest": NEW}}
    )
    assert [bar.name for bar in said.predictions[0].bars[:2]] == ["label 99", "label 98"]
    assert (len(said.predictions[0].bars), said.predictions[0].hidden) == (20, 80)


def test_the_form_names_what_is_taken() -> None:
    assert form_of(DIGITS, FormInput())["size"] == "28 x 28"
    assert form_of({**DIGITS, "shape": [24, 32, 3]}, FormInput())["size"] == "24 x 32"
    assert [column.name for column in form_of(TABLE, FormInput())["columns"]] == ["age", "height", "weight"]


async def test_which_of_two_models_answered_is_told_with_its_reason(client: Client, node: ViewNode) -> None:
    node.answer = {**node.answer, "choice": {"answered": ["local"], "errors": [0.0125], "limit": 0.0412}}
    page = await hand_in(client, multipart(file=PNG))
    assert "Answered by the local model. Error of rebuilding the input: 0.0125" in page.text
    assert "the local model answers up to 0.0412" in page.text
    node.answer["choice"] = {"answered": ["global"], "errors": [], "limit": None}
    page = await hand_in(client, multipart(file=PNG))
    assert "Answered by the common model." in page.text
    assert "rebuilding" not in page.text


async def test_of_many_rows_a_column_tells_which_model_answered(client: Client, node: ViewNode) -> None:
    node.more["MNIST"]["inputs"] = TABLE
    choice = {"answered": ["local", "global"] * 3, "errors": [0.01, 0.5] * 3, "limit": 0.0412}
    node.answer = {**node.answer, "probabilities": [[0.1, 0.7, 0.2]] * 6, "predicted": ["1"] * 6, "choice": choice}
    page = await hand_in(client, multipart(rows=b"1,2,3\n" * 6))
    assert "Answered by Error 1 1 70.0 % local model 0.01 2 1 70.0 % common model 0.5" in page.text
    assert "at most 0.0412" in page.text


COARSE: View = {"space": "odd or even", "classes": ["even", EVIL], "estimated": True}


async def test_what_it_means_in_the_labels_of_this_node(client: Client, node: ViewNode) -> None:
    coarse = {**COARSE, "probabilities": [[0.3, 0.7]], "predicted": [EVIL]}
    node.answer = {**node.answer, "coarse": coarse}
    page = await hand_in(client, multipart(file=PNG))
    assert f"In the labels of this node: odd or even, through an estimated correspondence: {EVIL}" in page.text
    assert f"even 30.0 % {EVIL} 70.0 %" in page.text
    many = {"probabilities": [[0.3, 0.7]] * 6, "predicted": ["even"] * 6}
    rows = {"probabilities": [[0.1, 0.7, 0.2]] * 6, "predicted": ["1"] * 6}
    node.answer = {**node.answer, **rows, "coarse": {**COARSE, **many}}
    page = await hand_in(client, multipart(file=PNG))
    assert "Row Prediction Probability odd or even" in page.text
    assert "even 70.0 %" in page.text


async def test_without_an_estimate_nothing_is_said_in_the_labels_of_this_node(
    client: Client, node: ViewNode
) -> None:
    node.answer = {**node.answer, "coarse": {**COARSE, "probabilities": [], "predicted": []}}
    page = await hand_in(client, multipart(file=PNG))
    assert "Nothing can be said in the labels of this node yet" in page.text


# A CSV file is answered with a CSV file: the rows as they came, each with its prediction.


async def csv_of(client: Client, rows: bytes) -> tuple[int, str]:
    head = {"Content-Type": "multipart/form-data; boundary=B", "Origin": "http://localhost"}
    answer = await client.post(HERE, data=multipart(rows=rows, **{"as": b"csv"}), headers=head)
    if answer.status_code == 200:
        assert answer.content_type.startswith("text/csv")
        assert answer.headers["Content-Disposition"] == 'attachment; filename="MNIST-predictions.csv"'
    return answer.status_code, await answer.get_data(as_text=True)


async def test_rows_are_answered_as_a_file_with_all_that_came(client: Client, node: ViewNode) -> None:
    node.more["MNIST"]["inputs"] = {
        **{**TABLE, "shape": [4], "names": ["age", "sex=f", "sex=m", "height"], "ignored": ["who"]},
    }
    node.answer = {
        **node.answer,
        **{"classes": ["no", "=1+1"], "probabilities": [[0.25, 0.75]] * 2, "predicted": ["=1+1", "no"]},
    }
    status, words = await csv_of(client, b'who;age;sex;height\nA;"4";f;1.5\nB;5;m;-2\n')
    assert (status, words) == (
        200,
        "who;age;sex;height;prediction;probabilities no;probabilities =1+1\n"
        "A;4;f;1.5;'=1+1;0.25;0.75\nB;5;m;-2;no;0.25;0.75\n",
    )
    assert node.questions[0].inputs[1] == {"age": 5, "sex=f": 0, "sex=m": 1, "height": -2}


async def test_a_long_file_is_asked_in_parts_of_one_model(client: Client, node: ViewNode) -> None:
    node.more["MNIST"]["inputs"] = TABLE
    answers = [
        {**node.answer, "classes": ["y"], "scores": [[0.5]] * n, "predicted": ["y"] * n} for n in (MAX_INPUTS, 5)
    ]
    for answer in answers:
        answer.pop("probabilities", None)
    given = iter(answers)

    async def predict(trainer: str, question: PredictionInput) -> View:
        node.questions.append(question)
        return next(given)

    node.predict = predict  # type: ignore[method-assign]
    status, words = await csv_of(client, b"1,2,3\n" * (MAX_INPUTS + 5))
    lines = words.splitlines()
    assert (status, len(lines), lines[1]) == (200, MAX_INPUTS + 6, "1,2,3,0.5")
    assert lines[0].endswith(",prediction")
    assert [len(question.inputs) for question in node.questions] == [MAX_INPUTS, 5]
    assert [question.digest for question in node.questions] == [None, answers[0]["model"]["digest"]]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (b" ", "a CSV file is the answer to rows"),
        (b"1,2,3\n" * 20_002, "at most 20000 are predicted at once"),
        (b"1,2,3\n" * 1000 + b"1,x,3\n", "row 1001"),
    ],
)
async def test_rows_that_cannot_be_predicted_are_told_on_the_page(
    client: Client, node: ViewNode, rows: bytes, words: str
) -> None:
    node.more["MNIST"]["inputs"] = TABLE
    status, page = await csv_of(client, rows)
    assert status == 422
    assert words in page
