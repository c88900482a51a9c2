"""What all further views have in common: the way to the first trainer, and errors as pages."""

from __future__ import annotations

import pytest

from flnet.errors import NotReady
from flnet.web.views.frame import choices, view_url

from ..conftest import Client
from ..page_reading import Page
from ..view_nodes import ViewNode, with_two_models


@pytest.fixture
def node() -> ViewNode:
    return with_two_models()


async def failing(client: Client, path: str, status: int) -> Page:
    answer = await client.get(path)
    assert answer.status_code == status
    assert answer.mimetype == "text/html"
    return Page(await answer.get_data(as_text=True))


@pytest.mark.parametrize("view", ["models", "predict"])
async def test_a_view_without_a_trainer_leads_to_the_first_one(client: Client, node: ViewNode, view: str) -> None:
    answer = await client.get(f"/view/{view}")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/view/{view}/MNIST")
    node.jobs["MNIST"].phase = "NO_DATA"
    assert (await client.get(f"/view/{view}")).headers["Location"] == f"/view/{view}/MNIST_3_7"
    node.jobs["MNIST_3_7"].phase = "LOADING"
    assert (await client.get(f"/view/{view}")).headers["Location"] == f"/view/{view}/MNIST"
    node.jobs.clear()
    assert "This node has no trainer." in (await failing(client, f"/view/{view}", 404)).text


@pytest.mark.parametrize("view", ["models", "predict"])
async def test_an_unknown_trainer_is_404_in_words_with_links_to_the_known_ones(client: Client, view: str) -> None:
    page = await failing(client, f"/view/{view}/%3Cscript%3E", 404)
    assert "this node has no trainer '<script>'" in page.text
    assert page.inline == ""
    assert {"href": f"/view/{view}/MNIST"} in page.all("a")


async def test_a_job_that_still_loads_says_so(
    client: Client, node: ViewNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def still_loading(trainer: str) -> None:
        raise NotReady("MNIST is still loading its data")

    monkeypatch.setattr(node, "models", still_loading)
    node.more["MNIST"]["inputs"] = None
    assert "still loading" in (await failing(client, "/view/models/MNIST", 503)).text
    assert "still loading" in (await failing(client, "/view/predict/MNIST", 503)).text


def test_trainers_are_chosen_by_links(node: ViewNode) -> None:
    found = choices(node, "models", "MNIST_3_7")
    assert [(one.url, one.chosen) for one in found] == [
        ("/view/models/MNIST", False),
        ("/view/models/MNIST_3_7", True),
    ]
    assert view_url("models", "a/b?") == "/view/models/a%2Fb%3F"
