"""Plays many schedules, and says of each that breaks something what, with which seed, and how to see it again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from flnet.simulation.playing import Failure, broken_by, play
from flnet.simulation.schedule import Reduction, described, draw
from flnet.simulation.shrinking import shrink

CHUNK = 25  # schedules that a process takes at once
COMMAND = "python -m flnet.simulation"

Tell = Callable[[str], object]


@dataclass(frozen=True)
class Options:
    """What a person asked for.

    Attributes:
        schedules: how many.
        seed: the first one; the others follow it.
        jobs: processes.
        most: failures after which it ends.
        asynchronous: without common rounds.
    """

    schedules: int
    seed: int = 0
    jobs: int = 1
    most: int = 5
    asynchronous: bool = False


def hunt(options: Options, tell: Tell) -> int:
    """Play all schedules; how many broke something."""
    begun, done, found = time.monotonic(), 0, 0
    for count, failures in _in_chunks(options):
        done += count
        for failure in failures:
            found += 1
            for line in report(failure):
                tell(line)
        per_second = done / max(time.monotonic() - begun, 1e-9)
        tell(f"{done} of {options.schedules} schedules, {found} broken, {per_second:.1f} per second")
        if found >= options.most:
            break
    return found


def played(seeds: Sequence[int], asynchronous: bool = False) -> list[Failure]:
    """What the schedules of these seeds broke."""
    return broken_by(seeds, len(seeds), asynchronous)


def report(failure: Failure) -> Iterator[str]:
    """A failure in lines: what was broken, the smallest schedule that breaks it, and the command for that."""
    seed = failure.schedule.seed
    yield f"seed {seed} breaks: {failure.words}"
    reduction = shrink(failure)
    yield from (f"    {line}" for line in described(reduction.of(draw(seed))))
    yield f"    {command(seed, reduction)}"


def command(seed: int, reduction: Reduction) -> str:
    """What replays a schedule."""
    return " ".join([COMMAND, "--replay", str(seed), *reduction.options()])


def replay(seed: int, reduction: Reduction, tell: Tell) -> Failure | None:
    """Play one schedule, and tell all that happens in it."""
    schedule = reduction.of(draw(seed))
    for line in described(schedule):
        tell(line)
    failure = play(schedule, lambda at, who, text: tell(f"{at:10.3f}  {who or '-':4} {text}"))
    tell(f"broken: {failure.words}" if failure else "nothing is broken")
    return failure


def _in_chunks(options: Options) -> Iterator[tuple[int, list[Failure]]]:
    last = options.seed + options.schedules
    chunks = [range(at, min(at + CHUNK, last)) for at in range(options.seed, last, CHUNK)]
    if options.jobs == 1:
        yield from ((len(chunk), played(chunk, options.asynchronous)) for chunk in chunks)
        return
    with ProcessPoolExecutor(options.jobs) as pool:
        try:
            yield from zip(
                map(len, chunks), pool.map(played, chunks, [options.asynchronous] * len(chunks)), strict=True
            )
        finally:
            pool.shutdown(cancel_futures=True)
