from __future__ import annotations

from typing import cast

import pytest

from flnet.errors import JobBusy
from flnet.params.params import TrainerId
from flnet.web.formatting import size_words
from flnet.web.page.models import model_view
from tests.web.conftest import Client
from tests.web.page_reading import FORM, Page, load, post
from tests.web.view_nodes import EVIL, NEW, OLD, ViewNode, with_two_models

HERE = "/view/models/MNIST"
LOOPBACK = {"client": ("127.0.0.1", 5)}


@pytest.fixture
def node() -> ViewNode:
    return with_two_models()


async def compare(client: Client, one: str, other: str, status: int = 200) -> Page:
    answer = await client.get(f"{HERE}?one={one}&other={other}", scope_base=LOOPBACK)
    assert answer.status_code == status
    return Page(await answer.get_data(as_text=True))


async def test_every_model_is_listed_with_its_figures_and_files(client: Client) -> None:
    page = await load(client, HERE)
    for shown in ("cdcdcdcdcdcd in use 1 3 93.21 % 441 kB", "abababababab 0 3 — 441 kB NODE_2"):
        assert shown in page.text
    links = [link["href"] for link in page.all("a") if "download" in link]
    base = f"/jobs/MNIST/models/{NEW}"
    forms = ("safetensors", "onnx", "folder", "html")
    assert links[:5] == [*(f"{base}?format={form}" for form in forms), f"{base}/card"]
    assert len(links) == 10
    assert "one page that predicts offline in a browser" in page.text
    assert page.inline == ""


async def test_onnx_is_linked_only_where_it_is_offered(client: Client, node: ViewNode) -> None:
    node.more["MNIST"]["formats"] = ["safetensors"]
    page = await load(client, HERE)
    assert not any("onnx" in (link.get("href") or "") for link in page.all("a"))
    assert "offline" not in page.text


async def test_every_file_that_is_linked_is_there(client: Client, node: ViewNode) -> None:
    node.jobs["MNIST"].digest = NEW
    page = await load(client, HERE)
    for link in [link["href"] for link in page.all("a") if "download" in link][:5]:
        assert (await client.get(cast(str, link), scope_base=LOOPBACK)).status_code == 200


async def test_two_models_are_compared(client: Client) -> None:
    page = await compare(client, NEW, OLD)
    # 18 over the square root of 15 times 22, and 17 over that of 14 times 21
    assert "All together 4 0.25 1 0.990867" in page.text
    assert "b 1 0 0 1.000000" in page.text
    assert "w 3 0.3333 1 0.991460" in page.text
    assert "Accuracy of A here 93.21 %" in page.text
    chosen = [button for button in page.all("input") if "checked" in button]
    assert [(button["name"], button["value"]) for button in chosen] == [("one", NEW), ("other", OLD)]


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (NEW, NEW, "choose two different models"),
        (NEW, "", "choose two different models"),
        (NEW, "ee" * 32, "is kept here any more"),
        (NEW, "%3Cscript%3E", "no model '<script>' is kept"),
    ],
)
async def test_what_cannot_be_compared_is_told_in_words(client: Client, one: str, other: str, words: str) -> None:
    page = await compare(client, one, other, 422)
    assert words in page.text
    assert len(page.alerts()) == 1
    assert page.inline == ""


async def test_models_with_private_parameters_are_compared_on_their_own_machine_only(client: Client) -> None:
    answer = await client.get(f"{HERE}?one={NEW}&other={OLD}", scope_base={"client": ("10.0.0.7", 5)})
    assert answer.status_code == 403
    assert "ask from the machine that it runs on" in Page(await answer.get_data(as_text=True)).text


async def test_one_model_alone_has_nothing_to_be_compared_with(client: Client, node: ViewNode) -> None:
    del node.listed[1:]
    page = await load(client, HERE)
    assert not any(button.get("type") == "radio" for button in page.all("input"))
    assert not any(form.get("id") == "compare" for form in page.all("form"))


async def test_names_of_peers_and_trainers_are_text_and_never_markup(client: Client, node: ViewNode) -> None:
    node.jobs["MNIST"].label = EVIL
    node.listed[0] = {**node.listed[0], "exchanged_with": EVIL}
    page = await load(client, HERE)
    assert page.text.count(EVIL) >= 3
    assert len(page.all("img")) == 1
    assert not any(name.startswith("on") or name == "style" for _, attrs in page.tags for name in attrs)


async def test_a_trainer_with_a_strange_name_has_its_view_too(client: Client, node: ViewNode) -> None:
    strange = 'a/b "c"?'
    node.jobs[strange] = node.jobs.pop("MNIST")
    node.jobs[strange].trainer_id = strange
    seen = model_view(node.job(TrainerId(strange)), node.listed[0])
    assert seen.files == (
        ("safetensors", f"/jobs/a%2Fb%20%22c%22%3F/models/{NEW}?format=safetensors"),
        ("model card", f"/jobs/a%2Fb%20%22c%22%3F/models/{NEW}/card"),
    )


async def test_the_view_speaks_spanish(client: Client) -> None:
    page = await load(client, HERE, Accept_Language="es")
    assert "ficha del modelo" in page.text
    assert "model card" not in page.text
    assert "Exactitud aquí" in page.text
    assert "Averaged from" not in page.text


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 bytes"), (999, "999 bytes"), (4_321, "4.3 kB"), (440_616, "441 kB"), (5e9, "5.0 GB")],
)
def test_sizes_are_in_the_unit_that_people_read(size: int, words: str) -> None:
    assert size_words(int(size)) == words


# The buttons of the view of models, as a browser without script presses them.


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
    # Not for the one in use.
    (link,) = [a["href"] or "" for a in page.all("a") if "back=" in (a.get("href") or "")]
    assert link == f"{HERE}?back={OLD}#back"
    page = await load(client, link.partition("#")[0])
    assert "on all nodes if it is started at this node" in page.text
    assert "If another node starts the next round first" in page.text
    assert ("restore", None) in orders(page)
    assert node.orders == []
    page = await press(client, "restore", OLD)
    assert node.orders == [("restore", "MNIST", OLD)]
    assert "The model abababababab is in use again." in page.text
    assert "abababababab in use" in page.text
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
