"""Bodies in pieces: nothing is joined, nothing is received that was not wanted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import BodyTooLarge, LocalError, UnknownTrainer, UnreadableBody
from flnet.params.blob import PIECE, Blob, Landing

# --- sending


def test_the_pieces_are_the_memory_that_was_given() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    blob = Blob([b"head", array.data])
    first, second = blob.pieces()
    assert bytes(first) == b"head"
    assert np.shares_memory(np.frombuffer(second, np.uint8), array)
    assert len(blob) == blob.nbytes == 4 + 24
    assert bytes(blob) == b"head" + array.tobytes()


def test_large_parts_are_cut_and_small_ones_are_not_joined() -> None:
    blob = Blob([bytes(10), bytes(2 * PIECE + 5), bytes(3)])
    assert [len(piece) for piece in blob.pieces()] == [10, PIECE, PIECE, 5, 3]


@given(st.lists(st.binary(max_size=9), max_size=6), st.integers(0, 60), st.none() | st.integers(0, 60))
def test_any_range_is_the_slice_of_the_whole(parts: list[bytes], start: int, stop: int | None) -> None:
    pieces = list(Blob(parts).pieces(start, stop))
    assert b"".join(pieces) == b"".join(parts)[start:stop]
    assert all(len(piece) for piece in pieces)


def test_a_range_across_large_parts() -> None:
    whole = np.arange(PIECE, dtype=np.uint32).tobytes()
    blob = Blob([whole[: PIECE + 3], whole[PIECE + 3 :]])
    assert b"".join(blob.pieces(PIECE - 1, 3 * PIECE + 1)) == whole[PIECE - 1 : 3 * PIECE + 1]


# --- receiving


class Looker:
    """Inspects as a codec does: satisfied from `enough` bytes on."""

    def __init__(self, enough: int) -> None:
        self.enough = enough
        self.seen: list[tuple[bytes, int]] = []

    def __call__(self, head: memoryview, total: int) -> bool:
        self.seen.append((bytes(head), total))
        return len(head) >= self.enough


def landed(pieces: Sequence[bytes], looker: Looker, limit: int = 1000, head_limit: int = 100) -> Landing:
    landing = Landing(looker, limit, head_limit)
    landing.expect(sum(map(len, pieces)))
    for piece in pieces:
        landing.write(piece)
    return landing


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=12), st.integers(1, 20))
def test_what_was_written_has_landed_however_it_was_cut(pieces: list[bytes], enough: int) -> None:
    whole = b"".join(pieces)
    looker = Looker(min(enough, len(whole)))
    landing = landed(pieces, looker)
    assert landing.complete
    assert bytes(landing.whole()) == whole
    assert landing.received == landing.total == len(whole)
    assert [len(head) >= looker.enough for head, _ in looker.seen].count(True) == (1 if whole else 0)
    assert all(whole.startswith(head) and total == len(whole) for head, total in looker.seen)


def test_a_head_that_drips_in_is_not_looked_at_for_every_byte() -> None:
    looker = Looker(900)
    landed([b"x"] * 1000, looker, head_limit=2000)
    assert len(looker.seen) <= 11
    assert sum(len(head) for head, _ in looker.seen) < 3 * 1000


def test_what_has_landed_is_read_only_and_one_buffer() -> None:
    landing = landed([b"ab", b"cd"], Looker(1))
    whole = landing.whole()
    assert whole.readonly
    assert np.shares_memory(np.frombuffer(whole, np.uint8), np.frombuffer(landing.whole(), np.uint8))


def test_a_body_beyond_the_limit_is_refused_before_its_first_byte() -> None:
    landing = Landing(Looker(1), 1000, 100)
    with pytest.raises(BodyTooLarge, match="at most 1000 bytes here, but it has 1001 bytes"):
        landing.expect(1001)
    landing.expect(1000)


def test_what_the_inspector_refuses_is_not_received() -> None:
    def refuse(head: memoryview, total: int) -> bool:
        raise UnknownTrainer("X", [])

    landing = Landing(refuse, 10**15, 100)
    landing.expect(10**15)  # a petabyte: were the buffer asked for first, this would not come back
    with pytest.raises(UnknownTrainer):
        landing.write(b"head")


def test_a_head_without_an_end_is_refused() -> None:
    landing = Landing(Looker(10_000), 5_000, 100)
    landing.expect(5_000)
    landing.write(bytes(60))
    with pytest.raises(UnreadableBody, match="the first 120 bytes of the body do not hold its whole head"):
        landing.write(bytes(60))
    with pytest.raises(UnreadableBody, match="the first 6 bytes"):
        landed([b"abc", b"def"], Looker(7))  # all of it is head


def test_more_bytes_than_announced_are_refused() -> None:
    landing = landed([b"abc"], Looker(1))
    with pytest.raises(UnreadableBody, match="expected 3 bytes, but more came"):
        landing.write(b"d")
    assert bytes(landing.whole()) == b"abc"


def test_a_body_that_ends_too_early_is_not_handed_out() -> None:
    landing = Landing(Looker(1), 1000, 100)
    landing.expect(5)
    landing.write(b"abc")
    assert not landing.complete
    with pytest.raises(UnreadableBody, match="expected 5 bytes, but 3 came"):
        landing.whole()


def test_a_body_that_changes_its_size_on_the_way_is_refused() -> None:
    landing = Landing(Looker(2), 1000, 100)
    landing.expect(5)
    with pytest.raises(UnreadableBody, match="had 5 bytes before and has 6 now"):
        landing.expect(6)


def test_bytes_of_a_body_of_unknown_size_are_a_mistake_of_ours() -> None:
    with pytest.raises(LocalError, match="must be known"):
        Landing(Looker(1), 1000, 100).write(b"a")


def test_a_body_that_came_in_several_transfers_is_known_to_be_joined() -> None:
    landing = Landing(lambda head, total: True, 10, 10)
    landing.expect(4)
    landing.write(b"ab")
    assert not landing.joined
    landing.expect(4)
    landing.write(b"cd")
    assert (bytes(landing.whole()), landing.joined) == (b"abcd", True)


def test_a_compressed_body_lands_as_it_comes_and_is_not_looked_at() -> None:
    looker = Looker(1)
    landing = Landing(looker, 1000, 100, codings=("zstd",))
    landing.expect(300, "zstd")
    landing.write(bytes(range(200)))
    landing.expect(300, "zstd")
    landing.write(bytes(100))
    assert landing.whole() == bytes(range(200)) + bytes(100)
    assert (landing.coding, landing.joined) == ("zstd", True)
    assert looker.seen == []


def test_a_body_comes_in_one_coding_that_is_taken() -> None:
    with pytest.raises(UnreadableBody, match="coding 'zstd'"):
        Landing(Looker(1), 1000, 100).expect(10, "zstd")
    landing = Landing(Looker(1), 1000, 100, codings=("zstd",))
    landing.expect(10)
    with pytest.raises(UnreadableBody, match="coding 'zstd'"):
        landing.expect(10, "zstd")
    with pytest.raises(BodyTooLarge):
        Landing(Looker(1), 1000, 100, codings=("zstd",)).expect(1001, "zstd")
