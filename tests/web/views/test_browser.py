"""The views in a real browser, against a real node that learnt real digits."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from flnet.params import Params
from tests.processes.harness import RealNode, harness, until

from ..browsing import MARKS, check_rules

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*MARKS, pytest.mark.slow]

# Strokes in a square of side 1, as a person draws them.
DRAWN = {
    "0": [
        *[(0.5, 0.15), (0.38, 0.2), (0.3, 0.35), (0.28, 0.5), (0.3, 0.65), (0.38, 0.8), (0.5, 0.85)],
        *[(0.62, 0.8), (0.7, 0.65), (0.72, 0.5), (0.7, 0.35), (0.62, 0.2), (0.5, 0.15)],
    ],
    "1": [(0.5, 0.1), (0.5, 0.9)],
    "3": [
        *[(0.3, 0.2), (0.45, 0.12), (0.62, 0.18), (0.65, 0.33), (0.5, 0.47)],
        *[(0.66, 0.6), (0.68, 0.75), (0.5, 0.88), (0.3, 0.8)],
    ],
}


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    """A node with two models of the digits."""
    with harness(tmp_path_factory.mktemp("views")) as h:
        node = h.start(TRAINERS="MNIST", DATA_SHARD="1/1")
        h.ready()
        for rounds in (1, 2):
            assert node.http.post("/training/trigger", json={"trainerId": "MNIST"}).status_code == 202
            until(lambda wanted=rounds: rested(node, wanted), "the end of the round")  # type: ignore[misc]
        yield node


def rested(node: RealNode, rounds: int) -> bool:
    return node.get("/jobs/MNIST")["phase"] == "IDLE" and len(node.get("/jobs/MNIST/history")) == rounds


def draw(page: Any, points: Sequence[tuple[float, float]]) -> None:
    """One stroke on the canvas, with the mouse."""
    page.locator("canvas").scroll_into_view_if_needed()
    box = page.locator("canvas").bounding_box()
    at = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in points]
    page.mouse.move(*at[0])
    page.mouse.down()
    for x, y in at[1:]:
        page.mouse.move(x, y, steps=4)
    page.mouse.up()


def test_a_digit_that_is_drawn_is_read(learnt: RealNode, browser: Any) -> None:
    page = browser.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.goto(f"http://127.0.0.1:{learnt.port}/view/predict/MNIST")
    for digit, points in DRAWN.items():
        page.get_by_role("button", name="Clear the drawing").click()
        with page.expect_response("**/view/predict/MNIST"):
            draw(page, points)
        sync_api.expect(page.locator("[data-predicted]")).to_have_text(digit)
        sync_api.expect(page.locator("#said")).to_have_text(digit)  # for screen readers
        shoot(page, f"predict-{digit}")
    assert page.get_by_role("row").count() == 10
    assert wrong == []
    page.close()


def test_a_drawing_is_brought_into_the_middle_and_to_the_size_of_the_training_digits(
    learnt: RealNode, browser: Any
) -> None:
    page = browser.new_page()
    page.goto(f"http://127.0.0.1:{learnt.port}/view/predict/MNIST")
    with page.expect_request("**/view/predict/MNIST") as asked:
        draw(page, [(0.1, 0.1), (0.1, 0.3), (0.25, 0.3)])  # small, and in a corner
    pixels = page.locator("[name=pixels]").input_value().split(",")
    values = [int(value) for value in pixels]
    inked = [(place % 28, place // 28) for place, value in enumerate(values) if value]
    assert asked.value.method == "POST"
    assert len(values) == 784
    assert max(max(side) - min(side) for side in zip(*inked, strict=True)) == 19  # 20 pixels
    for axis in (0, 1):
        centre = sum(value * (place % 28, place // 28)[axis] for place, value in enumerate(values)) / sum(values)
        assert abs(centre - 13.5) <= 0.5
    page.close()


def test_a_model_is_downloaded_by_a_click_and_compared_with_another(
    learnt: RealNode, browser: Any, tmp_path: Path
) -> None:
    page = browser.new_page()
    page.goto(f"http://127.0.0.1:{learnt.port}/view/models/MNIST")
    with page.expect_download() as download:
        page.get_by_role("link", name="safetensors").first.click()
    download.value.save_as(tmp_path / "model.safetensors")
    held = learnt.get("/jobs/MNIST/models")[0]
    assert Params(load_file(tmp_path / "model.safetensors")).digest == held["digest"]
    shoot(page, "models")
    page.get_by_role("button", name="Compare A with B").click()
    assert page.get_by_role("row", name="All together 110,154").is_visible()
    shoot(page, "compared")
    page.close()


def test_a_picture_is_judged_without_script_too(learnt: RealNode, browser: Any, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    picture = image.new("L", (28, 28))
    picture.paste(255, (13, 4, 16, 24))
    picture.save(tmp_path / "one.png")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{learnt.port}/view/predict/MNIST")
    assert not page.locator("canvas").is_visible()
    page.get_by_label("Picture (PNG or JPEG)").set_input_files(tmp_path / "one.png")
    page.get_by_role("button", name="Judge").click()
    assert page.locator("[data-predicted]").inner_text() == "1"
    context.close()


@pytest.mark.parametrize("view", ["models/MNIST", "predict/MNIST", "predict/NONE", "data", "settings", "api"])
def test_the_views_fit_a_phone_and_break_no_rule_of_accessibility(
    learnt: RealNode, browser: Any, view: str
) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 800})
    answer = page.goto(f"http://127.0.0.1:{learnt.port}/view/{view}")
    assert answer.status == (404 if "NONE" in view else 200)
    shoot(page, view.partition("/")[0])
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        check_rules(page, 390)
    page.close()


def test_answers_and_comparisons_break_no_rule_of_accessibility(learnt: RealNode, browser: Any) -> None:
    page = browser.new_page()
    page.goto(f"http://127.0.0.1:{learnt.port}/view/predict/MNIST")
    with page.expect_response("**/view/predict/MNIST"):
        draw(page, DRAWN["1"])
    page.locator("[data-predicted]").wait_for()
    check_rules(page, 1280)
    one, other = (model["digest"] for model in learnt.get("/jobs/MNIST/models"))
    page.goto(f"http://127.0.0.1:{learnt.port}/view/models/MNIST?one={one}&other={other}")
    check_rules(page, 1280)
    page.close()


def shoot(page: Any, name: str) -> None:
    """Pictures for a person, in the folder that PAGE_PICTURES names; none without it."""
    folder = os.environ.get("PAGE_PICTURES")
    if folder is None:
        return
    size = page.viewport_size
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 900})
            page.screenshot(path=Path(folder) / f"{name}-{scheme}-{width}.png", full_page=True)
    page.set_viewport_size(size)
