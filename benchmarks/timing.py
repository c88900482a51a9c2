"""Seconds and memory of one piece of work."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

Work = Callable[[], object]


def in_turns(works: Mapping[str, Work], repetitions: int) -> dict[str, list[float]]:
    """Seconds of every work, by name; they take turns, so that what else the machine does meets all."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()  # what is imported or built at the first call counts nowhere
    for _ in range(repetitions):
        for name, work in works.items():
            gc.collect()
            begun = time.perf_counter()
            result = work()
            seconds[name].append(time.perf_counter() - begun)
            del result
    return seconds


def extra_mb(work: Work) -> float:
    """The most memory that a work asked for at one time, its result included, in MB."""
    gc.collect()
    tracemalloc.start()
    try:
        result = work()
        peak = tracemalloc.get_traced_memory()[1]
        del result
    finally:
        tracemalloc.stop()
    return peak / 1e6


def copies(array: npt.NDArray[np.float32]) -> dict[str, Work]:
    """The floors: the same bytes copied into memory that is there already, and into new memory."""
    copy = array.copy()
    return {"memcpy, warm": lambda: np.copyto(copy, array), "memcpy, new memory": array.copy}
