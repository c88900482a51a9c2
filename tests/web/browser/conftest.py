"""One browser for the tests of a module that wait by themselves, and one for all that share an event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio

from tests.processes.harness import RealNode
from tests.web.browsing import ARGS, CHROMIUM, LONG, Watched, for_one_test, launched


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A real browser, for the tests of one module."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as driver:
        sync_api.expect.set_options(timeout=LONG)
        started = driver.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield started
        started.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_chromium() -> AsyncIterator[Any]:
    """A real browser, for all tests with ASYNC_MARKS."""
    async with launched() as chromium:
        yield chromium


@pytest_asyncio.fixture(loop_scope="session")
async def async_chromium(shared_chromium: Any) -> AsyncIterator[Any]:
    """That browser for one test."""
    async with for_one_test(shared_chromium) as chromium:
        yield chromium


@pytest_asyncio.fixture(loop_scope="session")
async def page(request: pytest.FixtureRequest, async_chromium: Any) -> AsyncIterator[Any]:
    """A page that tells no error and opens no dialog; options of its context come as the parameter."""
    wrong: list[str] = []
    opened = await (await async_chromium.new_context(**getattr(request, "param", {}))).new_page()
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("dialog", lambda dialog: wrong.append(dialog.message))
    opened.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    yield opened
    assert wrong == []


@pytest.fixture
def browser(chromium: Any) -> Iterator[Watched]:
    """That browser for one test, which fails when a page asks another host for anything, or has an error."""
    watched = Watched(chromium)
    yield watched
    watched.end()


@pytest.fixture
def visit(browser: Watched) -> Callable[..., Any]:
    """`visit(node, path, **options)`: a view of a node, for a person of their own."""

    def open_page(node: RealNode, path: str = "/", **options: Any) -> Any:
        page = browser.new_page(**options)
        page.goto(f"http://127.0.0.1:{node.port}{path}")
        return page

    return open_page
