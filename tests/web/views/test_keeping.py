"""The buttons of the view of models, as a browser without script presses them."""

from __future__ import annotations

import pytest

from flnet.errors import JobBusy

from ..conftest import Client
from ..page_reading import FORM, Page, load, post
from ..view_nodes import NEW, OLD, ViewNode, with_two_models

HERE = "/view/models/MNIST"


@pytest.fixture
def node() -> ViewNode:
    return with_two_models()


def orders(page: Page) -> list[tuple[str | None, str | None]]:
    """Value and name for screen readers of every button that says what to do with a model."""
    return [(b.get("value"), b.get("aria-label")) for b in page.all("button") if b.get("name") == "do"]


async def press(client: Client, order: str, digest: str) -> Page:
    status, place = await post(client, HERE, do=order, digest=digest)
    assert status == 303
    assert place.startswith(f"{HERE}?notice=")
    return await load(client, place)


async def test_a_model_is_pinned_and_unpinned_by_its_button(client: Client, node: ViewNode) -> None:
    assert orders(await load(client, HERE)) == [("pin", f"Pin {NEW[:12]}"), ("pin", f"Pin {OLD[:12]}")]
    page = await press(client, "pin", OLD)
    assert "The model abababababab is kept until it is unpinned." in page.text
    assert "abababababab pinned" in page.text
    assert orders(page) == [("pin", f"Pin {NEW[:12]}"), ("unpin", f"Unpin {OLD[:12]}")]
    page = await press(client, "unpin", OLD)
    assert "goes when its turn comes" in page.text
    assert "abababababab pinned" not in page.text
    assert node.orders == [("pin", "MNIST", OLD), ("unpin", "MNIST", OLD)]


async def test_going_back_is_asked_first_and_says_what_it_means(client: Client, node: ViewNode) -> None:
    page = await load(client, HERE)
    (link,) = [
        a["href"] or "" for a in page.all("a") if "back=" in (a.get("href") or "")
    ]  # not for the one in use
    assert link == f"{HERE}?back={OLD}#back"
    page = await load(client, link.partition("#")[0])
    assert "on all nodes if it is started at this node" in page.text
    assert "If another node starts the next round first" in page.text
    assert ("restore", None) in orders(page)
    assert node.orders == []
    page = await press(client, "restore", OLD)
    assert node.orders == [("restore", "MNIST", OLD)]
    assert "The model abababababab is in use again." in page.text
    assert "abababababab held" in page.text
    assert page.inline == ""


async def test_a_job_that_went_back_says_so(client: Client, node: ViewNode) -> None:
    node.more["MNIST"]["rolled_back"] = True
    assert "A person went back to the model in use." in (await load(client, HERE)).text


async def test_an_untrained_model_cannot_be_pinned(client: Client, node: ViewNode) -> None:
    node.listed[:] = [{**node.listed[0], "round": -1}]
    assert orders(await load(client, HERE)) == []


async def test_a_refusal_is_told_in_the_words_of_the_node(client: Client, node: ViewNode) -> None:
    node.failure = JobBusy("round 3 is still training here; go back to another model when it is over")
    page = await press(client, "restore", OLD)
    assert "round 3 is still training here" in page.text
    assert len(page.alerts()) == 1


@pytest.mark.parametrize("order", ["", "delete", "<b>"])
async def test_what_is_no_order_is_refused(client: Client, node: ViewNode, order: str) -> None:
    page = await press(client, order, OLD)
    assert "expected pin, unpin or restore" in page.text
    assert node.orders == []


async def test_a_model_that_is_gone_and_a_trainer_that_is_not_there_are_told(client: Client) -> None:
    answer = await client.get(f"{HERE}?back={'ee' * 32}")
    assert answer.status_code == 422
    assert "is kept here any more" in Page(await answer.get_data(as_text=True)).text
    assert (await client.post("/view/models/NONE", data=b"do=pin", headers=FORM)).status_code == 404


async def test_no_page_of_another_site_presses_the_buttons(client: Client, node: ViewNode) -> None:
    headers = {**FORM, "Origin": "http://elsewhere.example"}
    answer = await client.post(HERE, data=f"do=restore&digest={OLD}".encode(), headers=headers)
    assert answer.status_code == 403
    assert node.orders == []


async def test_it_speaks_spanish(client: Client) -> None:
    page = await load(client, f"{HERE}?back={OLD}", Accept_Language="es")
    assert "Seguir a partir de este modelo" in page.text
    assert "Fijar" in page.text
    assert "Use this" not in page.text
