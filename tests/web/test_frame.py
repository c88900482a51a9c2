from __future__ import annotations

import re

import pytest

from flnet.settings import load_settings
from flnet.web import create_app
from flnet.web.frame import LANGUAGE_COOKIE, THEME_COOKIE

from .conftest import Client
from .fake_node import FakeNode
from .page_reading import Page, load, post


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
    assert "open mesh" in (await load(client)).text
    page = await load(keyed)
    assert "mesh with a key" in page.text and "correct horse" not in page.text
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
        assert (await client.get(str(link["href"]), follow_redirects=True)).status_code == 200
