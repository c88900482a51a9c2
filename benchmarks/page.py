"""What the page costs: first paint on a slow processor, bytes, an open page that waits, from event to screen."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from benchmarks.bounds import BOUNDS
from benchmarks.machine import cpu_seconds
from benchmarks.nodes import Ask, Mesh, mesh
from benchmarks.options import Options
from benchmarks.report import Row, short

TRAINER = "MNIST"
VIEWS = ("/", "/view/models", "/view/predict", "/view/data", "/view/settings", "/view/api")
SLOWER = 4  # by which the browser's processor is slowed down
VISITS = 6
EVENTS = 9
IDLE_S = 60.0
NODES = 3
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
)
# When the events of some kind that are on the page came to it; seconds since the epoch.
WATCH = """() => {
  window.seen = {};
  new MutationObserver(() => {
    for (const item of document.querySelectorAll(".events > li"))
      window.seen[item.dataset.key] ??= Date.now() / 1000;
  }).observe(document.querySelector("main"), { subtree: true, childList: true });
}"""


def run(options: Options) -> None:
    """Three nodes that learnt digits, seen in Chromium."""
    ask = Ask(TRAINER, options.nodes or NODES, {}, {})
    with mesh(ask, options.place("page"), options.base_port) as nodes, browser() as chromium:
        nodes.wait_until_ready()
        nodes.train(3, 120.0)
        address = f"http://{nodes.nodes[0].address}"
        for view in VIEWS:
            _view(options, chromium, address, view)
        _events(options, chromium, nodes)
        _waiting(options, chromium, nodes)


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium without a window.

    Raises:
        FileNotFoundError: there is none.
    """
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  the other measurements need no browser

    path = os.environ.get("CHROMIUM") or next(
        (program for program in map(shutil.which, BROWSERS) if program), None
    )
    if path is None:
        raise FileNotFoundError(f"none of {', '.join(BROWSERS)} is in PATH")
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        yield started
        started.close()


def _view(options: Options, chromium: Any, address: str, view: str) -> None:
    """First paint and bytes of a view, each time for somebody who was never there."""
    paints, weights, requests = [], [], 0
    for _ in range(options.times(VISITS)):
        with _page(chromium) as (page, devtools):
            devtools.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
            weight = _weigh(devtools)
            page.goto(address + view, wait_until="load")
            page.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length")
            page.wait_for_timeout(300)  # scripts that are asked for late, and the first update
            paints.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
            weights.append(sum(weight) / 1000)
            requests = len(weight)
    name = view if view == "/" else view.removeprefix("/view")
    words = f"page {name}: first paint, processor {SLOWER} times slower"
    options.report.add(Row(words, "ms", paints, bound=BOUNDS["page.paint"]))
    note = f"{requests} requests, with their heads"
    options.report.add(Row(f"page {name}: bytes", "kB", weights, bound=BOUNDS["page.weight"], note=note))


def _events(options: Options, chromium: Any, nodes: Mesh) -> None:
    """From when the node noted an event until it stands on the page; and what updating costs."""
    with _page(chromium) as (page, devtools):
        page.goto(f"http://{nodes.nodes[0].address}/")
        page.locator("form[data-filter]").wait_for()
        page.wait_for_timeout(1000)
        page.evaluate(WATCH)
        weight = _weigh(devtools, "fragment=main")
        before, begun = cpu_seconds(nodes.nodes[0].process.pid), time.time()
        nodes.train(options.times(EVENTS), 120.0)
        page.wait_for_timeout(2500)
        seen = page.evaluate("window.seen")
        cost = cpu_seconds(nodes.nodes[0].process.pid) - before
        lasted = time.time() - begun
    noted = {str(event["id"]): event["at"] for event in _kept(nodes)}
    taken = [1000 * (at - noted[key]) for key, at in seen.items() if key in noted and noted[key] >= begun]
    bound = BOUNDS["page.event"]
    options.report.add(
        Row("page: from an event to the screen", "ms", taken, bound=bound, note=f"{len(taken)} events")
    )
    options.report.add(
        Row("page: bytes of an update", "kB", [each / 1000 for each in weight], note="with its head")
    )
    words = f"{len(weight)} updates in {lasted:.0f} s; the node used {short(cost)} s of processor, rounds included"
    options.report.write(f"page: {words}")


def _waiting(options: Options, chromium: Any, nodes: Mesh) -> None:
    """The processor time of a node that nobody asks anything, without and with an open page."""
    seconds = options.times(int(IDLE_S))
    pid = nodes.nodes[0].process.pid
    without = _share(pid, lambda: time.sleep(seconds))
    with _page(chromium) as (page, _):
        page.goto(f"http://{nodes.nodes[0].address}/")
        page.wait_for_timeout(3000)
        opened = _share(pid, lambda: page.wait_for_timeout(1000 * seconds))
    note = f"{seconds} s each; without a page {short(without)} %, with one {short(opened)} %"
    words = "page: what an open page adds to a waiting node"
    options.report.add(
        Row(words, "% of a core", [max(0.0, opened - without)], bound=BOUNDS["page.idle"], note=note)
    )


def _share(pid: int, wait: Callable[[], None]) -> float:
    """Percent of one core that a process uses meanwhile."""
    before, begun = cpu_seconds(pid), time.monotonic()
    wait()
    return 100 * (cpu_seconds(pid) - before) / (time.monotonic() - begun)


@contextmanager
def _page(chromium: Any) -> Iterator[tuple[Any, Any]]:
    """A page of somebody who was never there, and its developer tools."""
    context = chromium.new_context()
    page = context.new_page()
    yield page, context.new_cdp_session(page)
    context.close()


def _weigh(devtools: Any, wanted: str = "") -> list[float]:
    """A list that the bytes of each answer come to, as they were on the line."""
    weight: list[float] = []
    chosen: set[str] = set()

    def sent(told: Any) -> None:
        if wanted in told["request"]["url"]:
            chosen.add(told["requestId"])

    def ended(told: Any) -> None:
        if told["requestId"] in chosen:
            weight.append(told["encodedDataLength"])

    devtools.send("Network.enable")
    devtools.on("Network.requestWillBeSent", sent)
    devtools.on("Network.loadingFinished", ended)
    return weight


def _kept(nodes: Mesh) -> list[Any]:
    """What the first node's feed keeps."""
    text = httpx.get(f"http://{nodes.nodes[0].address}/events.jsonl", trust_env=False).text
    return [json.loads(line) for line in text.splitlines()]
