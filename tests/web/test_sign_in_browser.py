"""Signing in with a real browser: by the link, by hand without script, in Spanish, with the keyboard alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import pytest_asyncio

from flnet.settings import load_settings
from flnet.web import create_app
from flnet.web.operator_token import OperatorToken
from flnet.web.serve import serve

from .browsing import ASYNC_MARKS, rules
from .conftest import free_socket
from .fake_node import FakeNode

pytestmark = ASYNC_MARKS
TOKEN = "0123456789abcdefghij~+/=-"
CAREFUL = load_settings({"trust_loopback": "false"}, {})  # so that this machine has to sign in too


@pytest_asyncio.fixture(loop_scope="session")
async def at(node: FakeNode) -> AsyncIterator[str]:
    """The address of a node on which nobody may act without signing in."""
    listening, shutdown = free_socket(), asyncio.Event()
    served = asyncio.create_task(
        serve(create_app(node, CAREFUL, OperatorToken(TOKEN)), CAREFUL, shutdown, listening)
    )
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    shutdown.set()
    await asyncio.wait_for(served, 10)


@pytest.fixture
def chromium(async_chromium: Any) -> Any:
    return async_chromium


@contextmanager
def noting(context: Any) -> Iterator[list[str]]:
    """Every address that is asked for, and every Referer."""
    seen: list[str] = []
    context.on("request", lambda asked: seen.extend([asked.url, asked.headers.get("referer", "")]))
    yield seen


async def test_the_link_signs_in_and_the_token_stands_in_no_address(
    at: str, node: FakeNode, chromium: Any
) -> None:
    context = await chromium.new_context()
    with noting(context) as seen:
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
    await context.close()


async def test_it_works_without_script_and_in_spanish(at: str, node: FakeNode, chromium: Any) -> None:
    context = await chromium.new_context(java_script_enabled=False, locale="es-ES")
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
    await context.close()


async def test_the_settings_lead_to_the_form(at: str, chromium: Any) -> None:
    page = await (await chromium.new_context()).new_page()
    answer = await page.goto(f"{at}/view/settings")
    assert answer.status == 401
    await page.get_by_role("link", name="Sign in to act").click()
    await page.get_by_label("Operator's token").wait_for()
    assert await page.locator("input[name=back]").last.get_attribute("value") == "/view/settings"
    await page.context.close()


@pytest.mark.parametrize(
    "look",
    [{"color_scheme": "light"}, {"color_scheme": "dark", "viewport": {"width": 360, "height": 800}}],
    ids=str,
)
async def test_the_keyboard_is_enough_and_the_rules_are_kept(at: str, chromium: Any, look: dict[str, Any]) -> None:
    context = await chromium.new_context(**look)
    page = await context.new_page()
    for path in ("/", "/sign-in"):
        await page.goto(f"{at}{path}")
        found = await page.evaluate(rules())
        assert found["violations"] == []
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    field = page.get_by_label("Operator's token")
    for _ in range(30):
        await page.keyboard.press("Tab")
        if await field.evaluate("one => one === document.activeElement"):
            break
    await page.keyboard.type("x" * 20)
    await page.keyboard.press("Enter")
    await page.get_by_role("alert").wait_for()
    assert await field.get_attribute("aria-describedby") == "how fault"
    await field.focus()
    await page.keyboard.type(TOKEN)
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"{at}/")
    await context.close()
