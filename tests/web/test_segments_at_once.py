"""Several segments in one request: from a serving node's app behind real HTTP to what a fetching node makes of them."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from flnet.node.core import NodeCore
from flnet.node.formats import BodyFormats, BufferPool
from flnet.node.outbox import Outbox
from flnet.node.peer_infos import Distances
from flnet.node.round_history import Traffic
from flnet.params.blob import Blob
from flnet.params.params import Digest, Params, PeerId, Schema, TrainerId
from flnet.params.segments import side_by_side
from flnet.protocol.effects import FetchSegments
from flnet.protocol.events import AnnounceReceived, ContactLost, Event, Fetched, FetchFailed
from flnet.store.memory import MemoryStore
from flnet.wire.binary_codec import BinaryCodec
from flnet.wire.http import HttpTransport
from tests.helpers import key, params, peer
from tests.ports import free_port
from tests.web.conftest import Client, Running
from tests.web.fake_node import FakeNode

T, B = TrainerId("T"), PeerId("b")
FIRST, SECOND = params(w=[1.0, 2.0]), params(w=[3.0], v=[[4.0, 5.0]])
BOTH = f"{FIRST.digest},{SECOND.digest}"
WANTED = FetchSegments(key(), B, {each.digest: Schema.of(each) for each in (FIRST, SECOND)})


def body(*segments: Params) -> Blob:
    return BinaryCodec().encode_params(Params(side_by_side(segments)))


@asynccontextmanager
async def outbox(port: int, told: list[Event]) -> AsyncIterator[Outbox]:
    """The outbox of a node that knows a peer at this port."""
    core, http = NodeCore(peer("c"), [T]), HttpTransport(1.0, random.Random(0))
    core.hear(None, AnnounceReceived(peer("b", port, "127.0.0.1")))
    wire = BodyFormats(core, MemoryStore(), "safetensors", 10**9)

    def deliver(owner: TrainerId | None, event: Event) -> None:
        told.append(event)

    try:
        yield Outbox(http, wire, core.members, deliver, BufferPool(), Traffic(), Distances())
    finally:
        await http.close()


async def fetched(port: int, told: list[Event] | None = None) -> Sequence[Event]:
    async with outbox(port, [] if told is None else told) as post:
        return await post.fetch_segments(T, WANTED)


async def test_one_request_brings_all_of_them(node: FakeNode, running: Running) -> None:
    node.blobs[BOTH] = body(FIRST, SECOND)
    async with running() as port:
        events = await fetched(port)
    assert events == [Fetched(key(), B, FIRST.digest, FIRST), Fetched(key(), B, SECOND.digest, SECOND)]
    assert node.lent == [BOTH] and node.given == [(FIRST.digest, len(node.blobs[BOTH]))]


async def test_what_a_peer_does_not_serve_at_once_is_asked_for_one_by_one(
    node: FakeNode, running: Running
) -> None:
    node.blobs[FIRST.digest] = BinaryCodec().encode_params(FIRST)
    async with running() as port:
        came, lacking = await fetched(port)
    assert came == Fetched(key(), B, FIRST.digest, FIRST)
    assert isinstance(lacking, FetchFailed) and lacking.digest == SECOND.digest
    assert node.lent[0] == BOTH and sorted(node.lent[1:]) == sorted([FIRST.digest, SECOND.digest])


@pytest.mark.parametrize(
    "other",
    [
        body(FIRST, params(w=[3.0], v=[[4.0, 6.0]])),
        body(SECOND, FIRST),
        body(FIRST),
        body(FIRST, SECOND, FIRST),
        body(FIRST, params(w=[3.0], v=[[4.0, float("nan")]])),
        Blob([b"nonsense"]),
    ],
)
async def test_others_than_asked_for_are_refused_all_together(
    node: FakeNode, running: Running, other: Blob
) -> None:
    node.blobs[BOTH] = other
    async with running() as port:
        events = await fetched(port)
    assert [type(event) for event in events] == [FetchFailed, FetchFailed]
    assert [event.digest for event in events if isinstance(event, FetchFailed)] == list(WANTED.forms)
    assert node.lent == [BOTH]


async def test_a_peer_that_is_gone_serves_none_and_is_missed_once() -> None:
    told: list[Event] = []
    events = await fetched(free_port(), told)
    assert [type(event) for event in events] == [FetchFailed, FetchFailed]
    assert [type(event) for event in told] == [ContactLost]


async def test_a_peer_without_an_address_is_not_asked() -> None:
    async with outbox(1, []) as post:
        events = await post.fetch_segments(T, FetchSegments(key(), PeerId("z"), WANTED.forms))
    assert [type(event) for event in events] == [FetchFailed, FetchFailed]


@pytest.mark.parametrize(
    "asked", [",", f"{'a' * 64},", f",{'a' * 64}", ",".join(["a" * 64] * 10), f"{'a' * 64},../x", f"{'a' * 64};"]
)
async def test_what_is_no_list_of_digests_is_refused_in_words(client: Client, node: FakeNode, asked: str) -> None:
    answer = await client.get(f"/training/model_params/{asked}")
    assert answer.status_code == 404 and not node.lent


async def test_nine_are_as_many_as_a_node_may_own(client: Client, node: FakeNode) -> None:
    asked = ",".join(Digest(f"{number:064}") for number in range(9))
    node.blobs[asked] = body(FIRST)
    answer = await client.get(f"/training/model_params/{asked}")
    assert answer.status_code == 200 and node.lent == [asked]
