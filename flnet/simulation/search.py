"""Search for schedules that break an invariant, and shrink each to the smallest one that still breaks it."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

from flnet.simulation.cluster import Listen
from flnet.simulation.hostile_play import HostilePlay, draw_hostile
from flnet.simulation.invariants import InvariantBroken
from flnet.simulation.playback import Play
from flnet.simulation.schedule import FAULT_NAMES, Faults, Reduction, Schedule, described, draw, given_rule

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
        hostile: whether there is a hostile member.
        keyed: whether each message proves the key of its sender; with a hostile member some schedules say so anyway.
        secure: whether updates are masked.
        segments: whether updates are averaged in segments.
        topology: as FLNET_TOPOLOGY, where nodes average with their neighbours alone; else empty.
        rule: by which updates are averaged in segments; empty for that which the seed draws.
    """

    schedules: int
    seed: int = 0
    jobs: int = 1
    most: int = 5
    asynchronous: bool = False
    hostile: bool = False
    keyed: bool = False
    secure: bool = False
    segments: bool = False
    topology: str = ""
    rule: str = ""


@dataclass(frozen=True)
class Failure:
    """A schedule that failed, and why."""

    schedule: Schedule
    reason: str

    @property
    def kind(self) -> str:
        """The reason without names and numbers, which is equal for the same bug in different runs."""
        text = re.sub(r"\[.*?\]|\(.*?\)|\{.*?\}|'.*?'|\bn\d+\b|\d[\d.]*", "", self.reason)
        return " ".join(text.split(":")[0].split()[:9])


def play(schedule: Schedule, listen: Listen | None = None) -> Failure | None:
    """Run a schedule to its end; the failure, if there is one.

    Args:
        listen: is called with everything that happens.
    """
    run = HostilePlay(schedule, listen) if schedule.hostile else Play(schedule, listen)
    try:
        run.run()
    except InvariantBroken as exc:
        return Failure(schedule, str(exc))
    except Exception as exc:  # an unforeseen exception is a failure, too
        return Failure(schedule, f"{type(exc).__name__}: {exc}")
    finally:
        run.cluster.end()
    return None


def drawn(seed: int, hostile: bool) -> Schedule:
    """Draw the schedule of a seed, with a hostile member or without."""
    return draw_hostile(seed) if hostile else draw(seed)


def broken_by(
    seeds: Iterable[int],
    most: int = 1,
    asynchronous: bool = False,
    hostile: bool = False,
    keyed: bool = False,
    secure: bool = False,
    segments: bool = False,
    topology: str = "",
    rule: str = "",
) -> list[Failure]:
    """Run the schedules of these seeds until so many have failed, and return the failures.

    Python's collector of reference cycles, which takes a fifth of the time, is off until the end. What the caller
    keeps out of its sight stays so.
    """
    failures: list[Failure] = []
    was_frozen = gc.get_freeze_count() > 0
    gc.disable()
    gc.freeze()
    try:
        for seed in seeds:
            reduction = Reduction(None, None, (), asynchronous, hostile, keyed, secure, segments, topology, rule)
            failure = play(reduction.of(drawn(seed, hostile)))
            if failure is not None:
                failures.append(failure)
            if len(failures) >= most:
                break
    finally:
        gc.enable()
        gc.collect()
        if not was_frozen:
            gc.unfreeze()
    return failures


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
    yield from (f"    {line}" for line in described(reduction.of(drawn(seed, reduction.hostile))))
    yield f"    {command(seed, reduction)}"


def command(seed: int, reduction: Reduction) -> str:
    """The command that replays a schedule."""
    return " ".join([COMMAND, "--replay", str(seed), *reduction.options()])


def replay(seed: int, reduction: Reduction, output: Print) -> Failure | None:
    """Run one schedule, and print everything that happens."""
    schedule = reduction.of(drawn(seed, reduction.hostile))
    for line in described(schedule):
        output(line)
    failure = play(schedule, lambda at, node, text: output(f"{at:10.3f}  {node or '-':4} {text}"))
    output(f"broken: {failure.reason}" if failure else "nothing is broken")
    return failure


def _in_chunks(options: Options) -> Iterator[tuple[int, list[Failure]]]:
    last = options.seed + options.schedules
    chunks = [range(at, min(at + CHUNK, last)) for at in range(options.seed, last, CHUNK)]
    kinds = (
        *(options.asynchronous, options.hostile, options.keyed, options.secure, options.segments),
        options.topology,
        options.rule,
    )
    if options.jobs == 1:
        yield from ((len(chunk), broken_by(chunk, len(chunk), *kinds)) for chunk in chunks)
        return
    with ProcessPoolExecutor(options.jobs) as pool:
        try:
            sizes = [len(chunk) for chunk in chunks]
            failures = pool.map(broken_by, chunks, sizes, *([kind] * len(chunks) for kind in kinds))
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
    is_hostile, is_keyed = bool(failure.schedule.hostile), failure.schedule.keyed
    whole = drawn(failure.schedule.seed, is_hostile)
    left = tries

    def fails(reduction: Reduction) -> bool:
        nonlocal left
        if left <= 0:
            return False
        left -= 1
        again = play(reduction.of(whole))
        return again is not None and again.kind == failure.kind

    is_asynchronous, is_secure = failure.schedule.asynchronous, failure.schedule.secure
    kinds = (
        is_asynchronous,
        is_hostile,
        is_keyed,
        is_secure,
        failure.schedule.segments,
        failure.schedule.topology,
        given_rule(failure.schedule),
    )
    best = Reduction(None, None, (), *kinds)
    before: Reduction | None = None
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
