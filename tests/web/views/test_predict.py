from __future__ import annotations

from typing import Any

import pytest

from flnet.errors import InputRefused, NotOffered
from flnet.node.base import View
from flnet.web.models import PREDICT_BYTES
from flnet.web.views.inputs import Handed
from flnet.web.views.predict import form_of, result_of

from ..conftest import Client
from ..page_reading import FORM, Page, load
from ..view_nodes import DIGITS, EVIL, NEW, OLD, TABLE, ViewNode, with_two_models
from .test_inputs import PNG, multipart

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


async def test_a_picture_is_judged_without_script_by_the_chosen_model(client: Client, node: ViewNode) -> None:
    page = await hand_in(client, multipart(digest=OLD.encode(), file=PNG))
    assert [(asked.picture, asked.digest) for asked in node.questions] == [(PNG, OLD)]
    assert "What the model says 1 Classes 0 10.0 % 1 70.0 % 2 20.0 %" in page.text
    assert "Judged by the model cdcdcdcdcdcd of round 3." in page.text
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
    assert [(asked.inputs, asked.digest) for asked in node.questions] == [([[41, 1.8, 80]], None)]


async def test_many_columns_are_pasted_and_not_typed(client: Client, node: ViewNode) -> None:
    names = [f"c{number}" for number in range(61)]
    node.more["MNIST"]["inputs"] = {**TABLE, "shape": [61], "names": names}
    page = await load(client, HERE)
    assert not any((field.get("name") or "").startswith("column-") for field in page.all("input"))
    assert len(page.all("textarea")) == 1
    assert "c0, c1, c2" in page.text


async def test_many_rows_become_a_table(client: Client, node: ViewNode) -> None:
    node.more["MNIST"]["inputs"] = TABLE
    node.answer = {**node.answer, "probabilities": [[0.1, 0.7, 0.2]] * 6, "predicted": ["1"] * 6}
    page = await hand_in(client, multipart(rows=b"1,2,3\n" * 6))
    assert "6 rows Row Prediction Probability 1 1 70.0 % 2 1 70.0 %" in page.text
    assert len(node.questions[0].inputs) == 6


async def test_what_the_trainer_notes_is_shown(client: Client, node: ViewNode) -> None:
    node.answer = {**node.answer, "note": "this is no diagnosis"}
    assert "this is no diagnosis" in (await hand_in(client, multipart(file=PNG))).text


async def test_what_the_trainer_notes_is_shown_before_anything_is_judged_too(
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
    page = await hand_in(client, b"column-0=%22%3E%3Cb%3E&rows=1%2C2%2C3", 200, FORM)
    assert page.text.count(EVIL) >= 5
    assert (len(page.all("img")), page.all("b"), page.inline) == (1, [], "")
    assert [field["value"] for field in page.all("input") if field.get("name") == "column-0"] == ['"><b>']


def test_several_labels_may_hold_at_once_or_none() -> None:
    found = {"classes": ["a", "b", "c"], "model": {"digest": NEW, "round": -1}}
    said = result_of({**found, "probabilities": [[0.9, 0.6, 0.1], [0, 0, 0]], "predicted": [["a", "b"], []]})
    assert [one.predicted for one in said.judged] == ["a, b", ""]
    assert [bar.chosen for bar in said.judged[0].bars] == [True, True, False]
    assert (said.round, said.digest) == ("", NEW[:12])


def test_scores_are_numbers_whose_bars_go_from_the_least_to_the_largest() -> None:
    found = {"classes": ["a", "b", "c"], "model": {"digest": NEW, "round": 1}}
    said = result_of({**found, "scores": [[-2.0, 2.0, 0.0]], "predicted": ["b"]})
    assert [(bar.words, bar.percent) for bar in said.judged[0].bars] == [("-2", 0), ("2", 100), ("0", 50)]
    assert said.is_score
    same = result_of({**found, "scores": [[1.0, 1.0, 1.0]], "predicted": ["a"]})
    assert [bar.percent for bar in same.judged[0].bars] == [0, 0, 0]


def test_of_many_classes_the_likeliest_are_shown() -> None:
    names = [f"label {number}" for number in range(100)]
    values = [number / 100 for number in range(100)]
    said = result_of(
        {"classes": names, "probabilities": [values], "predicted": [["label 99"]], "model": {"digest": NEW}}
    )
    assert [bar.name for bar in said.judged[0].bars[:2]] == ["label 99", "label 98"]
    assert (len(said.judged[0].bars), said.judged[0].hidden) == (20, 80)


def test_the_form_names_what_is_taken() -> None:
    assert form_of(DIGITS, Handed())["size"] == "28 x 28"
    assert form_of({**DIGITS, "shape": [24, 32, 3]}, Handed())["size"] == "24 x 32"
    assert [column.name for column in form_of(TABLE, Handed())["columns"]] == ["age", "height", "weight"]


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
