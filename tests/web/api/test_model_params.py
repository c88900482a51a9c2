from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quart import Quart
from werkzeug.exceptions import RequestedRangeNotSatisfiable

from flnet.params.blob import PIECE, Blob
from flnet.web.api import messages as served
from flnet.web.api.messages import asked_range
from flnet.web.app import create_app
from flnet.wire.binary_codec import BINARY_TYPE
from tests.web.conftest import SETTINGS, Client, Running
from tests.web.fake_node import FakeNode

DIGEST = "0a" * 32
PATH = f"/training/model_params/{DIGEST}"
DATA = np.random.default_rng(0).bytes(2 * PIECE + 12_345)
SIZE = len(DATA)
LARGE = 48 * 1024 * 1024  # more than both sockets hold


@pytest.fixture(autouse=True)
def holding(node: FakeNode) -> None:
    node.blobs[DIGEST] = Blob([DATA[:7], DATA[7 : PIECE + 9], DATA[PIECE + 9 :]])


@pytest.fixture
def app(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> Quart:
    """One that hands out to one caller at a time, so that no test may leave a turn taken."""
    monkeypatch.setattr(served, "MAX_DOWNLOADS", 1)
    return create_app(node, SETTINGS)


async def test_parameters_are_handed_out_whole_with_what_is_needed_to_go_on_later(client: Client) -> None:
    answer = await client.get(PATH)
    assert answer.status_code == 200
    assert await answer.get_data() == DATA
    assert answer.headers["Content-Type"] == BINARY_TYPE
    assert answer.headers["Content-Length"] == str(SIZE)
    assert answer.headers["ETag"] == f'"{DIGEST}"'
    assert answer.headers["Accept-Ranges"] == "bytes"
    assert "Content-Range" not in answer.headers


@pytest.mark.parametrize("headers", [{}, {"Range": "bytes=5-9"}])
async def test_head_tells_the_size_of_all_and_sends_nothing(running: Running, headers: dict[str, str]) -> None:
    async with running() as port, httpx.AsyncClient(trust_env=False, timeout=60) as http:
        answer = await http.head(f"http://127.0.0.1:{port}{PATH}", headers=headers)
    assert (answer.status_code, answer.headers["Content-Length"]) == (200, str(SIZE))
    assert answer.content == b""


@pytest.mark.parametrize(
    ("asked", "start", "stop"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=0-", 0, SIZE),
        (f"bytes={PIECE - 1}-{PIECE + 20}", PIECE - 1, PIECE + 21),
        (f"bytes={SIZE - 1}-", SIZE - 1, SIZE),
        ("bytes=7-99999999999999", 7, SIZE),
        ("bytes=-3", SIZE - 3, SIZE),
        ("bytes=-99999999", 0, SIZE),
        ("BYTES= 1-2 ", 1, 3),
    ],
)
async def test_one_range_is_answered_with_that_part(client: Client, asked: str, start: int, stop: int) -> None:
    answer = await client.get(PATH, headers={"Range": asked})
    assert answer.status_code == 206
    assert await answer.get_data() == DATA[start:stop]
    assert answer.headers["Content-Range"] == f"bytes {start}-{stop - 1}/{SIZE}"
    assert answer.headers["Content-Length"] == str(stop - start)


@pytest.mark.parametrize(
    "headers",
    [
        {"Range": "bytes=0-1,5-6"},
        {"Range": "bytes=9-3"},
        {"Range": "bytes=-"},
        {"Range": "bytes"},
        {"Range": "lines=0-1"},
        {"Range": "bytes=\u0661-"},
        {"Range": "bytes=0-1", "If-Range": '"another"'},
        {"Range": "bytes=0-1", "If-Range": f'W/"{DIGEST}"'},
        {"Range": "bytes=0-1", "If-Range": "Sat, 21 Nov 2026 13:00:00 GMT"},
    ],
)
async def test_what_is_no_single_range_of_this_very_body_gets_all_of_it(
    client: Client, headers: dict[str, str]
) -> None:
    answer = await client.get(PATH, headers=headers)
    assert (answer.status_code, len(await answer.get_data())) == (200, SIZE)


async def test_the_node_is_told_how_much_of_which_was_handed_out(client: Client, node: FakeNode) -> None:
    await client.get(PATH)
    await client.get(PATH, headers={"Range": "bytes=5-9"})
    await client.head(PATH)
    assert (await client.get(PATH, headers={"Range": f"bytes={SIZE}-"})).status_code == 416
    assert node.given == [(DIGEST, SIZE), (DIGEST, 5)]


async def test_a_transfer_of_the_same_body_goes_on(client: Client) -> None:
    answer = await client.get(PATH, headers={"Range": "bytes=100-", "If-Range": f'"{DIGEST}"'})
    assert (answer.status_code, await answer.get_data()) == (206, DATA[100:])


@pytest.mark.parametrize("asked", [f"bytes={SIZE}-", f"bytes={SIZE}-{SIZE + 9}", "bytes=-0"])
async def test_a_range_outside_is_416_and_told_the_size(client: Client, asked: str) -> None:
    answer = await client.get(PATH, headers={"Range": asked})
    assert (answer.status_code, answer.headers["Content-Range"]) == (416, f"bytes */{SIZE}")
    assert (await answer.get_json())["error"] == "requested_range_not_satisfiable"


@given(st.integers(1, 50), st.integers(0, 60) | st.none(), st.integers(0, 60) | st.none())
def test_ranges_are_slices(size: int, first: int | None, last: int | None) -> None:
    data, header = bytes(range(size)), f"bytes={'' if first is None else first}-{'' if last is None else last}"
    if first is None:
        expected = None if last is None else data[max(size - last, 0) :]
    elif last is not None and last < first:
        expected = None
    else:
        expected = data[first:] if last is None else data[first : last + 1]
    if expected == b"":
        with pytest.raises(RequestedRangeNotSatisfiable):
            asked_range(header, size)
    else:
        part = asked_range(header, size)
        assert (None if part is None else data[slice(*part)]) == expected


@given(st.text(max_size=40) | st.from_regex(r"bytes=[0-9]*-[0-9]*", fullmatch=True))
def test_no_range_header_does_more_than_ask_for_a_part(header: str) -> None:
    try:
        part = asked_range(header, 1000)
    except RequestedRangeNotSatisfiable:
        return
    assert part is None or 0 <= part[0] < part[1] <= 1000


@pytest.mark.parametrize("digest", ["ff" * 32, "0A" * 32, "0a" * 31, "accuracy", "0a" * 400, "%00" * 64])
async def test_what_is_not_held_is_404(client: Client, node: FakeNode, digest: str) -> None:
    answer = await client.get(f"/training/model_params/{digest}")
    assert (answer.status_code, (await answer.get_json())["error"]) == (404, "unknown_model")
    assert node.lent == (["ff" * 32] if digest == "ff" * 32 else [])


async def test_parameters_are_not_joined_on_their_way_out(running: Running, node: FakeNode) -> None:
    node.blobs[DIGEST] = Blob([memoryview(np.zeros(LARGE // 4, np.uint8))] * 4)  # type: ignore[arg-type]
    async with running() as port, httpx.AsyncClient(trust_env=False, timeout=60) as http:
        tracemalloc.start()
        try:
            async with http.stream("GET", f"http://127.0.0.1:{port}{PATH}") as answer:
                size = sum([len(part) async for part in answer.aiter_raw(65536)])
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert size == LARGE
    assert peak < 8 * 1024 * 1024


@asynccontextmanager
async def reading_nothing(port: int) -> AsyncIterator[asyncio.StreamWriter]:
    """A caller that is sent parameters and takes none of them."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    try:
        writer.write(f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert b" 200 " in await reader.readline()
        yield writer
    finally:
        writer.transport.abort()


@pytest.fixture
def large(node: FakeNode) -> None:
    node.blobs[DIGEST] = Blob([bytes(LARGE)])


@pytest.mark.usefixtures("large")
async def test_who_comes_when_enough_are_served_waits_for_a_turn(running: Running, node: FakeNode) -> None:
    async with running() as port, httpx.AsyncClient(trust_env=False, timeout=60) as http:
        url = f"http://127.0.0.1:{port}"
        async with reading_nothing(port):
            waiting = asyncio.create_task(http.head(url + PATH))
            for _ in range(20):  # whatever was sent before is handled by now
                assert (await http.get(f"{url}/health")).status_code == 200
            assert node.lent == [DIGEST]
        assert (await waiting).headers["Content-Length"] == str(LARGE)  # the first one left


@pytest.mark.usefixtures("large")
async def test_who_takes_nothing_loses_the_turn(
    running: Running, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "STALL_SECONDS", 1.0)
    async with running() as port, httpx.AsyncClient(trust_env=False, timeout=60) as http:
        async with reading_nothing(port):
            next_one = asyncio.create_task(http.get(f"http://127.0.0.1:{port}{PATH}"))
            while len(node.lent) < 2:
                await asyncio.sleep(0.01)
            # A busy machine may stall who takes what it is sent.
            monkeypatch.setattr(served, "STALL_SECONDS", 60.0)
            assert len((await next_one).content) == LARGE
        assert node.lent == [DIGEST, DIGEST]


@pytest.mark.parametrize("digest", [DIGEST, "ff" * 32, "no digest"])
async def test_every_answer_gives_its_turn_back(client: Client, digest: str) -> None:
    for _ in range(3):
        await client.get(f"/training/model_params/{digest}")
        await client.head(f"/training/model_params/{digest}")
    assert (await client.get(PATH)).status_code == 200
