"""Large bodies land straight from the connection: whole, on from where they broke off, on every event loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from flnet.blob import Landing
from flnet.errors import PeerTimeout, PeerUnreachable
from flnet.transport import straight
from flnet.transport.pace import STEP
from tests.transport.servers import Server, listening, transport
from tests.transport.test_http_download import BODY, Shop, answer, got, landing

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(straight, "LEAST", 1)

    def run_on(work: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(work)

    return run_on


@pytest.fixture
def straightly(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes came so, each time that some did."""
    came: list[int] = []
    filled = Landing.filled

    def note(into: Landing, nbytes: int) -> None:
        came.append(nbytes)
        filled(into, nbytes)

    monkeypatch.setattr(Landing, "filled", note)
    return came


def pieces(*sizes: int) -> Server:
    """Serves BODY on one connection, in pieces of these sizes, as often as it is asked."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            words = answer() + BODY
            for size in sizes:
                writer.write(words[:size])
                words = words[size:]
                await writer.drain()
                await asyncio.sleep(0.001)
            writer.write(words)

    return Server(serve)


def test_a_body_lands_whole_however_it_is_cut(run: Run, straightly: list[int]) -> None:
    async def several() -> None:
        rng = random.Random(1)
        for _ in range(5):
            cuts = [rng.randrange(1, 3 * STEP) for _ in range(4)]
            async with listening(pieces(len(answer()) + 9, *cuts)) as server, transport() as http:
                for _ in range(2):
                    into = landing()
                    await http.download(server.address, "/m", into)
                    assert into.whole() == BODY
                assert server.connections == 2  # the library has not seen the end of the first
        assert sum(straightly) > 5 * STEP

    run(several())


def test_a_broken_one_goes_on_where_it_stopped(run: Run, straightly: list[int]) -> None:
    async def broken() -> None:
        shop = Shop(STEP, 0, 30, 5 * STEP, 2 * STEP)
        assert await got(shop) == BODY
        came = [0, STEP, STEP, STEP + 30, 6 * STEP + 30, 8 * STEP + 30]
        assert shop.asked == [f"bytes={n}-" for n in came]

    run(broken())


def test_one_that_stands_still_ends_with_the_timeout_and_keeps_what_came(run: Run) -> None:
    async def stalls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer() + BODY[:STEP])
        await asyncio.sleep(0.02)
        writer.write(BODY[STEP : 2 * STEP])
        await asyncio.sleep(3600)

    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3600)

    async def still() -> None:
        into = landing()
        with pytest.raises(PeerTimeout, match="no answer within"):
            await got(stalls, silence, timeout=0.2, into=into)
        assert into.received == 2 * STEP

    run(still())


def test_one_under_way_ends_when_the_transport_closes(run: Run, straightly: list[int]) -> None:
    async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for at in range(0, 4 * STEP, STEP):
            writer.write((b"" if at else answer()) + BODY[at : at + STEP])
            await asyncio.sleep(0.001)
        await asyncio.sleep(3600)

    async def closed() -> None:
        async with listening(Server(begin)) as server, transport(30) as http:
            request = asyncio.ensure_future(http.download(server.address, "/m", landing()))
            while not straightly:
                await asyncio.sleep(0.001)
            await http.close()
            with pytest.raises(PeerUnreachable, match="closed its connections"):
                await asyncio.wait_for(request, 5)

    run(closed())


def test_what_comes_behind_the_end_is_left_alone(run: Run) -> None:
    async def talks_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer() + BODY[:STEP])
        await asyncio.sleep(0.01)
        writer.write(BODY[STEP:] + b"x" * STEP)

    async def more() -> None:
        assert await got(talks_on) == BODY

    run(more())


async def test_small_ones_and_chunked_ones_go_the_usual_way(straightly: list[int]) -> None:
    assert await got(Shop()) == BODY
    assert straightly == []
