from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from flnet.errors import TransportError
from flnet.wire.body_memory import JSON_FACTOR, MEGABYTE, BodyMemory, ReplyBody
from flnet.wire.http import TEXT_REPLIES_BYTES, TEXT_REPLY_BYTES, HttpTransport
from flnet.wire.transport import CONTROL_BYTES, OFF_LOOP_BYTES, parsed
from tests.wire.servers import Server, ask, listening, transport

LARGE = TEXT_REPLY_BYTES


def answer(size: int, status: int = 200) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, size) + bytes(size)


@pytest.mark.parametrize(("status", "limit"), [(200, CONTROL_BYTES), (400, MEGABYTE), (503, MEGABYTE)])
async def test_an_answer_without_a_model_and_every_refusal_has_64_kilobytes_at_most(
    status: int, limit: int
) -> None:
    async with listening(Server(answer(CONTROL_BYTES + 1, status))) as server, transport() as http:
        with pytest.raises(TransportError, match="at most 65536 bytes, and has 65537 or more"):
            await ask(http, server.address, reply_limit=limit)
        with pytest.raises(TransportError, match="at most 65536 bytes, and has 65537 or more"):
            await http.fetch(server.address, "/introductions", CONTROL_BYTES)
        with pytest.raises(TransportError, match="at most 65536 bytes, and has 65537 or more"):
            await http.knock(server.address, "/announce", b"{}", "application/json")


async def test_answers_that_are_held_share_a_memory_and_give_it_back() -> None:
    async with listening(Server(answer(LARGE))) as server, transport() as http:
        held = await fill(http, server.address)
        assert len(held) == TEXT_REPLIES_BYTES // 2 // (JSON_FACTOR * LARGE)  # half of it for one address
        with pytest.raises(TransportError, match="has to wait, other large ones are being read here"):
            await http.fetch(server.address, "/info", LARGE)
        held.clear()
        gc.collect()
        assert len((await http.fetch(server.address, "/info", LARGE)).body) == LARGE


async def test_large_answers_do_not_keep_small_ones_out() -> None:
    large, small = Server(answer(LARGE)), Server(answer(CONTROL_BYTES))
    async with listening(large), listening(small), transport() as http:
        held = await fill(http, large.address)
        assert len((await ask(http, small.address)).body) == CONTROL_BYTES
        assert held


async def test_an_answer_waits_until_there_is_room() -> None:
    async with listening(Server(answer(LARGE))) as server, transport() as http:
        held = await fill(http, server.address)
        waiting = asyncio.create_task(ask(http, server.address, reply_limit=LARGE))
        while server.connections < 2 and len(server.requests) <= len(held) + 1:
            await asyncio.sleep(0.01)
        held.clear()
        gc.collect()
        assert len((await waiting).body) == LARGE


async def fill(http: HttpTransport, address: str) -> list[object]:
    replies: list[object] = []
    try:
        while True:
            replies.append(await http.fetch(address, "/info", LARGE))
    except TransportError:
        return replies


def test_an_answer_of_unknown_size_reserves_its_limit_once_it_is_large() -> None:
    memory = BodyMemory(100 * MEGABYTE)
    body = ReplyBody(memory, "a:1", MEGABYTE)
    body.expect(0)
    body.take(bytes(CONTROL_BYTES))
    assert not memory.taken
    body.take(b"x")
    body.take(bytes(CONTROL_BYTES))
    assert memory.taken == {"a": JSON_FACTOR * MEGABYTE}
    body.give_back()
    body.give_back()
    assert not memory.taken


def test_the_size_that_an_answer_states_is_refused_or_reserved_before_it_comes() -> None:
    memory = BodyMemory(100 * MEGABYTE)
    body = ReplyBody(memory, "a:1", 2 * MEGABYTE)
    with pytest.raises(TransportError, match="at most 2097152 bytes"):
        body.expect(2 * MEGABYTE + 1)
    assert not memory.taken
    body.expect(MEGABYTE)
    assert memory.taken == {"a": JSON_FACTOR * MEGABYTE}


@pytest.mark.parametrize(("size", "off_the_loop"), [(OFF_LOOP_BYTES, False), (OFF_LOOP_BYTES + 1, True)])
async def test_large_answers_are_put_together_off_the_loop_and_small_ones_at_once(
    size: int, off_the_loop: bool
) -> None:
    body = ReplyBody(BodyMemory(100 * MEGABYTE), "a:1", size)
    body.take(bytes(size - 1))
    body.take(b"x")
    joining = asyncio.create_task(body.whole())
    await asyncio.sleep(0)  # its first step: what waits for nothing has ended after it
    assert joining.done() is not off_the_loop
    assert await joining == bytes(size - 1) + b"x"


async def test_large_bodies_are_parsed_off_the_loop() -> None:
    def where(body: bytes) -> threading.Thread:
        return threading.current_thread()

    assert await parsed(where, bytes(CONTROL_BYTES)) is threading.current_thread()
    assert await parsed(where, bytes(CONTROL_BYTES + 1)) is not threading.current_thread()
