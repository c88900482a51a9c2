"""The live page in a real browser, against a mesh of three real processes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.processes.harness import SLOW_TRAINER, Harness, answers, harness, until

from .browsing import AXE, LONG, MARKS, Watched, check_rules, idle, rules, see, without_reload

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*MARKS, pytest.mark.slow]
Open = Callable[..., Any]
WATCH_EDGES = """() => {
  window.lit = new Set();
  new MutationObserver((changes) => {
    for (const { target } of changes)
      if (target.hasAttribute("data-lit")) window.lit.add([target.dataset.a, target.dataset.b].sort().join());
  }).observe(document.querySelector(".mesh"), { subtree: true, attributeFilter: ["data-lit"] });
}"""


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Nodes n0, n1, n2; their trainings last until `go`."""
    with harness(tmp_path_factory.mktemp("live")) as h:
        (h.trainers / "SLOW.py").write_text(SLOW_TRAINER.replace("sum(range(200_000))", "time.sleep(0.01)"))
        for _ in range(3):
            h.start(COMPUTE="thread")
        h.ready()
        yield h


def test_a_round_that_is_started_on_one_page_is_followed_on_another(mesh: Harness, visit: Open) -> None:
    here, there = visit(mesh.nodes[0]), visit(mesh.nodes[1])
    there.evaluate(WATCH_EDGES)
    round_number = mesh.nodes[0].job()["current_round"] + 1
    with without_reload(here, there):
        here.get_by_role("button", name="Do a training round").click()
        see(there, "of the local training")
        sync_api.expect(there.locator("article .chip.busy").first).to_have_text("Training", timeout=LONG)
        first = there.locator("progress").get_attribute("value")
        there.wait_for_function(
            "first => document.querySelector('progress').getAttribute('value') !== first", arg=first
        )
        mesh.go()
        sync_api.expect(there.locator("article .chip.busy")).to_have_count(0, timeout=LONG)
        sync_api.expect(there.locator("dd", has_text=re.compile(f"^{round_number}$")).first).to_be_visible(
            timeout=LONG
        )
        see(there, "50.00 %")
        sync_api.expect(there.locator("article > figure.chart")).to_have_count(1, timeout=LONG)
        sync_api.expect(there.locator("#said")).to_contain_text(f"round {round_number} closed", timeout=LONG)
        assert set(there.evaluate("[...window.lit]")) == {"n0,n1", "n1,n2"}
    mesh.hold()


def test_what_a_person_is_doing_survives_updates(mesh: Harness, visit: Open) -> None:
    idle(mesh)
    page = visit(mesh.nodes[0])
    with without_reload(page):
        page.get_by_text("Change the hyper-parameters").click()
        field = page.get_by_label("Epochs (e)")
        field.fill("7")
        page.locator(".events").evaluate("list => { list.scrollTop = 40 }")
        scrolled = page.locator(".events").evaluate("list => list.scrollTop")
        assert mesh.nodes[1].trigger().status_code == 202
        see(page, "of the local training")
        mesh.go()
        sync_api.expect(page.locator("article .chip.busy")).to_have_count(0, timeout=LONG)
        assert field.input_value() == "7"
        assert page.evaluate("document.activeElement.name") == "e"
        assert page.locator(".events").evaluate("list => list.scrollTop") >= scrolled
        page.get_by_role("button", name="Save").click()
        sync_api.expect(page.get_by_role("status")).to_have_text(re.compile("are saved"), timeout=LONG)
        see(page, "Epochs: 7")
        field.fill("0")
        unchecked = "form => { form.noValidate = true; form.requestSubmit(form.querySelector('button')); }"
        page.locator("form.hyper:has([name='e'])").evaluate(unchecked)  # at once: an update would undo it
        sync_api.expect(page.get_by_role("alert")).to_contain_text("e: ", timeout=LONG)
        assert field.input_value() == "0"
    assert mesh.nodes[0].job()["hyper"]["e"] == 7
    mesh.hold()


def test_a_job_is_paused_and_resumed(mesh: Harness, visit: Open) -> None:
    idle(mesh)
    page = visit(mesh.nodes[2])
    with without_reload(page):
        page.get_by_role("button", name="Pause").click()
        see(page, "Paused")
        assert mesh.nodes[2].job()["paused"] is True
        page.get_by_role("button", name="Resume").click()
        sync_api.expect(page.get_by_role("button", name="Pause")).to_be_visible(timeout=LONG)
        assert mesh.nodes[2].job()["paused"] is False


def test_events_are_filtered_by_kind_and_text(mesh: Harness, visit: Open) -> None:
    page = visit(mesh.nodes[0])
    shown = page.locator(".events > li:visible")
    everything = shown.count()
    page.get_by_label("Kind").select_option("ready")
    assert shown.count() == 1
    page.get_by_label("Text").fill("nothing has this text")
    assert shown.count() == 0
    sync_api.expect(page.get_by_text("Nothing of this kind is shown.")).to_be_visible()
    page.get_by_label("Text").fill("")
    page.get_by_label("Kind").select_option("")
    assert shown.count() == everything > 1


def test_language_and_theme_are_chosen_and_kept(mesh: Harness, visit: Open) -> None:
    page = visit(mesh.nodes[0])
    page.get_by_text("Look", exact=True).click()
    with page.expect_navigation():
        page.get_by_label("Language").select_option("es")
    sync_api.expect(page.get_by_role("button", name="Hacer una ronda de entrenamiento")).to_be_visible()
    with without_reload(page):
        page.get_by_label("Colores").select_option("dark")
        kept = page.context.cookies
        until(lambda: "dark" in {cookie["value"] for cookie in kept()}, "the choice to be kept")
    page.reload()
    assert page.evaluate("[document.documentElement.lang, document.documentElement.dataset.theme]") == [
        "es",
        "dark",
    ]
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 21, 18)"


def test_a_node_that_stops_and_starts_again_is_told_and_found(mesh: Harness, visit: Open) -> None:
    idle(mesh)
    old = mesh.nodes[2]
    page = visit(old)
    sync_api.expect(page.locator("#connection")).to_be_hidden()
    with without_reload(page):
        old.process.terminate()
        old.process.wait()
        sync_api.expect(page.locator("#connection")).to_contain_text("is lost", timeout=LONG)
        see_before = page.locator("article h2").inner_text()
        state = str(mesh.folder / "state2")
        again = mesh.start(
            COMPUTE="thread", NODE_ID="n2", NODE_PORT=str(old.port), STATE_PATH=state, DATA_SHARD="3/9"
        )
        mesh.nodes.remove(again)
        again.port, old.process = old.port, again.process
        sync_api.expect(page.locator("#connection")).to_contain_text("is back", timeout=LONG)
        sync_api.expect(page.locator("#connection")).to_be_hidden(timeout=LONG)
        assert page.locator("article h2").inner_text() == see_before
        until(lambda: answers(old, "/ready"), "readiness")
        sync_api.expect(page.locator("ol.events")).to_contain_text("is ready", timeout=LONG)


def test_nothing_is_fetched_while_the_tab_is_hidden(mesh: Harness, visit: Open) -> None:
    idle(mesh)
    page = visit(mesh.nodes[0])
    asked: list[str] = []
    hide = """hidden => {
      Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(hide, True)
    page.on("request", lambda request: asked.append(request.url))  # of the page; its icon is the browser's affair
    mesh.go()
    round_number = mesh.nodes[0].job()["current_round"]
    assert mesh.nodes[0].trigger().status_code == 202
    until(lambda: mesh.nodes[0].job()["current_round"] > round_number, "the next round")
    idle(mesh)
    page.wait_for_timeout(600)  # more than two updates would take
    assert [url for url in asked if not url.endswith("icon.svg")] == []
    page.evaluate(hide, False)
    sync_api.expect(page.locator("dd", has_text=re.compile(f"^{round_number + 1}$")).first).to_be_visible(
        timeout=LONG
    )
    mesh.hold()


def test_the_rules_of_accessibility_are_those_that_were_published() -> None:
    sums = dict(line.split()[::-1] for line in (AXE / "SHA256SUMS").read_text("utf-8").splitlines())
    assert sums == {name: hashlib.sha256((AXE / name).read_bytes()).hexdigest() for name in sums}
    assert "axe.min.js" in sums


def test_what_breaks_a_rule_is_named(browser: Watched) -> None:
    page = browser.new_page()
    page.set_content("<main><img src='data:,'></main>")
    assert ["image-alt", ['<img src="data:,">']] in page.evaluate(rules())["violations"]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_no_page_breaks_a_rule_of_accessibility(mesh: Harness, visit: Open, scheme: str, width: int) -> None:
    page = visit(mesh.nodes[0], color_scheme=scheme, viewport={"width": width, "height": 900})
    page.locator("form[data-filter]").wait_for()
    for path in page.evaluate(
        "[...document.querySelectorAll('.pages a')].map((link) => link.getAttribute('href'))"
    ):
        page.goto(f"http://127.0.0.1:{mesh.nodes[0].port}{path}")
        check_rules(page, width)
