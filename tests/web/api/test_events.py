from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import orjson
import pytest
from quart import Quart
from werkzeug.exceptions import ServiceUnavailable

from flnet.node.event_log import FeedItem
from flnet.web.api import events as live
from tests.web.conftest import Client, Running
from tests.web.fake_node import FakeNode


@asynccontextmanager
async def stream(port: int, last: str | None = None) -> AsyncIterator[AsyncIterator[str]]:
    headers = {} if last is None else {"Last-Event-ID": last}
    async with (
        httpx.AsyncClient(trust_env=False, timeout=60) as http,
        http.stream("GET", f"http://127.0.0.1:{port}/events", headers=headers) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == "text/event-stream"
        yield answer.aiter_lines()


async def ids(lines: AsyncIterator[str], count: int) -> list[int]:
    found: list[int] = []
    async for line in lines:
        if line.startswith("id: "):
            found.append(int(line[4:]))
            if len(found) == count:
                break
    return found


async def test_a_watcher_sees_what_happens_from_now_on(running: Running, node: FakeNode) -> None:
    node.feed.publish("old", "before")
    async with running() as port, stream(port) as lines:
        assert [line async for line in until_blank(lines)] == ["retry: 2000"]
        await watched(node)
        node.feed.publish("averaged", "Round 3 <b>was averaged</b>\nwell", "MNIST", accuracy=0.5)
        event = [line async for line in until_blank(lines)]
    assert event[0] == "id: 2"
    assert event[1] == "event: averaged"
    told = orjson.loads(event[2].removeprefix("data: "))
    assert (told["id"], told["kind"], told["trainer"], told["data"]) == (2, "averaged", "MNIST", {"accuracy": 0.5})
    assert told["text"] == "Round 3 <b>was averaged</b>\nwell"


async def until_blank(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    async for line in lines:
        if line:
            yield line
        elif line == "":
            return


async def watched(node: FakeNode) -> None:
    """Wait until somebody watches."""
    async with asyncio.timeout(60):
        while not node.feed.watchers:
            await asyncio.sleep(0.005)


async def test_a_watcher_resumes_after_the_last_event_that_it_saw(running: Running, node: FakeNode) -> None:
    for number in range(5):
        node.feed.publish("step", f"step {number}")
    async with running() as port:
        async with stream(port, last="2") as lines:
            assert await ids(lines, 3) == [3, 4, 5]
        async with stream(port, last="0") as lines:
            assert await ids(lines, 5) == [1, 2, 3, 4, 5]


async def test_an_id_from_before_a_restart_brings_all_that_is_kept(running: Running, node: FakeNode) -> None:
    node.feed.publish("started", "the node started")
    async with running() as port, stream(port, last="9000") as lines:
        assert await ids(lines, 1) == [1]


@pytest.mark.parametrize("last", ["x", "-1", "1.5", "²"])
async def test_a_last_event_id_that_is_no_number_is_refused(client: Client, last: str) -> None:
    answer = await client.get("/events", headers={"Last-Event-ID": last.encode().decode("latin-1")})
    assert answer.status_code == 422
    assert "whole number" in (await answer.get_json())["message"]


async def test_a_quiet_line_carries_heartbeats(
    running: Running, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "HEARTBEAT_SECONDS", 0.02)
    async with running() as port, stream(port) as lines:
        beats = 0
        async for line in lines:
            beats += line == ": still here"
            if beats == 2:
                break
        node.feed.publish("step", "after the heartbeats nothing is lost")
        assert await ids(lines, 1) == [1]


async def test_a_stream_ends_when_the_node_stops(running: Running, node: FakeNode) -> None:
    async with running() as port, stream(port) as lines:
        await watched(node)
        node.feed.close()
        assert [line async for line in lines if line.startswith("id")] == []


async def test_a_reader_that_leaves_is_forgotten(running: Running, node: FakeNode, app: Quart) -> None:
    async with running() as port:
        async with stream(port):
            await watched(node)
        async with asyncio.timeout(60):
            while node.feed.watchers or live.streams_of(app).open:
                await asyncio.sleep(0.005)


async def test_only_so_many_may_watch(app: Quart, client: Client) -> None:
    live.streams_of(app).open[live.OPERATOR] = live.MAX_OPERATOR_STREAMS
    answer = await client.get("/events")
    assert answer.status_code == 503
    assert "64 callers watch this node already; close one" in (await answer.get_json())["message"]


async def test_one_address_takes_no_place_of_another_and_nobody_takes_those_of_the_operator(
    app: Quart, client: Client
) -> None:
    streams = live.streams_of(app)
    places = [streams.take("192.0.2.1") for _ in range(live.MAX_STREAMS_PER_ADDRESS)]
    with pytest.raises(ServiceUnavailable, match="16 callers watch this node"):
        streams.take("192.0.2.1")
    while streams.open.total() < live.MAX_STREAMS:
        places.append(streams.take(f"192.0.2.{len(places)}"))
    with pytest.raises(ServiceUnavailable, match="64 callers watch this node"):
        streams.take("198.51.100.1")
    streams.take(live.OPERATOR)
    for place in [*places, *places]:
        place.end()
    assert streams.open == {live.OPERATOR: 1}


async def test_the_addresses_of_one_ipv6_network_are_one_watcher(app: Quart, client: Client) -> None:
    live.streams_of(app).open["2001:db8::/64"] = live.MAX_STREAMS_PER_ADDRESS
    watcher: Any = {"client": ("2001:db8::7", 5)}
    assert (await client.get("/events", scope_base=watcher)).status_code == 503


async def test_a_stream_that_never_begins_keeps_no_place(app: Quart, node: FakeNode) -> None:
    async with app.test_request_context("/events"):
        answer = await live.events(node)
        assert live.streams_of(app).open.total() == 1
    del answer
    gc.collect()
    assert not live.streams_of(app).open


async def test_head_does_not_open_a_stream(client: Client, node: FakeNode) -> None:
    assert (await client.head("/events")).status_code == 200
    assert node.feed.watchers == 0


def test_a_kind_cannot_smuggle_in_another_field() -> None:
    event = live.as_event(FeedItem(1, 0.0, "a\nid: 9\r\ndata: b", "x", "", {}))
    assert event.splitlines()[:2] == [b"id: 1", b"event: a id: 9 data: b"]
    assert len(event.splitlines()) == 4


async def test_those_who_ask_for_the_log_at_once_share_its_lines(
    client: Client, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    async def events() -> list[FeedItem]:
        made.append(len(made))
        await asyncio.sleep(0)
        return [FeedItem(number, 0.0, "step", "x" * 100, "", {}) for number in range(1, 1000)]

    monkeypatch.setattr(node, "events", events)
    answers = await asyncio.gather(*(client.get("/events.jsonl") for _ in range(20)))
    bodies = {await answer.get_data() for answer in answers}
    assert len(bodies) == 1 and made == [0]
    assert len(bodies.pop().splitlines()) == 999
    node.feed.publish("step", "newer")
    assert (await client.get("/events.jsonl")).content_length > 1000
    assert made == [0, 1]


async def test_the_log_is_sent_in_pieces() -> None:
    pieces = [piece async for piece in live.Lines(b"x" * (2 * live.PIECE + 1)).pieces()]
    assert [len(piece) for piece in pieces] == [live.PIECE, live.PIECE, 1]
