"""The views of label spaces and of groups in a real browser: to be read by anybody, in both themes, on a phone."""

from __future__ import annotations

from typing import Any

from .browsing import ASYNC_MARKS, rules
from .conftest import Running
from .fake_node import FakeNode
from .views.test_findings import ESTIMATE, GROUPS, WAITING

pytestmark = ASYNC_MARKS
WIDE: dict[str, Any] = {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}}
PHONE: dict[str, Any] = {"color_scheme": "dark", "viewport": {"width": 360, "height": 800}, "locale": "es"}


async def test_the_views_break_no_rule_and_a_matrix_stays_a_table(
    running: Running, node: FakeNode, async_chromium: Any
) -> None:
    node.studies.found = {"labels": {**ESTIMATE, "pooled": True, "waiting": WAITING}, "groups": GROUPS}
    async with running() as port:
        for look in (WIDE, PHONE):
            page = await (await async_chromium.new_context(**look)).new_page()
            for kind in ("labels", "groups"):
                await page.goto(f"http://127.0.0.1:{port}/view/{kind}/MNIST")
                found = await page.evaluate(rules())
                assert found["violations"] == []
                assert await page.evaluate("document.documentElement.scrollWidth") <= look["viewport"]["width"]
            await page.goto(f"http://127.0.0.1:{port}/view/labels/MNIST")
            cells = page.locator(".matrix tbody tr:first-child td")
            tops = {(await cells.nth(column).bounding_box())["y"] for column in range(3)}
            assert len(tops) == 1  # beside each other, on a phone too
