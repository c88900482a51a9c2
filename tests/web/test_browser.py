"""The page in a real browser, with JavaScript switched off and on, before a twin node."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .browsing import ASYNC_MARKS, HERE, rules
from .conftest import Running
from .fake_node import FakeNode

pytestmark = ASYNC_MARKS


class AsyncWatched:
    """The browser of `browsing.Watched`, for tests that serve the page in their own event loop."""

    def __init__(self, chromium: Any) -> None:
        self.chromium = chromium
        self.foreign: list[str] = []

    async def new_context(self, **options: Any) -> Any:
        context = await self.chromium.new_context(**options)
        await context.route("**/*", self._check)
        return context

    async def new_page(self, **options: Any) -> Any:
        return await (await self.new_context(**options)).new_page()

    async def _check(self, route: Any) -> None:
        if HERE.match(route.request.url):
            await route.continue_()
        else:
            self.foreign.append(route.request.url)
            await route.abort()


def mesh_of_three(node: FakeNode) -> None:
    """This node, one peer with the same job and another trainer, and one that does not answer."""
    other = FakeNode("NODE_2", 4001)
    peer_job = other.jobs["MNIST"]
    peer_job.round, peer_job.before, peer_job.after, peer_job.exchanged = 3, 0.9012, 0.9287, True
    node.jobs["MNIST"].round = 2
    node.add_peer("NODE_2", "127.0.0.1:4001")
    node.add_peer("NODE_3", "127.0.0.1:4002", "dead", "did not answer in 2 s")
    node.around = [
        {"id": "NODE_2", "address": "127.0.0.1:4001", "info": other.info(), "error": None},
        {"id": "NODE_3", "address": "127.0.0.1:4002", "info": None, "error": "did not answer in 2 s"},
    ]


@pytest.fixture
def browser(async_chromium: Any) -> Iterator[AsyncWatched]:
    watched = AsyncWatched(async_chromium)
    yield watched
    assert watched.foreign == []


async def test_a_request_to_another_host_fails_a_test(running: Running, browser: AsyncWatched) -> None:
    async with running() as port:
        page = await browser.new_page(bypass_csp=True)
        await page.goto(f"http://127.0.0.1:{port}/")
        await page.evaluate("fetch('http://192.0.2.1/x').catch(() => null)")
    assert browser.foreign == ["http://192.0.2.1/x"]
    browser.foreign.clear()


async def test_a_person_starts_a_round_without_any_script(running: Running, node: FakeNode, browser: Any) -> None:
    mesh_of_three(node)
    requested: list[str] = []
    async with running() as port:
        context = await browser.new_context(java_script_enabled=False)
        page = await context.new_page()
        page.on("request", lambda request: requested.append(request.url))
        await page.goto(f"http://127.0.0.1:{port}/")
        assert await page.get_by_role("heading", name="MNIST Dataset").is_visible()
        assert await page.get_by_role("table", name="MNIST Dataset on the other nodes").is_visible()
        assert await page.get_by_role("cell", name="92.87 %", exact=True).is_visible()
        await shoot(page, "idle")

        await page.get_by_role("button", name="Do a training round").first.click()
        assert await page.get_by_role("status").inner_text() == "Round 3 of MNIST has been started."
        assert node.jobs["MNIST"].phase == "TRAINING"
        await shoot(page, "training")

        await page.get_by_role("button", name="Do a training round").first.click()
        assert "already" in await page.get_by_role("alert").inner_text()

        await node.finish_round("MNIST", before=0.9123, after=0.9345)
        await page.get_by_role("link", name="Refresh").click()
        assert await page.locator("dd", has_text="93.45 %").is_visible()
        assert await page.locator(".outcome", has_text="Round 3 was averaged from 1 update.").is_visible()
        await shoot(page, "done")
        await context.close()
    assert requested
    assert all(url.startswith(f"http://127.0.0.1:{port}/") for url in requested)


async def test_the_page_fits_a_phone_and_can_be_used_with_the_keyboard(
    running: Running, node: FakeNode, browser: Any
) -> None:
    mesh_of_three(node)
    async with running() as port:
        page = await browser.new_page(viewport={"width": 390, "height": 800})
        await page.goto(f"http://127.0.0.1:{port}/")
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390
        focused: list[str] = []
        while len(focused) < 20 and focused.count("Do a training round") < 2:
            await page.keyboard.press("Tab")
            focused.append(await page.evaluate("document.activeElement.innerText"))
        assert focused[0] == "Skip to the content"
        assert {"Look", "Change the hyper-parameters", "Run these rounds"} <= set(focused)
        await page.keyboard.press("Enter")
        async with asyncio.timeout(10):
            await page.get_by_role("status").wait_for()
        assert node.jobs["MNIST_3_7"].phase == "TRAINING"
        await page.close()


MORPH = """async () => {
  const { morph } = await import("/web/morph.js");
  const main = document.getElementById("main");
  const make = (html) => Object.assign(document.createElement("main"), { innerHTML: html });
  main.replaceChildren(...make(`<p>gone</p><ul><li data-key="a">a</li><li data-key="b">b</li></ul>
    <details><summary>s</summary><input name="x" value="1"></details><i data-keep>mine</i><b>1</b>`).childNodes);
  const [a, b] = main.querySelectorAll("li");
  const field = main.querySelector("input");
  main.querySelector("details").open = true;
  field.value = "typed";
  field.focus();
  morph(main, make(`<ul><li data-key="b">B</li><li data-key="c">c</li><li data-key="a">a</li></ul>
    <details class="new"><summary>t</summary><input name="x" value="2"></details>
    <i data-keep>theirs</i><b>2</b><em>new</em>`));
  const items = [...main.querySelectorAll("li")];
  return {
    same: items[0] === b && items[2] === a && main.querySelector("input") === field,
    text: items.map((item) => item.textContent).join(""),
    open: main.querySelector("details").open && main.querySelector("details").className === "new",
    typed: field.value, standing: field.defaultValue, focus: document.activeElement === field,
    kept: main.querySelector("i").textContent, changed: main.querySelector("b").textContent,
    added: main.querySelectorAll("em").length, gone: main.querySelectorAll("p").length,
  };
}"""


async def test_a_part_of_the_page_becomes_another_without_losing_what_is_the_persons(
    running: Running, browser: Any
) -> None:
    async with running() as port:
        page = await browser.new_page()
        await page.goto(f"http://127.0.0.1:{port}/?fragment=main")  # without script of ours that would change it
        assert await page.evaluate(MORPH) == {
            **{"same": True, "text": "Bca", "open": True, "typed": "typed", "standing": "2", "focus": True},
            **{"kept": "mine", "changed": "2", "added": 1, "gone": 0},
        }
        await page.close()


async def test_a_peer_named_like_markup_is_text_in_the_live_page_too(
    running: Running, node: FakeNode, browser: Any
) -> None:
    evil = "<img src=x onerror=alert(1)>"
    alerts: list[str] = []
    async with running() as port:
        page = await browser.new_page()
        page.on("dialog", lambda dialog: alerts.append(dialog.message))
        async with page.expect_response(lambda answer: "/events" in answer.url):
            await page.goto(f"http://127.0.0.1:{port}/")
        node.add_peer(evil, "127.0.0.1:4001")
        node.jobs["MNIST"].waiting_for = [evil]
        await node.feed.publish("update_received", evil, "MNIST", peer=evil)
        await node.feed.publish("round_closed", evil, "MNIST")
        async with asyncio.timeout(10):
            await page.locator(".mesh title", has_text=evil).first.wait_for(state="attached")
            await page.locator(".events > li", has_text=evil).first.wait_for()
            await page.locator("#said", has_text=evil).wait_for(state="attached")
        assert await page.locator("img").count() == 1
        await page.close()
    assert alerts == []


async def shoot(page: Any, name: str) -> None:
    """Pictures for a person, in the folder that PAGE_PICTURES names; none without it."""
    folder = os.environ.get("PAGE_PICTURES")
    if folder is None:
        return
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        for width in (1280, 390):
            await page.set_viewport_size({"width": width, "height": 900})
            path = Path(folder) / f"{name}-{scheme}-{width}.png"
            await page.screenshot(path=path, full_page=True)
    await page.set_viewport_size({"width": 1280, "height": 900})


async def test_what_is_refused_before_it_comes_to_a_form_is_told_too(
    running: Running, node: FakeNode, browser: Any
) -> None:
    async with running() as port:
        page = await browser.new_page()
        await page.goto(f"http://127.0.0.1:{port}/")
        await page.locator("form[data-filter], html[data-script]").first.wait_for(state="attached")
        too_long = "input => { input.value = 'x'.repeat(100_000); input.form.requestSubmit(); }"
        await page.locator("input[name=trainerId]").first.evaluate(too_long)  # at once: an update would undo it
        async with asyncio.timeout(10):
            await page.get_by_role("alert").wait_for()
        assert "bytes" in await page.get_by_role("alert").inner_text()
        assert await page.get_by_role("heading", name="MNIST Dataset").is_visible()
        await page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
async def test_no_rule_is_broken_during_a_round_with_an_error_and_a_peer_that_is_gone(
    running: Running, node: FakeNode, browser: Any, scheme: str, width: int
) -> None:
    mesh_of_three(node)
    job = node.jobs["MNIST"]
    job.phase, job.progress, job.waiting_for = "TRAINING", {"done": 3, "total": 10}, ["<img src=x>", "NODE_2"]
    node.jobs["MNIST_3_7"].error = "training diverged"
    await node.feed.publish("peer_lost", "NODE_3 does not answer", peer="NODE_3")
    async with running() as port:
        page = await browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        await page.goto(f"http://127.0.0.1:{port}/")
        await page.locator("form[data-filter]").wait_for()
        assert await page.locator("progress").count() == 1
        assert await page.get_by_text("training diverged").is_visible()
        await page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
        found = await page.evaluate(rules())
        assert found["violations"] == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        await page.close()


async def test_after_more_events_than_are_kept_the_page_shows_what_is_now(
    running: Running, node: FakeNode, browser: Any
) -> None:
    fetched: list[str] = []
    async with running() as port:
        context = await browser.new_context()
        page = await context.new_page()
        await page.goto(f"http://127.0.0.1:{port}/")
        await page.locator("form[data-filter], html[data-script]").first.wait_for(state="attached")
        await context.set_offline(True)
        await page.locator("#connection").get_by_text("is lost").wait_for()
        for number in range(node.feed.keep + 100):
            await node.feed.publish("round_closed", f"closed {number}", "MNIST")
        page.on("request", lambda request: fetched.append(request.url) if "fragment" in request.url else None)
        await context.set_offline(False)
        await page.locator(".events > li", has_text=f"closed {node.feed.keep + 99}").wait_for()
        assert await page.locator(".events > li").count() == 50
        assert len(fetched) < 10
        await context.close()
