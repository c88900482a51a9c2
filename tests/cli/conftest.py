from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from flnet.cli import progress as follow
from flnet.cli.commands import cli
from tests.cli.fake_node import FakeNode, running_fake_node


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("FLNET_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(follow, "POLL_SECONDS", 0.01)


@pytest.fixture
def fake_node() -> Iterator[FakeNode]:
    with running_fake_node() as node:
        yield node


@pytest.fixture
def flnet() -> Callable[..., Result]:
    """Runs the command line in this process."""
    return lambda *args: CliRunner().invoke(cli, args)


@pytest.fixture
def ask(fake_node: FakeNode) -> Callable[..., Result]:
    """Runs a command in this process that speaks to the fake node."""
    return lambda *args: CliRunner().invoke(cli, [*args, "--node", fake_node.address])


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address at which connections are refused, and which nobody else can take."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]
