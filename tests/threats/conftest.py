"""A twin node behind real Hypercorn, a real browser, and a site of somebody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest
import pytest_asyncio
from quart import Quart, Response, request

from flnet.settings import Settings, load_settings
from flnet.web.app import create_app
from flnet.web.auth.operator_token import OperatorToken
from tests.web.browsing import for_one_test, launched
from tests.web.conftest import SETTINGS, Client, served
from tests.web.fake_node import FakeNode

TOKEN = "0123456789abcdefghij"
CAREFUL = load_settings({"trust_loopback": "false"}, {})  # every caller has to sign in, those of these tests too
FOREIGN = "evil.example"  # leads to this machine in the browser of these tests
Told: TypeAlias = tuple[str, str, int, bool]  # method, path, status, and whether a session's cookie came
Serve: TypeAlias = Callable[..., AbstractAsyncContextManager[int]]


@pytest.fixture
def node() -> FakeNode:
    made = FakeNode()
    made.imports = SimpleNamespace(limit_bytes=1000)
    return made


@pytest.fixture
def app(node: FakeNode) -> Quart:
    return create_app(node, SETTINGS, OperatorToken(TOKEN), clock=lambda: 0.0)


@pytest.fixture
def client(app: Quart) -> Client:
    return app.test_client()


@pytest.fixture
def serving(node: FakeNode) -> Serve:
    """`async with serving() as port`: the node on loopback; what it answered comes into `told`."""

    @asynccontextmanager
    async def run(settings: Settings = SETTINGS, told: list[Told] | None = None) -> AsyncIterator[int]:
        app = create_app(node, settings, OperatorToken(TOKEN))

        async def note(answer: Response) -> Response:
            if told is not None:
                told.append((request.method, request.path, answer.status_code, "flnet-" in str(request.cookies)))
            return answer

        app.after_request(note)
        async with served(app, settings) as port:
            yield port

    return run


@asynccontextmanager
async def site(html: str) -> AsyncIterator[int]:
    """A server that answers everything with this page; its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = html.encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def misled_chromium() -> AsyncIterator[Any]:
    """A real browser for which FOREIGN, and every name below it, is this machine."""
    async with launched(f"--host-resolver-rules=MAP {FOREIGN} 127.0.0.1, MAP *.{FOREIGN} 127.0.0.1") as started:
        yield started


@pytest_asyncio.fixture(loop_scope="session")
async def chromium(misled_chromium: Any) -> AsyncIterator[Any]:
    """That browser for one test."""
    async with for_one_test(misled_chromium) as started:
        yield started
