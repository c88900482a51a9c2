"""Compressed bodies: nothing is lost, and nothing that a stranger compressed costs more than it may."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from flnet.blob import PIECE, Blob, Landing
from flnet.codec import HEAD_LIMIT, ZSTD, BinaryCodec, available_codings, compressed, decompress, read_head
from flnet.codec.compression import WINDOW
from flnet.errors import BodyTooLarge, PeerError, UnreadableBody
from flnet.packing import rounded
from flnet.params import Params

LIMIT = 20_000_000
MB = 1024 * 1024
WEIGHTS = np.random.default_rng(0).standard_normal(300_000).astype(np.float32)


def landing(limit: int = LIMIT) -> Landing:
    return Landing(lambda head, total: read_head(head, total) is not None, limit, HEAD_LIMIT)


def opened(body: bytes, into: Landing | None = None) -> memoryview:
    into = into or landing()
    decompress(memoryview(body), into)
    return into.whole()


def anything(size: int) -> Landing:
    return Landing(lambda head, total: True, size, HEAD_LIMIT)


@contextmanager
def little_memory(most: int = 4 * MB) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def zeros(size: int, *first: bytes) -> Iterator[bytes]:
    yield from first
    for _ in range(size // MB):
        yield bytes(MB)


def frame(parts: Iterator[bytes], size: int = -1) -> bytes:
    work = zstandard.ZstdCompressor(level=1).compressobj(size=size)
    return b"".join([*(work.compress(part) for part in parts), work.flush()])


def saying(body: bytes, size: int) -> bytes:
    """The frame with another stated size (RFC 8878, 3.1.1.1), in the four bytes after its window."""
    assert body[4] >> 6 == 2
    assert not body[4] & 0x20
    lie = body[:6] + size.to_bytes(4, "little") + body[10:]
    assert zstandard.frame_content_size(lie) == size
    return lie


def test_rounded_parameters_come_back_bit_by_bit_in_a_sixth_fewer_bytes() -> None:
    low = rounded(WEIGHTS, "int8")
    assert low is not None
    blob = BinaryCodec("int8").encode_params(Params({"w": low}))
    small = compressed(blob)
    assert (blob.coding, small.coding) == (None, ZSTD)
    assert len(small) < 0.87 * len(blob)
    back = opened(bytes(small))
    assert back == bytes(blob)
    assert BinaryCodec().decode_params(back)["w"].tobytes() == low.tobytes()


@given(st.lists(st.binary(max_size=300) | st.integers(1, 3 * PIECE).map(bytes), max_size=4))
def test_any_body_comes_back(parts: Sequence[bytes]) -> None:
    whole = b"".join(parts)
    assert opened(bytes(compressed(Blob(parts))), anything(len(whole))) == whole


@given(st.binary(max_size=200), st.binary(max_size=3), st.integers(0, 60))
def test_nothing_else_than_a_body_or_a_peer_error_comes_of_any_bytes(noise: bytes, flip: bytes, at: int) -> None:
    good = bytes(compressed(Blob([bytes(range(50)) * 3])))
    for body in (noise, good[:at], good[:4] + noise, good[:at] + flip + good[at + len(flip) :]):
        try:
            opened(body, anything(1000))
        except PeerError:
            continue


# --- bombs


def test_a_body_that_says_that_it_is_too_large_is_refused_by_its_first_bytes() -> None:
    bomb = frame(zeros(1024 * MB), size=1024 * MB)
    assert len(bomb) < 200_000
    with little_memory(), pytest.raises(BodyTooLarge, match=f"at most {LIMIT} bytes here, but it has 1073741824"):
        opened(bomb)


def test_a_body_that_may_be_large_but_is_nothing_is_refused_by_its_head() -> None:
    bomb = frame(zeros(256 * MB), size=256 * MB)
    with little_memory(), pytest.raises(UnreadableBody):
        opened(bomb, landing(512 * MB))


def test_a_body_that_does_not_say_how_large_it_is_is_refused() -> None:
    with little_memory(), pytest.raises(UnreadableBody, match="must state how large"):
        opened(frame(zeros(64 * MB)))


def test_a_body_that_is_larger_than_it_says_is_refused_where_that_ends() -> None:
    head = bytes(BinaryCodec().encode_params(Params({"w": np.zeros(50_000, np.float32)})))
    bomb = frame(zeros(256 * MB, head), size=256 * MB + len(head))
    with little_memory(), pytest.raises(UnreadableBody):
        opened(saying(bomb, len(head)))


def test_a_body_that_is_smaller_than_it_says_is_refused() -> None:
    body = frame(zeros(MB), size=MB)
    with pytest.raises(UnreadableBody):
        opened(saying(body, MB + 1), anything(LIMIT))


def test_a_body_that_ends_too_early_is_refused() -> None:
    body = bytes(compressed(Blob([WEIGHTS.data])))
    with pytest.raises(UnreadableBody, match="1200000 bytes, but"):
        opened(body[: len(body) // 2], anything(LIMIT))


def test_no_more_memory_for_what_came_before_than_is_usual() -> None:
    wide = zstandard.ZstdCompressionParameters.from_level(1, window_log=26)
    data = WEIGHTS.tobytes() * 60
    work = zstandard.ZstdCompressor(compression_params=wide).compressobj(size=len(data))
    body = work.compress(data) + work.flush()
    assert zstandard.get_frame_parameters(body).window_size > WINDOW
    with pytest.raises(UnreadableBody, match="cannot be read"):
        opened(body, anything(len(data)))


# --- without the package


def test_who_does_not_have_the_package_knows_no_coding(monkeypatch: pytest.MonkeyPatch) -> None:
    assert available_codings() == (ZSTD,)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    assert available_codings() == ()


def test_it_is_loaded_by_the_first_body_and_not_before() -> None:
    code = "import sys, flnet.codec as c; c.available_codings(); sys.exit('zstandard' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
