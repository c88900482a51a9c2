"""What each peer brings, as persons of the node see it, and nobody else."""

from __future__ import annotations

from typing import Any

from quart import Quart

from flnet.web.gains import ROWS, GainRow, GainsView, gains_view

from .conftest import Client
from .fake_node import FakeNode
from .page_reading import load

EVIL = "<img src=x onerror=alert(1)>"
ELSEWHERE = ("10.1.2.3", 5000)


def found(*rounds: dict[str, float], accuracy: float = 0.75, why_not: str = "") -> dict[str, Any]:
    """What was measured in rounds 0, 1 ...: accuracies without each peer."""
    return {
        "on": True,
        "why_not": why_not,
        "rounds": [
            {"round": number, "accuracy": accuracy, "examples": 360, "seconds": 1.0, "without": without}
            for number, without in enumerate(rounds)
        ],
    }


def view(said: dict[str, Any]) -> GainsView:
    shown = gains_view(said)
    assert shown is not None
    return shown


def test_peers_are_ranked_by_what_they_bring_on_average() -> None:
    shown = view(found({"a": 0.5, "gone": 0.1}, {"a": 0.8, "b": 0.7, "c": 0.75}))
    assert (shown.round, shown.accuracy, shown.examples, shown.rounds) == ("1", "75.00 %", "360", 2)
    assert shown.rows == (
        GainRow("a", "80.00 %", "-5.00", "+10.00"),  # brought 25 points before
        GainRow("b", "70.00 %", "+5.00", "+5.00"),
        GainRow("c", "75.00 %", "+0.00", "+0.00"),
    )


def test_of_many_peers_those_that_bring_most_and_least_are_shown() -> None:
    shown = view(found({f"n{place:02}": place / 100 for place in range(50)}))
    assert [row.peer for row in shown.rows] == [f"n{place:02}" for place in (*range(6), *range(44, 50))]
    assert (len(shown.rows), shown.hidden) == (ROWS, 38)


def test_before_the_first_round_and_where_it_is_off() -> None:
    assert view(found()).rows == ()
    assert gains_view({"on": False, "why_not": "", "rounds": []}) is None


async def test_persons_see_it_on_the_page_and_as_json(client: Client, node: FakeNode) -> None:
    assert "Whom this node gains from" not in (await load(client)).text
    node.gains.found = found()
    assert "It is measured when a series of rounds is over." in (await load(client)).text
    node.gains.found = found(
        {EVIL: 0.5, "b": 0.77}, why_not="the updates of a round are too large to be held on to"
    )
    page = await load(client)
    assert f"Whom this node gains from: most from {EVIL}, +25.00 points" in page.text
    assert "-2.00" in page.text
    page = await load(client, accept_language="es")
    assert "demasiado grandes para guardarlas" in page.text
    answer = await client.get("/jobs/MNIST/gains")
    assert (answer.status_code, await answer.get_json()) == (200, node.gains.found)


async def test_who_is_no_person_of_this_node_sees_nothing_of_it(app: Quart, node: FakeNode) -> None:
    node.gains.found = found({"b": 0.5})
    stranger = app.test_client()
    page = await stranger.get("/", scope_base={"client": ELSEWHERE})
    assert page.status_code == 200
    assert "Whom this node gains from" not in await page.get_data(as_text=True)
    answer = await stranger.get("/jobs/MNIST/gains", scope_base={"client": ELSEWHERE})
    assert answer.status_code in (401, 403)
