"""A node of the current code opens a state folder of before with nothing lost."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.frozen.places import HERE, TRAINERS, free_port, plugins
from tests.frozen.state_views import PAGES, SETTINGS, everything, page
from tests.processes.harness import environment, until

from . import golden

pytestmark = pytest.mark.slow
NAME = "state.json.gz"


@contextmanager
def running(folder: Path) -> Iterator[httpx.Client]:
    """A node on the folder `state0` in a folder."""
    trainers, port = folder / "trainers", free_port()
    plugins(trainers)
    place = {"STATE_PATH": str(folder / "state0"), "NODE_PORT": str(port), "TRAINERS_PATH": str(trainers)}
    log = (folder / "node.log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-m", "flnet", "run"],
        env=environment({**SETTINGS, **place, "MESH_NAME": "flnet"}),
        cwd=folder,
        stdout=log,
        stderr=log,
    )
    try:
        with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=False, trust_env=False, timeout=60) as http:
            until(lambda: is_up(http, process, folder), "the node")
            yield http
    finally:
        process.terminate()
        process.wait(60)
        log.close()


def is_up(http: httpx.Client, process: subprocess.Popen[bytes], folder: Path) -> bool:
    """Whether the node answers and has loaded all trainers."""
    assert process.poll() is None, (folder / "node.log").read_text()[-2000:]
    try:
        return all(http.get(f"/jobs/{trainer}").json().get("phase") != "LOADING" for trainer in TRAINERS)
    except httpx.TransportError:
        return False


def called(http: httpx.Client) -> set[str]:
    """Addresses of peers that it remembers, and announced itself to in vain."""
    lines = [line for line in http.get("/events.jsonl").text.splitlines() if '"announce_failed"' in line]
    return {address for line in lines for address in re.findall(r"127\.0\.0\.1:\d+", line)}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a node shows that was started on the folder, in JSON and on its pages."""
    folder = tmp_path_factory.mktemp("state")
    with tarfile.open(HERE / "state-1a28d2c.tar.gz") as packed:
        packed.extractall(folder, filter="data")
    with running(folder) as http:
        until(lambda: len(called(http)) == 2, "calls to both peers")
        state = folder / "state0"
        shown = {f"{lang} {path}": page(http, path, lang, state) for lang in ("en", "es") for path in PAGES}
        return {"told": everything(http), "pages": shown}


def test_nothing_is_lost(told: dict[str, Any]) -> None:
    golden.check(NAME, told["told"])


def test_the_pages_show_it_as_before(told: dict[str, Any]) -> None:
    golden.check("state-pages.json.gz", told["pages"])
