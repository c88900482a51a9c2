"""Whether two nodes train the same model: equal shapes alone do not say that output 1 is a dog on both."""

from __future__ import annotations

from collections.abc import Mapping

from flnet.aggregation.base import MERGING
from flnet.aggregation.naming import rule_text
from flnet.aggregation.screening import CLIP, LARGEST_UPDATE
from flnet.errors import ParamsRefused
from flnet.rounds.settings import COMMON, LATE_UPDATES, PARTICIPATION, ROUNDS, TRAINING, USUAL, JobSettings
from flnet.text import joined, text

# What the settings of a node add to what its trainer states.
RULES = frozenset({PARTICIPATION, LATE_UPDATES, ROUNDS, LARGEST_UPDATE, CLIP, MERGING, TRAINING})
# What it means if a node states nothing of it; else it means nothing.
_UNSTATED = {ROUNDS: COMMON, TRAINING: "plain", MERGING: USUAL}
_SHORT = 120  # characters up to which both sides are shown whole
_NAMED = 5  # of a long list, the entries that are shown


def must_agree(settings: JobSettings, theirs: Mapping[str, str] | None) -> None:
    """Refuse a peer whose trainer states something else than ours; one that states nothing is believed.

    But who trains in a round, and how far updates may move, must be the same on all nodes, also where one of them
    states nothing of it.

    Raises:
        ParamsRefused: says what differs, here and there.
    """
    if theirs is None:
        return
    ours = settings.declaration.agreement if settings.declaration else {}
    compared = {key: stated for key, stated in theirs.items() if ours or key in RULES}
    here = {**(ours if compared.keys() - RULES else {}), **settings.stated}
    if differing := differences(here, compared):
        raise ParamsRefused(text("the nodes do not agree on {words}", differing))


def differences(here: Mapping[str, str], there: Mapping[str, str]) -> str:
    """The differences between the statements of two nodes, by key; empty if there are none.

    Args:
        here: this node's.
        there: the caller's.
    """
    keys = [key for key in (*here, *sorted(there.keys() - here.keys())) if here.get(key) != there.get(key)]
    if not keys:
        return ""
    first, *others = (
        _difference(key, *(side.get(key, _UNSTATED.get(key, text("nothing"))) for side in (here, there)))
        for key in keys[:_NAMED]
    )
    return joined([first, *(text("nor on {words}", words) for words in others)])


def _difference(key: str, here: str, there: str) -> str:
    is_rule = key == MERGING
    if is_rule:
        key = text("aggregation rule")
    if max(len(here), len(there)) <= _SHORT:
        here, there = (rule_text(here), rule_text(there)) if is_rule else (here, there)
        return text("{key}: here {here}; there {there}", key, here, there)
    ours, theirs = here.split(", "), there.split(", ")
    only_here, only_there = _beyond(ours, theirs), _beyond(theirs, ours)
    if not only_here and not only_there:
        return text("{key}: the same {count} in another order", key, len(ours))
    return text("{key}: only here {here}; only there {there}", key, _few(only_here), _few(only_there))


def _beyond(some: list[str], others: list[str]) -> list[str]:
    known = set(others)
    return [entry for entry in some if entry not in known]


def _few(entries: list[str]) -> str:
    shown = ", ".join(entry if len(entry) <= _SHORT else entry[: _SHORT - 3] + "..." for entry in entries[:_NAMED])
    return (
        text("{names} and {count} more", shown, len(entries) - _NAMED)
        if len(entries) > _NAMED
        else shown or text("nothing")
    )
