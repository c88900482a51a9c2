"""Whether something grows: straight lines through samples of processes that may have been started again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

HOUR = 3600.0


@dataclass(frozen=True)
class Sample:
    """One node at one time.

    Attributes:
        at: seconds since the soak began.
        process: which process it was; another number after each restart.
        age: seconds that this process has run.
        memory: resident bytes of the node's process.
        files: in its state folder; `stored` are their bytes.
    """

    at: float
    node: str
    process: int
    age: float
    memory: int
    handles: int
    threads: int
    files: int
    stored: int
    rounds: int


@dataclass(frozen=True)
class Slope:
    """A rise per hour, and its standard error; both in the unit of what was measured."""

    per_hour: float
    error: float

    def reaches(self, bound: float) -> bool:
        """Whether it is as steep as that, and surely no accident."""
        return self.per_hour >= bound and self.per_hour - 2 * self.error > 0


def slope(series: Iterable[Sequence[tuple[float, float]]]) -> Slope | None:
    """The common slope of several series, each with a level of its own (least squares); None with too few points.

    Args:
        series: for each process (seconds, value).
    """
    spread = together = squares = 0.0
    points, levels = 0, 0
    for one in series:
        if len(one) < 2:
            continue
        mean_x, mean_y = (math.fsum(part) / len(one) for part in zip(*one, strict=True))
        spread += math.fsum((x - mean_x) ** 2 for x, _ in one)
        together += math.fsum((x - mean_x) * (y - mean_y) for x, y in one)
        squares += math.fsum((y - mean_y) ** 2 for _, y in one)
        points, levels = points + len(one), levels + 1
    free = points - levels - 1
    if free < 8 or spread == 0:
        return None
    rise = together / spread
    rest = max(0.0, squares - rise * together)
    return Slope(rise * HOUR, math.sqrt(rest / free / spread) * HOUR)


def memory_slope(samples: Sequence[Sample], warm_up: float) -> Slope | None:
    """Of the memory of one node in megabytes per hour, without the first seconds of each process."""
    by_process: dict[int, list[tuple[float, float]]] = {}
    for sample in samples:
        if sample.age >= warm_up:
            by_process.setdefault(sample.process, []).append((sample.at, sample.memory / 1e6))
    return slope(by_process.values())


def risen(values: Sequence[float]) -> float:
    """By how much the largest of the last third is above the largest of the first."""
    third = len(values) // 3
    return max(values[-third:]) - max(values[:third]) if third else 0.0


@dataclass(frozen=True)
class Bounds:
    """What no node may exceed.

    Attributes:
        memory: megabytes per hour.
        handles: more of them at the end than at the beginning.
        files: the same, of files in the state folder.
        stored: bytes by which the state folder may grow for each round, which its history keeps.
    """

    memory: float = 1.0
    handles: int = 16
    files: int = 8
    stored: float = 8192.0


def broken(node: str, samples: Sequence[Sample], warm_up: float, bounds: Bounds) -> list[str]:
    """The bounds that a node exceeded, in sentences."""
    warm = [sample for sample in samples if sample.age >= warm_up]
    found = []
    rise = memory_slope(samples, warm_up)
    if rise is not None and rise.reaches(bounds.memory):
        found.append(f"{node}: memory rises by {rise.per_hour:.2f} MB per hour, {bounds.memory:g} are allowed")
    for what, most in (("handles", bounds.handles), ("files", bounds.files)):
        if (more := risen([getattr(sample, what) for sample in warm])) > most:
            found.append(f"{node}: {more:g} {what} more than at the beginning, {most} are allowed")
    if len(warm) > 1:
        grown, rounds = warm[-1].stored - warm[0].stored, warm[-1].rounds - warm[0].rounds
        if rounds > 0 and grown / rounds > bounds.stored:
            found.append(f"{node}: each round leaves {grown / rounds:.0f} bytes, {bounds.stored:g} are allowed")
    return found
