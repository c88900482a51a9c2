"""A twin node, its app, and that app behind real Hypercorn on loopback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import pytest
from quart import Quart
from quart.typing import TestClientProtocol

from flnet.settings import Settings, load_settings
from flnet.web.app import NodeApp, create_app
from flnet.web.server import serve
from tests.web.fake_node import FakeNode
from tests.web.templates import TEMPLATES

SETTINGS = load_settings({}, {})
Client: TypeAlias = TestClientProtocol  # by another name, because pytest collects what is called Test...
Running: TypeAlias = Callable[[], AbstractAsyncContextManager[int]]


NodeApp.jinja_options = {"bytecode_cache": TEMPLATES}


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


@pytest.fixture
def app(node: FakeNode) -> Quart:
    return create_app(node, SETTINGS)


@pytest.fixture
def client(app: Quart) -> Client:
    return app.test_client()


def free_socket() -> socket.socket:
    """A listening socket on a port that the system chose."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    return listening


@asynccontextmanager
async def served(app: Quart, settings: Settings = SETTINGS, **more: Any) -> AsyncIterator[int]:
    """An app behind Hypercorn on a free port of loopback, ended afterwards; `more` goes to `serve`."""
    listening, shutdown = free_socket(), asyncio.Event()
    port: int = listening.getsockname()[1]
    server = asyncio.create_task(serve(app, settings, shutdown, listening, **more))
    try:
        yield port
    finally:
        shutdown.set()
        await asyncio.wait_for(server, 60)


@pytest.fixture
def running(app: Quart) -> Running:
    """`async with running() as port`: the app on loopback, ended afterwards."""
    return lambda: served(app)
