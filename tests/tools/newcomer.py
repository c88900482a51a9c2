"""Does what a newcomer does with a fresh clone, and measures it: `python -m tests.tools.newcomer [--folder DIR]`.

1. Clone this repository, as it is committed, into an empty folder.
2. `make demo`, until the first round is over: at most 4 minutes, and 1.2 GB in all. Needs the network, for the packages.
3. `flnet run` in the new environment: the button that trains is on the first screen, at 1280 x 800 and on a phone.

Playwright and Chromium come from the environment that runs this, as the demo's has none. Prints a table, and ends with 1
if something is missed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
from playwright.sync_api import sync_playwright

from tests.frozen.places import ROOT
from tests.web.browsing import ARGS, CHROMIUM

MOST_SECONDS, MOST_GB = 240.0, 1.2
SCREENS = {"1280 x 800": (1280, 800), "375 x 800": (375, 800)}
START_SECONDS = 60.0


class Figure(NamedTuple):
    """One measured value and its limit."""

    what: str
    value: float
    most: float
    unit: str

    @property
    def is_held(self) -> bool:
        """Whether it is within its limit."""
        return self.value <= self.most


def demo(clone: Path) -> Iterator[Figure]:
    """Run the demo until its first round is over."""
    begun, first = time.monotonic(), None
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FLNET_")}
    command = ["make", "demo", "ARGS=--rounds 1 --exit"]
    with subprocess.Popen(command, cwd=clone, env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print("   ", line.rstrip()[:140], flush=True)
            if first is None and line.startswith("round 0:"):
                first = time.monotonic() - begun
    if process.returncode or first is None:
        raise SystemExit(f"make demo ended with {process.returncode}, and without a round")
    yield Figure("from make demo to the end of the first round", first, MOST_SECONDS, "s")
    size = sum(path.lstat().st_size for path in clone.rglob("*") if not path.is_dir())
    yield Figure("the clone with its environment", size / 1e9, MOST_GB, "GB")


@contextmanager
def running(clone: Path, state: Path, port: int) -> Iterator[str]:
    """A node of the new environment, ready to train; its address."""
    command = [str(clone / ".venv" / "bin" / "flnet"), "run", "--node-port", str(port), "--state-path", str(state)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FLNET_")}
    process = subprocess.Popen(command, cwd=state.parent, env=environ, stdout=subprocess.DEVNULL)
    address, end = f"http://127.0.0.1:{port}/", time.monotonic() + START_SECONDS
    try:
        while not _is_ready(address):
            if time.monotonic() > end or process.poll() is not None:
                raise SystemExit("the node is not ready")
            time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait()


def _is_ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}ready", trust_env=False).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def first_screens(address: str, folder: Path) -> Iterator[Figure]:
    """Where the first button that trains ends, on each screen."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGS))
        for name, (width, height) in SCREENS.items():
            page = browser.new_page(viewport={"width": width, "height": height})
            page.goto(address)
            page.screenshot(path=folder / f"{width}.png")
            box = page.locator("button.go").first.bounding_box()
            bottom = float("inf") if box is None else box["y"] + box["height"]
            yield Figure(f"lower edge of the green button at {name}", bottom, height, "pixels")
            page.close()
        browser.close()


def main() -> int:
    """Measure everything; 1 if a limit is not held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="empty folder for the clone; a temporary one by default")
    parser.add_argument("--port", type=int, default=4700)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        clone, state = folder / "flnet", folder / "state"
        subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
        figures = list(demo(clone))
        with running(clone, state, asked.port) as address:
            figures += first_screens(address, folder)
    for figure in figures:
        held = "held" if figure.is_held else "MISSED"
        print(f"{figure.what}: {figure.value:.4g} {figure.unit} (at most {figure.most:g}, {held})")
    return 0 if all(figure.is_held for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
