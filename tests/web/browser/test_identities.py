"""Keys that wait, and signing in, in a real browser before a twin node: live, by keyboard, without script, in Spanish."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from flnet.settings import load_settings
from flnet.web.app import create_app
from flnet.web.auth.operator_token import OperatorToken
from tests.web.browsing import ASYNC_MARKS, check_looks_async
from tests.web.conftest import Running, served
from tests.web.trusting import EVIL, FRIEND, OWN, STRANGER, THIRD, PinnedNode, marks, spoken

pytestmark = ASYNC_MARKS
TOKEN = "0123456789abcdefghij~+/=-"
CAREFUL = load_settings({"trust_loopback": "false"}, {})  # so that this machine has to sign in too


@pytest.fixture
def node() -> PinnedNode:
    made = PinnedNode()
    made.trust.met(STRANGER, EVIL, "192.0.2.7:4000")
    return made


@pytest.mark.parametrize("page", [{"locale": "es"}], indirect=True)
async def test_no_rule_is_broken_wherever_keys_are_shown(running: Running, node: PinnedNode, page: Any) -> None:
    await node.trust.accept(FRIEND, introducer=True)
    await node.trust.reject(THIRD)
    node.meet(FRIEND, EVIL)
    (mark,) = marks(FRIEND)
    async with running() as port:
        for path in ("/", "/view/keys", f"/view/keys?distrust={mark}", f"/view/keys?accept={mark}"):
            await page.goto(f"http://127.0.0.1:{port}{path}")
            assert await page.locator("img[src=x]").count() == 0
            await check_looks_async(page)


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
        node.feed.publish("trust_pending", "ward-7 at 192.0.2.8:4000 waits")
        second = page.get_by_role("article").filter(has_text=spoken(FRIEND))
        await second.get_by_text(spoken(OWN)).wait_for()
        await page.locator("#said", has_text="ward-7").wait_for(state="attached")  # for screen readers
        assert await first.get_by_label("We compared the words").is_checked()  # what a person did stays
        box = second.get_by_label("We compared the words")
        for _ in range(60):
            await page.keyboard.press("Tab")
            if await box.evaluate("element => element === document.activeElement"):
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
        node.feed.publish("trust_pending", "ward-7 at 192.0.2.8:4000 waits")
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


# Signing in.


@pytest_asyncio.fixture(loop_scope="session")
async def at(node: PinnedNode) -> AsyncIterator[str]:
    """The address of a node on which nobody may act without signing in."""
    async with served(create_app(node, CAREFUL, OperatorToken(TOKEN)), CAREFUL) as port:
        yield f"http://127.0.0.1:{port}"


async def test_the_link_signs_in_and_the_token_stands_in_no_address(
    at: str, node: PinnedNode, async_chromium: Any
) -> None:
    context = await async_chromium.new_context()
    seen: list[str] = []  # every address that is asked for, and every Referer
    context.on("request", lambda asked: seen.extend([asked.url, asked.headers.get("referer", "")]))
    page = await context.new_page()
    await page.goto(f"{at}/")
    go = page.get_by_role("button", name="Do a training round").first
    assert await go.is_disabled()
    await page.goto(f"{at}/sign-in#{TOKEN}")
    await page.wait_for_url(f"{at}/")
    await go.click()
    await page.get_by_text("Round 0 of MNIST has been started.").first.wait_for()
    assert node.jobs["MNIST"].round == 0
    assert await page.evaluate("document.cookie") == ""
    assert await page.evaluate("history.length") <= 4
    assert TOKEN not in "".join(seen).partition(f"/sign-in#{TOKEN}")[2]
    await page.go_back()
    assert TOKEN not in page.url
    await page.goto(f"{at}/")
    await page.get_by_role("button", name="Sign out").click()
    await page.get_by_text("You can read here.").wait_for()
    assert await go.is_disabled()


async def test_signing_in_works_without_script_and_in_spanish(
    at: str, node: PinnedNode, async_chromium: Any
) -> None:
    context = await async_chromium.new_context(java_script_enabled=False, locale="es-ES")
    page = await context.new_page()
    await page.goto(f"{at}/view/models/MNIST")
    await page.get_by_role("link", name="Inicie sesión para actuar").click()
    await page.get_by_label("Clave del operador").fill("otra clave cualquiera")
    await page.get_by_role("button", name="Iniciar sesión").click()
    await page.get_by_text("esta no es la clave del operador de este nodo").wait_for()
    await page.get_by_label("Clave del operador").fill(f" {TOKEN} ")
    await page.get_by_role("button", name="Iniciar sesión").click()
    await page.get_by_role("button", name="Cerrar sesión").wait_for()
    assert page.url == f"{at}/view/models/MNIST"
    await page.goto(f"{at}/view/settings")
    await page.get_by_text("FLNET_TRUST_LOOPBACK").first.wait_for()
    assert TOKEN not in await page.content()


async def test_the_settings_lead_to_the_form(at: str, async_chromium: Any) -> None:
    page = await async_chromium.new_page()
    answer = await page.goto(f"{at}/view/settings")
    assert answer.status == 401
    await page.get_by_role("link", name="Sign in to act").click()
    await page.get_by_label("Operator's token").wait_for()
    assert await page.locator("input[name=back]").last.get_attribute("value") == "/view/settings"


async def test_the_keyboard_is_enough_and_the_rules_are_kept(at: str, async_chromium: Any) -> None:
    page = await async_chromium.new_page()
    for path in ("/", "/sign-in"):
        await page.goto(f"{at}{path}")
        await check_looks_async(page)
    field = page.get_by_label("Operator's token")
    for _ in range(30):
        await page.keyboard.press("Tab")
        if await field.evaluate("element => element === document.activeElement"):
            break
    await page.keyboard.type("x" * 20)
    await page.keyboard.press("Enter")
    await page.get_by_role("alert").wait_for()
    await page.locator("[aria-describedby='how fault']").wait_for()
    await field.focus()
    await page.keyboard.type(TOKEN)
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"{at}/")
