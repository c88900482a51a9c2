"""Data brought through the page in a real browser, to a real node that had none and then does a round."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.processes.harness import RealNode, harness, until
from tests.web.browsing import MARKS, check_looks
from tests.web.digit_files import TRAINER, digit_archive, digit_files

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("sklearn", reason="scikit-learn is not installed")
expect = sync_api.expect
pytestmark = [*MARKS, pytest.mark.slow]
SEND = "Import data"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[RealNode]:
    """A node whose one trainer has no data at first; it plays with all of them, or with the part that a test asks for."""
    shard = getattr(request, "param", "1/1")
    with harness(tmp_path_factory.mktemp("import")) as h:
        (h.trainers / "DIGITS.py").write_text(TRAINER)
        made = h.start(TRAINERS="DIGITS", DATA_SHARD=shard, DATASETS_PATH=str(h.folder / "data"), COMPUTE="thread")
        until(lambda: phase(made) == "NO_DATA", "the trainer to miss its data")
        yield made


@pytest.fixture
def page(node: RealNode, visit: Callable[..., Any], request: pytest.FixtureRequest) -> Any:
    """Where data are brought; options of its context come as the parameter."""
    return visit(node, "/view/data", **{"locale": "en", **getattr(request, "param", {})})


def phase(node: RealNode) -> str:
    try:
        return str(node.job("DIGITS")["phase"])
    except httpx.TransportError:  # it does not listen yet
        return ""


def in_place(node: RealNode) -> list[str]:
    folder = node.log.with_name("data")
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_what_is_not_read_is_undone_and_a_button_stops_what_is_on_its_way(
    node: RealNode, page: Any, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("not what it reads")
    page.get_by_label("Files or an archive").set_input_files(tmp_path / "notes.txt")
    page.get_by_role("button", name=SEND).click()
    expect(page.get_by_role("alert").last).to_contain_text("bring the four idx files")
    check_looks(page)
    assert in_place(node) == []
    assert phase(node) == "NO_DATA"
    expect(page.get_by_role("button", name=SEND)).to_be_enabled()

    (tmp_path / "large.bin").write_bytes(os.urandom(4_000_000))
    network = page.context.new_cdp_session(page)
    slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 400_000}
    network.send("Network.enable")
    network.send("Network.emulateNetworkConditions", slow)
    page.get_by_label("Files or an archive").set_input_files(tmp_path / "large.bin")
    page.get_by_role("button", name=SEND).click()
    bar = page.get_by_role("progressbar", name="Sent")
    until(lambda: 0 < float(bar.evaluate("bar => bar.value")) < 100, "the bar to move")
    until(lambda: any(name.startswith(".import-") for name in in_place(node)), "the first bytes on disk")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("alert").last).to_have_text("Cancelled; nothing was changed.")
    until(lambda: in_place(node) == [], "what came to be gone")
    expect(bar).to_be_hidden()


def test_an_archive_is_brought_and_trained_on(node: RealNode, page: Any, tmp_path: Path) -> None:
    expect(page.get_by_text("No data", exact=True)).to_be_visible()
    check_looks(page)
    page.get_by_role("button", name=SEND).click()
    expect(page.get_by_role("alert").last).to_have_text("Choose a file or a folder first.")
    page.get_by_label("Files or an archive").set_input_files(digit_archive(tmp_path / "packed"))
    page.get_by_role("button", name=SEND).press("Enter")  # with the keyboard
    expect(page.locator("#notices")).to_contain_text("Imported files: 4; rows: 1,797.")
    expect(page.get_by_text("idx files in")).to_be_visible()
    page.get_by_role("row", name="9").first.wait_for()
    until(lambda: phase(node) == "IDLE", "the job to be ready")
    job = node.job("DIGITS")
    assert (sum(job["counts"]["train"]), len(job["checksum"])) == (1500, 64)
    assert node.trigger("DIGITS").status_code == 202
    until(lambda: bool(node.history("DIGITS")) and phase(node) == "IDLE", "the end of the round")
    assert node.job("DIGITS")["post_fedavg_accuracy"] > 0.7
    assert in_place(node) == ["digits"]


@pytest.mark.parametrize("node", ["1/2"], indirect=True)
@pytest.mark.parametrize("page", [{"java_script_enabled": False, "locale": "es"}], indirect=True)
def test_without_script_and_in_spanish_it_works_too(page: Any, tmp_path: Path) -> None:
    expect(page.get_by_text("Importar datos para este entrenador")).to_be_visible()
    page.locator("[data-import] input[type=file]").first.set_input_files(digit_archive(tmp_path / "packed"))
    page.get_by_role("button", name="Importar datos").click()
    expect(page.get_by_role("status").first).to_contain_text("Archivos importados: 4")


@pytest.mark.parametrize("node", ["2/6"], indirect=True)
def test_a_whole_folder_is_brought_and_its_parts_are_drawn(page: Any, tmp_path: Path) -> None:
    digit_files(tmp_path / "chosen")
    page.get_by_label("or a whole folder").set_input_files(tmp_path / "chosen")
    page.get_by_role("button", name=SEND).click()
    expect(page.locator("#notices")).to_contain_text("Imported files: 4")
    drawn = page.get_by_role("figure")
    expect(drawn).to_contain_text("this node has part 2")
    expect(drawn.locator("circle")).to_have_count(60)
    expect(drawn.locator("circle.own")).to_have_count(10)
    drawn.get_by_text("The same as a table").press("Enter")
    totals = drawn.get_by_role("row", name="All together").get_by_role("cell").all_inner_texts()
    assert (len(totals), sum(map(int, totals))) == (6, 1500)
    check_looks(page)
