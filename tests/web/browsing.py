"""What the tests in a real browser share: where it is, what it may talk to, and hands to use it with."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.processes.harness import Harness, until

NAMES = ("chromium", "chromium-browser", "google-chrome")
# CHROMIUM names another browser, or one that is not there: the tests that need it are skipped then.
CHROMIUM = shutil.which(os.environ["CHROMIUM"]) if "CHROMIUM" in os.environ else None
if "CHROMIUM" not in os.environ:
    CHROMIUM = next((found for found in map(shutil.which, NAMES) if found), None)
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # it reaches this machine alone
]
MARKS = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None, reason=f"no browser: none of {', '.join(NAMES)} in PATH, nor in CHROMIUM"
    ),
    # Playwright's driver and Chromium's pipes may be collected after the loop has ended.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
# Of tests that serve the page in their own event loop: one loop for all of them, so that they share one browser.
ASYNC_MARKS = [*MARKS, pytest.mark.asyncio(loop_scope="session")]
LONG = 30_000  # ms; only turns a hang into a failure
HERE = re.compile(r"https?://127\.0\.0\.1:\d+/")
AXE = Path(__file__).parent / "vendor" / "axe-core"
# What is broken, with the first elements that break it, and how many rules are kept: the whole report of a long
# page is megabytes, which take longer to bring here than the rules take to be checked.
BROKEN = """axe.run(document, { resultTypes: ["violations"] }).then((found) => ({
  violations: found.violations.map((rule) => [rule.id, rule.nodes.slice(0, 3).map((part) => part.html)]),
  passes: found.passes.length,
  width: document.documentElement.scrollWidth,
}))"""
OPEN_ALL = "for (const part of document.querySelectorAll('details')) part.open = true"
# The description of the API has the same two tables a hundred times; the rules take longer than all other pages.
FEWER_ENDPOINTS = (
    "for (const part of document.querySelectorAll('.endpoints details:nth-of-type(n+2)')) part.remove()"
)
LOOKS = (("dark", 360), ("light", 1280))  # colours, and width in pixels
SEEN = """() => {
  const style = getComputedStyle(document.activeElement);
  const box = document.activeElement.getBoundingClientRect();
  return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 && box.bottom > 0
    && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
}"""


class Watched:
    """A browser that may talk to this machine only; what else it asks for, and errors of its pages, are kept."""

    def __init__(self, chromium: Any) -> None:
        self.chromium = chromium
        self.contexts: list[Any] = []
        self.foreign: list[str] = []
        self.wrong: list[str] = []

    def new_context(self, **options: Any) -> Any:
        """A person's browser, without memory of another's."""
        context = self.chromium.new_context(**options)
        self.contexts.append(context)
        context.set_default_timeout(LONG)
        context.on("request", self._check)  # to intercept it would cost a third of each page
        context.on("weberror", lambda told: self.wrong.append(str(told.error)))
        return context

    def new_page(self, **options: Any) -> Any:
        """A page in a browser of its own."""
        return self.new_context(**options).new_page()

    def end(self) -> None:
        """Close all, and fail for what was wrong."""
        for context in self.contexts:
            context.close()
        assert self.foreign == []
        assert self.wrong == []

    def _check(self, request: Any) -> None:
        if not HERE.match(request.url):
            self.foreign.append(request.url)


@asynccontextmanager
async def launched(*arguments: str) -> AsyncIterator[Any]:
    """A real browser, for tests of one event loop."""
    playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
    async with playwright.async_playwright() as driver:
        chromium = await driver.chromium.launch(executable_path=CHROMIUM, args=[*ARGS, *arguments])
        yield chromium
        await chromium.close()


@asynccontextmanager
async def for_one_test(chromium: Any) -> AsyncIterator[Any]:
    """That browser without what other tests opened in it."""
    yield chromium
    for context in chromium.contexts:
        await context.close()


@contextmanager
def without_reload(*pages: Any) -> Iterator[None]:
    """Fails when one of the pages is another document afterwards."""
    for page in pages:
        page.evaluate("window.sameDocument = true")
    yield
    assert [page.evaluate("window.sameDocument === true") for page in pages] == [True] * len(pages)


def press_until(page: Any, wanted: Callable[[], bool], key: str = "Tab", most: int = 90) -> None:
    """Press a key until the focus is where it is wanted; wherever it is meanwhile, it can be seen."""
    for _ in range(most):
        page.keyboard.press(key)
        assert page.evaluate(SEEN), page.evaluate("document.activeElement.outerHTML")
        if wanted():
            return
    raise AssertionError(f"{most} times {key} did not lead there")


def tab_to(page: Any, found: Any, key: str = "Tab") -> None:
    """Go to an element with the keyboard alone."""
    press_until(page, lambda: bool(found.evaluate("element => element === document.activeElement")), key)


def see(page: Any, words: str) -> None:
    """Wait until the words stand in the main part."""
    page.locator("main").get_by_text(words).first.wait_for()


def idle(h: Harness) -> None:
    """Wait until no node is in a round."""
    until(lambda: all(node.job()["phase"] == "IDLE" for node in h.nodes), "the end of the round")


@cache
def rules() -> str:
    """The script whose value says which rules of accessibility the page breaks; of both kinds of Playwright."""
    return f"{(AXE / 'axe.min.js').read_text('utf-8')};\n{BROKEN}"


def check_looks(page: Any) -> None:
    """No rule is broken and nothing wider than the window, with all open, on a phone and on a wide screen."""
    page.evaluate(FEWER_ENDPOINTS)
    page.evaluate(OPEN_ALL)
    for scheme, width in LOOKS:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        _check(page.evaluate(rules()), width)


async def check_looks_async(page: Any) -> None:
    """The same for a page of tests with ASYNC_MARKS."""
    await page.evaluate(OPEN_ALL)
    for scheme, width in LOOKS:
        await page.emulate_media(color_scheme=scheme)
        await page.set_viewport_size({"width": width, "height": 900})
        _check(await page.evaluate(rules()), width)


def _check(found: Any, width: int) -> None:
    assert found["violations"] == []
    assert found["passes"] > 20
    assert found["width"] <= width
