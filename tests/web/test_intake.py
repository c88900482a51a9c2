"""What is taken in at once: memory for bodies, messages of an address, messages under way."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quart import Quart

from flnet.web import create_app
from flnet.web import intake as module
from flnet.web.body import CONTROL_BYTES
from flnet.web.intake import LEAST_ROOM, MOST_ROOM, NODE_PATHS, Intake, Room, room_bytes

from .conftest import SETTINGS, Client
from .fake_node import FakeNode

PATH = "/training/model_params"
HELLO = json.dumps({"iAm": {"id": "a", "ip": "127.0.0.1", "port": 4001}, "myKnownPeers": []})


def test_room_is_bound_in_all_and_for_each_caller_but_one_body_always_fits() -> None:
    room = Room(100)
    assert room.take("a", 5000)  # alone: else a model that is larger than the room could never come
    assert not room.take("b", 1)
    room.give("a", 5000)
    assert room.take("a", 30)
    assert not room.take("a", 30)  # more than half for one caller
    assert room.take("a", 20)
    assert room.take("b", 50)
    assert not room.take("c", 1)
    room.give("a", 50)
    assert room.taken == {"b": 50}
    assert room.take("c", 50)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 60))))
def test_what_is_held_never_exceeds_the_room(wishes: list[tuple[str, int]]) -> None:
    room, held = Room(100), 0
    for caller, nbytes in wishes:
        held += nbytes if room.take(caller, nbytes) else 0
        assert held <= 100
        assert sum(room.taken.values()) == held


def test_the_room_follows_the_machine() -> None:
    assert LEAST_ROOM <= room_bytes() <= MOST_ROOM


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, node: FakeNode) -> Intake:
    """The bounds of an app with room for one body of JSON."""
    made: list[Intake] = []

    class Small(Intake):
        def __init__(self) -> None:
            super().__init__(4 * CONTROL_BYTES)
            made.append(self)

    monkeypatch.setattr("flnet.web.app.Intake", Small)
    monkeypatch.setattr(node, "body_limit", lambda path: (10 if path == PATH else 1) * CONTROL_BYTES)
    app: Quart = create_app(node, SETTINGS)
    made[0].app = app  # type: ignore[attr-defined]
    return made[0]


async def send(client: Any, start: bytes, size: int) -> Any:
    """A request whose body has begun; end it with `__aexit__`."""
    headers = {"Content-Type": "application/json", "Content-Length": str(size), "Host": "127.0.0.1"}
    opened = client.request(PATH, method="POST", headers=headers)
    await opened.__aenter__()
    await opened.send(start)
    return opened


async def test_a_second_large_body_is_told_to_come_again(small: Intake) -> None:
    client = small.app.test_client()  # type: ignore[attr-defined]
    first = await send(client, b"{", 2 * CONTROL_BYTES)
    while not small.room.taken:
        await asyncio.sleep(0)
    assert list(small.room.taken.values()) == [6 * CONTROL_BYTES]
    refused = await client.post(PATH, data=b" " * 2 * CONTROL_BYTES, headers={"Content-Type": "application/json"})
    assert refused.status_code == 503
    assert (await refused.get_json())["error"] == "not_ready"
    assert (
        await client.post("/announce", data=HELLO, headers={"Content-Type": "application/json"})
    ).status_code == 201
    await first.send(b" " * (2 * CONTROL_BYTES - 1))
    await first.send_complete()
    await first.as_response()
    await first.__aexit__(None, None, None)
    assert small.room.taken == {}
    again = await client.post(PATH, data=b" " * 2 * CONTROL_BYTES, headers={"Content-Type": "application/json"})
    assert again.status_code == 422


async def test_a_body_that_is_refused_unread_takes_no_room(small: Intake) -> None:
    client = small.app.test_client()  # type: ignore[attr-defined]
    refused = await client.post(PATH, data=b" " * 11 * CONTROL_BYTES, headers={"Content-Type": "application/json"})
    assert refused.status_code == 413
    assert small.room.taken == {}


async def test_a_flood_from_one_address_is_told_when_to_come_again(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BURST", 20)
    monkeypatch.setattr(module, "PER_SECOND", 0.001)
    client = create_app(node, SETTINGS).test_client()

    async def post(address: str) -> Any:
        return await client.post(
            "/announce",
            data=HELLO,
            headers={"Content-Type": "application/json"},
            scope_base={"client": (address, 1)},
        )

    answers = [await post("10.0.0.1") for _ in range(30)]
    assert [answer.status_code for answer in answers] == [201] * 20 + [429] * 10
    assert int(answers[-1].headers["Retry-After"]) == (await answers[-1].get_json())["retryAfter"] == 1000
    assert (await post("10.0.0.2")).status_code == 201
    assert (await client.get("/health")).status_code == 200


async def test_messages_that_wait_for_their_answer_are_bound(
    client: Client, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = asyncio.Event()
    receive = node.receive

    async def slowly(*arguments: Any) -> Any:
        await go.wait()
        return await receive(*arguments)

    monkeypatch.setattr(module, "UNDER_WAY", 5)
    monkeypatch.setattr(node, "receive", slowly)

    async def post() -> int:
        answer = await client.post("/announce", data=HELLO, headers={"Content-Type": "application/json"})
        return answer.status_code

    waiting = [asyncio.create_task(post()) for _ in range(5)]
    while len(node_paths_under_way(waiting)) < 5:
        await asyncio.sleep(0)
    for _ in range(50):
        await asyncio.sleep(0)
    assert await post() == 503
    go.set()
    assert await asyncio.gather(*waiting) == [201] * 5
    assert await post() == 201


def node_paths_under_way(tasks: list[asyncio.Task[int]]) -> list[asyncio.Task[int]]:
    return [task for task in tasks if not task.done()]


def test_people_are_not_counted_here() -> None:
    assert "/training/trigger" not in NODE_PATHS
