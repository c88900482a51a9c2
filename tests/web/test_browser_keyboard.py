"""Everything a person does on the pages, done with the keyboard alone, against real nodes."""

from __future__ import annotations

import contextlib
import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes.harness import SLOW_TRAINER, Harness, harness, until

from .browsing import LONG, MARKS, Watched, idle, see, tab_to, without_reload

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*MARKS, pytest.mark.slow]
Open = Callable[..., Any]
# Who walks more than 5 km a day, of people aged 20 to 79.
WALK = """kind = "table"
data = "walk.csv"
label = "Walkers"
target = "far"
features = ["age", "km"]
"""


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Nodes n0 and n1 whose trainings of SLOW last until `go`; n0 has learnt a table, too, and reads digits."""
    with harness(tmp_path_factory.mktemp("keyboard")) as h:
        (h.trainers / "SLOW.py").write_text(SLOW_TRAINER.replace("sum(range(200_000))", "time.sleep(0.01)"))
        (h.trainers / "WALK.toml").write_text(WALK)
        rows = [f"{20 + place % 60},{place % 11},{'yes' if place % 11 > 5 else 'no'}" for place in range(200)]
        (h.folder / "walk.csv").write_text("\n".join(["age,km,far", *rows]) + "\n")
        node = h.start(TRAINERS="SLOW,WALK,MNIST", DATASETS_PATH=str(h.folder))
        h.start(COMPUTE="thread")
        h.ready()
        assert node.http.post("/training/trigger", json={"trainerId": "WALK"}).status_code == 202
        until(lambda: len(node.get("/jobs/WALK/history")) == 1, "the end of the round")
        yield h


def test_the_first_key_leads_past_the_header(mesh: Harness, visit: Open) -> None:
    page = visit(mesh.nodes[0])
    tab_to(page, page.get_by_role("link", name="Skip to the content"))
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")


def test_a_round_is_started_and_steered(mesh: Harness, visit: Open) -> None:
    idle(mesh)
    page = visit(mesh.nodes[0])
    card = page.locator("article", has=page.get_by_role("heading", name="SLOW"))
    with without_reload(page):
        start = card.get_by_role("button", name="Do a training round")
        tab_to(page, start)
        page.keyboard.press("Enter")
        see(page, "of the local training")
        assert start.evaluate("one => one === document.activeElement")
        pause = card.get_by_role("button", name="Pause")
        tab_to(page, pause)
        page.keyboard.press("Space")
        card.get_by_role("button", name="Resume").wait_for()
        assert page.evaluate("document.activeElement.innerText") == "Resume"
        page.keyboard.press("Space")
        pause.wait_for()
        mesh.go()
        sync_api.expect(card.locator(".chip.busy")).to_have_count(0, timeout=LONG)
    assert mesh.nodes[0].job()["current_round"] == 0
    assert mesh.nodes[0].job()["paused"] is False
    mesh.hold()


def test_a_parameter_is_edited_while_a_round_changes_the_page(mesh: Harness, visit: Open) -> None:
    idle(mesh)
    page = visit(mesh.nodes[0])
    card = page.locator("article", has=page.get_by_role("heading", name="SLOW"))
    with without_reload(page):
        tab_to(page, card.get_by_text("Change the hyper-parameters"))
        page.keyboard.press("Enter")
        field = card.get_by_label("Learning rate (u)")
        tab_to(page, field)
        page.keyboard.press("Control+A")
        page.keyboard.type("0.12")
        assert mesh.nodes[1].trigger().status_code == 202
        bar = card.locator("progress")
        bar.wait_for()
        first = bar.get_attribute("value")
        sync_api.expect(bar).not_to_have_attribute("value", first, timeout=LONG)
        page.keyboard.type("5")
        assert field.input_value() == "0.125"
        mesh.go()
        sync_api.expect(card.locator(".chip.busy")).to_have_count(0, timeout=LONG)
        assert field.evaluate("one => one === document.activeElement")
        page.keyboard.press("Enter")
        sync_api.expect(page.get_by_role("status")).to_have_text(re.compile("are saved"), timeout=LONG)
    assert mesh.nodes[0].job()["hyper"]["u"] == 0.125
    mesh.hold()


def test_events_are_filtered_and_scrolled(mesh: Harness, visit: Open) -> None:
    page = visit(mesh.nodes[0])
    shown = page.locator(".events > li:visible")
    everything = shown.count()
    kind = page.get_by_label("Kind")
    tab_to(page, kind)
    page.keyboard.press("ArrowDown")
    chosen = kind.input_value()
    assert chosen
    assert {item.get_attribute("data-kind") for item in shown.all()} == {chosen}
    page.keyboard.press("Home")
    assert shown.count() == everything
    tab_to(page, page.get_by_label("Text"))
    page.keyboard.type("no event has this text")
    assert shown.count() == 0
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    tab_to(page, page.locator("ol.events"))
    page.locator("ol.events").evaluate("list => list.style.maxHeight = '3rem'")  # so that few events are too many
    page.keyboard.press("End")
    page.wait_for_function("() => document.querySelector('ol.events').scrollTop > 0")


@pytest.mark.parametrize("path", ["/", "/view/data"])
def test_language_and_colours_are_chosen_without_losing_the_place(mesh: Harness, visit: Open, path: str) -> None:
    page = visit(mesh.nodes[0], path, color_scheme="light")
    tab_to(page, page.get_by_text("Look", exact=True))
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
    sync_api.expect(page.get_by_text("Aspecto", exact=True)).to_be_visible(timeout=LONG)
    page.wait_for_function("() => document.activeElement.name === 'language'")
    assert page.evaluate("[document.documentElement.lang, document.documentElement.dataset.theme]") == [
        *["es", "dark"],
    ]


def test_a_model_is_downloaded(mesh: Harness, visit: Open, tmp_path: Path) -> None:
    page = visit(mesh.nodes[0], "/view/models/WALK")
    tab_to(page, page.get_by_role("link", name="safetensors").first)
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    download.value.save_as(tmp_path / "model")
    head = (tmp_path / "model").read_bytes()
    assert json.loads(head[8 : 8 + struct.unpack("<Q", head[:8])[0]])


def test_a_row_of_a_table_is_judged(mesh: Harness, visit: Open) -> None:
    page = visit(mesh.nodes[0], "/view/predict/WALK")
    with without_reload(page):
        tab_to(page, page.get_by_role("textbox", name="age"))
        page.keyboard.type("44")
        tab_to(page, page.get_by_role("textbox", name="km"))
        page.keyboard.type("9")
        page.keyboard.press("Enter")
        assert page.locator("[data-predicted]").inner_text() in ("yes", "no")
        assert page.evaluate("document.activeElement.value") == "9"


def test_a_picture_is_judged(mesh: Harness, browser: Watched, tmp_path: Path) -> None:
    page = browser.new_page()
    page.goto(f"http://127.0.0.1:{mesh.nodes[0].port}/view/predict/MNIST")
    (tmp_path / "black.png").write_bytes(black_png(28))
    tab_to(page, page.get_by_label("Picture (PNG or JPEG)"))
    chooser_of(page).set_files(tmp_path / "black.png")
    assert page.locator("[data-predicted]").inner_text() in "0123456789"


def chooser_of(page: Any) -> Any:
    """The dialog that the space bar opens; a key that was pressed before the browser listened opens none."""
    for _ in range(2):
        with contextlib.suppress(sync_api.TimeoutError):
            with page.expect_file_chooser(timeout=8000) as chooser:
                page.keyboard.press("Space")
            return chooser.value
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Space")
    return chooser.value


def black_png(side: int) -> bytes:
    """The smallest PNG file of that size (ISO 15948): grey, 8 bits, all zero."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes((side + 1) * side))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
