"""The network in memory: bytes arrive, and every fault is the one that was asked for."""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import suppress

import pytest

from flnet.errors import (
    NotReady,
    ParamsRefused,
    PeerRefused,
    PeerTimeout,
    PeerUnreachable,
    StaleRound,
    UnreadableBody,
)
from flnet.params.blob import PIECE, Blob, Landing
from flnet.wire.memory import MemoryNetwork, MemoryTransport, NetworkFaults
from flnet.wire.transport import Reply

A, B = "10.0.0.1:4000", "10.0.0.2:4000"


class Far:
    """Answers everything and remembers what came."""

    def __init__(self) -> None:
        self.came: list[tuple[str, bytes, str, str]] = []

    async def __call__(self, path: str, body: bytes, content_type: str, caller: str) -> Reply:
        self.came.append((path, body, content_type, caller))
        return Reply(200, b"%d" % len(self.came), "text/plain")


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


def network(seed: int = 0, clock: Clock | None = None, **faults: float) -> tuple[MemoryNetwork, Far]:
    net, far = MemoryNetwork(random.Random(seed), (clock or Clock()).sleep, NetworkFaults(**faults)), Far()
    net.register(B, far)
    return net, far


async def ask(transport: MemoryTransport, body: bytes = b"x") -> Reply:
    return await transport.send(B, "/announce", body, "application/json")


async def outcome(transport: MemoryTransport, body: bytes = b"x") -> str:
    try:
        return (await ask(transport, body)).body.decode()
    except (PeerTimeout, PeerUnreachable) as exc:
        return type(exc).__name__


async def test_bytes_arrive_with_the_callers_address_and_the_reply_comes_back() -> None:
    net, far = network()
    assert await ask(net.transport(A), b"hello") == Reply(200, b"1", "text/plain")
    assert far.came == [("/announce", b"hello", "application/json", A)]


async def test_a_blob_arrives_joined() -> None:
    net, far = network()
    assert (await net.transport(A).send(B, "/", Blob([b"he", memoryview(b"llo")]), "")).status == 200
    assert far.came == [("/", b"hello", "", A)]


async def test_nobody_there_is_unreachable() -> None:
    net, _ = network()
    with pytest.raises(PeerUnreachable, match=r"10\.0\.0\.9:1: no connection"):
        await net.transport(A).send("10.0.0.9:1", "/", b"", "")
    net.unregister(B)
    net.unregister(B)
    assert await outcome(net.transport(A)) == "PeerUnreachable"


async def test_a_cut_is_one_way() -> None:
    net, far = network()
    net.register(A, far)
    net.cut(A, B)
    assert await outcome(net.transport(A)) == "PeerUnreachable"
    assert (await net.transport(B).send(A, "/", b"", "")).status == 200
    net.heal(A, B)
    net.heal(A, B)
    assert await outcome(net.transport(A)) == "2"


async def test_a_partition_cuts_both_ways_between_groups_only() -> None:
    net, far = network()
    names = ["a:1", "b:1", "c:1", "d:1"]
    for name in names:
        net.register(name, far)
    net.part({"a:1", "b:1"}, {"c:1"})

    async def through(sender: str, receiver: str) -> bool:
        try:
            await net.transport(sender).send(receiver, "/", b"", "")
        except PeerUnreachable:
            return False
        return True

    open_ways = {(s, r) for s in names for r in names if await through(s, r)}
    closed = {("a:1", "c:1"), ("b:1", "c:1"), ("c:1", "a:1"), ("c:1", "b:1")}
    assert {(s, r) for s in names for r in names} - open_ways == closed
    net.heal_all()
    assert await through("a:1", "c:1")


async def test_a_lost_request_is_never_handled() -> None:
    clock = Clock()
    net, far = network(clock=clock, drop_request=1.0, give_up=30.0)
    with pytest.raises(PeerTimeout, match="request lost"):
        await ask(net.transport(A))
    assert far.came == []
    assert clock.now == 30.0


async def test_a_lost_reply_leaves_the_request_handled() -> None:
    net, far = network(drop_reply=1.0)
    with pytest.raises(PeerTimeout, match="reply lost"):
        await ask(net.transport(A))
    assert len(far.came) == 1


async def test_a_duplicate_is_handled_twice_and_answered_once() -> None:
    net, far = network(duplicate=1.0)
    assert (await ask(net.transport(A))).body == b"1"
    assert len(far.came) == 2


async def test_delays_lie_between_their_bounds_each_way() -> None:
    clock = Clock()
    net, _ = network(clock=clock, shortest_delay=1.0, longest_delay=3.0)
    for _ in range(20):
        before = clock.now
        await ask(net.transport(A))
        assert 2.0 <= clock.now - before <= 6.0


async def test_one_seed_gives_one_history() -> None:
    async def history(seed: int) -> list[str]:
        net, _ = network(seed, drop_request=0.3, drop_reply=0.3, duplicate=0.3)
        return [await outcome(net.transport(A)) for _ in range(50)]

    assert await history(1) == await history(1)
    assert await history(1) != await history(2)
    assert {"PeerTimeout", "1"} <= set(await history(1))


async def test_changing_one_probability_leaves_the_other_faults_where_they_were() -> None:
    async def lost(duplicate: float) -> list[bool]:
        net, _ = network(7, drop_request=0.3, duplicate=duplicate)
        return [await outcome(net.transport(A)) == "PeerTimeout" for _ in range(50)]

    assert await lost(0.0) == await lost(0.9)


async def test_faults_may_change_while_the_network_runs() -> None:
    net, _ = network(drop_request=1.0)
    transport = net.transport(A)
    assert await outcome(transport) == "PeerTimeout"
    net.faults.drop_request = 0.0
    assert await outcome(transport) == "1"


async def test_an_error_of_the_far_node_is_its_answer() -> None:
    net, _ = network()

    async def refuse(path: str, body: bytes, content_type: str, caller: str) -> Reply:
        raise StaleRound(3, 5)

    net.register(B, refuse)
    reply = await ask(net.transport(A))
    assert reply.status == 409
    assert json.loads(reply.body) == {"error": "stale_round", "message": StaleRound(3, 5).message, "round": 5}


@pytest.mark.parametrize(("times", "status"), [(2, 200), (10**6, 503)])
async def test_a_node_that_is_not_ready_is_asked_again_until_it_is_given_up(times: int, status: int) -> None:
    clock, asked = Clock(), 0
    net, far = network(clock=clock)

    async def later(path: str, body: bytes, content_type: str, caller: str) -> Reply:
        nonlocal asked
        asked += 1
        if asked <= times:
            raise NotReady("still loading")
        return await far(path, body, content_type, caller)

    net.register(B, later)
    assert (await ask(net.transport(A))).status == status
    assert clock.now > 0


async def test_fetch_asks_without_a_body() -> None:
    net, far = network()
    assert (await net.transport(A).fetch(B, "/info")).status == 200
    assert far.came == [("/info", b"", "", A)]


async def test_a_closed_transport_sends_nothing() -> None:
    net, far = network()
    transport = net.transport(A)
    await transport.close()
    assert await outcome(transport) == "PeerUnreachable"
    with pytest.raises(PeerUnreachable, match="closed"):
        await transport.fetch(B, "/info")
    assert far.came == []
    with pytest.raises(PeerUnreachable, match="closed"):
        await transport.download(B, "/model", Landing(lambda head, total: True, 1000, 1000))


MODEL = random.Random(0).randbytes(3 * PIECE + 5)


def landing() -> Landing:
    return Landing(lambda head, total: True, 10_000_000, 1000)


class ModelHost:
    """Hands out MODEL, or what a test puts in its place."""

    def __init__(self, *replies: Reply) -> None:
        self.replies, self.came = list(replies), list[tuple[str, bytes, str, str]]()

    async def __call__(self, path: str, body: bytes, content_type: str, caller: str) -> Reply:
        self.came.append((path, body, content_type, caller))
        return self.replies.pop(0) if self.replies else Reply(200, MODEL)


async def no_wait(seconds: float) -> None:
    await asyncio.sleep(0)


def serving(*replies: Reply, seed: int = 0, **faults: float) -> tuple[MemoryNetwork, ModelHost]:
    net, far = MemoryNetwork(random.Random(seed), no_wait, NetworkFaults(**faults)), ModelHost(*replies)
    net.register(B, far)
    return net, far


@pytest.mark.parametrize("seed", range(10))
async def test_a_broken_download_goes_on_where_it_stopped(seed: int) -> None:
    net, far = serving(seed=seed, break_transfer=1.0)
    steps: list[int] = []

    class Watched(Landing):
        def write(self, data: bytes | memoryview) -> None:
            steps.append(self.received)
            super().write(data)

    into = Watched(lambda head, total: True, 10_000_000, 1000)
    await net.transport(A).download(B, "/model", into)
    assert into.whole() == MODEL
    assert far.came == [("/model", b"", "", A)] * len(far.came) and len(far.came) > 1
    assert steps == sorted(set(steps))  # every byte came once


async def test_a_way_that_is_cut_in_mid_transfer_ends_it_and_heals() -> None:
    net, far = serving(break_transfer=1.0)
    into, sender = landing(), net.transport(A)

    async def cut(path: str, body: bytes, content_type: str, caller: str) -> Reply:
        net.cut(A, B)
        return await far(path, body, content_type, caller)

    net.register(B, cut)
    with pytest.raises(PeerUnreachable):
        await sender.download(B, "/model", into)
    assert 0 < into.received < len(MODEL)
    net.heal_all()
    net.register(B, far)
    await sender.download(B, "/model", into)
    assert into.whole() == MODEL


async def test_refusals_end_a_download() -> None:
    gone = Reply(404, b'{"error": "unknown_model", "message": "gone"}')
    net, _ = serving(gone)
    with pytest.raises(PeerRefused, match="404 unknown_model: gone"):
        await net.transport(A).download(B, "/model", landing())

    def refuse(head: memoryview, total: int) -> bool:
        raise ParamsRefused("another shape")

    with pytest.raises(ParamsRefused):
        await net.transport(A).download(B, "/model", Landing(refuse, 10_000_000, 1000))


async def test_a_body_that_changes_its_size_is_refused() -> None:
    net, _ = serving(Reply(200, MODEL), Reply(200, MODEL + b"x"), break_transfer=1.0)
    with pytest.raises(UnreadableBody, match="before and has"):
        await net.transport(A).download(B, "/model", landing())


async def test_a_download_waits_for_a_peer_that_is_not_ready() -> None:
    net, far = serving(Reply(503, b'{"error": "not_ready"}'))
    into = landing()
    await net.transport(A).download(B, "/model", into)
    assert into.complete
    assert len(far.came) == 2


async def test_downloads_change_nothing_for_networks_that_break_none() -> None:
    """What existing seeds draw for requests does not depend on the new fault."""

    async def history(broken: float) -> list[int]:
        net, far = serving(seed=3, drop_request=0.3, break_transfer=broken)
        for _ in range(30):
            with suppress(PeerTimeout):
                await net.transport(A).send(B, "/", b"", "", len(MODEL))
        return [len(far.came)]

    assert await history(0.0) == await history(1.0)
