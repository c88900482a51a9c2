"""Two real nodes, one with a column less: the cards of both say in red that they cannot train together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.processes.harness import Harness, harness, until
from tests.processes.unlike import TRAINER
from tests.web.browsing import MARKS

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = sync_api.expect
pytestmark = [*MARKS, pytest.mark.slow]
NAME = "UNLIKE"


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with harness(tmp_path_factory.mktemp("unlike")) as made:
        (made.trainers / f"{NAME}.py").write_text(TRAINER)
        (made.trainers / "load").touch()
        for _ in range(2):
            made.start(TRAINERS=NAME)
        made.ready()
        yield made


def test_the_cards_of_both_are_red_before_any_round_and_say_who_was_alone_after_one(
    mesh: Harness, visit: Callable[..., Any]
) -> None:
    one, two = mesh.nodes
    pages = visit(one), visit(two)
    for page, peer, words in zip(
        pages, ("n1", "n0"), ("columns missing there: c10", "columns missing here: c10"), strict=True
    ):
        notice = page.locator("article .notice.bad", has_text="cannot train with some nodes")
        expect(notice).to_contain_text(re.compile(f"{peer}: {words}", re.IGNORECASE))
    pages[0].get_by_role("button", name="Do a training round").click()
    until(lambda: len(one.history(NAME)) == 1, "the round")
    alone = pages[0].locator("article .notice.bad", has_text="this node was alone")
    expect(alone).to_contain_text("n1")
    colour = alone.evaluate("notice => getComputedStyle(notice).borderLeftColor + getComputedStyle(notice).color")
    calm = pages[0].locator("article .note").first
    assert colour != calm.evaluate("note => getComputedStyle(note).borderLeftColor + getComputedStyle(note).color")
