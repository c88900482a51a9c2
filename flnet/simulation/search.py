"""Search for schedules that break an invariant, and shrink each to the smallest one that still breaks it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

from flnet.simulation.playback import Failure, broken_by, play
from flnet.simulation.schedule import FAULT_NAMES, Faults, Reduction, described, draw

CHUNK = 25  # schedules that a process runs at once
COMMAND = "python -m flnet.simulation"

Print = Callable[[str], object]


@dataclass(frozen=True)
class Options:
    """Options of a search.

    Attributes:
        schedules: how many to run.
        seed: of the first schedule; the others count up from it.
        jobs: number of processes.
        most: failures after which the search ends.
        asynchronous: whether there are no common rounds.
    """

    schedules: int
    seed: int = 0
    jobs: int = 1
    most: int = 5
    asynchronous: bool = False


def search(options: Options, output: Print) -> int:
    """Run all schedules, print reports of failures, and return how many failed."""
    begun, done, failed = time.monotonic(), 0, 0
    for count, failures in _in_chunks(options):
        done += count
        for failure in failures:
            failed += 1
            for line in report(failure):
                output(line)
        per_second = done / max(time.monotonic() - begun, 1e-9)
        output(f"{done} of {options.schedules} schedules, {failed} broken, {per_second:.1f} per second")
        if failed >= options.most:
            break
    return failed


def report(failure: Failure) -> Iterator[str]:
    """Report a failure: the invariant, the smallest schedule that breaks it, and the command that replays it."""
    seed = failure.schedule.seed
    yield f"seed {seed} breaks: {failure.reason}"
    reduction = shrink(failure)
    yield from (f"    {line}" for line in described(reduction.of(draw(seed))))
    yield f"    {command(seed, reduction)}"


def command(seed: int, reduction: Reduction) -> str:
    """The command that replays a schedule."""
    return " ".join([COMMAND, "--replay", str(seed), *reduction.options()])


def replay(seed: int, reduction: Reduction, output: Print) -> Failure | None:
    """Run one schedule, and print everything that happens."""
    schedule = reduction.of(draw(seed))
    for line in described(schedule):
        output(line)
    failure = play(schedule, lambda at, node, text: output(f"{at:10.3f}  {node or '-':4} {text}"))
    output(f"broken: {failure.reason}" if failure else "nothing is broken")
    return failure


def _in_chunks(options: Options) -> Iterator[tuple[int, list[Failure]]]:
    last = options.seed + options.schedules
    chunks = [range(at, min(at + CHUNK, last)) for at in range(options.seed, last, CHUNK)]
    if options.jobs == 1:
        yield from ((len(chunk), broken_by(chunk, len(chunk), options.asynchronous)) for chunk in chunks)
        return
    with ProcessPoolExecutor(options.jobs) as pool:
        try:
            sizes = [len(chunk) for chunk in chunks]
            failures = pool.map(broken_by, chunks, sizes, [options.asynchronous] * len(chunks))
            yield from zip(sizes, failures, strict=True)
        finally:
            pool.shutdown(cancel_futures=True)


FEWEST = 2  # nodes
TRIES = 400  # runs to shrink one failure

Fails = Callable[[Reduction], bool]


def shrink(failure: Failure, tries: int = TRIES) -> Reduction:
    """Reduce a failing schedule as long as it fails in the same way.

    Delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002): actions
    are dropped in chunks, which are halved when no chunk can be dropped; then nodes, then random faults; and
    again, until nothing more can be dropped.

    Args:
        tries: largest number of runs.
    """
    whole = draw(failure.schedule.seed)
    left = tries

    def fails(reduction: Reduction) -> bool:
        nonlocal left
        if left <= 0:
            return False
        left -= 1
        again = play(reduction.of(whole))
        return again is not None and again.kind == failure.kind

    best, before = Reduction(asynchronous=failure.schedule.asynchronous), None
    while best != before and left > 0:
        before = best
        actions = range(len(whole.actions)) if best.actions is None else best.actions
        best = replace(best, actions=fewer_actions(tuple(actions), best, fails))
        best = fewer_nodes(whole.size if best.size is None else best.size, best, fails)
        best = fewer_faults(whole.faults, best, fails)
    return best


def fewer_actions(kept: Sequence[int], best: Reduction, fails: Fails) -> tuple[int, ...]:
    """Drop actions in chunks, from halves down to single actions."""
    kept = tuple(kept)
    chunk = max(1, len(kept) // 2)
    while kept:
        at, dropped = 0, False
        while at < len(kept):
            rest = (*kept[:at], *kept[at + chunk :])
            if fails(replace(best, actions=rest)):
                kept, dropped = rest, True
            else:
                at += chunk
        if not dropped and chunk == 1:
            break
        chunk = max(1, chunk // 2)
    return kept


def fewer_nodes(size: int, best: Reduction, fails: Fails) -> Reduction:
    """Find the smallest mesh that still fails."""
    for fewer in range(FEWEST, size):
        if fails(replace(best, size=fewer)):
            return replace(best, size=fewer)
    return best


def fewer_faults(faults: Faults, best: Reduction, fails: Fails) -> Reduction:
    """Leave out random faults one by one."""
    for name in FAULT_NAMES:
        if name not in best.mild and getattr(faults, name) != getattr(Faults(), name):
            fewer = replace(best, mild=(*best.mild, name))
            best = fewer if fails(fewer) else best
    return best
