"""Seconds and memory of pieces of work."""

from __future__ import annotations

import numpy as np

from benchmarks.timing import copies, extra_mb, in_turns


def test_works_take_turns_after_each_was_called_once() -> None:
    calls: list[str] = []
    seconds = in_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3)
    assert "".join(calls) == "ab" + "ab" * 3
    assert {name: len(result) for name, result in seconds.items()} == {"a": 3, "b": 3}


def test_memory_counts_the_result_and_what_was_needed_for_it() -> None:
    def wasteful() -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        first = np.ones(3_000_000, np.uint8)
        return first + first  # both at one time

    assert 6.0 <= extra_mb(wasteful) < 7.0
    assert extra_mb(lambda: np.ones(3_000_000, np.uint8)) < 4.0


def test_the_floors_copy_all_bytes() -> None:
    array = np.arange(1000, dtype=np.float32)
    works = copies(array)
    assert len(works) == 2
    for work in works.values():
        work()
    copied = works["memcpy, new memory"]()
    assert isinstance(copied, np.ndarray)
    assert copied is not array
    assert copied.tobytes() == array.tobytes()
