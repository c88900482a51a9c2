"""The views of label spaces and of groups: tables to read, why there is nothing yet, and for whom they are."""

from __future__ import annotations

from typing import Any

import pytest

from flnet.web.page.diagnostics import MOST_COLUMNS, confusion_view, groups_view, matrix_view, waiting_words
from flnet.web.translation import translator
from tests.leak_figures import CONFUSION, LEAKS
from tests.web.conftest import Client
from tests.web.fake_node import FakeNode
from tests.web.page_reading import load
from tests.web.view_nodes import EVIL, NEW

ELSEWHERE = ("192.0.2.7", 50000)
english = translator("en")
MODEL = {"digest": NEW, "round": 3, "accuracy": 0.9}
KNOWN: dict[str, Any] = {
    "kind": "labels",
    "space": {"id": "two", "classes": ["no", EVIL]},
    "desired": {"id": "three", "classes": ["a", "b", "c"]},
    "estimated": False,
    "pooled": False,
    "threshold": 0.95,
    "matrix": [[1, 0.25, 0.5], [0, 0.75, 0.5]],
    "deviation": None,
    "counts": None,
    "waiting": None,
    "model": MODEL,
}
ESTIMATE = {
    **KNOWN,
    "estimated": True,
    "deviation": [[0.011, 0.125, 0.495], [0.011, 0.125, 0.495]],
    "counts": [[1040, 3, 0], [0, 9, 0]],
}
WAITING = {"from_round": 11, "share": 0.124, "needed": 0.5, "judged": 4096}
GROUPS: dict[str, Any] = {
    "kind": "groups",
    "rows": 9000,
    "judged": 2000,
    "compared": 500,
    "model": {**MODEL, "round": -1},
    "common": {"k": 3, "inertia": 0.51, "silhouette": 0.4},
    "tried": [
        {"k": 1, "inertia": 2.0, "silhouette": None},
        {"k": 2, "inertia": 0.5, "silhouette": 0.4375},
        {"k": 3, "inertia": 0.4, "silhouette": 0.25},
    ],
    "bend": 2,
}


async def test_an_estimate_is_a_table_of_numbers_with_their_uncertainty(client: Client, node: FakeNode) -> None:
    node.studies.found["labels"] = ESTIMATE
    page = await load(client, "/view/labels/MNIST?digest=cd")
    assert node.studies.asked == [("MNIST", "labels", "cd")]
    assert "The rows of this node are labelled in two; the model answers in three." in page.text
    assert "Label here a b c no 1.000 ± 0.011 1,040 rows 0.250 ± 0.125 3 rows" in page.text
    assert f"{EVIL} 0.000 ± 0.011 0 rows" in page.text
    assert "Rows behind the column 1,040 12 0" in page.text
    assert "their columns say nothing: c" in page.text
    headers = [cell["scope"] for cell in page.all("th")]
    assert headers == ["col"] * 4 + ["row"] * 3  # read out with each number
    shades = [cell["class"] for cell in page.all("td")][:3]
    assert shades == ["number shade-9", "number shade-2", "number shade-4"]
    assert "Seen through the model cdcdcdcdcdcd of round 3." in page.text


async def test_it_is_said_that_counts_are_pooled(client: Client, node: FakeNode) -> None:
    node.studies.found["labels"] = {**ESTIMATE, "pooled": True}
    page = await load(client, "/view/labels/MNIST")
    assert "Each of these nodes tells all others how often its labels occur" in page.text
    assert "no other node is told any of it" not in page.text


async def test_a_known_correspondence_has_no_uncertainty(client: Client, node: FakeNode) -> None:
    node.studies.found["labels"] = KNOWN
    page = await load(client, "/view/labels/MNIST")
    assert "How both correspond is said by the labels file." in page.text
    assert "no 1.000 0.250 0.500" in page.text
    assert "±" not in page.text


async def test_without_an_estimate_the_reason_is_said(client: Client, node: FakeNode) -> None:
    node.studies.found["labels"] = {**ESTIMATE, "matrix": None, "deviation": None, "waiting": WAITING}
    page = await load(client, "/view/labels/MNIST")
    assert "from round 11 on, once the model is sure of 50 % of the rows; now of 12 % of 4,096" in page.text
    assert "There is no estimate yet." in page.text
    assert page.all("table") == []


async def test_numbers_of_groups_are_a_table_and_pictures(client: Client, node: FakeNode) -> None:
    node.studies.found["groups"] = GROUPS
    page = await load(client, "/view/groups/MNIST")
    assert "2,000 of its 9,000 training rows, 500 of them for silhouettes" in page.text
    assert (
        "3 0.51 0.400 the common model 1 2 — rows here alone 2 0.5 0.438 rows here alone bends most" in page.text
    )
    assert len(page.all("figure")) == 2
    assert "Seen through the untrained model" in page.text


async def test_what_a_model_gives_away_is_a_figure_with_its_limits(client: Client, node: FakeNode) -> None:
    node.studies.found["leaks"] = LEAKS
    page = await load(client, "/view/leaks/MNIST?digest=cd")
    assert node.studies.asked == [("MNIST", "leaks", "cd")]
    assert "How much does this model give away of this node's rows?" in page.text
    assert "Membership advantage 0.312 interval (95 %) 0.250 to 0.375 By chance alone, up to 0.043" in page.text
    assert "can tell, better than by a guess, whether this node trained on it" in page.text
    assert "2,000 of 9,000 training rows and 2,000 of 2,400 test rows" in page.text
    assert "It is a lower bound: a stronger attack finds more." in page.text
    assert "few rows" not in page.text
    assert "Seen through the model 0123456789ab of round 3." in page.text


async def test_of_few_rows_the_page_says_so_and_claims_nothing(client: Client, node: FakeNode) -> None:
    node.studies.found["leaks"] = {**LEAKS, "members": 40, "others": 40, "by_chance": 0.304, "seen": False}
    page = await load(client, "/view/leaks/MNIST")
    assert "These are few rows: only a large advantage can be told from chance" in page.text
    assert "That does not prove that the model gives nothing away." in page.text
    assert "better than by a guess" not in page.text


async def test_a_card_leads_there_only_where_rows_with_classes_are_predicted(
    client: Client, node: FakeNode
) -> None:
    for more, expected in (({}, False), ({"inputs": {"kind": "image"}, "counts": {"train": [1]}}, True)):
        node.jobs["MNIST"].more = more
        links = [link["href"] for link in (await load(client, "/")).all("a")]
        assert ("/view/leaks/MNIST" in links) is expected


async def test_mistakes_are_a_table_and_the_page_says_why_nodes_differ(client: Client, node: FakeNode) -> None:
    node.studies.found["confusion"] = {**CONFUSION, "model": MODEL}
    held = {
        "trainer_id": "MNIST",
        "digest": NEW,
        "post_fedavg_accuracy": 0.6,
        "data": {"rows": {"test": 70}},
    }
    of_peers = {"NODE_2": held, "NODE_3": {**held, "digest": "f" * len(NEW)}}
    node.around = [{"id": name, "info": {"jobsInfo": [told]}} for name, told in of_peers.items()]
    page = await load(client, "/view/confusion/MNIST?digest=01")
    assert node.studies.asked == [("MNIST", "confusion", "01")]
    assert "Accuracy 80.00 % Balanced accuracy 87.50 % F1 macro 76.20 % AUC 91.00 %" in page.text
    assert "<cat> 30 10 40 75.00 % dog 0 10 10 100.00 %" in page.text
    assert "which class was predicted for them: 50 of 2,400 test rows" in page.text
    assert "These are few rows" in page.text
    assert "NODE_1 80.00 % 50 NODE_2 60.00 % 70" in page.text
    assert "NODE_3" not in page.text  # holds another model
    assert "Compare balanced accuracy then." in page.text


def test_of_many_classes_those_with_most_rows_are_shown() -> None:
    matrix = [[place if row == column else 0 for column in range(40)] for place, row in enumerate(range(40))]
    found = {"matrix": matrix, "classes": [f"c{n}" for n in range(40)], "each": {"recall": [1.0] * 40}}
    shown = confusion_view(found)
    assert (shown.columns[0], shown.hidden, len(shown.rows)) == ("c10", 10, 30)
    assert (shown.rows[0].total, shown.rows[0].cells[0].shade, shown.rows[0].cells[1].shade) == ("10", 9, 0)


SHOWN: dict[str, Any] = {  # of a job's view, so that its card leads to the page
    "labels": {"finds": "labels"},
    "groups": {"finds": "groups"},
    "leaks": {"inputs": {"kind": "image"}, "counts": {"train": [1]}},
    "confusion": {"inputs": {"kind": "image"}, "counts": {"train": [1]}},
}


@pytest.mark.parametrize("kind", ["labels", "groups", "leaks", "confusion"])
async def test_only_persons_of_the_node_see_it(client: Client, node: FakeNode, app: Any, kind: str) -> None:
    node.studies.found = {"labels": KNOWN, "groups": GROUPS, "leaks": LEAKS, "confusion": CONFUSION}
    assert await (await client.get(f"/jobs/MNIST/{kind}?digest=cd")).get_json() == node.studies.found[kind]
    node.jobs["MNIST"].more = SHOWN[kind]
    assert f"/view/{kind}/MNIST" in [link["href"] for link in (await load(client, "/")).all("a")]
    for path in (f"/jobs/MNIST/{kind}", f"/view/{kind}/MNIST"):
        answer = await client.get(path, scope_base={"client": ELSEWHERE})
        assert answer.status_code == 401
    page = await (await client.get("/", scope_base={"client": ELSEWHERE})).get_data(as_text=True)
    assert f"/view/{kind}/MNIST" not in page


async def test_where_there_is_nothing_the_page_says_so(client: Client) -> None:
    answer = await client.get("/view/groups/MNIST")
    assert answer.status_code == 404
    assert "looks for no groups" in await answer.get_data(as_text=True)


def test_of_a_large_matrix_a_part_is_shown() -> None:
    names = [str(number) for number in range(50)]
    wide = {**KNOWN, "desired": {"id": "many", "classes": names}, "matrix": [[1] * 50, [0] * 50]}
    shown = matrix_view(wide)
    assert shown is not None
    assert (len(shown.columns), len(shown.rows[0].cells), shown.hidden_columns) == (MOST_COLUMNS, MOST_COLUMNS, 20)
    assert waiting_words(None) is None


def test_silhouettes_below_nothing_have_no_picture() -> None:
    odd = [{"k": 1, "inertia": 0.0, "silhouette": None}, {"k": 2, "inertia": 0.0, "silhouette": -0.25}]
    shown = groups_view({**GROUPS, "tried": odd}, english)
    assert (shown.silhouettes, shown.has_negative, shown.elbow) == (None, True, None)
    assert shown.tried[1].silhouette == "-0.250"


async def test_mistakes_stand_beside_what_all_nodes_reached(client: Client, node: FakeNode) -> None:
    node.studies.found["confusion"] = CONFUSION
    node.jobs["MNIST"].more = {"mesh": {"accuracy": 0.5, "basis": "counts", "examples": 9, "nodes": 2}}
    page = await load(client, "/view/confusion/MNIST")
    assert "On the test rows of all nodes together the last round reached 50.00 %." in page.text
    assert "open mesh" in page.text
