"""What all further views have in common: the way to the first trainer, and errors as pages."""

from __future__ import annotations

import gzip
import re
from typing import get_args

import httpx
import pytest
from quart import Quart

from flnet.errors import NotReady
from flnet.settings import load_settings
from flnet.web.api.mesh import InfoView
from flnet.web.app import SMALLEST_COMPRESSED, create_app
from flnet.web.page.frame import (
    MODES,
    THEME_COOKIE,
    Notice,
    Notices,
    choices,
    notices,
    view_url,
)
from flnet.web.translation import LANGUAGE_COOKIE, translate
from tests.web.conftest import Client, Running
from tests.web.fake_node import FakeNode
from tests.web.page_reading import Page, load, post
from tests.web.view_nodes import ViewNode, with_two_models


@pytest.fixture
def node() -> ViewNode:
    return with_two_models()


async def test_the_language_is_the_browsers_until_a_person_chooses_one(client: Client) -> None:
    assert "Do a training round" in (await load(client)).text
    spanish = await load(client, Accept_Language="de, es-AR;q=0.8, en;q=0.5")
    assert spanish.all("html")[0]["lang"] == "es"
    assert "Hacer una ronda de entrenamiento" in spanish.text
    assert "Do a training round" not in spanish.text
    assert await post(client, "/look", language="en", theme="dark", back="/") == (303, "/")
    assert "Do a training round" in (await load(client, Accept_Language="es")).text


async def test_the_page_says_how_nodes_know_each_other(client: Client, node: FakeNode) -> None:
    keyed = create_app(node, load_settings({"mesh_key": "correct horse battery staple"}, {})).test_client()
    for path in ("/", "/view/keys", "/view/data", "/view/api", "/sign-in"):
        assert "open mesh" in (await load(client, path)).text
        page = await load(keyed, path)
        assert "mesh with a key" in page.text and "signed but not encrypted" in page.text
        assert "correct horse" not in page.text
    assert "malla con clave" in (await load(keyed, Accept_Language="es")).text


async def test_the_theme_is_rendered_so_that_nothing_flashes(client: Client) -> None:
    assert "data-theme" not in (await load(client)).all("html")[0]
    for theme in ("dark", "light"):
        await post(client, "/look", theme=theme)
        page = await load(client)
        assert page.all("html")[0]["data-theme"] == theme
        assert {"name": "color-scheme", "content": theme} in page.all("meta")
    await post(client, "/look", theme="auto")
    assert "data-theme" not in (await load(client)).all("html")[0]


@pytest.mark.parametrize("value", ["", "xx", '"><script>', "../en"])
async def test_an_unknown_choice_changes_nothing(client: Client, value: str) -> None:
    answer = await client.post("/look", data=f"language={value}&theme={value}".encode())
    assert answer.status_code == 303
    assert "Set-Cookie" not in answer.headers
    cookies = f'{LANGUAGE_COOKIE}="{value}"; {THEME_COOKIE}="{value}"'.encode("ascii", "replace").decode()
    html = (await load(client, Cookie=cookies)).all("html")[0]
    assert html == {"lang": "en"}


@pytest.mark.parametrize(
    "back", ["//evil.example", "/\\evil.example", "http://evil.example", "", "/a\nb", "/" * 600]
)
async def test_the_choice_leads_back_to_this_node_only(client: Client, back: str) -> None:
    assert (await post(client, "/look", theme="dark", back=back))[1] == "/"
    assert (await post(client, "/look", theme="dark", back="/view/data?x=1"))[1] == "/view/data?x=1"


async def test_a_choice_from_another_site_is_refused(client: Client) -> None:
    answer = await client.post("/look", data=b"theme=dark", headers={"Origin": "http://evil.example"})
    assert answer.status_code == 403


async def test_the_main_part_alone_is_what_live_updates_fetch(client: Client, node: FakeNode) -> None:
    answer = await client.get("/?fragment=main", headers={"Accept": "text/html"})
    html = await answer.get_data(as_text=True)
    assert html.strip().startswith('<main id="main"')
    assert html.strip().endswith("</main>")
    assert {tag for tag, _ in Page(html).tags} & {"html", "head", "header", "footer", "script"} == set()
    whole = await (await client.get("/")).get_data(as_text=True)
    assert html.strip() in whole


async def test_nothing_is_sent_again_that_has_not_changed(client: Client, node: FakeNode) -> None:
    tag = (await client.get("/?fragment=main")).headers["ETag"]
    again = await client.get("/?fragment=main", headers={"If-None-Match": tag})
    assert (again.status_code, await again.get_data()) == (304, b"")
    node.jobs["MNIST"].after = 0.5
    changed = await client.get("/?fragment=main", headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["ETag"] != tag


async def test_files_are_kept_for_long_by_their_version_only(client: Client) -> None:
    page = await load(client)
    styles = [str(link["href"]) for link in page.all("link") if link["rel"] == "stylesheet"]
    assert styles and all(re.fullmatch(r"/web/[0-9a-f]{12}/(style|mesh)\.css", style) for style in styles)
    (script,) = page.all("script")
    assert script["type"] == "module"
    for path in (*styles, str(script["src"])):
        answer = await client.get(path)
        assert "immutable" in answer.headers["Cache-Control"]
    assert (await client.get(str(script["src"]))).mimetype == "text/javascript"
    for path in ("/web/style.css", "/web/000000000000/style.css"):
        assert (await client.get(path)).headers["Cache-Control"] == "no-cache"


async def test_the_navigation_names_only_pages_that_are_there(client: Client) -> None:
    links = [link for link in (await load(client)).all("a") if (link["href"] or "").startswith("/view/")]
    for link in links:
        path, *_ = str(link["href"]).partition("#")  # a browser keeps what follows to itself
        assert (await client.get(path, follow_redirects=True)).status_code == 200


# notices


def test_a_notice_is_found_by_its_key_only_and_the_oldest_goes() -> None:
    kept = Notices(most=2)
    keys = [kept.put(Notice(f"{number}", is_error=False)) for number in range(3)]
    assert [kept.get(key) for key in keys] == [None, Notice("1", is_error=False), Notice("2", is_error=False)]
    assert kept.get(None) is kept.get("") is kept.get("1") is None
    assert len(set(keys)) == 3


async def test_all_pages_of_a_node_share_them_and_two_nodes_do_not() -> None:
    one, other = Quart("one"), Quart("other")
    async with one.app_context():
        key = notices().put(Notice("done", is_error=False))
        assert notices().get(key) is not None
    async with one.app_context():
        assert notices().get(key) is not None
    async with other.app_context():
        assert notices().get(key) is None


# compressing


async def fetch(client: Client, path: str, codings: str) -> tuple[bytes, str | None]:
    """The body as it travels, and its coding."""
    answer = await client.get(path, headers={"Accept-Encoding": codings} if codings else {})
    assert answer.status_code == 200
    return bytes(await answer.get_data(as_text=False)), answer.headers.get("Content-Encoding")


@pytest.mark.parametrize("path", ["/", "/?fragment=main", "/view/api", "/web/style.css", "/web/live.js"])
async def test_a_page_that_a_browser_asks_for_travels_compressed_and_is_the_same(
    client: Client, path: str
) -> None:
    plain, none = await fetch(client, path, "")
    packed, coding = await fetch(client, path, "gzip, deflate, br")
    assert (none, coding) == (None, "gzip")
    opened = gzip.decompress(packed)
    assert re.sub(rb"\d\d:\d\d:\d\d", b"", opened) == re.sub(rb"\d\d:\d\d:\d\d", b"", plain)
    assert len(packed) < len(plain) / 2


@pytest.mark.parametrize("codings", ["", "br", "identity", "gzip;q=0", "deflate, gzip;q=0.0"])
async def test_who_does_not_take_gzip_gets_none(client: Client, codings: str) -> None:
    assert (await fetch(client, "/", codings))[1] is None


@pytest.mark.parametrize("path", ["/info", "/openapi.json", "/events.jsonl", "/health"])
async def test_what_programs_ask_for_stays_as_it_is(client: Client, path: str) -> None:
    assert (await fetch(client, path, "gzip"))[1] is None


async def test_the_stream_of_events_is_not_held_up(running: Running) -> None:
    async with (
        running() as port,
        httpx.AsyncClient(trust_env=False, timeout=60) as http,
        http.stream("GET", f"http://127.0.0.1:{port}/events", headers={"Accept-Encoding": "gzip"}) as answer,
    ):
        assert "Content-Encoding" not in answer.headers
        assert await anext(answer.aiter_lines()) == "retry: 2000"


async def test_a_small_answer_is_not_worth_it(client: Client) -> None:
    plain, coding = await fetch(client, "/web/icon.svg", "gzip")
    assert len(plain) < SMALLEST_COMPRESSED
    assert coding is None


async def test_what_has_not_changed_is_told_so_with_and_without_gzip(client: Client) -> None:
    first = await client.get("/view/api", headers={"Accept-Encoding": "gzip"})
    assert "Accept-Encoding" in first.headers["Vary"]
    page = await client.get("/?fragment=main", headers={"Accept-Encoding": "gzip"})
    again = await client.get(
        "/?fragment=main", headers={"Accept-Encoding": "gzip", "If-None-Match": page.headers["ETag"]}
    )
    assert again.status_code == 304
    assert await again.get_data(as_text=False) == b""


# mesh_mode


@pytest.mark.parametrize("name", get_args(InfoView.model_fields["mode"].annotation))
def test_every_way_to_run_is_explained_in_both_languages(name: str) -> None:
    mode = MODES[name]
    for text in (mode.name, mode.means, mode.hides):
        assert text and translate("es", text) != text


def test_only_the_open_one_and_two_keys_at_a_time_warn() -> None:
    assert [name for name, mode in MODES.items() if mode.chip == "warn"] == ["open", "changing"]


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
