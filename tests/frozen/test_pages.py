"""Every page, in many states of a node and in both languages, is rendered as before."""

from __future__ import annotations

import pytest

from tests.frozen.pages import FORM, Asked, shown

from . import golden, twins


async def all_pages(language: str) -> dict[str, str]:
    """All pages of all twins, by the names of both."""
    pages = {}
    for make in twins.SITES:
        client, requests = await make()
        for asked in requests:
            done = asked.before()
            if done is not None:
                await done
            name = f"{make.__name__}: {asked.name}"
            assert name not in pages
            pages[name] = await shown(client, asked, language)
    return pages


@pytest.mark.parametrize("language", ["en", "es"])
async def test_every_page(language: str) -> None:
    golden.check(f"pages-{language}.json.gz", await all_pages(language))


async def test_the_cookie_goes_before_what_the_browser_prefers() -> None:
    client, _ = await twins.fresh()
    await client.post("/look", data=b"language=es&back=/", headers=FORM)
    expected = golden.load("pages-es.json.gz")["fresh: overview"]
    assert await shown(client, Asked("overview", "/"), "en") == expected
