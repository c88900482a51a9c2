from __future__ import annotations

import asyncio
import inspect
import logging
import socket
from contextlib import ExitStack
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import AsyncioSingleTask, WorkerContext
from hypercorn.events import RawData, Updated
from quart import Quart, Response

from flnet.errors import StartError
from flnet.node import relay_client
from flnet.node.relay import Relay
from flnet.node.relay_client import RelayClient
from flnet.node.relay_messages import RelayKeys
from flnet.settings import Settings, load_settings
from flnet.web import body, server
from flnet.web.auth.permissions import caller_ip
from flnet.web.server import bind, serve
from tests.ports import free_port
from tests.web.conftest import Running, free_socket, served
from tests.web.fake_node import FakeNode

ROOT = Path(__file__).parent.parent.parent

SOMAXCONN = Path("/proc/sys/net/core/somaxconn")


def settings_for(port: int, address: str = "127.0.0.1") -> Settings:
    return load_settings({"node_port": port, "listen_address": address}, {})


def test_a_port_in_use_is_told_at_once_with_the_setting_to_change() -> None:
    with free_socket() as other:
        port = other.getsockname()[1]
        with pytest.raises(StartError) as told:
            bind(settings_for(port))
    assert told.value.message == (
        f"port {port} on 127.0.0.1 is in use by another program; choose another FLNET_NODE_PORT"
    )


@pytest.mark.parametrize("address", ["203.0.113.7", "no such host", "a" * 300, "256.1.1.1"])
def test_an_address_that_is_not_ours_is_told(address: str) -> None:
    with pytest.raises(StartError, match="FLNET_LISTEN_ADDRESS"):
        bind(settings_for(4000, address))


async def test_serve_itself_tells_of_a_port_in_use(app: Quart) -> None:
    with free_socket() as other, pytest.raises(StartError, match="in use"):
        await serve(app, settings_for(other.getsockname()[1]), asyncio.Event())


@pytest.mark.parametrize("address", ["localhost", "::1", "[::1]"])
def test_a_name_and_an_ipv6_address_can_be_listened_on(address: str) -> None:
    if ":" in address and not has_ipv6():
        pytest.skip("this machine has no IPv6 on loopback")
    port = free_port()
    with bind(settings_for(port, address)) as taken:
        assert taken.getsockname()[1] == port


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no such option")
def test_connections_whose_other_side_takes_nothing_are_ended_by_the_system() -> None:
    with bind(settings_for(free_port())) as taken:
        taken.setblocking(True)
        with socket.create_connection(taken.getsockname()):
            accepted, _ = taken.accept()
            with accepted:
                milliseconds = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    assert milliseconds == server.UNACKNOWLEDGED_SECONDS * 1000


@pytest.mark.skipif(not SOMAXCONN.exists(), reason="what the system lets wait at most is not told")
def test_a_burst_of_connections_waits_and_is_not_turned_away() -> None:
    many = min(400, int(SOMAXCONN.read_text()))
    with bind(settings_for(free_port())) as taken, ExitStack() as ending:
        for _ in range(many):  # nobody takes them yet
            ending.enter_context(socket.create_connection(taken.getsockname(), timeout=60)).setblocking(False)
        taken.setblocking(True)
        accepted, _ = taken.accept()
        accepted.close()


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


async def test_the_end_waits_neither_for_streams_nor_for_stalled_callers(
    running: Running, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "GRACE_SECONDS", 0.1)
    for name in ("IDLE_SECONDS", "BASE_SECONDS"):  # nobody but the end of the node cuts who stalls
        monkeypatch.setattr(body, name, 3600.0)
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        async with running() as port:
            url = f"http://127.0.0.1:{port}/events"
            answer = await http.send(http.build_request("GET", url), stream=True)
            _, stalled = await asyncio.open_connection("127.0.0.1", port)
            stalled.write(b"POST /announce HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
            while not node.feed.watchers:
                await asyncio.sleep(0.005)
        # Here the server has ended: `running` fails if that takes longer than it allows.
        assert [line async for line in answer.aiter_lines() if line.startswith("id")] == []
        stalled.close()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


async def test_serving_writes_no_access_log(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with running() as port, httpx.AsyncClient(trust_env=False, timeout=60) as http:
        answer = await http.get(f"http://127.0.0.1:{port}/health")
    assert "server" not in answer.headers
    assert "/health" not in "".join(r.getMessage() for r in caplog.records if r.name.startswith("flnet"))


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET ?x HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /info HTTP/1.0\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n", 403),
        (b"GET /jobs/%ff%00 HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n", 400),
        (b"POST /training HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /training HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, gzip\r\n\r\nz\r\n", 501),
        (
            b"POST /training HTTP/1.1\r\nHost: localhost\r\nContent-Type: \xff;=\r\nContent-Length: 2\r\n\r\n{}",
            415,
        ),
        (
            b"PATCH /jobs/MNIST/params HTTP/1.1\r\nHost: localhost\r\nOrigin: \xff\r\nContent-Length: 2\r\n\r\n{}",
            403,
        ),
        (b"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"\x00\x01 garbage\r\n\r\n", 400),
    ],
)
async def test_no_request_line_or_header_makes_the_node_stumble(
    running: Running, caplog: pytest.LogCaptureFixture, raw: bytes, status: int
) -> None:
    async with running() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(raw)
        assert int((await reader.readline()).split()[1]) == status
        writer.close()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_hypercorn_is_as_the_server_expects_it() -> None:
    """`flnet.web.server` uses public names of Hypercorn that its documentation does not promise to keep.

    When this fails, read what has changed in hypercorn/asyncio/tcp_server.py and run.py, correct the server, run the tests
    of connections and slow senders, and write the new version here and into pyproject.toml.
    """
    assert version("hypercorn") == "0.18.0"
    assert f"hypercorn=={version('hypercorn')}" in (ROOT / "pyproject.toml").read_text()
    wanted = ["self", "app", "loop", "config", "context", "state", "reader", "writer"]
    assert list(inspect.signature(TCPServer.__init__).parameters) == wanted
    assert inspect.iscoroutinefunction(TCPServer.run)
    assert inspect.iscoroutinefunction(TCPServer.protocol_send)
    assert inspect.iscoroutinefunction(AsyncioSingleTask.stop)
    assert inspect.iscoroutinefunction(WorkerContext(None).terminated.set)
    assert [field.name for field in fields(Updated)] == ["idle"]
    assert [field.name for field in fields(RawData)] == ["data", "address"]


@pytest.mark.parametrize("caller", ["10.9.8.7", "127.0.0.1"])
async def test_who_comes_through_a_relay_is_nobody_of_this_machine(
    app: Quart, monkeypatch: pytest.MonkeyPatch, caller: str
) -> None:
    monkeypatch.setattr(relay_client, "caller_of", lambda stated, relay: caller)
    callers: list[str] = []

    @app.after_request
    async def note(answer: Response) -> Response:
        callers.append(caller_ip())
        return answer

    relay = Relay("127.0.0.1", [free_port() for _ in range(3)], RelayKeys("m"))
    await relay.start()
    client, granted = RelayClient(f"127.0.0.1:{relay.control_port}", "b", RelayKeys("m")), asyncio.Queue[int]()
    holding = asyncio.create_task(client.run(lambda host, port: granted.put_nowait(port)))
    async with served(app, relayed=client.connections) as port, httpx.AsyncClient(trust_env=False) as http:
        path = "/jobs/MNIST_3_7/pause"
        assert (await http.post(f"http://localhost:{port}{path}")).status_code == 200
        through = await granted.get()
        for host in ("localhost", "127.0.0.1"):
            answer = await http.post(f"http://{host}:{through}{path}")
            assert answer.status_code == 401, answer.text
        assert (await http.get(f"http://127.0.0.1:{through}/health")).status_code == 200
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)
    await relay.close()
    assert callers == ["127.0.0.1", caller, caller, caller]
