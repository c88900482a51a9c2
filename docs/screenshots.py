"""Makes the pictures in docs/screenshots/: real nodes of this machine that learn, seen in a real browser.

It needs Chromium, Playwright and Pillow; `make screenshots` runs it. The nodes run in a folder that is gone
afterwards, with relative paths, so the pictures show nothing of the machine that they were made on.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

from flnet.datasets.samples import write_table

FOLDER = Path(__file__).parent / "screenshots"
NAMES = ("north", "east", "south", "west")
HOST = "127.0.0.1"
TRAINER = "MNIST"
COLOURS = 160  # of each picture; text stays sharp, and a picture has a third of its bytes
VERTICAL_EPOCHS = 10  # of the demo
WIDE, PHONE = 1180, 390
TALLEST = 1500  # pixels; what lies below is left out
PATIENCE_S = 180.0
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
)
# A three, in a square of side 1.
STROKE = (
    *((0.3, 0.2), (0.45, 0.12), (0.62, 0.18), (0.65, 0.33), (0.5, 0.47)),
    *((0.66, 0.6), (0.68, 0.75), (0.5, 0.88), (0.3, 0.8)),
)
VIEWS = ("models", "predict", "rounds", "data", "keys", "settings", "api")


def main() -> None:
    """Start nodes, let them learn, and look at every view."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--base-port", type=int, default=4000, help="port of the first node [4000]")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the pictures go")
    parser.add_argument("--chromium", default=shutil.which("chromium") or "chromium", help="the browser")
    parser.add_argument(
        "--own-data", action="store_true", help="only the pictures of the way from own data to a round"
    )
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=asked.chromium, args=list(FLAGS))
        with new_pair(asked.base_port) as pair:
            own_data(browser, pair, asked.folder)
        if not asked.own_data:
            meshes(browser, asked.base_port + len(pair), asked.folder)
        browser.close()
    for path in sorted(asked.folder.glob("*.png")):
        print(f"{path.stat().st_size / 1000:6.0f} kB  {path.name}")


def meshes(browser: Any, base_port: int, folder: Path) -> None:
    """The pictures of nodes that learn."""
    with nodes(base_port) as mesh:
        Camera(browser, mesh[0].address, folder).all_views(mesh)
    with pinned_pair(base_port + len(NAMES)) as (here, _):
        Camera(browser, here.address, folder).who_waits(here)
    with vertical_demo(base_port + len(NAMES) + 2) as address:
        Camera(browser, address, folder).shoot("vertical", "/", part="article")


class Node:
    """One node in a process, and its REST API."""

    def __init__(
        self, name: str, port: int, first: int, mode: str = "open", trainers: str = f"{TRAINER},MNIST_3_7"
    ) -> None:
        self.port, self.address = port, f"{'https' if mode == 'pinned' else 'http'}://{HOST}:{port}"
        own = {
            **{"NODE_ID": name, "NODE_PORT": port, "TRAINERS": trainers, "MESH_MODE": mode},
            **{
                "STATE_PATH": f"state/{name}",
                "DATA_SHARD": f"{NAMES.index(name) + 1}/{len(NAMES)}" if TRAINER in trainers else "1/1",
            },
            **({} if port == first else {"BOOTSTRAP_PAIRS": f"{HOST}:{first}"}),
        }
        clean = {key: value for key, value in os.environ.items() if not key.startswith("FLNET_")}
        source = {"PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "flnet", "run"],
            env=clean | source | {f"FLNET_{key}": str(value) for key, value in own.items()},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # On loopback, the only node is the one that was just started.
        self.http = httpx.Client(base_url=self.address, trust_env=False, timeout=20, verify=False)  # noqa: S501

    def get(self, path: str) -> Any:
        """What the node answers."""
        return self.http.get(path).json()

    def end(self) -> None:
        """End the process."""
        self.http.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)

    def train(self, trainer: str, rounds: int) -> None:
        """Ask for rounds."""
        self.http.post("/training/trigger", json={"trainerId": trainer, "rounds": rounds}).raise_for_status()

    def edit(self, trainer: str, **hyper: float) -> None:
        """Change hyper-parameters of the rounds that start here."""
        self.http.patch(f"/jobs/{trainer}/params", json=hyper).raise_for_status()

    def rested(self, trainer: str, rounds: int) -> bool:
        """Whether so many rounds are done."""
        job = self.get(f"/jobs/{trainer}")
        return job["phase"] == "IDLE" and job["current_round"] >= rounds - 1


@contextmanager
def nodes(base_port: int) -> Iterator[Sequence[Node]]:
    """A mesh that has learnt a little, in a folder that is gone afterwards."""
    before = Path.cwd()
    mesh: list[Node] = []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            mesh += [Node(name, base_port + place, base_port) for place, name in enumerate(NAMES)]
            until(lambda: all(is_there(node) for node in mesh), "a full mesh")
            mesh[0].train("MNIST_3_7", 3)
            until(lambda: all(node.rested("MNIST_3_7", 3) for node in mesh), "three rounds")
            mesh[1].train(TRAINER, 6)
            until(lambda: all(node.rested(TRAINER, 6) for node in mesh), "six rounds")
            yield mesh
        finally:
            for node in mesh:
                node.end()
            os.chdir(before)


@contextmanager
def pinned_pair(base_port: int) -> Iterator[tuple[Node, Node]]:
    """Two nodes of a pinned mesh that know of each other and trust nobody; in a folder that is gone afterwards."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        pair = Node(NAMES[0], base_port, base_port, "pinned"), Node(NAMES[1], base_port + 1, base_port, "pinned")
        try:
            until(lambda: all(is_up(node) for node in pair), "two nodes")
            until(lambda: pair[0].get("/trust")["pending"], "one that waits")
            yield pair
        finally:
            for node in pair:
                node.end()
            os.chdir(before)


@contextmanager
def new_pair(base_port: int) -> Iterator[tuple[Node, Node]]:
    """Two nodes without data that know each other, and a table; in a folder that is gone afterwards."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        pair = tuple(
            Node(name, base_port + i, base_port, trainers="MULTI_LABEL") for i, name in enumerate(NAMES[:2])
        )
        try:
            until(lambda: all(is_up(node) and node.get("/peers") for node in pair), "two nodes")
            yield pair[0], pair[1]
        finally:
            for node in pair:
                node.end()
            os.chdir(before)


def own_data(browser: Any, pair: tuple[Node, Node], folder: Path) -> None:
    """The way from a table to the first round of two nodes, step by step."""
    write_table(Path.cwd(), rows=120)
    table = Path("table.csv").rename("people.csv")
    here, there = (Camera(browser, node.address, folder) for node in pair)
    first, second = here.opened("/view/data"), there.opened("/")
    first.get_by_label("A table or an archive").set_input_files(table)
    here.take(first, "own-data-1", "#new")
    first.get_by_role("button", name="Look at the data").click()
    here.take(first, "own-data-2", "main")
    first.get_by_role("button", name="Make the trainer").click()
    until(lambda: is_loaded(pair[0], "PEOPLE"), "the new job")
    second.goto(there.address + "/view/data")
    offer = second.locator("[data-offer=PEOPLE]")
    offer.locator("summary").click()
    offer.locator("input[type=file]").set_input_files(table)
    there.take(second, "own-data-3", "#offers")
    offer.get_by_role("button", name="Take over").click()
    until(lambda: is_loaded(pair[1], "PEOPLE"), "the job that was taken over")
    pair[1].train("PEOPLE", 1)
    until(lambda: all(node.rested("PEOPLE", 1) for node in pair), "the first round")
    second.goto(there.address + "/")
    there.take(second, "own-data-4", "article >> nth=0")


def is_loaded(node: Node, trainer: str) -> bool:
    """Whether a job of this node can train."""
    return any(job["trainer_id"] == trainer and job["phase"] == "IDLE" for job in node.get("/jobs"))


@contextmanager
def vertical_demo(base_port: int) -> Iterator[str]:
    """`flnet demo --vertical` after its last epoch: the address of the node with the label."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("FLNET_")}
    process = subprocess.Popen(  # noqa: S603  of this checkout
        [sys.executable, "-m", "flnet", "demo", "--vertical", "--base-port", str(base_port)],
        env=clean,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://{HOST}:{base_port}"

    def is_over() -> bool:
        try:
            (job,) = httpx.get(f"{address}/jobs", trust_env=False).json()
        except httpx.TransportError:
            return False
        return job["phase"] == "IDLE" and job["vertical"]["epochs"] == VERTICAL_EPOCHS

    try:
        until(is_over, "the epochs of the demo")
        yield address
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def is_up(node: Node) -> bool:
    """Whether a node answers."""
    try:
        return node.http.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def is_there(node: Node) -> bool:
    """Whether a node knows all others and has its data."""
    try:
        return node.http.get("/ready").status_code == 200 and len(node.get("/peers")) == len(NAMES) - 1
    except httpx.TransportError:
        return False


def until(holds: Callable[[], bool], what: str) -> None:
    """Look until it holds.

    Raises:
        TimeoutError: it does not come about.
    """
    end = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not come about")
        time.sleep(0.2)


class Camera:
    """Opens views of one node and writes pictures of them."""

    def __init__(self, browser: Any, address: str, folder: Path) -> None:
        self.browser, self.address, self.folder = browser, address, folder

    def all_views(self, mesh: Sequence[Node]) -> None:
        """The page idle and during a round with a dead peer; every other view in light and in dark."""
        for scheme in ("light", "dark"):
            self.shoot(f"page-{scheme}", "/", color_scheme=scheme)
            for view in VIEWS:
                self.shoot(f"{view}-{scheme}", f"/view/{view}", before=PREPARED.get(view), color_scheme=scheme)
        self.exported(mesh[0])
        self.shoot("page-phone", "/", width=PHONE, color_scheme="dark")
        self.shoot("page-es", "/", locale="es")
        mesh[-1].process.kill()
        mesh[0].edit(TRAINER, e=400)
        mesh[0].train(TRAINER, 1)
        until(lambda: any(peer["state"] != "alive" for peer in mesh[0].get("/peers")), "the loss of a peer")
        self.shoot("mesh", "/", part="section[aria-labelledby=mesh]")
        self.shoot("page-training", "/", before=lambda page: page.locator("progress").first.wait_for())

    def exported(self, node: Node) -> None:
        """The exported page of the newest model, with a digit that was drawn."""
        digest = node.get(f"/jobs/{TRAINER}/models")[0]["digest"]
        page = node.http.get(f"/jobs/{TRAINER}/models/{digest}?format=html")
        page.raise_for_status()
        place = Path("exported.html").resolve()
        place.write_bytes(page.content)
        self.shoot("exported", place.as_uri(), before=draw)

    def who_waits(self, node: Node) -> None:
        """The page of a node of a pinned mesh at which another one waits."""
        until(lambda: all(job["phase"] == "IDLE" for job in node.get("/jobs")), "the data")
        self.shoot("waiting", "/", part="section[aria-labelledby=waiting]")

    def opened(self, path: str) -> Any:
        """A page that stays open."""
        page = self.browser.new_context(viewport={"width": WIDE, "height": 900}, locale="en").new_page()
        page.goto(self.address + path)
        return page

    def take(self, page: Any, name: str, part: str) -> None:
        """A picture of a part of an open page."""
        page.wait_for_timeout(700)
        write(page.locator(part).screenshot(), self.folder / f"{name}.png")

    def shoot(
        self,
        name: str,
        path: str,
        *,
        before: Callable[[Any], None] | None = None,
        width: int = WIDE,
        part: str = "",
        **options: Any,
    ) -> None:
        """One picture of a view, or of a part of it."""
        context = self.browser.new_context(
            viewport={"width": width, "height": 900}, **{"locale": "en", "ignore_https_errors": True, **options}
        )
        page = context.new_page()
        page.goto(path if path.startswith("file:") else self.address + path)
        if before:
            before(page)
        page.evaluate("document.activeElement.blur()")
        page.wait_for_timeout(700)  # what is drawn after the first paint, such as lines that light up
        height = min(page.evaluate("document.documentElement.scrollHeight"), TALLEST)
        page.set_viewport_size({"width": width, "height": height})
        write((page.locator(part) if part else page).screenshot(), self.folder / f"{name}.png")
        context.close()


def draw(page: Any) -> None:
    """Draw a digit, and wait for what the model says."""
    box = page.locator("canvas").first.bounding_box()
    points = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in STROKE]
    page.mouse.move(*points[0])
    page.mouse.down()
    for x, y in points[1:]:
        page.mouse.move(x, y, steps=4)
    page.mouse.up()
    page.locator("[data-predicted]").wait_for()


def halfway(page: Any) -> None:
    """Go to the middle of a round."""
    page.locator(".steps a").nth(3).click()


def compare(page: Any) -> None:
    """Compare the two newest models."""
    page.get_by_role("button", name="Compare A with B").click()
    page.locator("#compared").wait_for()


def open_first(page: Any) -> None:
    """Open the first of the endpoints."""
    page.locator("main details summary").first.click()


PREPARED: Mapping[str, Callable[[Any], None]] = {
    "models": compare,
    "predict": draw,
    "rounds": halfway,
    "api": open_first,
}


def write(png: bytes, path: Path) -> None:
    """Write a picture with few colours, rare ones among them; each is one that the picture really has."""
    with Image.open(io.BytesIO(png)) as picture:
        full = picture.convert("RGB")
    few = full.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    pixels = np.asarray(full, np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    pairs, counts = np.unique(np.asarray(few, np.uint64) << np.uint64(32) | pixels, return_counts=True)
    palette = few.getpalette() or []
    for place in np.argsort(counts):  # so that the most frequent of those that became one decides
        index, colour = divmod(int(pairs[place]), 1 << 32)
        palette[3 * index : 3 * index + 3] = colour.to_bytes(3, "big")
    few.putpalette(palette)
    few.save(path, optimize=True)


if __name__ == "__main__":
    main()
