"""Admission: which request is refused by which step, and what is taken in of those that pass."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quart import Quart

from flnet.settings import load_settings
from flnet.web.app import create_app
from flnet.web.auth import admission
from flnet.wire.binary_codec import BINARY_TYPE
from flnet.wire.body_memory import MAX_MEMORY, MIN_MEMORY, BodyMemory, memory_bytes
from flnet.wire.transport import CONTROL_BYTES
from tests.security.keypairs import verifier
from tests.web.conftest import SETTINGS, Client
from tests.web.fake_node import WANTED, FakeNode

HERE = {"Host": "localhost:4000"}
JSON = {"Content-Type": "application/json"}
PATH = "/training/model_params"
HELLO = json.dumps({"iAm": {"id": "a", "ip": "127.0.0.1", "port": 4001}, "myKnownPeers": []})
FOREIGN = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "http://evil.example"},
    {"Origin": "http://localhost:4001"},
    {"Origin": "null"},
    {"Origin": "http://[broken"},
    {"Origin": ""},
]


async def announce(client: Any, address: str = "10.0.0.1", **headers: str) -> Any:
    scope = {"client": (address, 1)}
    return await client.post("/announce", data=HELLO, headers={**JSON, **headers}, scope_base=scope)


async def refusal(answer: Any) -> tuple[int, str]:
    return answer.status_code, (await answer.get_json())["error"]


async def test_the_first_step_that_refuses_decides(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request with every fault at once; one after the other is mended."""
    monkeypatch.setattr(admission, "BURST", 1)
    monkeypatch.setattr(admission, "PER_SECOND", 1e-6)  # no turn comes back, however slow this machine is
    monkeypatch.setattr(admission, "MAX_UNDER_WAY", 0)
    node.signing = verifier()
    client = create_app(node, SETTINGS).test_client()
    evil = {"Host": "evil.example", "Origin": "http://evil.example"}
    assert await refusal(await announce(client, **evil)) == (403, "forbidden")
    assert await refusal(await announce(client, **evil)) == (429, "too_many_messages")
    told = await announce(client, "10.0.0.2", **evil)
    assert "does not go by the name 'evil.example'" in (await told.get_json())["message"]
    told = await announce(client, "10.0.0.3", Host="10.0.0.9", Origin="http://evil.example")
    assert "this node's own page" in (await told.get_json())["message"]
    assert await refusal(await announce(client, "10.0.0.4", Host="10.0.0.9")) == (401, "signature_needed")
    node.signing = None
    client = create_app(node, SETTINGS).test_client()
    assert await refusal(await announce(client)) == (503, "not_ready")
    assert node.received == []


async def test_the_operators_permission_is_asked_before_a_signature(node: FakeNode) -> None:
    node.signing = verifier()
    client = create_app(node, load_settings({"trust_loopback": "false"}, {})).test_client()
    assert await refusal(await client.post("/training/trigger", json={})) == (401, "sign_in_needed")
    headers = {"Signature-Input": "x", "Signature": "x"}
    assert await refusal(await client.get("/info", headers=headers)) == (401, "signature_needed")
    assert await refusal(await client.get("/nothing", headers=headers)) == (401, "signature_needed")
    assert await refusal(await client.get("/info")) == (401, "signature_needed")
    assert (await client.get("/nothing")).status_code == 404


@pytest.mark.parametrize("headers", FOREIGN)
async def test_what_another_sites_page_sends_is_refused_in_words(
    client: Client, node: FakeNode, headers: dict[str, str]
) -> None:
    """All routes: tests/threats/test_19_csrf.py."""
    answer = await client.post("/training/trigger", json={"trainerId": "MNIST"}, headers={**headers, **HERE})
    assert await refusal(answer) == (403, "forbidden")
    assert "this node's own page" in (await answer.get_json())["message"]
    assert node.received == []


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://localhost:4000", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "http://LOCALHOST:4000"},
        {"Sec-Fetch-Site": "none"},
    ],
)
async def test_the_own_page_and_programs_pass(client: Client, headers: dict[str, str]) -> None:
    answer = await client.post("/training/trigger", json={"trainerId": "MNIST"}, headers={**headers, **HERE})
    assert answer.status_code == 202


async def test_a_flood_from_one_address_is_told_when_to_come_again(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "BURST", 20)
    monkeypatch.setattr(admission, "PER_SECOND", 0.001)
    client = create_app(node, SETTINGS).test_client()
    answers = [await announce(client) for _ in range(30)]
    assert [answer.status_code for answer in answers] == [201] * 20 + [429] * 10
    assert int(answers[-1].headers["Retry-After"]) == (await answers[-1].get_json())["retryAfter"] == 1000
    assert (await announce(client, "10.0.0.2")).status_code == 201
    far = {"client": ("10.0.0.1", 1)}
    assert (await client.get("/health", scope_base=far)).status_code == 200
    trigger = await client.post("/training/trigger", json={"trainerId": "MNIST"}, scope_base=far)
    assert await refusal(trigger) == (401, "sign_in_needed")  # people are not counted with nodes


async def test_messages_of_vertical_jobs_are_limited_apart_from_all_others_and_by_address(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger that sends them fast is slowed down; members at other addresses are not, nor are other messages."""
    for name, number in {
        "BURST": 5,
        "PER_SECOND": 0.001,
        "VERTICAL_BURST": 30,
        "VERTICAL_PER_SECOND": 0.001,
    }.items():
        monkeypatch.setattr(admission, name, number)
    client = create_app(node, SETTINGS).test_client()

    async def send(address: str) -> int:
        scope = {"client": (address, 1)}
        return (await client.post("/training/vertical", data=b"{}", headers=JSON, scope_base=scope)).status_code

    statuses = [await send("10.0.0.1") for _ in range(40)]
    assert [status == 429 for status in statuses] == [False] * 30 + [True] * 10
    assert await send("10.0.0.2") != 429
    assert [(await announce(client)).status_code for _ in range(7)] == [201] * 5 + [429] * 2
    assert await send("10.0.0.3") != 429


async def test_one_caller_of_many_meshes_leaves_few_events_and_keeps_others_from_none(
    client: Client, node: FakeNode
) -> None:
    def told() -> int:
        return sum(item.kind == "refused_here" for item in node.feed.recent())

    for number in range(3 * admission.MOST_OTHER_MESHES):
        answer = await announce(client, f"2001:db8::{number:x}", **{"Flnet-Mesh": f"m{number}"})
        assert await refusal(answer) == (403, "other_mesh")
    assert told() == admission.MOST_OF_CALLER
    for _ in range(3):
        await announce(client, "10.0.0.1", **{"Flnet-Mesh": "lab"})
    assert told() == admission.MOST_OF_CALLER + 1
    for number in range(3 * admission.MOST_OTHER_MESHES):
        await announce(client, f"10.0.1.{number}", **{"Flnet-Mesh": "lab"})
    assert told() == admission.MOST_OTHER_MESHES


async def test_messages_that_wait_for_their_answer_are_bound(
    client: Client, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, waits, receive = asyncio.Event(), asyncio.Semaphore(0), node.receive

    async def slowly(*arguments: Any) -> Any:
        waits.release()
        await go.wait()
        return await receive(*arguments)

    monkeypatch.setattr(admission, "MAX_UNDER_WAY", 5)
    monkeypatch.setattr(node, "receive", slowly)
    waiting = [asyncio.create_task(announce(client)) for _ in range(5)]
    for _ in waiting:
        await waits.acquire()
    assert await refusal(await announce(client)) == (503, "not_ready")
    go.set()
    assert [answer.status_code for answer in await asyncio.gather(*waiting)] == [201] * 5
    assert (await announce(client)).status_code == 201


def test_memory_is_bound_in_all_and_for_each_caller_but_one_body_always_fits() -> None:
    memory = BodyMemory(100)
    assert memory.take("a", 5000)  # alone: else a model that is larger than the memory could never come
    assert not memory.take("b", 1)
    memory.give("a", 5000)
    assert memory.take("a", 30)
    assert not memory.take("a", 30)  # more than half for one caller
    assert memory.take("a", 20)
    assert memory.take("b", 50)
    assert not memory.take("c", 1)
    memory.give("a", 50)
    assert memory.taken == {"b": 50}
    assert memory.take("c", 50)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 60))))
def test_what_is_reserved_never_exceeds_the_memory(wishes: list[tuple[str, int]]) -> None:
    memory, held = BodyMemory(100), 0
    for caller, nbytes in wishes:
        held += nbytes if memory.take(caller, nbytes) else 0
        assert held <= 100
        assert sum(memory.taken.values()) == held


def test_the_memory_follows_the_machine() -> None:
    assert MIN_MEMORY <= memory_bytes() <= MAX_MEMORY


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, node: FakeNode) -> Any:
    """An app with memory for one body of JSON: `client` and `memory`."""
    memory = BodyMemory(4 * CONTROL_BYTES)
    monkeypatch.setattr(admission, "BodyMemory", lambda size: memory)
    monkeypatch.setattr(node, "body_limit", lambda path: (10 if path == PATH else 1) * CONTROL_BYTES)
    app: Quart = create_app(node, SETTINGS)
    return SimpleNamespace(client=app.test_client(), memory=memory)


async def begin(client: Any, start: bytes, size: int) -> Any:
    """A request whose body has begun; end it with `__aexit__`."""
    opened = client.request(PATH, method="POST", headers={**JSON, **HERE, "Content-Length": str(size)})
    await opened.__aenter__()
    await opened.send(start)
    return opened


async def test_a_second_large_body_is_told_to_come_again(small: Any) -> None:
    large = b" " * 2 * CONTROL_BYTES
    first = await begin(small.client, b"{", len(large))
    while not small.memory.taken:
        await asyncio.sleep(0)
    assert list(small.memory.taken.values()) == [6 * CONTROL_BYTES]
    assert await refusal(await small.client.post(PATH, data=large, headers=JSON)) == (503, "not_ready")
    assert (await announce(small.client)).status_code == 201
    await first.send(large[1:])
    await first.send_complete()
    await first.as_response()
    await first.__aexit__(None, None, None)
    assert small.memory.taken == {}
    assert (await small.client.post(PATH, data=large, headers=JSON)).status_code == 422


@pytest.mark.parametrize("headers", [{}, {"Host": "evil.example"}])
async def test_a_body_that_is_refused_unread_takes_no_memory(small: Any, headers: dict[str, str]) -> None:
    size = 11 if not headers else 2
    refused = await small.client.post(PATH, data=b" " * size * CONTROL_BYTES, headers={**JSON, **headers})
    assert refused.status_code == (413 if not headers else 403)
    assert small.memory.taken == {}


async def test_what_comes_before_a_request_is_admitted_is_handed_on_whole(client: Client, node: FakeNode) -> None:
    body = WANTED + bytes(range(256)) * 100
    headers = {"Content-Type": BINARY_TYPE, "Content-Length": str(len(body)), **HERE}
    async with client.request(PATH, method="POST", headers=headers) as opened:
        for start in range(0, len(body), 1000):
            await opened.send(body[start : start + 1000])
        await opened.send_complete()
        assert (await opened.as_response()).status_code == 200
    assert bytes(node.landed[0]) == body
