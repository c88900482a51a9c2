"""Large files past the cache: the same bytes, whole, and errors of the disk as they come."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flnet.store.disk import direct as module
from flnet.store.disk.direct import BLOCK, LARGE, write_whole

ROOM = 4 * BLOCK  # what is written at a time in these tests
Calls = list[tuple[int, int]]


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Length and offset of every write past the cache."""
    found: Calls = []
    real = os.pwrite

    def noting(descriptor: int, data: memoryview, offset: int) -> int:
        found.append((len(data), offset))
        return real(descriptor, data, offset)

    monkeypatch.setattr(module, "LARGE", ROOM)
    monkeypatch.setattr(os, "pwrite", noting)
    return found


def pattern(size: int) -> bytes:
    """Bytes of which no two blocks are equal."""
    return bytes((at * 7 + at // BLOCK) % 256 for at in range(size))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, 3 * ROOM), st.lists(st.integers(1, 2 * ROOM), max_size=4))
def test_pieces_of_any_length_stand_in_the_file_one_after_the_other(
    tmp_path: Path, writes: Calls, size: int, cuts: list[int]
) -> None:
    whole, path = pattern(size), tmp_path / "file"
    ends = sorted({min(cut, size) for cut in cuts} | {size})
    pieces = [memoryview(whole)[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    write_whole(path, pieces, max(size, ROOM))
    assert path.read_bytes() == whole


def test_writes_are_as_the_system_wants_them(tmp_path: Path, writes: Calls) -> None:
    write_whole(tmp_path / "file", [pattern(ROOM + 1)], ROOM + 1)
    if module._DIRECT and writes:
        assert all(length % BLOCK == offset % BLOCK == 0 for length, offset in writes)
        assert sum(length for length, _ in writes) == ROOM + BLOCK


def test_a_small_file_goes_the_usual_way(tmp_path: Path, writes: Calls) -> None:
    write_whole(tmp_path / "file", [b"few", b" bytes"], 9)
    assert writes == []
    assert (tmp_path / "file").read_bytes() == b"few bytes"


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EOPNOTSUPP])
def test_a_file_system_without_such_writes_gets_the_usual_ones(
    tmp_path: Path, writes: Calls, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def unable(descriptor: int, data: memoryview, offset: int) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "pwrite", unable)
    write_whole(tmp_path / "file", [pattern(2 * ROOM)], 2 * ROOM)
    assert (tmp_path / "file").read_bytes() == pattern(2 * ROOM)


@pytest.mark.parametrize("fits", [0, BLOCK - 1, BLOCK, 3 * BLOCK + 1])
def test_a_full_disk_is_told(tmp_path: Path, writes: Calls, monkeypatch: pytest.MonkeyPatch, fits: int) -> None:
    monkeypatch.setattr(module, "_DIRECT", getattr(os, "O_DIRECT", os.O_CLOEXEC))
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, offset: max(0, min(len(data), fits - offset)))
    with pytest.raises(OSError, match="No space") as found:
        write_whole(tmp_path / "file", [pattern(2 * ROOM)], 2 * ROOM)
    assert found.value.errno == errno.ENOSPC


def test_what_a_write_left_over_is_written_again_from_the_start_of_its_block(
    tmp_path: Path, writes: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    noting, cut = os.pwrite, BLOCK + 17

    def short(descriptor: int, data: memoryview, offset: int) -> int:
        return min(noting(descriptor, data, offset), cut)

    monkeypatch.setattr(os, "pwrite", short)
    write_whole(tmp_path / "file", [pattern(ROOM + 5)], ROOM + 5)
    assert (tmp_path / "file").read_bytes() == pattern(ROOM + 5)


def test_an_old_file_of_the_name_is_written_over(tmp_path: Path, writes: Calls) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (5 * ROOM))
    write_whole(path, [pattern(ROOM)], ROOM)
    assert path.read_bytes() == pattern(ROOM)


def test_a_large_file_is_whole_at_the_real_size(tmp_path: Path) -> None:
    whole = os.urandom(LARGE + 12_345)
    write_whole(tmp_path / "file", [whole[:100], memoryview(whole)[100:]], len(whole))
    assert (tmp_path / "file").read_bytes() == whole
