"""Whether two nodes train the same model: equal shapes alone do not say that output 1 is a dog on both."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from itertools import zip_longest

from flnet.aggregation.base import MERGING
from flnet.aggregation.naming import rule_text
from flnet.aggregation.screening import CLIP, LARGEST_UPDATE
from flnet.errors import ParamsRefused
from flnet.params.params import Digest, PeerId
from flnet.rounds.settings import (
    COMMON,
    LATE_UPDATES,
    PARTICIPATION,
    ROUNDS,
    SUM_NOISE,
    TOPOLOGY,
    TRAINING,
    USUAL,
    JobSettings,
    rule_in,
)
from flnet.text import joined, text

# What the settings of a node add to what its trainer states.
RULES = frozenset(
    {PARTICIPATION, LATE_UPDATES, ROUNDS, LARGEST_UPDATE, CLIP, MERGING, TRAINING, SUM_NOISE, TOPOLOGY}
)
# What it means if a node states nothing of it; else it means nothing.
_UNSTATED = {ROUNDS: COMMON, TRAINING: "plain", MERGING: USUAL, TOPOLOGY: "mesh"}
_READ_AS = {(TOPOLOGY, "segments:1"): "segments"}  # what nodes state, and the setting that people know
_LISTS = ("columns", "features", "classes")  # of names, one of which may be missing on one side
_CUT = re.compile(r" \.\.\. \(\d+ characters, SHA-256 [0-9a-f]{16}\)$")  # the end of a list too long to be stated
_SHORT = 120  # characters up to which both sides are shown whole
_NAMED = 5  # of a long list, the entries that are shown


def must_agree(
    settings: JobSettings, peer: PeerId, theirs: Mapping[str, str] | None, followed: Collection[str] = ()
) -> None:
    """Refuse a peer whose trainer states something else than ours; one that states nothing is believed.

    But who trains in a round, and how far updates may move, must be the same on all nodes, also where one of them
    states nothing of it.

    Args:
        followed: aggregation rules that the peer may state besides the one in use here.

    Raises:
        ParamsRefused: says what differs. It names both nodes, because the peer shows it, too.
    """
    if theirs is None:
        return
    if differing := differences(*_compared(settings, theirs, followed), settings.my_id, peer):
        raise ParamsRefused(text("the nodes do not agree on {words}", differing))


def obstacles(
    settings: JobSettings,
    theirs: Mapping[str, str],
    schema: Digest | None = None,
    their_schema: Digest | None = None,
    followed: Collection[str] = (),
) -> str:
    """Why this node and a peer cannot train together, from this node's side; empty if nothing is known against it.

    Args:
        theirs: what the peer states.
        schema, their_schema: digests of the shared parameters and the trainer's agreement, here and there.
        followed: see `must_agree`.
    """
    here, there = _compared(settings, theirs, followed)
    keys = [key for key in (*here, *sorted(there.keys() - here.keys())) if here.get(key) != there.get(key)]
    if keys:
        return joined(_obstacle(key, *_stated(key, here, there)) for key in keys[:_NAMED])
    ours = settings.declaration.agreement if settings.declaration else {}
    is_same = dict(ours) == {key: stated for key, stated in theirs.items() if key not in RULES}
    if is_same and schema and their_schema and schema != their_schema:
        return text("the parameters of the two models have other names, shapes or types")
    return ""


def _compared(
    settings: JobSettings, theirs: Mapping[str, str], followed: Collection[str]
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """What must be equal of what this node and a peer state; a trainer that states nothing is believed."""
    ours = settings.declaration.agreement if settings.declaration else {}
    if rule_in(theirs) in followed:
        theirs = {**theirs, MERGING: settings.stated.get(MERGING, USUAL)}
        theirs = {key: value for key, value in theirs.items() if (key, value) != (MERGING, USUAL)}
    there = {key: stated for key, stated in theirs.items() if ours or key in RULES}
    return {**(ours if there.keys() - RULES else {}), **settings.stated}, there


def differences(here: Mapping[str, str], there: Mapping[str, str], me: PeerId, peer: PeerId) -> str:
    """The differences between the statements of two nodes, by key, with their names; empty if there are none.

    Args:
        here: the statement of `me`.
        there: the statement of `peer`.
    """
    keys = [key for key in (*here, *sorted(there.keys() - here.keys())) if here.get(key) != there.get(key)]
    if not keys:
        return ""
    first, *others = (_difference(key, *_stated(key, here, there), me, peer) for key in keys[:_NAMED])
    return joined([first, *(text("nor on {words}", words) for words in others)])


def _stated(key: str, here: Mapping[str, str], there: Mapping[str, str]) -> tuple[str, str]:
    unstated = _UNSTATED.get(key, text("nothing"))
    ours, theirs = here.get(key, unstated), there.get(key, unstated)
    return _READ_AS.get((key, ours), ours), _READ_AS.get((key, theirs), theirs)


def _obstacle(key: str, here: str, there: str) -> str:
    """A difference from this node's side: the names that are missing here or there, where these are lists of names."""
    if key not in _LISTS:
        return _difference(text("aggregation rule") if key == MERGING else key, here, there)
    ours, theirs = here.split(", "), there.split(", ")
    if _CUT.search(here) or _CUT.search(there):  # of what is cut off, nothing can be said
        at = next(i for i, (one, other) in enumerate(zip_longest(ours, theirs)) if one != other)
        entries = (_few(side[at : at + 1]) for side in (ours, theirs))
        return text("{key} differ from entry {number} on: here {here}; there {there}", key, at + 1, *entries)
    missing, extra = _beyond(theirs, ours), _beyond(ours, theirs)
    if not missing and not extra:
        return text("{key}: the same {count} in another order", key, len(ours))
    parts = [text("{key} missing here: {names}", key, _few(missing))] if missing else []
    parts += [text("{key} missing there: {names}", key, _few(extra))] if extra else []
    return joined(parts)


def _difference(key: str, here: str, there: str, me: str = "", peer: str = "") -> str:
    """What the two sides state of a key: with the names of the nodes, or as here and there without names."""
    is_rule = key == MERGING
    if is_rule:
        key = text("aggregation rule")
    if max(len(here), len(there)) <= _SHORT:
        here, there = (rule_text(here), rule_text(there)) if is_rule else (here, there)
        if me:
            return text("{key}: {here} at {node}; {there} at {peer}", key, here, me, there, peer)
        return text("{key}: here {here}; there {there}", key, here, there)
    ours, theirs = here.split(", "), there.split(", ")
    only_here, only_there = _beyond(ours, theirs), _beyond(theirs, ours)
    if not only_here and not only_there:
        return text("{key}: the same {count} in another order", key, len(ours))
    if me:
        words = (_few(only_here), me, _few(only_there), peer)
        return text("{key}: only {here} at {node}; only {there} at {peer}", key, *words)
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
