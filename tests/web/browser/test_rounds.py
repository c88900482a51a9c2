"""A person goes through a round of three real nodes, with scripts and without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.processes.harness import Harness, harness, until
from tests.web.browsing import MARKS, check_looks

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*MARKS, pytest.mark.slow]
Open = Callable[..., Any]
HERE = "/view/rounds/MNIST_3_7"


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Three nodes after two rounds."""
    with harness(tmp_path_factory.mktemp("rounds")) as h:
        for number in (1, 2, 3):
            h.start(TRAINERS="MNIST_3_7", DATA_SHARD=f"{number}/3", COMPUTE="thread", LEAVE_ONE_OUT="1")
        h.ready()
        h.meshed()
        assert h.nodes[0].trigger("MNIST_3_7", 2).status_code == 202
        until(lambda: all(len(node.history("MNIST_3_7")) == 2 for node in h.nodes), "two rounds")
        until(lambda: all(node.job("MNIST_3_7")["phase"] == "IDLE" for node in h.nodes), "the end")
        yield h


def states(page: Any) -> list[str]:
    told: list[str] = page.locator("[data-state]").all_inner_texts()
    return told


def test_a_round_is_played_step_by_step(mesh: Harness, visit: Open) -> None:
    page = visit(mesh.nodes[0], f"{HERE}?round=1")
    steps = page.locator(".steps li")
    assert set(states(page)) <= {"counts in the average", "its model was adopted"}
    page.locator("[data-go=back]").click()
    steps.first.locator("a").click()
    assert states(page) == ["trains", "waited for", "waited for"]
    assert page.get_by_role("heading", name="The nodes after step 1").count() == 1
    page.locator("[data-go=on]").click()
    assert page.locator(".steps a[aria-current=step]").count() == 1
    page.locator("[data-go=play]").click()
    page.locator(".steps li:last-child a[aria-current=step]").wait_for()
    assert set(states(page)) <= {"counts in the average", "its model was adopted"}
    assert page.url.endswith("round=1")
    steps.nth(1).locator("a").click()
    check_looks(page)


def test_it_works_without_scripts_and_in_spanish(mesh: Harness, visit: Open) -> None:
    page = visit(mesh.nodes[0], HERE, java_script_enabled=False, locale="es-ES")
    page.get_by_role("link", name="Ronda 0").click()
    page.locator(".steps li a").first.click()
    assert states(page) == ["entrena", "se la espera", "se la espera"]
    assert page.get_by_role("heading", name="Los nodos después del paso 1").count() == 1
    assert page.get_by_role("heading", name="Qué aporta cada nodo").count() == 1
