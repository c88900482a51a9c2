"""A person follows and steers rounds on the live pages of three real nodes, with the keyboard where it matters;
the pages find back by themselves when a node stops, hangs, or cannot be reached.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.processes.harness import SLOW_TRAINER, Harness, RealNode, harness, until
from tests.web.browsing import MARKS, Watched, idle, see, tab_to, without_reload

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = sync_api.expect
pytestmark = [*MARKS, pytest.mark.slow]
Open = Callable[..., Any]
# Each node's training lasts until all, or it alone, are let go.
TRAINER = SLOW_TRAINER.replace("sum(range(200_000))", "time.sleep(0.01)").replace(
    "while not GO.exists():", 'while not (GO.exists() or GO.with_name(f"go{int(self.part)}").exists()):'
)
ALIVE = re.compile(r"\balive\b")
WATCH_EDGES = """() => {
  window.lit = new Set();
  new MutationObserver((changes) => {
    for (const { target } of changes)
      if (target.hasAttribute("data-lit")) window.lit.add([target.dataset.a, target.dataset.b].sort().join());
  }).observe(document.querySelector(".mesh"), { subtree: true, attributeFilter: ["data-lit"] });
}"""
LISTEN = """() => {
  const region = document.getElementById("said");
  window.heard = [];
  const note = () => window.heard.push(`${region.lang}: ${region.textContent}`);
  new MutationObserver(note).observe(region, { childList: true, characterData: true, subtree: true });
}"""
HIDE = """hidden => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with harness(tmp_path_factory.mktemp("live")) as h:
        (h.trainers / "SLOW.py").write_text(TRAINER)
        for _ in range(3):
            h.start(COMPUTE="thread", REQUEST_TIMEOUT_IN_SECONDS="2")
        h.ready()
        yield h


@pytest.fixture
def mesh(nodes: Harness) -> Iterator[Harness]:
    """Nodes n0, n1, n2 at rest; their trainings last until a test lets them end."""
    for file in nodes.trainers.glob("go*"):
        file.unlink()
    nodes.meshed(*nodes.nodes)
    yield nodes
    nodes.go()
    idle(nodes)


def card_of(page: Any) -> Any:
    return page.locator("article", has=page.get_by_role("heading", name="SLOW"))


def ended(page: Any) -> None:
    """Wait until the page shows no round."""
    expect(page.locator("article .chip.busy")).to_have_count(0)


def rounds_on(mesh: Harness, node: RealNode, count: int = 1) -> int:
    """Do rounds from start to end; the number of the last one."""
    mesh.go()
    for _ in range(count):
        before = int(node.job()["current_round"])
        assert node.trigger().status_code == 202
        until(lambda before=before: int(node.job()["current_round"]) > before, "the next round")  # type: ignore[misc]
        idle(mesh)
    return int(node.job()["current_round"])


# One page follows another.


def test_a_round_that_is_started_on_one_page_is_followed_on_others_in_their_language(
    mesh: Harness, visit: Open
) -> None:
    here, there, spanish = visit(mesh.nodes[0]), visit(mesh.nodes[1]), visit(mesh.nodes[2], locale="es-ES")
    there.evaluate(WATCH_EDGES)
    spanish.evaluate(LISTEN)
    number = mesh.nodes[0].job()["current_round"] + 1
    with without_reload(here, there, spanish):
        here.get_by_role("button", name="Do a training round").click()
        see(there, "of the local training")
        expect(there.locator("article .chip.busy").first).to_have_text("Training")
        bar = there.locator("progress")
        expect(bar).not_to_have_attribute("value", bar.get_attribute("value"))
        # Not before: of what happens within an instant, only the newest is announced to screen readers.
        spanish.wait_for_function("() => window.heard.some((text) => text.includes('iniciada'))")
        mesh.go()
        ended(there)
        expect(there.locator("dd", has_text=re.compile(f"^{number}$")).first).to_be_visible()
        see(there, "50.00 %")
        expect(there.locator("article > figure.chart")).to_have_count(1)
        expect(there.locator("#said")).to_contain_text(f"round {number} closed")
        assert set(there.evaluate("[...window.lit]")) == {"n0,n1", "n1,n2"}
        spanish.wait_for_function("() => window.heard.some((text) => text.includes('cerrada'))")
        expect(spanish.locator("ol.events")).to_contain_text(f"ronda {number} cerrada")
        heard = spanish.evaluate("window.heard")
        assert f"es: la ronda {number} de SLOW fue iniciada por n0" in heard
        assert any(text.startswith(f"es: ronda {number} cerrada: promedio de 3 ") for text in heard)
        expect(spanish.locator("ol.events span[lang=en]")).to_have_count(0)


def test_states_distances_models_and_who_waits_for_whom_are_seen_live(mesh: Harness, visit: Open) -> None:
    page = visit(mesh.nodes[0])
    arrows = page.locator(".mesh .waits")

    def row(name: str) -> Any:
        return page.locator(f'.mesh-part tr[data-key="{name}"]')

    def arrow(waiting: str, awaited: str) -> Any:
        return page.locator(f'.mesh .waits[data-waiting="{waiting}"][data-awaited="{awaited}"]')

    with without_reload(page):
        for name in ("n1", "n2"):
            expect(row(name)).to_contain_text("alive")
            expect(row(name)).to_contain_text(re.compile(r"\d ms"))
            expect(page.locator(f'.mesh .dot[data-id="{name}"]')).to_have_class(ALIVE)
        expect(page.locator('.mesh .dot[data-id="n0"]')).to_have_class(re.compile(r"\bself\b"))
        expect(arrows).to_have_count(0)

        assert mesh.nodes[0].trigger().status_code == 202
        (mesh.trainers / "go1").touch()
        expect(row("n0")).to_contain_text("waits for n1, n2")
        expect(arrow("n0", "n1")).to_have_count(1)
        (mesh.trainers / "go2").touch()
        expect(row("n1")).to_contain_text("waits for n2")
        expect(row("n0")).not_to_contain_text("n1,")
        expect(arrow("n1", "n2")).to_have_count(1)
        expect(arrow("n0", "n1")).to_have_count(0)
        (mesh.trainers / "go3").touch()
        expect(arrows).to_have_count(0)
        expect(page.locator(".mesh .dot .letter")).to_have_text(["A", "A", "A"])
        expect(page.locator("figure.chart .line title").first).to_be_attached()


def test_the_peers_lines_come_from_their_histories_though_nobody_looked(mesh: Harness, visit: Open) -> None:
    rounds_on(mesh, mesh.nodes[0], 2)
    page = visit(mesh.nodes[2])  # what the peers said a second ago is shown at first
    chart = page.locator("figure.chart").first
    expect(chart.locator("figcaption li")).to_contain_text(["n2, after", "n2, before", "n0", "n1"])
    for line, node in ((2, mesh.nodes[0]), (3, mesh.nodes[1])):
        circles = chart.locator(f"svg[role=img] .line-{line} circle")
        expect(circles).to_have_count(len(node.history("SLOW")))


# With the keyboard alone.


def test_the_first_key_leads_past_the_header(mesh: Harness, visit: Open) -> None:
    page = visit(mesh.nodes[0])
    tab_to(page, page.get_by_role("link", name="Skip to the content"))
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")


def test_a_round_is_started_paused_and_resumed(mesh: Harness, visit: Open) -> None:
    number = mesh.nodes[0].job()["current_round"] + 1
    page = visit(mesh.nodes[0])
    with without_reload(page):
        start = card_of(page).get_by_role("button", name="Do a training round")
        tab_to(page, start)
        page.keyboard.press("Enter")
        see(page, "of the local training")
        assert start.evaluate("element => element === document.activeElement")
        pause = card_of(page).get_by_role("button", name="Pause")
        tab_to(page, pause)
        page.keyboard.press("Space")
        card_of(page).get_by_role("button", name="Resume").wait_for()
        see(page, "Paused")
        assert mesh.nodes[0].job()["paused"] is True
        assert page.evaluate("document.activeElement.innerText") == "Resume"
        page.keyboard.press("Space")
        pause.wait_for()
        mesh.go()
        ended(page)
    assert mesh.nodes[0].job()["current_round"] == number
    assert mesh.nodes[0].job()["paused"] is False


def test_a_parameter_is_edited_while_a_round_changes_the_page(mesh: Harness, visit: Open) -> None:
    page = visit(mesh.nodes[0])
    with without_reload(page):
        tab_to(page, card_of(page).get_by_text("Change the hyper-parameters"))
        page.keyboard.press("Enter")
        field = card_of(page).get_by_label("Learning rate (u)")
        tab_to(page, field)
        page.keyboard.press("Control+A")
        page.keyboard.type("0.12")
        events = page.locator(".events")
        events.evaluate("list => { list.scrollTop = 40 }")
        scrolled = events.evaluate("list => list.scrollTop")
        assert mesh.nodes[1].trigger().status_code == 202
        bar = card_of(page).locator("progress")
        bar.wait_for()
        expect(bar).not_to_have_attribute("value", bar.get_attribute("value"))
        page.keyboard.type("5")
        expect(field).to_have_value("0.125")
        mesh.go()
        ended(page)
        assert field.evaluate("element => element === document.activeElement")
        assert events.evaluate("list => list.scrollTop") >= scrolled
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_have_text(re.compile("are saved"))
        assert mesh.nodes[0].job()["hyper"]["u"] == 0.125
        epochs = page.get_by_label("Epochs (e)")
        epochs.fill("0")
        unchecked = "form => { form.noValidate = true; form.requestSubmit(form.querySelector('button')); }"
        page.locator("form.hyper:has([name='e'])").evaluate(unchecked)  # at once: an update would undo it
        expect(page.get_by_role("alert")).to_contain_text("e: ")
        expect(epochs).to_have_value("0")


def test_events_are_filtered_and_scrolled(mesh: Harness, visit: Open) -> None:
    page = visit(mesh.nodes[0])
    shown = page.locator(".events > li:visible")
    kind = page.get_by_label("Kind")
    tab_to(page, kind)
    page.keyboard.press("ArrowDown")
    chosen = kind.input_value()
    assert chosen
    others = page.locator(f".events > li:visible:not([data-kind={chosen}])")
    expect(others).to_have_count(0)
    expect(shown).not_to_have_count(0)
    page.keyboard.press("Home")
    expect(others).not_to_have_count(0)
    tab_to(page, page.get_by_label("Text"))
    page.keyboard.type("no event has this text")
    expect(shown).to_have_count(0)
    expect(page.get_by_text("Nothing of this kind is shown.")).to_be_visible()
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    tab_to(page, page.locator("ol.events"))
    page.locator("ol.events").evaluate("list => list.style.maxHeight = '3rem'")  # so that few events are too many
    page.keyboard.press("End")
    page.wait_for_function("() => document.querySelector('ol.events').scrollTop > 0")


@pytest.mark.parametrize("path", ["/", pytest.param("/view/data", marks=pytest.mark.long)])
def test_language_and_colours_are_chosen_and_kept_without_losing_the_place(
    mesh: Harness, visit: Open, path: str
) -> None:
    page = visit(mesh.nodes[0], path, color_scheme="light")
    tab_to(page, page.get_by_text("Appearance", exact=True))
    page.keyboard.press("Enter")
    with without_reload(page):
        tab_to(page, page.get_by_label("Colours"))
        for _ in ("light", "dark"):
            with page.expect_request("**/look"):
                page.keyboard.press("ArrowDown")
        page.wait_for_function("() => getComputedStyle(document.body).backgroundColor === 'rgb(16, 21, 18)'")
        assert page.evaluate("document.activeElement.value") == "dark"
    tab_to(page, page.get_by_label("Language"), "Shift+Tab")
    with page.expect_navigation():
        page.keyboard.press("ArrowDown")
    expect(page.get_by_text("Apariencia", exact=True)).to_be_visible()
    page.wait_for_function("() => document.activeElement.name === 'language'")
    page.reload()
    assert page.evaluate("[document.documentElement.lang, document.documentElement.dataset.theme]") == [
        *["es", "dark"],
    ]


# A page whose node stops, hangs or cannot be reached.


class Streams:
    """The streams of events that a page has open, and how often it fetched its main part."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.open: set[Any] = set()
        self.fetched = 0
        page.on("request", self._asked)
        for end in ("requestfinished", "requestfailed"):
            page.on(end, self._ended)

    def one_is_open(self) -> None:
        """Wait until there is one: a page that shows what is new may still be about to open it."""
        until(lambda: not self.page.wait_for_timeout(20) and len(self.open) == 1, "one stream of events")

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
    expect(page.locator("#connection")).to_contain_text(words)


def shows(page: Any, number: int) -> None:
    """Wait until the page lists the end of a round."""
    page.wait_for_function(
        "number => [...document.querySelectorAll('.events > li[data-kind=round_closed]')]"
        ".some(item => item.innerText.includes(`round ${number} `))",
        arg=number,
    )


def test_a_node_that_hangs_is_told_within_seconds_and_found_again(mesh: Harness, browser: Watched) -> None:
    node = mesh.nodes[1]
    page, streams = follow(browser, node)
    expect(page.locator("#connection")).to_be_hidden()
    with without_reload(page):
        node.process.send_signal(signal.SIGSTOP)
        try:
            page.clock.fast_forward(9_000)
            told(page, "is lost")
        finally:
            node.process.send_signal(signal.SIGCONT)
        told(page, "is back")
        page.clock.fast_forward(6_000)
        expect(page.locator("#connection")).to_be_hidden()
        shows(page, rounds_on(mesh, node))
    streams.one_is_open()


def test_a_page_without_a_network_says_so_serves_no_button_and_catches_up(mesh: Harness, browser: Watched) -> None:
    page, streams = follow(browser, mesh.nodes[0])
    before = mesh.nodes[0].job()["current_round"]
    with without_reload(page):
        page.context.set_offline(True)
        page.get_by_role("button", name="Do a training round").click()
        told(page, "is lost")
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        assert mesh.nodes[0].job()["current_round"] == before
        missed = rounds_on(mesh, mesh.nodes[1])
        page.context.set_offline(False)
        told(page, "is back")
        shows(page, missed)
        shows(page, rounds_on(mesh, mesh.nodes[0]))
    streams.one_is_open()


def test_a_hidden_tab_listens_to_nothing_and_fetches_nothing(mesh: Harness, browser: Watched) -> None:
    page, streams = follow(browser, mesh.nodes[0])
    with without_reload(page):
        page.evaluate(HIDE, True)
        until(lambda: not page.wait_for_timeout(20) and not streams.open, "the end of the stream")
        fetched = streams.fetched
        missed = rounds_on(mesh, mesh.nodes[0])
        page.clock.fast_forward(120_000)
        assert streams.fetched == fetched
        assert not streams.open
        page.evaluate(HIDE, False)
        shows(page, missed)
    streams.one_is_open()


def test_a_restarted_node_is_found_and_listened_to_once(mesh: Harness, browser: Watched) -> None:
    node = mesh.nodes[1]
    page, streams = follow(browser, node)
    with without_reload(page):
        node.process.terminate()
        node.process.wait()
        told(page, "is lost")
        heading = page.locator("article h2").inner_text()
        mesh.again(node)
        mesh.up(node)
        page.clock.fast_forward(11_000)  # past the longest pause between two attempts
        told(page, "is back")
        assert page.locator("article h2").inner_text() == heading
        expect(page.locator("ol.events")).to_contain_text("is ready")
        shows(page, rounds_on(mesh, node))
    streams.one_is_open()


def test_a_node_that_is_killed_is_shown_so_without_a_reload(mesh: Harness, visit: Open) -> None:
    page = visit(mesh.nodes[0])
    gone = page.locator('.mesh .dot[data-id="n2"]')
    with without_reload(page):
        expect(gone).to_have_class(ALIVE)
        mesh.nodes[2].kill()
        assert mesh.nodes[0].trigger().status_code == 202
        expect(gone).not_to_have_class(ALIVE)
        state = page.locator('.mesh-part tr[data-key="n2"] .chip').first
        expect(state).to_have_text(re.compile("suspect|dead"))
        expect(page.locator('.mesh .dot[data-id="n1"]')).to_have_class(ALIVE)
        expect(page.locator('.mesh .edge[data-a="n0"][data-b="n2"]')).to_have_class(re.compile("suspect|dead"))
    mesh.again(mesh.nodes[2])
    mesh.up(mesh.nodes[2])
