"""Large downloads from several peers: some are gone, break off, are slow, or serve something else."""

from __future__ import annotations

import asyncio
import gc
import io
import random
import weakref
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import ParamsRefused, PeerError, RangeIgnored, TransportError, UnknownModel, UnreadableBody
from flnet.node.parts_download import PartsDownload
from flnet.params.blob import Landing
from flnet.params.params import Params, PeerId
from flnet.store.partial_downloads import PartialDownload
from flnet.wire.memory import MemoryNetwork, NetworkFaults, Receiver
from flnet.wire.transport import Reply

PART = 1000
BODY = random.Random(1).randbytes(9 * PART + 123)
PARTS = 10
OTHER_BYTES, OTHER_SIZE = bytes(len(BODY)), BODY + b"more"
NAMES = [PeerId(name) for name in "abcd"]


class Peers:
    """Nodes that serve bodies in one process, and the download of another one from them."""

    def __init__(
        self, bodies: Mapping[str, bytes | None], faults: NetworkFaults | None = None, seed: int = 0
    ) -> None:
        """Args:
        bodies: what each peer serves; None: it does not hold it.
        """
        self.network = MemoryNetwork(random.Random(seed), sleep=lambda seconds: asyncio.sleep(0), faults=faults)
        self.asked = Counter[str]()
        self.lost: list[PeerId] = []
        self.sources = {PeerId(name): f"{name}:1" for name in bodies}
        for name, body in bodies.items():
            self.network.register(f"{name}:1", self._serving(name, body))

    def _serving(self, name: str, body: bytes | None) -> Receiver:
        async def serve(*_: object) -> Reply:
            self.asked[name] += 1
            if body is None:
                raise UnknownModel("this node does not hold it")
            return Reply(200, body)

        return serve

    def download(self, kept: PartialDownload) -> PartsDownload:
        async def decode() -> Params:
            body = bytearray(kept.body_bytes or 0)
            kept.read_into(memoryview(body))
            if body != BODY:
                raise ParamsRefused("other parameters came")
            return Params({"body": np.frombuffer(bytes(body), np.uint8)})

        def wanted(head: memoryview, total: int) -> bool:
            if not total:
                raise UnreadableBody("nothing")
            return True

        return PartsDownload(
            self.network.transport("me:1"),
            "/m",
            self.sources,
            kept,
            10 * len(BODY),
            wanted,
            decode,
            lambda peer, exc: self.lost.append(peer),
        )


def nothing() -> PartialDownload:
    return PartialDownload(io.BytesIO(), PART)


async def test_several_peers_serve_parts_and_each_part_comes_once() -> None:
    peers = Peers(dict.fromkeys("abc", BODY))
    download = peers.download(nothing())
    params = await download.run()
    assert bytes(params["body"]) == BODY
    assert sum(peers.asked.values()) == PARTS
    assert len(peers.asked) == 3
    assert (download.received, download.wrong, peers.lost) == (len(BODY), set(), [])


async def test_one_peer_serves_all_parts() -> None:
    peers = Peers({"a": BODY})
    await peers.download(nothing()).run()
    assert peers.asked == {"a": PARTS}


async def test_what_peers_do_not_hold_or_do_not_answer_others_serve() -> None:
    peers = Peers({"a": None, "b": BODY, "c": BODY})
    peers.network.unregister("c:1")
    download = peers.download(nothing())
    await download.run()
    assert (peers.asked["a"], peers.asked["b"], set(peers.lost)) == (1, PARTS, {"c"})


async def test_what_came_is_not_asked_for_again_by_a_later_run() -> None:
    kept, peers = nothing(), Peers({"a": BODY})
    real = peers.network._receivers["a:1"]

    async def stops(*args: object) -> Reply:
        if peers.asked["a"] == 4:
            peers.network.unregister("a:1")
        return await real(*args)  # type: ignore[arg-type]

    peers.network.register_signed("a:1", stops)
    with pytest.raises(TransportError, match="a:1: no connection"):
        await peers.download(kept).run()
    came = kept.parts
    assert 4 <= len(came) < PARTS
    again = Peers({"b": BODY})
    download = again.download(kept)
    await download.run()
    assert again.asked == {"b": PARTS - len(came)}
    assert download.received < len(BODY)


async def test_a_download_in_which_a_peer_failed_leaves_the_memory() -> None:
    peers = Peers({"a": None, "b": BODY, "c": BODY})
    kept = nothing()
    download = peers.download(kept)
    ended = weakref.ref(download)
    gc.collect()
    gc.disable()  # what refers to itself in a circle stays
    try:
        await download.run()
        del download
        assert ended() is None
    finally:
        gc.enable()


async def test_nobody_has_it() -> None:
    for bodies in ({}, {"a": None, "b": None}):
        with pytest.raises(TransportError):
            await Peers(bodies).download(nothing()).run()


@pytest.mark.parametrize("wrong", [OTHER_BYTES, OTHER_SIZE, BODY[:-1], b"", BODY[: PART // 2]])
@pytest.mark.parametrize("place", "abc")
async def test_a_peer_that_serves_something_else_is_found_out(wrong: bytes, place: str) -> None:
    peers = Peers({**dict.fromkeys("abc", BODY), place: wrong})
    download = peers.download(nothing())
    params = await download.run()
    assert bytes(params["body"]) == BODY
    assert download.wrong <= {place}
    if wrong == OTHER_BYTES:  # a body of another size is not used at all, if another peer was asked first
        assert download.wrong == {place}
    assert download.received <= 3 * len(BODY) + len(OTHER_SIZE)


async def test_all_peers_are_wrong() -> None:
    peers = Peers(dict.fromkeys("abc", OTHER_BYTES))
    download = peers.download(nothing())
    with pytest.raises(PeerError, match="other parameters came"):
        await download.run()
    assert download.wrong == {"a", "b", "c"}
    assert download.received == 4 * len(BODY)
    alone = Peers({"a": OTHER_BYTES})
    download = alone.download(nothing())
    with pytest.raises(PeerError, match="other parameters came"):
        await download.run()
    assert (download.wrong, download.received) == ({"a"}, len(BODY))


async def test_wrong_parts_of_an_earlier_run_are_the_fault_of_nobody_here() -> None:
    kept = nothing()
    kept.begin(len(BODY))
    kept.add(3, bytes(PART))
    peers = Peers({"a": BODY})
    download = peers.download(kept)
    await download.run()
    assert (download.wrong, peers.asked) == (set(), {"a": 2 * PARTS - 1})


async def test_a_size_of_an_earlier_run_that_nobody_serves_is_forgotten() -> None:
    kept = nothing()
    kept.begin(len(OTHER_SIZE))
    kept.add(0, BODY[:PART])
    peers = Peers({"a": BODY, "b": BODY})
    await peers.download(kept).run()
    assert kept.body_bytes == len(BODY)


async def test_a_peer_that_comes_later_serves_parts_too_but_not_after_wrong_ones() -> None:
    peers = Peers({"a": BODY, "b": BODY, "c": OTHER_BYTES})
    addresses = dict(peers.sources)
    del peers.sources[PeerId("b")], peers.sources[PeerId("c")]
    download = peers.download(nothing())
    task = asyncio.create_task(download.run())
    await asyncio.sleep(0)
    for name, address in addresses.items():
        download.add(name, address)
    await task
    assert min(peers.asked.values()) >= 1
    assert download.wrong == {"c"}
    download.add(PeerId("d"), "d:1")
    assert "d" not in download._sources


async def test_who_knows_no_ranges_is_noted_and_others_serve() -> None:
    peers = Peers({"a": BODY, "b": BODY})
    transport = peers.network.transport("me:1")
    real = transport.download

    async def ignores(address: str, path: str, landing: Landing) -> None:
        if address == "a:1":
            raise RangeIgnored("the whole body came")
        await real(address, path, landing)

    download = peers.download(nothing())
    transport.download = ignores  # type: ignore[method-assign]
    download._transport = transport
    await download.run()
    assert (download.ignoring, peers.lost, peers.asked) == ({"a"}, [], {"b": PARTS})


async def test_a_silent_peer_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flnet.node.parts_download.LATE_SECONDS", 0.01)
    monkeypatch.setattr("flnet.node.parts_download.LEAST_LATE_SECONDS", 0.01)
    peers = Peers({"a": BODY, "b": BODY})

    async def silent(*_: object) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    peers.network.register_signed("a:1", silent)
    await peers.download(nothing()).run()
    assert peers.asked == {"b": PARTS}


@given(
    st.lists(st.sampled_from([BODY, None, OTHER_BYTES, OTHER_SIZE, "gone"]), min_size=1, max_size=4),
    st.integers(0, 2**32),
    st.floats(0, 0.5),
    st.booleans(),
)
def test_with_one_right_peer_it_comes_whatever_the_others_serve(
    served: list[bytes | str | None], seed: int, breaks: float, is_resumed: bool
) -> None:
    async def run() -> None:
        bodies = {name: None if body == "gone" else body for name, body in zip("abcd", served, strict=False)}
        peers = Peers(bodies, NetworkFaults(break_transfer=breaks), seed)  # type: ignore[arg-type]
        for name, body in zip("abcd", served, strict=False):
            if body == "gone":
                peers.network.unregister(f"{name}:1")
        kept = nothing()
        if is_resumed:
            kept.begin(len(BODY))
            kept.add(7, BODY[7 * PART : 8 * PART])
        download = peers.download(kept)
        if BODY in served:
            assert bytes((await download.run())["body"]) == BODY
        else:
            with pytest.raises((TransportError, PeerError)):
                await download.run()
        right = {name for name, body in zip("abcd", served, strict=False) if body == BODY}
        assert not download.wrong & right
        assert download.received <= (1 + len(served)) * len(OTHER_SIZE)

    asyncio.run(run())
