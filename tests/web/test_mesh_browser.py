"""The mesh on the page in a real browser: three real processes, who waits for whom, and one that is killed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.processes.harness import SLOW_TRAINER, Harness, harness, until

from .browsing import LONG, MARKS, idle, without_reload

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*MARKS, pytest.mark.slow]
HELD = 'while not GO.with_name(f"go{int(self.part)}").exists():'
ALIVE = re.compile(r"\balive\b")


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Nodes n0, n1, n2; the training of each lasts until it is let go by itself."""
    with harness(tmp_path_factory.mktemp("mesh")) as h:
        slow = SLOW_TRAINER.replace("sum(range(200_000))", "time.sleep(0.01)")
        (h.trainers / "SLOW.py").write_text(slow.replace("while not GO.exists():", HELD))
        for _ in range(3):
            h.start(COMPUTE="thread", REQUEST_TIMEOUT_IN_SECONDS="2")
        h.ready()
        yield h


def go(mesh: Harness, node: int) -> None:
    (mesh.trainers / f"go{node + 1}").touch()


def have_model_of(mesh: Harness, number: int) -> bool:
    return all(node.job()["model_round"] == number for node in mesh.nodes)


def arrows(page: Any) -> Any:
    return page.locator(".mesh .waits")


def arrow(page: Any, waiting: str, awaited: str) -> Any:
    return page.locator(f'.mesh .waits[data-waiting="{waiting}"][data-awaited="{awaited}"]')


def row(page: Any, name: str) -> Any:
    return page.locator(f'.mesh-part tr[data-key="{name}"]')


def dot(page: Any, name: str) -> Any:
    return page.locator(f'.mesh .dot[data-id="{name}"]')


def test_states_distances_models_and_who_waits_for_whom_are_seen_live(
    mesh: Harness, visit: Callable[..., Any]
) -> None:
    page = visit(mesh.nodes[0])
    expect = sync_api.expect
    with without_reload(page):
        for name in ("n1", "n2"):
            expect(row(page, name)).to_contain_text("alive")
            expect(row(page, name)).to_contain_text(re.compile(r"\d ms"))
            expect(dot(page, name)).to_have_class(ALIVE)
        expect(dot(page, "n0")).to_have_class(re.compile(r"\bself\b"))
        expect(arrows(page)).to_have_count(0)

        assert mesh.nodes[0].trigger().status_code == 202
        go(mesh, 0)
        expect(row(page, "n0")).to_contain_text("waits for n1, n2", timeout=LONG)
        expect(arrow(page, "n0", "n1")).to_have_count(1, timeout=LONG)
        go(mesh, 1)
        expect(row(page, "n1")).to_contain_text("waits for n2", timeout=LONG)
        expect(row(page, "n0")).not_to_contain_text("n1,", timeout=LONG)
        expect(arrow(page, "n1", "n2")).to_have_count(1, timeout=LONG)
        expect(arrow(page, "n0", "n1")).to_have_count(0, timeout=LONG)
        go(mesh, 2)
        expect(arrows(page)).to_have_count(0, timeout=LONG)
        expect(page.locator(".mesh .dot .letter")).to_have_text(["A", "A", "A"], timeout=LONG)
        expect(page.locator("figure.chart .line title").first).to_be_attached(timeout=LONG)


def test_the_peers_lines_come_from_their_histories_though_nobody_looked(
    mesh: Harness, visit: Callable[..., Any]
) -> None:
    idle(mesh)
    for node in range(3):
        go(mesh, node)
    rounds = 3
    for number in range(mesh.nodes[0].job()["current_round"] + 1, rounds):
        assert mesh.nodes[0].trigger().status_code == 202
        until(partial(have_model_of, mesh, number), "the next round")
        idle(mesh)
    page = visit(mesh.nodes[2])
    chart = page.locator("figure.chart").first
    sync_api.expect(chart.locator("figcaption li")).to_contain_text(["n2, after", "n2, before", "n0", "n1"])
    for line in (2, 3):
        assert chart.locator(f"svg[role=img] .line-{line} circle").count() == rounds


def test_a_node_that_is_killed_is_shown_so_without_a_reload(mesh: Harness, visit: Callable[..., Any]) -> None:
    idle(mesh)
    page = visit(mesh.nodes[0])
    expect = sync_api.expect
    with without_reload(page):
        expect(dot(page, "n2")).to_have_class(ALIVE)
        mesh.nodes[2].process.kill()
        mesh.nodes[2].process.wait()
        assert mesh.nodes[0].trigger().status_code == 202
        expect(dot(page, "n2")).not_to_have_class(ALIVE, timeout=LONG)
        state = row(page, "n2").locator(".chip").first
        expect(state).to_have_text(re.compile("suspect|dead"))
        expect(dot(page, "n1")).to_have_class(ALIVE)
        down = page.locator('.mesh .edge[data-a="n0"][data-b="n2"]')
        expect(down).to_have_class(re.compile("suspect|dead"))
