"""The page of a node without common rounds in a real browser: one button, and a table of versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.processes.harness import Harness, harness, until

from .browsing import AXE, LONG, MARKS, check_rules, see, without_reload

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*MARKS, pytest.mark.slow]
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Nodes n0 and n1; their trainings end at once."""
    with harness(tmp_path_factory.mktemp("versions")) as h:
        for _ in range(2):
            h.start(ROUNDS="asynchronous", COMPUTE="thread")
        h.go()
        h.ready()
        yield h


def test_a_person_trains_and_merges_and_sees_the_versions(mesh: Harness, visit: Open) -> None:
    first, second = mesh.nodes
    second.trigger()
    until(lambda: second.job()["versions"]["own"] == 1, "a version of the other node")
    page = visit(first)
    with without_reload(page):
        see(page, "there are no common rounds")
        page.get_by_role("button", name="Train and merge now").click()
        row = page.locator("table.versions tbody tr", has_text="n1")
        sync_api.expect(row.locator("td").nth(1)).to_have_text("v1", timeout=LONG)
        sync_api.expect(row.locator("td").nth(2)).to_contain_text("in version v1, 20", timeout=LONG)
        see(page, "merged n1 v1, trained, now v1")
        second.trigger()
        sync_api.expect(row.locator("td").nth(2)).to_contain_text("still to be merged", timeout=LONG)
        sync_api.expect(row.locator("td").nth(0)).to_have_text("v2", timeout=LONG)
    assert first.history()[-1]["contributors"] == ["n0", "n1"]


@pytest.mark.skipif(not AXE.is_dir(), reason="axe-core is not there")
def test_it_can_be_read_by_everybody(mesh: Harness, visit: Open) -> None:
    page = visit(mesh.nodes[0])
    check_rules(page, page.evaluate("innerWidth"))
