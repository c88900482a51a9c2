"""A person pins a model and goes back to it in a real browser; two real nodes then go on from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from flnet.params import Params
from tests.processes.harness import Harness, harness

from .browsing import MARKS, check_rules, idle, tab_to

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*MARKS, pytest.mark.slow]


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[Harness]:
    """Two nodes after two rounds; training adds 1 to every weight on one and 2 on the other."""
    with harness(tmp_path) as h:
        h.start()
        h.start()
        h.ready()
        h.go()
        for _ in range(2):
            assert h.nodes[0].trigger().status_code == 202
            idle(h)
        yield h


def address(h: Harness, index: int) -> str:
    return f"http://127.0.0.1:{h.nodes[index].port}/view/models/SLOW"


def models(h: Harness, index: int = 1) -> list[Any]:
    found: list[Any] = h.nodes[index].get("/jobs/SLOW/models")
    return found


def test_without_script_a_model_is_pinned_and_gone_back_to_and_the_next_round_starts_from_it(
    mesh: Harness, browser: Any, tmp_path: Path
) -> None:
    newer, older = [model["digest"] for model in models(mesh)]
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(address(mesh, 1))
    page.get_by_role("button", name=f"Pin {older[:12]}").click()
    assert "is kept until it is unpinned" in page.get_by_role("status").inner_text()
    assert page.get_by_role("row", name=older[:12]).get_by_text("pinned", exact=True).is_visible()
    assert [model["pinned"] for model in models(mesh)] == [False, True]

    page.get_by_role("link", name=f"Use this model again: {older[:12]}").click()
    assert page.get_by_text("If another node starts the next round first").is_visible()
    assert models(mesh)[0]["digest"] == newer  # nothing is done before the question is answered
    page.get_by_role("button", name="Go on from this model").click()
    assert "is in use again" in page.get_by_role("status").inner_text()
    assert page.get_by_role("row", name=older[:12]).get_by_text("held", exact=True).is_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="safetensors").first.click()
    download.value.save_as(tmp_path / "model.safetensors")
    taken = load_file(tmp_path / "model.safetensors")
    assert (Params(taken).digest, taken["w"].tolist()) == (older, [1.5] * 4)

    assert mesh.nodes[1].trigger().status_code == 202
    idle(mesh)
    # From 1.5 both go on to 2.5 and 3.5, as in the second round, and not from 3 to 4.5.
    assert [models(mesh, index)[0]["digest"] for index in (0, 1)] == [newer, newer]
    assert [record["contributors"] for record in mesh.nodes[0].history()] == [["n0", "n1"]] * 3


def test_with_the_keyboard_alone_and_where_another_node_starts_the_next_round(mesh: Harness, browser: Any) -> None:
    newer, older = [model["digest"] for model in models(mesh)]
    page = browser.new_page()
    page.goto(address(mesh, 1))
    check_rules(page, 1280)
    tab_to(page, page.get_by_role("link", name=f"Use this model again: {older[:12]}"))
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=f"Go back to the model {older[:12]}").wait_for()
    check_rules(page, 1280)
    tab_to(page, page.get_by_role("button", name="Go on from this model"))
    page.keyboard.press("Enter")
    page.get_by_text("A person went back to the model in use.").wait_for()
    check_rules(page, 1280)
    assert mesh.nodes[1].job()["digest"] == older

    assert mesh.nodes[0].trigger().status_code == 202
    idle(mesh)
    assert [models(mesh, index)[0]["digest"] == newer for index in (0, 1)] == [False, False]
    file = mesh.nodes[1].http.get(f"/jobs/SLOW/models/{models(mesh)[0]['digest']}").content
    assert file == mesh.nodes[0].http.get(f"/jobs/SLOW/models/{models(mesh, 0)[0]['digest']}").content
    told = mesh.nodes[1].http.get("/events.jsonl").text
    assert '"kind":"roll_back_ended"' in told


def test_while_a_round_is_open_the_page_says_what_has_to_be_over_first(mesh: Harness, browser: Any) -> None:
    newer, older = [model["digest"] for model in models(mesh)]
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(f"{address(mesh, 1)}?back={older}")
    check_rules(page, 390)
    mesh.hold()
    assert mesh.nodes[1].trigger().status_code == 202
    page.get_by_role("button", name="Go on from this model").click()
    assert "round 2 is still training here" in page.get_by_role("alert").inner_text()
    mesh.go()
    idle(mesh)
    assert older not in [models(mesh)[0]["digest"], newer]
