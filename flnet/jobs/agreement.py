"""Whether a peer trains the same thing: equal shapes alone do not say that output 1 is a dog at both ends."""

from __future__ import annotations

from collections.abc import Mapping

from flnet.errors import ParamsRefused
from flnet.jobs.rules import COMMON, LATE_UPDATES, PARTICIPATION, ROUNDS, TRAINING, USUAL
from flnet.jobs.state import JobState
from flnet.screening import CLIP, GATE
from flnet.strategies.base import MERGING

RULES = frozenset(
    {PARTICIPATION, LATE_UPDATES, ROUNDS, GATE, CLIP, MERGING, TRAINING}
)  # what the settings of a node add to what its trainer states
# What it means if a node says nothing of it; else it means nothing.
_UNSAID = {ROUNDS: COMMON, TRAINING: "plain", MERGING: USUAL}
_SHORT = 120  # characters up to which both sides are shown whole
_NAMED = 5  # of a long list, the entries that are shown


def must_agree(s: JobState, theirs: Mapping[str, str] | None) -> None:
    """Refuse a peer whose trainer states something else than ours; one that states nothing is believed. But who
    trains in a round, and how far updates may move, is the same on all nodes of ours, also where nothing is said
    of it.

    Raises:
        ParamsRefused: says what differs, here and there.
    """
    if theirs is None:
        return
    ours = s.model.schema.agreement if s.model else {}
    there = {key: words for key, words in theirs.items() if ours or key in RULES}
    here = {**(ours if there.keys() - RULES else {}), **s.rules_said}
    if words := differences(here, there):
        raise ParamsRefused(f"the nodes do not agree on {words}")


def differences(here: Mapping[str, str], there: Mapping[str, str]) -> str:
    """What two nodes state differently, key by key; empty if nothing.

    Args:
        here: this node's.
        there: the caller's.
    """
    keys = [key for key in (*here, *sorted(there.keys() - here.keys())) if here.get(key) != there.get(key)]
    return "; nor on ".join(
        _one(key, *(side.get(key, _UNSAID.get(key, "nothing")) for side in (here, there))) for key in keys[:_NAMED]
    )


def _one(key: str, here: str, there: str) -> str:
    if max(len(here), len(there)) <= _SHORT:
        return f"{key}: here {here}; there {there}"
    ours, theirs = here.split(", "), there.split(", ")
    only_here, only_there = _beyond(ours, theirs), _beyond(theirs, ours)
    if not only_here and not only_there:
        return f"{key}: the same {len(ours)} in another order"
    return f"{key}: only here {_few(only_here)}; only there {_few(only_there)}"


def _beyond(some: list[str], others: list[str]) -> list[str]:
    known = set(others)
    return [entry for entry in some if entry not in known]


def _few(entries: list[str]) -> str:
    shown = ", ".join(entry if len(entry) <= _SHORT else entry[: _SHORT - 3] + "..." for entry in entries[:_NAMED])
    return f"{shown} and {len(entries) - _NAMED} more" if len(entries) > _NAMED else shown or "nothing"
