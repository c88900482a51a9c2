"""Parameters for other nodes: the bytes are right, and nothing of them is held on to."""

from __future__ import annotations

import asyncio
import gc
import weakref

import httpx
import numpy as np

from flnet.params.blob import PIECE, Blob
from tests.web.conftest import Running
from tests.web.fake_node import FakeNode

DIGEST = "0a" * 32
PATH = f"/training/model_params/{DIGEST}"
SIZE = 20 * PIECE + 12_345


def put(node: FakeNode) -> np.ndarray:
    """A model in two parts, and its bytes."""
    numbers = np.random.default_rng(0).integers(0, 256, SIZE, np.uint8)
    node.blobs[DIGEST] = Blob([numbers[:7].data, numbers[7:].data])
    return numbers


async def test_bodies_are_sent_one_after_the_other_on_one_connection(running: Running, node: FakeNode) -> None:
    numbers = put(node)
    async with running() as port, httpx.AsyncClient(trust_env=False, timeout=60) as http:
        url, streams = f"http://127.0.0.1:{port}{PATH}", []
        for part in ({}, {"Range": f"bytes={SIZE - 9}-"}, {}, {"Range": "bytes=3-2000000"}):
            answer = await http.get(url, headers=part)
            streams.append(answer.extensions["network_stream"])
            start, stop = {2_000_001 - 3: (3, 2_000_001), 9: (SIZE - 9, SIZE)}.get(len(answer.content), (0, SIZE))
            assert answer.content == numbers[start:stop].tobytes()
        assert (await http.get(f"http://127.0.0.1:{port}/health")).status_code == 200
    assert len({id(stream) for stream in streams}) == 1


async def test_nothing_is_held_on_to_once_a_body_is_sent(running: Running, node: FakeNode) -> None:
    model = weakref.ref(put(node))
    gc.collect()
    gc.disable()
    try:
        async with running() as port, httpx.AsyncClient(trust_env=False, timeout=60) as http:
            for _ in range(3):
                await http.get(f"http://127.0.0.1:{port}{PATH}")
            node.blobs.clear()
            for _ in range(100):
                await asyncio.sleep(0.01)
                if model() is None:
                    break
            assert model() is None
    finally:
        gc.enable()


async def test_who_leaves_in_the_middle_disturbs_nobody(running: Running, node: FakeNode) -> None:
    node.blobs[DIGEST] = Blob([bytes(48 * 1024 * 1024)])  # more than both sockets hold
    async with running() as port:
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            writer.write(f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert b" 200 " in await reader.readline()
            writer.transport.abort()
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            assert len((await http.get(f"http://127.0.0.1:{port}{PATH}")).content) == 48 * 1024 * 1024
