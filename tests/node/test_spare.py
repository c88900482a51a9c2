"""Large memory that is handed out again: never what somebody still looks at, and given back in the end."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import weakref
from pathlib import Path

import numpy as np
import pytest

from flnet.node import spare as spare_module
from flnet.node.spare import SMALLEST, SpareMemory, give_back_when_idle, settle

SIZE = 4 * SMALLEST


def test_what_nobody_refers_to_any_more_is_handed_out_again() -> None:
    spare = SpareMemory()
    first = spare.take(SIZE)
    place = first.ctypes.data
    del first
    assert spare.take(SIZE).ctypes.data == place
    assert spare.take(SIZE // 2).ctypes.data == place
    assert spare.nbytes == SIZE


def test_what_is_seen_through_any_kind_of_view_is_not_handed_out() -> None:
    spare = SpareMemory()
    views: list[object] = []
    places = set()
    for see in (
        lambda a: a,
        lambda a: a.view(np.float64)[5:],
        lambda a: a.data,
        lambda a: np.frombuffer(a.data[8:]),
    ):
        array = spare.take(SIZE)
        places.add(array.ctypes.data)
        views.append(see(array))
        del array
    assert len(places) == 4
    views.clear()
    assert spare.take(SIZE).ctypes.data in places
    assert spare.nbytes == 4 * SIZE


def test_neither_too_small_nor_much_too_large_memory_is_handed_out() -> None:
    spare = SpareMemory()
    spare.take(SIZE)
    assert len(spare.take(SIZE + 1)) == SIZE + 1
    assert len(spare.take(SMALLEST)) == SMALLEST
    assert spare.nbytes == 2 * SIZE + 1 + SMALLEST
    assert len(spare.take(10)) == 10  # not worth keeping
    assert spare.nbytes == 2 * SIZE + 1 + SMALLEST


def test_what_is_let_go_stays_with_who_uses_it() -> None:
    spare = SpareMemory()
    used = spare.take(SIZE)
    used[:] = 7
    spare.let_go()
    assert spare.nbytes == 0
    spare.take(SIZE)[:] = 1
    assert (used == 7).all()


async def test_it_is_given_back_when_nothing_was_to_do_at_two_looks() -> None:
    spare = SpareMemory()
    spare.take(SIZE)
    looks = iter([True, False, True, False, False])
    kept: list[int] = []

    def is_busy() -> bool:
        kept.append(spare.nbytes)
        return next(looks)

    tidying = asyncio.create_task(give_back_when_idle(spare, is_busy, 0.0))
    while len(kept) < 5:
        await asyncio.sleep(0)
    while spare.nbytes:
        await asyncio.sleep(0)
    tidying.cancel()
    assert kept == [SIZE] * 5


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not say what it has")
def test_what_the_c_library_holds_of_it_is_given_back_too() -> None:
    spare, pieces = SpareMemory(), [bytearray(64 * 1024) for _ in range(1000)]
    del pieces[:-1]  # the last one keeps the library from giving back what lies below it
    before = resident_bytes()
    spare.let_go()
    assert len(pieces) == 1
    assert before - resident_bytes() > 16 * SMALLEST


@pytest.mark.parametrize("error", [AttributeError, OSError, TypeError])
def test_another_c_library_keeps_what_it_holds(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(_: None) -> object:
        raise error

    monkeypatch.setattr(ctypes, "CDLL", no_library)
    assert not spare_module._trimmer()(0)


class Circle:
    """What only the garbage collector takes."""

    def __init__(self) -> None:
        self.itself = self


def test_circles_that_nothing_uses_go_with_what_is_spare() -> None:
    try:
        settle()
        gc.disable()
        old = weakref.ref(Circle())
        assert old() is not None
        SpareMemory().let_go()
        assert old() is None
    finally:
        gc.enable()
        gc.unfreeze()


def test_what_was_there_at_the_start_delays_no_collection() -> None:
    """Circles that outlive the collections of young objects go soon, however much there was at the start."""

    stays = [[] for _ in range(400_000)]  # type: ignore[var-annotated]
    try:
        settle()
        assert gc.get_freeze_count() > len(stays)
        old = weakref.ref(circle := Circle())
        gc.collect(1)  # so old that only a full collection takes it
        del circle
        full = gc.get_stats()[2]["collections"]
        more = [[] for _ in range(120_000)]  # type: ignore[var-annotated]  # a quarter of them or more
        assert gc.get_stats()[2]["collections"] > full
        assert old() is None
        assert len(more) < len(stays)
    finally:
        gc.unfreeze()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
