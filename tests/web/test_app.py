"""What holds for every further view."""

from __future__ import annotations

import pytest

from tests.web.conftest import Client
from tests.web.page_reading import Page, load
from tests.web.view_nodes import ViewNode, with_two_models

VIEWS = (
    *("/view/models/MNIST", "/view/predict/MNIST", "/view/data"),
    *("/view/keys", "/view/settings", "/view/api"),
)


@pytest.fixture
def node() -> ViewNode:
    return with_two_models()


@pytest.mark.parametrize("path", VIEWS)
async def test_views_hold_no_script_or_style_of_their_own_and_need_nothing_from_elsewhere(
    client: Client, path: str
) -> None:
    page = await load(client, path)
    assert page.inline == ""
    for _, attrs in page.tags:
        assert not any(name.startswith("on") or name == "style" for name in attrs)
        assert all((attrs.get(name) or "/")[0] in "/#" for name in ("src", "href", "action"))
    for script in page.all("script") + page.all("link"):
        assert (await client.get(script.get("src") or script["href"] or "")).status_code == 200


@pytest.mark.parametrize("path", VIEWS)
async def test_every_field_has_a_label_and_every_table_a_caption(client: Client, path: str) -> None:
    html = await (await client.get(path)).get_data(as_text=True)
    page = Page(html)
    assert len(page.all("table")) == len(page.all("caption"))
    assert [tag for tag, _ in page.tags].count("h1") == 1
    for field in page.all("input") + page.all("select") + page.all("textarea"):
        named = field.get("type") == "hidden" or "aria-label" in field
        before = html[: html.index(f'name="{field["name"]}"')]
        assert named or before.rindex("<label") > before.rfind("</label>")
