"""Makes a schedule that breaks something as small as it gets: fewer actions, fewer nodes, finer weather."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from flnet.simulation.playing import Failure, play
from flnet.simulation.schedule import WEATHER_FIELDS, Reduction, draw
from flnet.simulation.weather import Weather

FEWEST = 2  # nodes
TRIES = 400  # runs that one failure is worth

Fails = Callable[[Reduction], bool]


def shrink(failure: Failure, tries: int = TRIES) -> Reduction:
    """What is left of a schedule if all is dropped without which the same thing is still broken.

    Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002): actions are dropped in
    chunks, halved as long as no chunk can go; then nodes, then faults of the weather; until nothing more goes.

    Args:
        tries: runs at most.
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

    found, before = Reduction(asynchronous=failure.schedule.asynchronous), None
    while found != before and left > 0:
        before = found
        actions = range(len(whole.actions)) if found.actions is None else found.actions
        found = replace(found, actions=fewer_actions(tuple(actions), found, fails))
        found = fewer_nodes(whole.size if found.size is None else found.size, found, fails)
        found = finer_weather(whole.weather, found, fails)
    return found


def fewer_actions(kept: Sequence[int], found: Reduction, fails: Fails) -> tuple[int, ...]:
    """Drop actions in chunks, from halves down to single ones."""
    kept = tuple(kept)
    chunk = max(1, len(kept) // 2)
    while kept:
        at, dropped = 0, False
        while at < len(kept):
            rest = (*kept[:at], *kept[at + chunk :])
            if fails(replace(found, actions=rest)):
                kept, dropped = rest, True
            else:
                at += chunk
        if not dropped and chunk == 1:
            break
        chunk = max(1, chunk // 2)
    return kept


def fewer_nodes(size: int, found: Reduction, fails: Fails) -> Reduction:
    """As few nodes as will do."""
    for fewer in range(FEWEST, size):
        if fails(replace(found, size=fewer)):
            return replace(found, size=fewer)
    return found


def finer_weather(weather: Weather, found: Reduction, fails: Fails) -> Reduction:
    """Take back what is bad about the weather, one thing after the other."""
    for name in WEATHER_FIELDS:
        if name not in found.mild and getattr(weather, name) != getattr(Weather(), name):
            finer = replace(found, mild=(*found.mild, name))
            found = finer if fails(finer) else found
    return found
