"""Data brought through the page in a real browser, to a real node that had none and then does a round."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes.harness import RealNode, harness, until

from .browsing import ARGS, CHROMIUM, check_rules
from .digit_files import TRAINER, digit_archive, digit_files
from .views.test_browser import shoot

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("sklearn", reason="scikit-learn is not installed")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium at /usr/bin/chromium nor in PATH"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
SEND = "Bring data"


@pytest.fixture
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RealNode]:
    """A node whose one trainer has no data; it plays with all of them, or with the part that a test asks for."""
    shard = getattr(request, "param", "1/1")
    with harness(tmp_path) as h:
        (h.trainers / "DIGITS.py").write_text(TRAINER)
        one = h.start(TRAINERS="DIGITS", DATA_SHARD=shard, DATASETS_PATH=str(tmp_path / "data"), COMPUTE="thread")
        until(lambda: phase(one) == "NO_DATA", "the trainer to miss its data")
        yield one


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield chromium
        chromium.close()


def phase(node: RealNode) -> str:
    try:
        return str(node.get("/jobs/DIGITS")["phase"])
    except OSError:
        return ""
    except Exception as exc:  # it does not listen yet
        if type(exc).__module__.startswith("httpx"):
            return ""
        raise


def opened(browser: Any, node: RealNode, **how: Any) -> Any:
    page = browser.new_context(**{"locale": "en", **how}).new_page()
    page.goto(f"http://127.0.0.1:{node.port}/view/data")
    return page


def in_place(tmp_path: Path) -> list[str]:
    folder = tmp_path / "data"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_an_archive_is_brought_and_trained_on(node: RealNode, browser: Any, tmp_path: Path) -> None:
    page = opened(browser, node)
    sync_api.expect(page.get_by_text("No data", exact=True)).to_be_visible()
    check_rules(page, 1280)
    shoot(page, "import")
    page.get_by_role("button", name=SEND).click()
    sync_api.expect(page.get_by_role("alert").last).to_have_text("Choose a file or a folder first.")
    page.get_by_label("Files or an archive").set_input_files(digit_archive(tmp_path / "packed"))
    page.get_by_role("button", name=SEND).press("Enter")  # with the keyboard
    sync_api.expect(page.locator("#notices")).to_contain_text("4 files were taken in: 1,797 rows.", timeout=30_000)
    sync_api.expect(page.get_by_text("idx files in")).to_be_visible()
    assert page.get_by_role("row", name="9").count() >= 1
    check_rules(page, 1280)
    shoot(page, "imported")
    until(lambda: phase(node) == "IDLE", "the job to be ready")
    job = node.get("/jobs/DIGITS")
    assert (sum(job["counts"]["train"]), len(job["checksum"])) == (1500, 64)
    assert node.http.post("/training/trigger", json={"trainerId": "DIGITS"}).status_code == 202
    until(lambda: node.get("/jobs/DIGITS/history") and phase(node) == "IDLE", "the end of the round")
    assert node.get("/jobs/DIGITS")["post_fedavg_accuracy"] > 0.7
    assert in_place(tmp_path) == ["digits"]


def test_what_the_trainer_does_not_read_is_said_and_undone(node: RealNode, browser: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not what it reads")
    page = opened(browser, node)
    page.get_by_label("Files or an archive").set_input_files(tmp_path / "notes.txt")
    page.get_by_role("button", name=SEND).click()
    alert = page.get_by_role("alert").last
    sync_api.expect(alert).to_contain_text("bring the four idx files", timeout=30_000)
    check_rules(page, 1280)
    assert in_place(tmp_path) == []
    assert phase(node) == "NO_DATA"
    sync_api.expect(page.get_by_role("button", name=SEND)).to_be_enabled()


def test_a_bar_shows_how_far_it_is_and_a_button_stops_it(node: RealNode, browser: Any, tmp_path: Path) -> None:
    (tmp_path / "large.bin").write_bytes(os.urandom(4_000_000))
    page = opened(browser, node)
    network = page.context.new_cdp_session(page)
    slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 400_000}
    network.send("Network.enable")
    network.send("Network.emulateNetworkConditions", slow)
    page.get_by_label("Files or an archive").set_input_files(tmp_path / "large.bin")
    page.get_by_role("button", name=SEND).click()
    bar = page.get_by_role("progressbar", name="Sent")
    until(lambda: 0 < float(bar.evaluate("bar => bar.value")) < 100, "the bar to move")
    until(lambda: any(name.startswith(".import-") for name in in_place(tmp_path)), "the first bytes on disk")
    check_rules(page, 1280)
    shoot(page, "importing")
    page.get_by_role("button", name="Cancel").click()
    sync_api.expect(page.get_by_role("alert").last).to_have_text("Cancelled; nothing was changed.")
    until(lambda: in_place(tmp_path) == [], "what came to be gone")
    sync_api.expect(bar).to_be_hidden()


def test_without_script_and_on_a_phone_it_works_too(node: RealNode, browser: Any, tmp_path: Path) -> None:
    page = opened(browser, node, java_script_enabled=False, viewport={"width": 390, "height": 800})
    page.get_by_label("Files or an archive").set_input_files(digit_archive(tmp_path / "packed"))
    page.get_by_role("button", name=SEND).click()
    sync_api.expect(page.get_by_role("status").first).to_contain_text("4 files were taken in", timeout=30_000)
    spanish = opened(browser, node, viewport={"width": 390, "height": 800}, locale="es")
    sync_api.expect(spanish.get_by_text("Traer datos a este entrenador")).to_be_visible()
    check_rules(spanish, 390)


@pytest.mark.parametrize("node", ["2/6"], indirect=True)
def test_a_whole_folder_is_brought_and_its_parts_are_drawn(node: RealNode, browser: Any, tmp_path: Path) -> None:
    digit_files(tmp_path / "chosen")
    page = opened(browser, node)
    page.get_by_label("or a whole folder").set_input_files(tmp_path / "chosen")
    page.get_by_role("button", name=SEND).click()
    sync_api.expect(page.locator("#notices")).to_contain_text("4 files were taken in", timeout=30_000)
    drawn = page.get_by_role("figure")
    sync_api.expect(drawn).to_contain_text("this node has part 2")
    assert (drawn.locator("circle").count(), drawn.locator("circle.own").count()) == (60, 10)
    drawn.get_by_text("The same as a table").press("Enter")
    totals = drawn.get_by_role("row", name="All together").get_by_role("cell").all_inner_texts()
    assert (len(totals), sum(map(int, totals))) == (6, 1500)
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            check_rules(page, width)
