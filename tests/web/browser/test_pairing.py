"""Two real nodes of a pinned mesh: one person accepts on the page, another on the command line, and they train."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flnet.fingerprints import words
from tests.processes.harness import PinnedHarness, RealNode, answers, environment, until
from tests.web.browsing import MARKS, Watched

pytestmark = [*MARKS, pytest.mark.slow]


def flnet(state: Path, node: RealNode, *arguments: str) -> str:
    """What a command says that is asked on the node's machine."""
    command = [sys.executable, "-m", "flnet", *arguments, "--node", str(node.port)]
    variables = environment({"STATE_PATH": str(state)})
    return subprocess.run(command, env=variables, check=True, capture_output=True, text=True, timeout=60).stdout


def test_two_people_let_their_nodes_meet(tmp_path: Path, browser: Watched) -> None:
    mesh = PinnedHarness(tmp_path)
    try:
        here, there = mesh.start(), mesh.start()
        for node in (here, there):
            until(lambda n=node: answers(n, "/health"), node.name)  # type: ignore[misc]
        page = browser.new_page(ignore_https_errors=True)
        page.goto(f"https://127.0.0.1:{here.port}/")
        theirs, ours = words(there.get("/info")["key"]), words(here.get("/info")["key"])
        card = page.get_by_role("article").filter(has_text=theirs.replace("-", " "))
        card.get_by_text(ours.replace("-", " ")).wait_for()
        page.locator(".mesh .dot.pending[data-id=n1]").wait_for(state="attached")
        card.get_by_label("We compared the words").check()
        card.get_by_role("button", name="Accept").click()
        page.get_by_text("n1 is accepted.").first.wait_for()

        until(lambda: bool(there.get("/trust")["pending"]), "the first among those who wait at the second")
        assert f"words       {ours}" in flnet(mesh.state(there), there, "pair")
        assert flnet(mesh.state(there), there, "pair", "--accept", ours) == "n0 is accepted\n"
        mesh.meshed(here, there)
        page.locator(".mesh .dot.alive[data-id=n1]").wait_for(state="attached")
        mesh.go()
        mesh.ready()
        assert "started" in flnet(mesh.state(here), here, "train", "SLOW")
        for node in (here, there):
            until(lambda n=node: bool(n.history()), f"a round on {node.name}")  # type: ignore[misc]
        assert len({node.history()[0]["digest"] for node in (here, there)}) == 1
    finally:
        mesh.stop()
