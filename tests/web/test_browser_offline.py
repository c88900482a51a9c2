"""A page whose node stops, hangs or cannot be reached: it says so, finds back by itself, and listens once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.processes.harness import Harness, RealNode, answers, harness, until

from .browsing import LONG, MARKS, Watched, idle, without_reload

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*MARKS, pytest.mark.slow]
Open = Callable[..., Any]
HIDE = """hidden => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Nodes n0 and n1, whose trainings end at once."""
    with harness(tmp_path_factory.mktemp("offline")) as h:
        for _ in range(2):
            h.start(COMPUTE="thread")
        h.ready()
        h.go()
        yield h


class Streams:
    """The streams of events that a page has open, and how often it fetched its main part."""

    def __init__(self, page: Any) -> None:
        self.open: set[Any] = set()
        self.fetched = 0
        page.on("request", self._asked)
        for end in ("requestfinished", "requestfailed"):
            page.on(end, self._ended)

    def _asked(self, request: Any) -> None:
        if urlsplit(request.url).path == "/events":
            self.open.add(request)
        self.fetched += "fragment=main" in request.url

    def _ended(self, request: Any) -> None:
        self.open.discard(request)


def follow(browser: Watched, node: RealNode) -> tuple[Any, Streams]:
    """The page of a node whose clock a test can set forward, and its streams."""
    page = browser.new_page()
    page.clock.install()
    streams = Streams(page)
    page.goto(f"http://127.0.0.1:{node.port}/")
    page.locator("form[data-filter]").wait_for()
    return page, streams


def told(page: Any, words: str) -> None:
    """Wait for the banner."""
    sync_api.expect(page.locator("#connection")).to_contain_text(words, timeout=LONG)


def round_on(node: RealNode, h: Harness) -> int:
    """Do a round from start to end; its number."""
    before = int(node.job()["current_round"])
    assert node.trigger().status_code == 202
    until(lambda: int(node.job()["current_round"]) > before, "the next round")
    idle(h)
    return int(node.job()["current_round"])


def shows(page: Any, number: int) -> None:
    """Wait until the page tells of the end of a round."""
    page.wait_for_function(
        "number => [...document.querySelectorAll('.events > li[data-kind=round_closed]')]"
        ".some(item => item.innerText.includes(`round ${number} `))",
        arg=number,
    )


def test_a_node_that_hangs_is_told_within_seconds_and_found_again(mesh: Harness, browser: Watched) -> None:
    idle(mesh)
    node = mesh.nodes[1]
    page, streams = follow(browser, node)
    with without_reload(page):
        node.process.send_signal(signal.SIGSTOP)
        try:
            page.clock.fast_forward(9_000)
            told(page, "is lost")
        finally:
            node.process.send_signal(signal.SIGCONT)
        told(page, "is back")
        page.clock.fast_forward(6_000)
        sync_api.expect(page.locator("#connection")).to_be_hidden(timeout=LONG)
        shows(page, round_on(node, mesh))
    assert len(streams.open) == 1


def test_a_page_without_a_network_says_so_and_catches_up(mesh: Harness, browser: Watched) -> None:
    idle(mesh)
    page, streams = follow(browser, mesh.nodes[0])
    with without_reload(page):
        page.context.set_offline(True)
        told(page, "is lost")
        missed = round_on(mesh.nodes[1], mesh)
        page.context.set_offline(False)
        told(page, "is back")
        shows(page, missed)
        shows(page, round_on(mesh.nodes[0], mesh))
    assert len(streams.open) == 1


def test_a_button_that_cannot_be_served_says_so(mesh: Harness, browser: Watched) -> None:
    idle(mesh)
    page, _ = follow(browser, mesh.nodes[0])
    before = mesh.nodes[0].job()["current_round"]
    page.context.set_offline(True)
    page.get_by_role("button", name="Do a training round").click()
    told(page, "is lost")
    sync_api.expect(page.locator("[aria-busy=true]")).to_have_count(0, timeout=LONG)
    assert mesh.nodes[0].job()["current_round"] == before


def test_a_restarted_node_is_listened_to_once(mesh: Harness, browser: Watched) -> None:
    idle(mesh)
    old = mesh.nodes[1]
    page, streams = follow(browser, old)
    with without_reload(page):
        old.process.terminate()
        old.process.wait()
        told(page, "is lost")
        state = str(mesh.folder / "state1")
        again = mesh.start(
            COMPUTE="thread", NODE_ID="n1", NODE_PORT=str(old.port), STATE_PATH=state, DATA_SHARD="2/9"
        )
        mesh.nodes.remove(again)
        again.port, old.process = old.port, again.process
        until(lambda: answers(old, "/ready"), "readiness")
        page.clock.fast_forward(11_000)  # past the longest pause between two attempts
        told(page, "is back")
        shows(page, round_on(old, mesh))
    assert len(streams.open) == 1


def test_a_hidden_tab_listens_to_nothing_and_fetches_nothing(mesh: Harness, browser: Watched) -> None:
    idle(mesh)
    page, streams = follow(browser, mesh.nodes[0])
    with without_reload(page):
        page.evaluate(HIDE, True)
        until(lambda: not page.wait_for_timeout(20) and not streams.open, "the end of the stream")
        fetched = streams.fetched
        missed = round_on(mesh.nodes[0], mesh)
        page.clock.fast_forward(120_000)
        assert streams.fetched == fetched
        assert not streams.open
        page.evaluate(HIDE, False)
        shows(page, missed)
    assert len(streams.open) == 1
