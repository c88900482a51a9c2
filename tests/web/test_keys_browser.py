"""Who waits, in a browser before a twin node of a pinned mesh: live, by keyboard, without script, in Spanish."""

from __future__ import annotations

from typing import Any

import pytest

from .browsing import ASYNC_MARKS, rules
from .conftest import Running
from .trusting import EVIL, FRIEND, OWN, STRANGER, THIRD, PinnedNode, marks, spoken

pytestmark = ASYNC_MARKS
PHONE = {"color_scheme": "dark", "viewport": {"width": 360, "height": 800}, "locale": "es"}
WIDE = {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}}
OPEN_ALL = "for (const part of document.querySelectorAll('details')) part.open = true"


@pytest.fixture
def node() -> PinnedNode:
    made = PinnedNode()
    made.trust.met(STRANGER, EVIL, "192.0.2.7:4000")
    return made


@pytest.mark.parametrize("page", [WIDE, PHONE], indirect=True)
async def test_no_rule_is_broken_wherever_keys_are_shown(running: Running, node: PinnedNode, page: Any) -> None:
    await node.trust.accept(FRIEND, introducer=True)
    await node.trust.reject(THIRD)
    node.meet(FRIEND, EVIL)
    (mark,) = marks(FRIEND)
    async with running() as port:
        for path in ("/", "/view/keys", f"/view/keys?distrust={mark}", f"/view/keys?accept={mark}"):
            await page.goto(f"http://127.0.0.1:{port}{path}")
            await page.evaluate(OPEN_ALL)
            found = await page.evaluate(rules())
            assert found["violations"] == []
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert await page.locator("img[src=x]").count() == 0


async def test_a_stranger_appears_is_told_and_accepted_with_the_keyboard(
    running: Running, node: PinnedNode, page: Any
) -> None:
    async with running() as port:
        await page.goto(f"http://127.0.0.1:{port}/")
        await page.evaluate("window.same = true")
        await page.get_by_text(spoken(STRANGER)).first.wait_for()
        first = page.get_by_role("article").filter(has_text=spoken(STRANGER))
        await first.get_by_label("We compared the words").check()
        node.trust.met(FRIEND, "ward-7", "192.0.2.8:4000")
        await node.feed.publish("trust_pending", "ward-7 at 192.0.2.8:4000 waits")
        second = page.get_by_role("article").filter(has_text=spoken(FRIEND))
        await second.get_by_text(spoken(OWN)).wait_for()
        assert "ward-7" in await page.locator("#said").inner_text()  # for screen readers
        assert await first.get_by_label("We compared the words").is_checked()  # what a person did stays
        box = second.get_by_label("We compared the words")
        for _ in range(60):
            await page.keyboard.press("Tab")
            if await box.evaluate("one => one === document.activeElement"):
                break
        await page.keyboard.press("Space")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.get_by_text("ward-7 is accepted.").first.wait_for()
        await second.wait_for(state="detached")
        assert node.trust.trusts(FRIEND) and not node.trust.trusts(STRANGER)
        assert await page.evaluate("window.same === true")


async def test_the_view_of_keys_is_live_too_but_not_while_it_asks(
    running: Running, node: PinnedNode, page: Any
) -> None:
    await node.trust.accept(THIRD)
    async with running() as port:
        await page.goto(f"http://127.0.0.1:{port}/view/keys")
        await page.get_by_text("Accept a key that was read out").click()
        field = page.get_by_label("Whole fingerprint, or public key")
        await field.fill("ODGKK")
        node.trust.met(FRIEND, "ward-7", "192.0.2.8:4000")
        await node.feed.publish("trust_pending", "ward-7 at 192.0.2.8:4000 waits")
        await page.get_by_text(spoken(FRIEND)).first.wait_for()
        assert await field.input_value() == "ODGKK"
        (mark,) = marks(THIRD)
        await page.goto(f"http://127.0.0.1:{port}/view/keys?distrust={mark}")
        assert await page.locator("main[data-live]").count() == 0
        assert await page.get_by_role("button", name="Forget it").is_visible()


async def test_accepting_needs_the_tick_and_rejecting_does_not(
    running: Running, node: PinnedNode, page: Any
) -> None:
    async with running() as port:
        await page.goto(f"http://127.0.0.1:{port}/view/keys")
        await page.get_by_role("button", name="Accept").first.click()
        assert await page.get_by_label("We compared the words").evaluate("box => box.validity.valueMissing")
        assert not node.trust.trusts(STRANGER)
        await page.get_by_role("button", name="Reject").first.click()
        await page.get_by_text("is rejected.").wait_for()
        assert node.trust.is_out(STRANGER)


@pytest.mark.parametrize("page", [{"java_script_enabled": False, "locale": "es-ES"}], indirect=True)
async def test_it_works_without_script_and_in_spanish(running: Running, node: PinnedNode, page: Any) -> None:
    async with running() as port:
        await page.goto(f"http://127.0.0.1:{port}/")
        await page.get_by_label("Hemos comparado las palabras").check()
        await page.get_by_label("Puede presentar a otros").check()
        await page.get_by_role("button", name="Aceptar").click()
        await page.get_by_text("está aceptado, y también").wait_for()
        assert page.url.startswith(f"http://127.0.0.1:{port}/?notice=")
        assert node.trust.is_introducer(STRANGER)
        await page.get_by_role("link", name="Claves").first.click()
        await page.get_by_role("link", name="¿Olvidar").click()
        await page.get_by_role("button", name="Olvidarlo").click()
        await page.get_by_text("Queda fuera hasta que se acepte de nuevo.").wait_for()
        assert node.trust.is_out(STRANGER)
