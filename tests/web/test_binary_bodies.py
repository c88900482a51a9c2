"""Binary bodies on their way in: refused by their head, else written into one buffer, whatever the caller does."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from itertools import pairwise

import httpx
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flnet.codec.binary import BINARY_TYPE
from flnet.errors import BodyTooLarge, ParamsRefused, PeerError, UnreadableBody
from flnet.settings import load_settings
from flnet.web import body as limits
from flnet.web import create_app
from flnet.web.body import LandedBody

from .conftest import SETTINGS, Client, Running
from .fake_node import WANTED, FakeNode

PATH = "/training/model_params"
BINARY = {"Content-Type": BINARY_TYPE}
MEGA = 1024 * 1024


@pytest.mark.parametrize("path", ["/training", PATH, f"{PATH}/accuracy"])
async def test_a_binary_body_reaches_the_node_in_the_buffer_that_it_landed_in(
    client: Client, node: FakeNode, path: str
) -> None:
    body = WANTED + bytes(range(256)) * 100
    headers = {**BINARY, "Content-Length": str(len(body))}
    answer = await client.post(path, data=body, headers=headers, scope_base={"client": ("10.0.0.9", 5)})
    assert answer.status_code == 200
    assert node.received == [(path, len(body), BINARY_TYPE, "10.0.0.9")]
    assert node.landed[0] == body
    assert node.landed[0].readonly
    assert node.inspected[0][:2] == (path, BINARY_TYPE)
    assert node.inspected[0][3] == len(body)


@pytest.mark.parametrize("path", ["/announce", "/training/trigger", "/jobs/MNIST/params"])
async def test_messages_without_arrays_are_json_only(client: Client, node: FakeNode, path: str) -> None:
    send = client.patch if "jobs" in path else client.post
    answer = await send(path, data=WANTED, headers=BINARY)
    assert (answer.status_code, (await answer.get_json())["error"]) == (415, "unsupported_media_type")
    assert node.inspected == []


async def test_a_node_that_was_set_to_json_takes_nothing_else(node: FakeNode) -> None:
    client = create_app(node, load_settings({"wire": "json"}, {})).test_client()
    answer = await client.post(PATH, data=WANTED, headers=BINARY)
    told = await answer.get_json()
    assert (answer.status_code, told["error"]) == (415, "unsupported_media_type")
    assert "application/json" in told["message"]
    assert node.inspected == []


async def test_what_may_be_sent_is_told_by_path(client: Client) -> None:
    for path, told in ((PATH, True), ("/announce", False)):
        answer = await client.post(path, data=b"x", headers={"Content-Type": "text/plain"})
        assert (BINARY_TYPE in (await answer.get_json())["message"]) is told


async def test_a_binary_body_states_its_size(running: Running, node: FakeNode) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield WANTED

    async with running() as port, httpx.AsyncClient(trust_env=False) as http:
        answer = await http.post(f"http://127.0.0.1:{port}{PATH}", content=pieces(), headers=BINARY)
    assert (answer.status_code, answer.json()["error"]) == (411, "length_required")
    assert "Content-Length" in answer.json()["message"]
    assert node.inspected == []


@pytest.mark.parametrize(
    ("announced", "sent", "words"),
    [
        (100, WANTED, "expected 100 bytes, but 12 came"),
        (len(WANTED), WANTED + b"more", "more came"),
        (100, WANTED[:4], "expected 100 bytes, but 4 came"),
        (4, WANTED[:4], "do not hold its whole head"),
    ],
)
async def test_another_size_than_was_stated_is_refused(
    client: Client, node: FakeNode, announced: int, sent: bytes, words: str
) -> None:
    answer = await client.post(PATH, data=sent, headers={**BINARY, "Content-Length": str(announced)})
    told = await answer.get_json()
    assert (answer.status_code, told["error"]) == (422, "unreadable_body")
    assert words in told["message"]
    assert node.landed == []


async def raw(port: int, announced: int, *parts: bytes) -> tuple[int, dict[str, str]]:
    """Send a head, and these parts as far as they are taken; status and JSON body of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {BINARY_TYPE}\r\n".encode())
    writer.write(f"Content-Length: {announced}\r\n\r\n".encode())
    for part in parts:
        writer.write(part)
        await writer.drain()
    answer = await reader.read()
    writer.close()
    status, _, rest = answer.partition(b"\r\n")
    return int(status.split()[1]), orjson.loads(rest.partition(b"\r\n\r\n")[2])


async def test_a_large_body_that_is_not_wanted_is_refused_by_its_head(
    running: Running, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINGER_SECONDS", 0.05)
    node.limit = 200 * MEGA
    async with running() as port:
        tracemalloc.start()
        try:
            status, told = await raw(port, 100 * MEGA, b"another head")  # and nothing more: no need to wait for it
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (status, told["error"]) == (422, "params_refused")
    assert peak < MEGA


@pytest.mark.parametrize(("limit", "error"), [(200 * MEGA, "params_refused"), (MEGA, "body_too_large")])
async def test_who_sends_all_of_it_reads_why_it_was_refused_and_memory_stays_flat(
    running: Running, node: FakeNode, limit: int, error: str
) -> None:
    node.limit = limit
    async with running() as port:
        tracemalloc.start()
        try:
            _, told = await raw(port, 64 * MEGA, *[b"another head" + bytes(MEGA - 12)] * 64)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert told["error"] == error
    assert peak < 6 * MEGA
    assert node.landed == []


async def test_a_large_body_is_held_once(running: Running, node: FakeNode) -> None:
    node.limit = 64 * MEGA
    part = bytes(MEGA)
    async with running() as port, httpx.AsyncClient(trust_env=False, timeout=30) as http:

        async def pieces() -> AsyncIterator[bytes]:
            yield WANTED
            for _ in range(32):
                yield part

        headers = {**BINARY, "Content-Length": str(len(WANTED) + 32 * MEGA)}
        tracemalloc.start()
        try:
            answer = await http.post(f"http://127.0.0.1:{port}{PATH}", content=pieces(), headers=headers)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert answer.status_code == 200
    assert len(node.landed[0]) == 32 * MEGA + len(WANTED)
    assert peak < (32 + 6) * MEGA


async def test_a_caller_that_stalls_after_its_head_is_cut(
    running: Running, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "IDLE_SECONDS", 0.05)
    async with running() as port:
        status, told = await raw(port, 1000, WANTED)
    assert (status, told["error"]) == (408, "request_timeout")
    assert node.landed == []


async def test_a_caller_that_trickles_is_cut(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BASE_SECONDS", 0.2)
    monkeypatch.setattr(limits, "SLOWEST_BYTES_PER_SECOND", 1024**3)
    async with running() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        start = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\n"
        head = f"{start}Content-Type: {BINARY_TYPE}\r\nContent-Length: 60000\r\n\r\n"
        writer.write(head.encode() + WANTED)
        answer = asyncio.ensure_future(reader.readline())
        while not answer.done():
            writer.write(b" ")
            await asyncio.wait({answer}, timeout=0.02)
        writer.close()
    assert b" 408 " in await answer


async def test_a_caller_that_leaves_in_mid_body_harms_nobody(running: Running, node: FakeNode) -> None:
    async with running() as port, httpx.AsyncClient(trust_env=False) as http:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        start = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\n"
        head = f"{start}Content-Type: {BINARY_TYPE}\r\nContent-Length: 900\r\n\r\n"
        writer.write(head.encode() + WANTED)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        assert (await http.get(f"http://127.0.0.1:{port}/health")).json() == {"status": "ok"}
    assert node.landed == []


async def test_a_fault_in_looking_at_the_head_is_answered_and_logged(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> bool:
        raise RuntimeError("the secret inside")

    monkeypatch.setattr(node, "inspect", broken)
    client, headers = create_app(node, SETTINGS).test_client(), {**BINARY, "Content-Length": str(len(WANTED))}
    answer = await client.post(PATH, data=WANTED, headers=headers)
    assert (answer.status_code, (await answer.get_json())["error"]) == (500, "internal_error")
    assert "the secret inside" in caplog.text


@given(st.binary(max_size=300), st.integers(0, 320), st.lists(st.integers(1, 300), max_size=20), st.booleans())
@settings(deadline=None)
def test_any_bytes_in_any_pieces_are_taken_whole_or_refused_in_words(
    rest: bytes, announced: int, cuts: list[int], wanted: bool
) -> None:
    sent = WANTED + rest if wanted else rest
    node = FakeNode()

    async def receive() -> bytes:
        body = LandedBody(announced, 250, 64, lambda head, total: node.inspect(PATH, BINARY_TYPE, head, total))
        edges = [0, *sorted(cut for cut in cuts if cut < len(sent)), len(sent)]
        for start, stop in pairwise(edges):
            body.append(sent[start:stop])
        body.set_complete()
        return bytes(await body.read())

    whole = sent.startswith(WANTED) and len(sent) == announced <= 250
    if whole or announced == len(sent) == 0:
        assert asyncio.run(receive()) == sent
    else:
        with pytest.raises(PeerError) as told:
            asyncio.run(receive())
        assert type(told.value) in (BodyTooLarge, ParamsRefused, UnreadableBody)


async def test_a_refused_body_drops_what_still_comes() -> None:
    body = LandedBody(100, 250, 64, lambda head, total: True)
    body.append(b"x" * 60)
    body.refuse()
    body.append(b"x" * 60)
    body.set_complete()
    assert body.received == 120
    assert len(await body.read()) == 0
