"""What nodes promised each other, held against what their histories say afterwards."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Record = Mapping[str, Any]
PeerHistory = Mapping[str, Sequence[Record]]  # by node


@dataclass(frozen=True)
class Taken:
    """An own update that a peer answered 200 to."""

    sender: str
    receiver: str
    round: int
    initiator: str


def read_ledger(lines: Iterable[str]) -> list[Taken]:
    """What nodes wrote down, a line each; the last line may be half."""
    found = []
    for line in lines:
        if not line.endswith("}\n"):
            continue
        entry = json.loads(line)
        found.append(Taken(entry["from"], entry["to"], entry["round"], entry["initiator"]))
    return found


def fate(update: Taken, histories: PeerHistory) -> str:
    """What became of an update at the node that took it: "averaged", "missing", "replaced", "left" or "lost".

    Left is a round that the node ended without an average, and says why; missing is an update that the record
    lists as missing beside a sentence on the round; replaced is one in a round whose average the node took from others.
    """
    record = _record(histories.get(update.receiver, ()), update)
    if record is None:
        return "lost"
    if update.sender in record["contributors"]:
        return "averaged"
    if not record["outcome"] or record["outcome"] == "open":
        return "lost"
    if update.sender in record["missing"]:
        return "missing"
    if record.get("taken_from"):
        return "replaced"
    return "lost" if record["digest"] else "left"


def faults(taken: Sequence[Taken], histories: PeerHistory) -> list[str]:
    """Every broken promise in a sentence; nothing if all were kept."""
    lost = [
        f"{update.receiver} took the update of {update.sender} in round {update.round} and forgot it"
        for update in taken
        if fate(update, histories) == "lost"
    ]
    forgotten = {
        f"{update.sender} sent its update of round {update.round}, and its history has no such round"
        for update in taken
        if _record(histories.get(update.sender, ()), update) is None
    }
    return [*lost, *sorted(forgotten), *_out_of_order(histories), *_different(histories)]


def gaps(history: Sequence[Record]) -> list[int]:
    """Numbers of rounds that are not there, between the first and the last that are."""
    there = {record["round"] for record in history}
    return sorted(set(range(min(there), max(there))) - there) if there else []


def _record(history: Sequence[Record], update: Taken) -> Record | None:
    wanted = (update.round, update.initiator)
    return next((record for record in history if (record["round"], record["initiator"]) == wanted), None)


def _out_of_order(histories: PeerHistory) -> list[str]:
    found = []
    for node, history in sorted(histories.items()):
        numbers = [record["round"] for record in history]
        if numbers != sorted(numbers):
            found.append(f"{node} has rounds out of order: {numbers}")
        twice = Counter((record["round"], record["initiator"]) for record in history)
        found += [
            f"{node} has round {key[0]} of {key[1]} {times} times" for key, times in twice.items() if times > 1
        ]
    return found


def _different(histories: PeerHistory) -> list[str]:
    """Averages of the same updates that differ."""
    averages: dict[tuple[int, str, tuple[str, ...]], set[str]] = {}
    for history in histories.values():
        for record in history:
            if record["digest"]:
                key = (record["round"], record["initiator"], tuple(record["contributors"]))
                averages.setdefault(key, set()).add(record["digest"])
    return [
        f"round {key[0]} of {', '.join(key[2])} has {len(found)} averages"
        for key, found in averages.items()
        if len(found) > 1
    ]
