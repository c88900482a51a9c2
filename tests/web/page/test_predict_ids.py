"""The page for predictions by id, and the form on the card of a vertical job."""

from __future__ import annotations

from typing import Any

import pytest

from flnet.errors import NotReady
from flnet.rounds.view import VerticalView
from flnet.web.page.predict_ids import UNKNOWN_SHOWN, ids_of, ids_result
from tests.web.conftest import Client
from tests.web.fake_node import FakeNode
from tests.web.page_reading import Page, load

HOLDERS = [{"peer": "b", "columns": 3, "names": [], "has_label": True, "rows": 8}]
FIGURES = {"holders": HOLDERS, "common": 7, "epochs": 4, "stage": "", "step": 0, "steps": 0, "loss": 0.5}


def vertical(node: FakeNode, **fields: Any) -> None:
    told = {**FIGURES, "accuracy": 0.5, "auc": 0.5, "predicts": True, **fields}
    node.jobs["MNIST"].more = {"vertical": VerticalView.model_validate(told)}


async def ask(client: Client, ids: str) -> tuple[int, Page]:
    answer = await client.post("/view/predict/MNIST", form={"ids": ids})
    return answer.status_code, Page(await answer.get_data(as_text=True))


def test_ids_stand_one_a_line() -> None:
    assert ids_of(" 4711 \r\n\r\nA B, C\n") == ["4711", "A B, C"]


def test_results_are_words_and_many_unknown_ids_are_counted() -> None:
    made = {"holder": "b\u202e", "probabilities": [[0.25, 0.75], [0.5, 0.1]], "predicted": ["yes", ["x", "y"]]}
    unknown = [str(number) for number in range(UNKNOWN_SHOWN + 3)]
    result = ids_result({"ids": ["1", "2"], "unknown": unknown, "epoch": 4, "predictions": [made]})
    assert [(row.id, row.predicted, row.chance) for row in result.holders[0].rows] == [
        ("1", "yes", "75.0 %"),
        ("2", "x, y", "50.0 %"),
    ]
    assert "\u202e" not in result.holders[0].holder
    assert (result.hidden, result.unknown.count(",")) == (3, UNKNOWN_SHOWN - 1)


async def test_the_page_asks_for_ids_and_shows_the_prediction_of_each_label_holder(
    client: Client, node: FakeNode
) -> None:
    vertical(node)
    page = await load(client, "/view/predict/MNIST")
    assert "Ids, one a line" in page.text
    status, page = await ask(client, "4711\n<b>\n")
    assert status == 200
    for words in ("With the label of b", "4711", "yes", "75.0 %", "models of epoch 4", "all holders know: <b>"):
        assert words in page.text, words


@pytest.mark.parametrize("ids", ["", " \n "])
async def test_without_an_id_the_form_says_so(client: Client, node: FakeNode, ids: str) -> None:
    vertical(node)
    status, page = await ask(client, ids)
    assert status == 422
    assert "there is no id yet" in page.text


async def test_a_refusal_is_shown_beside_what_was_written(client: Client, node: FakeNode) -> None:
    vertical(node)
    node.failure = NotReady("no prediction: b is not reachable")
    status, page = await ask(client, "4711")
    assert status == 503
    assert "no prediction: b is not reachable" in page.text
    assert [area["name"] for area in page.all("textarea")] == ["ids"]


async def test_the_card_has_a_field_for_an_id_where_predictions_are_allowed(
    client: Client, node: FakeNode
) -> None:
    for fields, expected in (({}, 1), ({"predicts": False}, 0), ({"epochs": 0}, 0)):
        vertical(node, **fields)
        page = await load(client)
        forms = [form for form in page.all("form") if form["action"] == "/view/predict/MNIST"]
        assert len(forms) == expected, fields
    vertical(node, predicts=False, predictions_refused="c holds the key, and no ids")
    page = await load(client, "/view/predict/MNIST")
    assert "c holds the key, and no ids" in page.text
