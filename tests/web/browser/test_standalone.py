"""The exported page of each shipped trainer predicts in a browser without a network what the node predicts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from flnet.compute.export import OnnxGraph
from flnet.compute.standalone import page_of
from flnet.datasets.pictures import Colour, decoded
from flnet.params.params import Array
from tests.trainers.standalone_exports import KERAS, QUICK, SLOW, Exported, exported
from tests.web.browsing import LONG, MARKS, check_looks

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("onnx", reason="the extra onnx is not installed")
pytestmark = [*MARKS, pytest.mark.slow]
READ = """rows => rows.map(row =>
  [row.querySelector("th").textContent, Number(row.dataset.value), Number(row.dataset.place)])"""

REFUSAL = "rows => { try { return JSON.stringify(readRows(rows)); } catch (error) { return error.message; } }"


class Offline:
    """An exported page in a browser whose network is off; what it asks for and what goes wrong is kept."""

    def __init__(self, chromium: Any, made: Exported, folder: Path, **options: Any) -> None:
        (folder / "page.html").write_bytes(made.files["html"])
        self.context = chromium.new_context(offline=True, **options)
        self.context.set_default_timeout(LONG)
        self.asked: list[str] = []
        self.wrong: list[str] = []
        self.context.on("request", lambda request: self.asked.append(request.url))
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", lambda said: self.wrong.append(said.text) if said.type == "error" else None)
        self.url = (folder / "page.html").as_uri()
        self.page.goto(self.url)

    def end(self) -> None:
        """Nothing else was asked for, and nothing was wrong."""
        assert self.wrong == []
        assert self.asked == [self.url]
        self.context.close()

    def read(self) -> dict[str, float]:
        """The numbers of the answer that is shown, in the order of the classes."""
        lines = sorted(self.page.eval_on_selector_all("#result tbody tr", READ), key=lambda line: line[2])
        return {name: value for name, value, _ in lines}

    def forget(self) -> None:
        """Take the answer away, so that the next one is the one that is waited for."""
        self.page.evaluate("document.getElementById('result').replaceChildren()")


def answers(opened: Offline, made: Exported) -> list[tuple[str, dict[str, float]]]:
    """What the page says of each input."""
    page, told = opened.page, []
    for path in made.inputs:
        rows = [] if path.suffix == ".png" else rows_of(path)
        for row in rows or [None]:
            opened.forget()
            if row is None:
                page.set_input_files("input[type=file]", path)
            else:
                fill(page, row)
                page.get_by_role("button").click()
            page.locator("[data-predicted]").wait_for()
            told.append((page.locator("[data-predicted]").inner_text(), opened.read()))
    return told


def rows_of(path: Path) -> list[Any]:
    from flnet.cli.predict import question_of

    return list(question_of(path)["inputs"])


def fill(page: Any, row: Any) -> None:
    """Type a row into the fields, as it stands in its file."""
    if page.locator("textarea").count():
        page.locator("textarea").fill(",".join(map(str, row)))
        return
    cells = row if isinstance(row, dict) else dict(enumerate(row))
    for place, (name, cell) in enumerate(cells.items()):
        field = page.locator(".columns label").nth(place)
        if isinstance(row, dict):
            field = page.locator(".columns label").filter(
                has=page.locator("bdi", has_text=re.compile(f"^{re.escape(str(name))}$"))
            )
        if field.locator("select").count():
            field.locator("select").select_option(str(cell))
        else:
            field.locator("input").fill(str(cell))


@pytest.mark.parametrize("name", [*QUICK, *SLOW, *KERAS])
def test_the_page_predicts_what_the_node_predicts(name: str, chromium: Any, tmp_path: Path) -> None:
    if name in KERAS:
        pytest.importorskip("tensorflow", reason="needs TensorFlow")
    made = exported(name, tmp_path)
    opened = Offline(chromium, made, tmp_path)
    told = answers(opened, made)
    assert len(told) == len(made.answers)
    for (words, values), answer in zip(told, made.answers, strict=True):
        assert list(values) == list(answer["values"])
        assert values == pytest.approx(answer["values"], abs=1e-4)
        predicted = answer["predicted"]
        if name != "number":
            assert words == (predicted if isinstance(predicted, str) else ", ".join(predicted) or "none of them")
    opened.end()


@pytest.mark.parametrize("locale", ["en-GB", "es-ES"])
@pytest.mark.parametrize("name", ["words", "MNIST_3_7"])
def test_the_page_breaks_no_rule_of_accessibility(name: str, locale: str, chromium: Any, tmp_path: Path) -> None:
    made = exported(name, tmp_path)
    # The rules are a script from outside.
    opened = Offline(chromium, made, tmp_path, locale=locale, bypass_csp=True)
    answers(opened, made)
    assert opened.page.locator("html").get_attribute("lang") == locale[:2]
    assert (
        opened.page.get_by_role("heading", name="Prediction" if locale == "en-GB" else "Predicción").count() == 1
    )
    check_looks(opened.page)
    opened.end()


def test_a_digit_can_be_drawn_and_wrong_rows_are_named(chromium: Any, tmp_path: Path) -> None:
    made = exported("MNIST_3_7", tmp_path / "digits")
    opened = Offline(chromium, made, tmp_path / "digits")
    assert not opened.page.locator("canvas.seen").is_visible()
    box = opened.page.locator("canvas.draw").bounding_box()
    mouse = opened.page.mouse
    for place, (x, y) in enumerate([(0.25, 0.15), (0.75, 0.15), (0.6, 0.5), (0.45, 0.88)]):
        mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=5)
        if place == 0:
            mouse.down()
    mouse.up()
    opened.page.locator("[data-predicted]").wait_for()
    assert opened.page.locator("[data-predicted]").inner_text() == "7"
    assert opened.page.locator("canvas.seen").is_visible()
    opened.end()

    made = exported("words", tmp_path / "words")
    opened = Offline(chromium, made, tmp_path / "words")
    for rows, words in (
        ("gap,colour\n1,red", "the first row lacks the column <b>size</b>"),
        ("gap;colour;<b>size</b>\n1;blue;2", "row 1, colour is blue; expected one of red"),
        ("gap\tcolour\t<b>size</b>\n1\tred", "row 1 has 2 cells; expected 3"),
        ("gap,gap,colour\n1,1,red", "the first row names a column twice"),
        ("1,0", "row 1 has 2 cells; expected 5"),
        ("\n" * 3, "there is no input yet: paste rows"),
        ("1\n" * 1002, "at most 1000 rows are predicted at once"),
    ):
        assert words in opened.page.evaluate(REFUSAL, rows)
    quoted = 'gap,"colour",<b>size</b>\n?,"green, pale",2\n3,red,"1"'
    assert opened.page.evaluate("rows => readRows(rows)[1]", quoted) == [1.0, 1.0, 0.0, 0.0, 3.0]
    opened.page.get_by_label("<b>size</b>").fill("wide")
    opened.page.get_by_role("button").click()
    assert "<b>size</b> is wide; expected a number such as 3.5" in opened.page.get_by_role("alert").inner_text()
    opened.end()


def test_each_layer_of_the_page_computes_what_a_runtime_computes(chromium: Any, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime, which the test compares with, is not here")
    chance = np.random.default_rng(3)

    def some(*shape: int) -> Array:
        return chance.normal(size=shape).astype(np.float32)

    graph = OnnxGraph("all", (7, 9, 2)).fill(0.5).scale(some(2), np.array([2, 0.5])).channels_first()
    graph.conv(some(5, 2, 3, 2), some(5), pad=1, stride=2).batch_norm(
        some(5), some(5), some(5), some(5) ** 2, epsilon=1e-3
    )
    graph.relu().max_pool(2).conv(some(4, 5, 1, 1)).channels_last().channels_first().average()
    model = graph.dense(some(4, 6), some(6)).reshape(2, 3).softmax().flatten().sigmoid().to_bytes()
    inputs = some(3, 7, 9, 2)
    inputs[0, 1, 2] = np.nan
    (expected,) = runtime.InferenceSession(model).run(None, {"inputs": inputs})

    spec = {"kind": "image", "shape": [7, 9, 2], "low": None, "high": None, "names": [], "hint": ""}
    page = page_of(model, {"inputs": json.dumps(spec)}, "ALL")
    opened = Offline(chromium, Exported([], [], {"html": page}, tmp_path, ""), tmp_path)
    rows = [[None if np.isnan(value) else float(value) for value in row.ravel()] for row in inputs]
    found = opened.page.evaluate("rows => run(rows.map(row => row.map(value => value ?? NaN)))", rows)
    assert np.abs(np.array(found) - expected).max() < 1e-6
    opened.end()


@pytest.mark.parametrize("size", [(28, 28), (31, 17), (5, 90), (200, 333), (1, 1)])
def test_a_picture_becomes_the_same_bytes_as_on_a_node(
    size: tuple[int, int], chromium: Any, tmp_path: Path
) -> None:
    chance, pixels = np.random.default_rng(sum(size)), tmp_path / "one.png"
    Image.fromarray(chance.integers(0, 256, (*size, 3)).astype(np.uint8)).save(pixels)
    colours: list[tuple[list[int], Colour]] = [([28, 28], "grey"), ([9, 13, 3], "rgb")]
    for shape, colour in colours:
        spec = {"kind": "image", "shape": shape, "low": 0, "high": 255, "names": [], "hint": ""}
        width = int(np.prod(shape))
        model = OnnxGraph("seen", shape).flatten().dense(np.eye(width), np.zeros(width)).to_bytes()
        page = page_of(model, {"inputs": json.dumps(spec), "predicts": "scores"}, "SEEN")
        opened = Offline(chromium, Exported([], [], {"html": page}, tmp_path, ""), tmp_path)
        opened.page.set_input_files("input[type=file]", pixels)
        opened.page.locator("[data-predicted]").wait_for()
        found = np.array(list(opened.read().values()))
        expected = decoded(pixels, (shape[1], shape[0]), colour)
        assert np.array_equal(found, expected.ravel())
        opened.end()
