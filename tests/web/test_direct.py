"""Messages of nodes that are answered without Quart: the same answers, and who goes the usual way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from quart import Quart

from flnet.codec.binary import BINARY_TYPE
from flnet.errors import LocalError, NotReady, StaleRound
from flnet.refusals import TooManyMessages
from flnet.settings import load_settings
from flnet.web import body as limits
from flnet.web import create_app, direct
from flnet.web.body import CONTROL_BYTES
from flnet.web.direct import read_message
from flnet.web.intake import NODE_PATHS

from .conftest import SETTINGS, Running
from .fake_node import WANTED, FakeNode

JSON, UPDATE = "application/json", "/training/model_params"
HELLO = {"iAm": {"id": "a", "ip": "127.0.0.1", "port": 4001}, "myKnownPeers": []}
WORD = {
    "iAm": {"id": "b", "ip": "127.0.0.1", "port": 4002},
    **{"trainerId": "MNIST", "modelParams": {"weights": [], "bias": []}, "round": 0},
    "federatedLearningParams": {"e": 2, "u": 1e-05, "b": 64},
}
USUAL = {"X-Other": "1"}  # a header that no node of flnet sends


async def post(
    app: Quart, path: str, body: bytes, kind: str = JSON, more: Mapping[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    headers = {"Content-Type": kind, "Content-Length": str(len(body)), "Host": "127.0.0.1:4000", **(more or {})}
    answer = await app.test_client().post(path, data=body, headers=headers)
    return answer.status_code, dict(sorted(answer.headers.items())), await answer.get_data(as_text=False)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the requests that are answered directly."""
    paths: list[str] = []
    answer = direct.Direct.answer

    async def counting(self: Any, asked: Any, *rest: Any) -> None:
        paths.append(asked.path)
        await answer(self, asked, *rest)

    monkeypatch.setattr(direct.Direct, "answer", counting)
    return paths


CASES = {
    "a greeting": ("/announce", json.dumps(HELLO).encode(), JSON, {}),
    "an update": (UPDATE, json.dumps(WORD).encode(), JSON, {}),
    "for no trainer of ours": (UPDATE, json.dumps({**WORD, "trainerId": "none"}).encode(), JSON, {}),
    "no JSON": ("/training", b"{", JSON, {}),
    "nothing": ("/training", b"", JSON, {}),
    "too much": ("/announce", b" " * (CONTROL_BYTES + 1), JSON, {}),
    "arrays": (UPDATE, WANTED + b"rest", BINARY_TYPE, {}),
    "other arrays": (UPDATE, b"something else", BINARY_TYPE, {}),
    "too many arrays": (UPDATE, WANTED + bytes(2 * 1024 * 1024), BINARY_TYPE, {}),
    "a name that is not ours": ("/announce", json.dumps(HELLO).encode(), JSON, {"Host": "evil.example"}),
    "no name at all": ("/announce", json.dumps(HELLO).encode(), JSON, {"Host": "a b"}),
}


@pytest.mark.parametrize("case", CASES)
async def test_the_answer_is_the_one_of_the_usual_way(counted: list[str], case: str) -> None:
    path, body, kind, more = CASES[case]
    nodes = FakeNode(), FakeNode()
    answers = [
        await post(create_app(node, SETTINGS), path, body, kind, {**more, **way})
        for node, way in zip(nodes, ({}, USUAL), strict=True)
    ]
    assert counted == [path]
    assert answers[0] == answers[1]
    assert nodes[0].received == nodes[1].received
    assert nodes[0].landed == nodes[1].landed


@pytest.mark.parametrize(
    "failure",
    [StaleRound(3, 2), NotReady("later"), TooManyMessages(7.2), LocalError("the disk is full"), KeyError("a bug")],
    ids=lambda failure: type(failure).__name__,
)
async def test_what_fails_is_told_as_in_the_usual_way(
    app: Quart, node: FakeNode, counted: list[str], failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    node.failure = failure
    first = await post(app, UPDATE, b"{}")
    logged = len(caplog.records)
    assert (await post(app, UPDATE, b"{}", more=USUAL)) == first
    assert counted == [UPDATE]
    assert first[0] == getattr(failure, "status", 500)
    assert len(caplog.records) == 2 * logged == (2 if first[0] == 500 else 0)
    assert ("retry-after" in {name.lower() for name in first[1]}) == isinstance(failure, TooManyMessages)


def scope(**more: Any) -> dict[str, Any]:
    headers = {b"host": b"127.0.0.1", b"content-type": JSON.encode(), b"content-length": b"2"}
    headers |= more.pop("fields", {})
    asked = {"path": UPDATE, "method": "POST", "query_string": b"", "scheme": "http", "client": ("10.0.0.1", 1)}
    return {**asked, "headers": [(name, value) for name, value in headers.items() if value], **more}


def test_what_a_node_sends_is_read() -> None:
    for path in NODE_PATHS:
        found = read_message(scope(path=path))
        assert found is not None
        assert (found.path, found.mimetype, found.content_length, found.host) == (path, JSON, 2, "127.0.0.1")
    assert read_message(scope(fields={b"content-type": BINARY_TYPE.encode()})) is not None


@pytest.mark.parametrize(
    "more",
    [
        {"path": "/training/trigger"},  # of persons
        {"path": "/info"},
        {"method": "GET"},
        {"query_string": b"a=1"},
        {"scheme": "https"},
        *(
            {"fields": {name.lower().encode(): b"x"}}
            for name in ("Origin", "Sec-Fetch-Site", "Cookie", "Authorization", "Via", "X-Forwarded-For", "Expect")
        ),
        {"fields": {b"signature-input": b"x"}},
        {"fields": {b"accept": b"text/html"}},
        {"fields": {b"transfer-encoding": b"chunked", b"content-length": b""}},
        {"fields": {b"content-length": b"-1"}},
        {"fields": {b"content-length": b"9" * 19}},
        {"fields": {b"content-type": b"text/plain"}},
        {"fields": {b"content-type": b""}},
        {"fields": {b"host": b""}},
        {"fields": {b"content-type": BINARY_TYPE.encode()}, "path": "/announce"},
        {"headers": [*scope()["headers"], (b"host", b"10.0.0.2")]},  # twice
    ],
    ids=str,
)
def test_all_else_goes_the_usual_way(more: dict[str, Any]) -> None:
    assert read_message(scope(**more)) is None


async def test_binary_bodies_go_the_usual_way_where_they_are_refused(node: FakeNode, counted: list[str]) -> None:
    app = create_app(node, load_settings({"wire": "json"}, {}))
    assert (await post(app, UPDATE, WANTED, BINARY_TYPE))[0] == 415
    assert counted == []


async def test_a_caller_that_leaves_in_mid_body_is_not_answered(app: Quart, node: FakeNode) -> None:
    came = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    sent: list[Any] = []

    async def receive() -> Any:
        return came.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    await app.asgi_app(scope(type="http"), receive, send)  # type: ignore[arg-type]
    assert (sent, node.received) == ([], [])


async def test_a_caller_that_stalls_is_cut(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IDLE_SECONDS", 0.05)
    async with running() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"POST {UPDATE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\n".encode())
        writer.write(b"Content-Length: 500\r\n\r\n{")
        assert b" 408 " in await reader.readline()
        writer.close()


async def test_a_connection_outlives_a_refusal_if_the_whole_body_had_come(
    running: Running, node: FakeNode
) -> None:
    node.failure = StaleRound(3, 2)
    message = f"POST {UPDATE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\nContent-Length: 2\r\n\r\n{{}}"
    async with running() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            writer.write(message.encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 409 " in head.partition(b"\r\n")[0]
            assert b"connection: close" not in head.lower()
            size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(size)
        writer.close()
