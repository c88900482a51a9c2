"""What is announced to a reader's screen reader while a round goes on, in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.processes.harness import harness

from .browsing import LONG, MARKS

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*MARKS, pytest.mark.slow]
LISTEN = """() => {
  const region = document.getElementById("said");
  window.heard = [];
  const note = () => window.heard.push(`${region.lang}: ${region.textContent}`);
  new MutationObserver(note).observe(region, { childList: true, characterData: true, subtree: true });
}"""


def test_rounds_are_announced_in_the_language_of_the_page(tmp_path: Path, visit: Callable[..., Any]) -> None:
    with harness(tmp_path) as h:
        node = h.start(COMPUTE="thread")
        h.ready()
        page = visit(node, locale="es-ES")
        page.evaluate(LISTEN)
        page.get_by_role("button", name="Hacer una ronda de entrenamiento").click()
        page.wait_for_function("() => window.heard.some((one) => one.includes('iniciada'))", timeout=LONG)
        h.go()  # not before: of what happens within an instant, only the newest is said
        page.wait_for_function("() => window.heard.some((one) => one.includes('cerrada'))", timeout=LONG)
        heard = page.evaluate("window.heard")
        events = page.locator("ol.events")
        sync_api.expect(events).to_contain_text("ronda 0 cerrada", timeout=LONG)
        assert "es: la ronda 0 de SLOW fue iniciada por n0" in heard
        assert any(one.startswith("es: ronda 0 cerrada: promedio de 1 actualización") for one in heard)
        assert page.locator("ol.events span[lang=en]").count() == 0
