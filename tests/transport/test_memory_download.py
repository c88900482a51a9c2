"""Downloads in memory: they land, break off where chance decides, and go on from there."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest

from flnet.blob import PIECE, Landing
from flnet.errors import ParamsRefused, PeerRefused, PeerTimeout, PeerUnreachable, UnreadableBody
from flnet.transport.base import Reply
from flnet.transport.memory import Faults, MemoryNetwork

A, B = "10.0.0.1:4000", "10.0.0.2:4000"

MODEL = random.Random(0).randbytes(3 * PIECE + 5)


def landing() -> Landing:
    return Landing(lambda head, total: True, 10_000_000, 1000)


class Shelf:
    """Hands out MODEL, or what a test puts in its place."""

    def __init__(self, *replies: Reply) -> None:
        self.replies, self.came = list(replies), list[tuple[str, bytes, str, str]]()

    async def __call__(self, path: str, body: bytes, content_type: str, caller: str) -> Reply:
        self.came.append((path, body, content_type, caller))
        return self.replies.pop(0) if self.replies else Reply(200, MODEL)


async def no_wait(seconds: float) -> None:
    await asyncio.sleep(0)


def shelf(*replies: Reply, seed: int = 0, **faults: float) -> tuple[MemoryNetwork, Shelf]:
    net, far = MemoryNetwork(random.Random(seed), no_wait, Faults(**faults)), Shelf(*replies)
    net.register(B, far)
    return net, far


async def test_a_download_lands() -> None:
    net, far = shelf()
    into = landing()
    await net.transport(A).download(B, "/model", into)
    assert into.whole() == MODEL
    assert far.came == [("/model", b"", "", A)]


@pytest.mark.parametrize("seed", range(10))
async def test_a_broken_download_goes_on_where_it_stopped(seed: int) -> None:
    net, far = shelf(seed=seed, break_transfer=1.0)
    steps: list[int] = []

    class Watched(Landing):
        def write(self, data: bytes | memoryview) -> None:
            steps.append(self.received)
            super().write(data)

    into = Watched(lambda head, total: True, 10_000_000, 1000)
    await net.transport(A).download(B, "/model", into)
    assert into.whole() == MODEL
    assert len(far.came) > 1
    assert steps == sorted(set(steps))  # every byte came once


async def test_a_way_that_is_cut_in_mid_transfer_ends_it_and_heals() -> None:
    net, far = shelf(break_transfer=1.0)
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
    net, _ = shelf(gone)
    with pytest.raises(PeerRefused, match="404 unknown_model: gone"):
        await net.transport(A).download(B, "/model", landing())

    def refuse(head: memoryview, total: int) -> bool:
        raise ParamsRefused("another shape")

    with pytest.raises(ParamsRefused):
        await net.transport(A).download(B, "/model", Landing(refuse, 10_000_000, 1000))


async def test_a_body_that_changes_its_size_is_refused() -> None:
    net, _ = shelf(Reply(200, MODEL), Reply(200, MODEL + b"x"), break_transfer=1.0)
    with pytest.raises(UnreadableBody, match="before and has"):
        await net.transport(A).download(B, "/model", landing())


async def test_a_download_waits_for_a_peer_that_is_not_ready() -> None:
    net, far = shelf(Reply(503, b'{"error": "not_ready"}'))
    into = landing()
    await net.transport(A).download(B, "/model", into)
    assert into.complete
    assert len(far.came) == 2


async def test_downloads_change_nothing_for_networks_that_break_none() -> None:
    """What existing seeds draw for requests does not depend on the new fault."""

    async def history(broken: float) -> list[int]:
        net, far = shelf(seed=3, drop_request=0.3, break_transfer=broken)
        for _ in range(30):
            with suppress(PeerTimeout):
                await net.transport(A).send(B, "/", b"", "")
        return [len(far.came)]

    assert await history(0.0) == await history(1.0)
