"""Parameters compressed, from a serving node's app behind real HTTP to what a fetching node makes of them."""

from __future__ import annotations

import random
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias

import httpx
import numpy as np
import pytest
import zstandard

from flnet.node.core import NodeCore
from flnet.node.formats import BodyFormats, BufferPool, Form, accepted
from flnet.node.outbox import Outbox
from flnet.node.peer_infos import Distances
from flnet.node.round_history import Traffic
from flnet.params.blob import Blob
from flnet.params.params import Digest, Params, PeerId, TrainerId
from flnet.params.quantization import rounded
from flnet.protocol.effects import Fetch
from flnet.protocol.events import AnnounceReceived, Event, Fetched, FetchFailed, Prepared
from flnet.protocol.messages import EARLIER_FORMS
from flnet.store.memory import MemoryStore
from flnet.wire.binary_codec import BINARY_TYPE, ZSTD, BinaryCodec
from flnet.wire.http import HttpTransport
from tests.helpers import key, peer
from tests.processes.proxy import ADDRESS, Proxy
from tests.rounds.helpers import declaration
from tests.web.conftest import Client, Running
from tests.web.fake_node import FakeNode

T = TrainerId("T")
MB = 1024 * 1024
FULL = Params({"w": np.random.default_rng(0).standard_normal(2 * MB).astype(np.float32)})
LOW = Params({"w": rounded(FULL["w"], "int8-blocks")})
ACCEPTED = accepted("int8")
SLOW, FAST = 1e6, 1e9  # bytes per second
Serving: TypeAlias = Callable[..., AbstractAsyncContextManager[int]]


def wire(form: Form, model: Params, core: NodeCore | None = None) -> BodyFormats:
    core = core or NodeCore(peer("b"), [T])
    core.hear(T, Prepared(declaration(), model))
    return BodyFormats(core, MemoryStore(), form, 10**9)


@pytest.fixture
def serving(node: FakeNode, running: Running, monkeypatch: pytest.MonkeyPatch) -> Serving:
    """A node that holds LOW or FULL and sends updates in a form; what was asked and lent is in `node.lent`."""

    @asynccontextmanager
    async def run(form: Form, model: Params) -> AsyncIterator[int]:
        there = wire(form, model)

        async def held(
            digest: str, codings: Collection[str] = (), accepts: Collection[str] = EARLIER_FORMS
        ) -> Blob:
            blob = await there.held(digest, codings, accepts)
            node.lent += [*(f"{coding}?" for coding in codings), blob.coding or "identity"]
            return blob

        monkeypatch.setattr(node, "held", held)
        async with running() as port:
            yield port

    return run


async def fetched(port: int, rate: float, digest: Digest = LOW.digest, host: str = "127.0.0.1") -> Event:
    """What a node that measured this rate from its peer makes of an update, which comes as a whole."""
    core, http = NodeCore(peer("c"), [T], accepts=ACCEPTED), HttpTransport(60.0, random.Random(0))
    http._pace.measured(f"{host}:{port}", MB, MB / rate)
    core.hear(None, AnnounceReceived(peer("b", port, host)))
    post = Outbox(
        http, wire("safetensors", FULL, core), core.members, lambda *_: None, BufferPool(), Traffic(), Distances()
    )
    post.must_prove = True  # as in a keyed mesh
    try:
        return await post.fetch(T, Fetch(key(), PeerId("b"), digest, proven=False))
    finally:
        await http.close()


def test_what_is_served_here_is_packed() -> None:
    assert LOW != FULL


async def test_a_slow_peer_sends_what_is_packed_compressed(serving: Serving, node: FakeNode) -> None:
    async with serving("int8", LOW) as port:
        event = await fetched(port, SLOW)
    assert event == Fetched(key(), PeerId("b"), LOW.digest, LOW)
    assert node.lent == ["zstd?", ZSTD]


@pytest.mark.parametrize(
    ("form", "model", "rate"), [("int8", LOW, FAST), ("safetensors", LOW, SLOW), ("int8", FULL, SLOW)]
)
async def test_a_fast_one_does_not_nor_what_is_not_packed(
    serving: Serving, node: FakeNode, form: Form, model: Params, rate: float
) -> None:
    async with serving(form, model) as port:
        event = await fetched(port, rate, model.digest)
    assert event == Fetched(key(), PeerId("b"), model.digest, model)
    assert node.lent == [*(["zstd?"] if rate == SLOW else []), "identity"]


async def test_nor_does_anybody_without_the_package(
    serving: Serving, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    async with serving("int8", LOW) as port:
        assert isinstance(await fetched(port, SLOW), Fetched)
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            url = f"http://127.0.0.1:{port}/training/model_params/{LOW.digest}"
            answer = await http.head(url, headers={"Accept-Encoding": "zstd"})
    assert node.lent == ["identity", "zstd?", "identity"]
    assert ("Content-Encoding" in answer.headers, answer.headers["ETag"]) == (False, f'"{LOW.digest}"')


async def test_a_transfer_that_is_cut_goes_on_compressed(serving: Serving, node: FakeNode) -> None:
    async with serving("int8", LOW) as port:
        with Proxy(port, after=MB // 2, breaks=2) as proxy:
            event = await fetched(port, SLOW, host=ADDRESS)
            assert proxy.broken == 2
            assert proxy.passed < LOW["w"].size  # once, and less than the packed body has
    assert event == Fetched(key(), PeerId("b"), LOW.digest, LOW)
    assert node.lent == ["zstd?", ZSTD] * 3


async def test_a_bomb_ends_in_words_and_costs_next_to_nothing(node: FakeNode, running: Running) -> None:
    work = zstandard.ZstdCompressor(level=1).compressobj(size=1024 * MB)
    bomb = b"".join([*(work.compress(bytes(MB)) for _ in range(1024)), work.flush()])
    assert len(bomb) < 200_000
    node.blobs[LOW.digest] = Blob([bomb], ZSTD)
    async with running() as port:
        tracemalloc.start()
        try:
            event = await fetched(port, SLOW)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert isinstance(event, FetchFailed)
    assert "but it has 1073741824 bytes" in event.reason
    assert peak < 10 * MB


@pytest.mark.parametrize("body", [b"", b"\x28\xb5\x2f\xfd", b"no zstd at all", bytes(10_000)])
async def test_nonsense_ends_in_words(node: FakeNode, running: Running, body: bytes) -> None:
    node.blobs[LOW.digest] = Blob([body], ZSTD)
    async with running() as port:
        event = await fetched(port, SLOW)
    assert isinstance(event, FetchFailed)
    assert "compressed body" in event.reason


async def test_other_parameters_than_asked_for_are_refused_compressed_too(
    node: FakeNode, running: Running
) -> None:
    other = Params({"w": -LOW["w"]})
    node.blobs[LOW.digest] = await wire("int8", other).held(other.digest, [ZSTD], ACCEPTED)
    async with running() as port:
        event = await fetched(port, SLOW)
    assert isinstance(event, FetchFailed)
    assert "other parameters came" in event.reason


# --- what the answer says


@pytest.fixture
def holding(node: FakeNode) -> str:
    """Both codings, told apart by what they hold."""

    blobs = {False: Blob([b"as it is"]), True: Blob([b"squeezed"], ZSTD)}

    async def held(digest: str, codings: Collection[str] = (), accepts: Collection[str] = ()) -> Blob:
        return blobs[ZSTD in codings]

    node.held = held  # type: ignore[method-assign]
    return "0a" * 32


@pytest.mark.parametrize(
    ("accepts", "coded"),
    [
        ("zstd", True),
        ("ZSTD", True),
        ("gzip, deflate, br, zstd", True),
        ("zstd;q=0.5, identity;q=0.4", True),
        ("zstd;q=0.4, identity;q=0.5", False),
        ("zstd;q=0", False),
        ("identity", False),
        ("gzip", False),
        ("*", False),
        ("", False),
        (None, False),
    ],
)
async def test_the_caller_says_what_it_reads(
    client: Client, holding: str, accepts: str | None, coded: bool
) -> None:
    headers = {} if accepts is None else {"Accept-Encoding": accepts}
    answer = await client.get(f"/training/model_params/{holding}", headers=headers)
    assert await answer.get_data() == (b"squeezed" if coded else b"as it is")
    assert answer.headers.get("Content-Encoding") == ("zstd" if coded else None)
    assert answer.headers["ETag"] == (f'"{holding}-zstd"' if coded else f'"{holding}"')
    assert (answer.headers["Vary"], answer.headers["Content-Type"]) == (
        "Accept-Encoding, Flnet-Accepts",
        BINARY_TYPE,
    )


@pytest.mark.parametrize(
    ("tag", "status", "body"), [("-zstd", 206, b"eezed"), ("", 200, b"squeezed"), ("-gzip", 200, b"squeezed")]
)
async def test_a_range_is_one_of_the_coded_bytes(
    client: Client, holding: str, tag: str, status: int, body: bytes
) -> None:
    headers = {"Accept-Encoding": "zstd", "Range": "bytes=3-", "If-Range": f'"{holding}{tag}"'}
    answer = await client.get(f"/training/model_params/{holding}", headers=headers)
    assert (answer.status_code, await answer.get_data()) == (status, body)


async def test_the_rest_of_a_compressed_body_is_not_taken_from_the_other(client: Client, holding: str) -> None:
    headers = {"Accept-Encoding": "identity", "Range": "bytes=3-", "If-Range": f'"{holding}-zstd"'}
    answer = await client.get(f"/training/model_params/{holding}", headers=headers)
    assert (answer.status_code, await answer.get_data()) == (200, b"as it is")


# --- forms that the caller reads


@pytest.mark.parametrize(
    ("stated", "packed"),
    [
        (None, False),  # of earlier versions
        ("", False),
        ("safetensors, float16, int8", False),
        ("int8-blocksies", False),
        ("safetensors, float16, int8, int8-blocks", True),
        (" something newer ,int8-blocks ", True),
    ],
)
async def test_only_who_says_so_is_sent_blocks(
    client: Client, node: FakeNode, monkeypatch: pytest.MonkeyPatch, stated: str | None, packed: bool
) -> None:
    monkeypatch.setattr(node, "held", wire("int8", LOW).held)
    headers = {} if stated is None else {"Flnet-Accepts": stated}
    answer = await client.get(f"/training/model_params/{LOW.digest}", headers=headers)
    body = await answer.get_data(as_text=False)
    assert BinaryCodec().decode_params(body) == LOW
    assert (len(body) < LOW.nbytes / 3, b'"blocks"' in body[:1000]) == (packed, packed)
    tag = f'"{LOW.digest}-int8-blocks"' if packed else f'"{LOW.digest}"'
    assert (answer.headers["ETag"], answer.headers["Vary"]) == (tag, "Accept-Encoding, Flnet-Accepts")


@pytest.mark.parametrize("forms", ["int8-blocks", "int8"])
async def test_the_rest_of_one_form_is_not_taken_from_another(client: Client, holding: str, forms: str) -> None:
    path = f"/training/model_params/{holding}"
    tag = (await client.get(path, headers={"Flnet-Accepts": forms})).headers["ETag"]
    for asked, status in ((forms, 206), ("int8-blocks" if forms == "int8" else "int8", 200)):
        headers = {"Flnet-Accepts": asked, "Range": "bytes=3-", "If-Range": tag}
        assert (await client.get(path, headers=headers)).status_code == status
