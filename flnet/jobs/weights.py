"""How much each peer's updates have counted, round after round: who counts little now, since when, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flnet.jobs.record import RoundRecord

LITTLE = 0.1  # of a fair share: below it an update counts little
AGAIN = 0.5  # of a fair share: from here on it counts again; in between nothing is decided
RUNNING = 3  # rounds in a row in which an update was left out or counted little
FORGOTTEN = 120  # rounds after which a peer that took no part is forgotten


@dataclass(frozen=True)
class Standing:
    """What the rounds so far say of one peer's updates.

    Attributes:
        is_little: whether they count little now.
        since: the first round of those in which they do; None if they do not.
        weight: in the newest average that gave it one, in [0, 1].
        fair: the share that it would have had there by its examples, but at most an equal one.
        reason: why its newest update did not count; empty if it did.
        counted: whether it ever had a fair share.
        running: rounds in a row, up to the newest, in which it counted little.
        seen: how many averages there were when it took part last.
    """

    is_little: bool = False
    since: int | None = None
    weight: float | None = None
    fair: float | None = None
    reason: str = ""
    counted: bool = False
    running: int = 0
    seen: int = 0


@dataclass
class Weights:
    """The standings of all peers, this node among them; `take` is given each average once, in order."""

    of: dict[str, Standing] = field(default_factory=dict)
    averages: int = 0

    def take(self, record: RoundRecord) -> list[tuple[str, Standing]]:
        """Learn what an average says of its updates; the peers that count little from now on, or do no longer.

        A weight says something of one peer only where most updates have one: Krum, which chooses a single
        update, says nothing of all others.
        """
        self.averages += 1
        fair = fair_shares(record.weighed, record.contributions)
        ratios = {peer: _ratio(one, fair[peer]) for peer, one in record.weighed.items()}
        is_spread = 2 * sum(ratio is not None and ratio >= LITTLE for ratio in ratios.values()) >= len(ratios)
        turned = []
        for peer, one in record.weighed.items():
            before = self.of.get(peer, Standing())
            now = _after(before, record.key.number, one, fair[peer], ratios[peer] if is_spread else None)
            self.of[peer] = replace(now, seen=self.averages)
            if now.is_little != before.is_little:
                turned.append((peer, now))
        self.of = {peer: one for peer, one in self.of.items() if one.seen > self.averages - FORGOTTEN}
        return turned

    def view(self) -> list[Mapping[str, Any]]:
        """Those that count little, as JSON-ready data."""
        return [
            {"peer": peer, "since": one.since, "weight": one.weight, "fair": one.fair, "reason": one.reason}
            for peer, one in sorted(self.of.items())
            if one.is_little
        ]


def fair_shares(weighed: Mapping[str, object], contributions: Sequence[Mapping[str, Any]]) -> Mapping[str, float]:
    """The share of an average that each update would have had by its examples, but at most an equal one.

    So neither a node with few examples nor one of many equal ones seems to be slighted.

    Args:
        weighed: the updates, by peer.
        contributions: what was stated of them, as in a record.
    """
    equal = 1 / max(1, len(weighed))
    stated = {str(one.get("peer")): one.get("examples") for one in contributions}
    examples = {peer: count for peer, count in stated.items() if isinstance(count, int) and count > 0}
    total = sum(examples.values())
    return {peer: min(equal, examples[peer] / total) if peer in examples else equal for peer in weighed}


def words_of(peer: str, now: Standing) -> str:
    """One sentence on a peer that counts little from now on, or does no longer."""
    if not now.is_little:
        return f"the updates of {peer} count again"
    if now.reason:
        return f"the updates of {peer} have been left out since round {now.since}: {now.reason}"
    weight, fair = f"{100 * (now.weight or 0):.2g}", f"{100 * (now.fair or 0):.2g}"
    return (
        f"the updates of {peer} count little since round {now.since}: {weight} % of the average, {fair} % was fair"
    )


def _ratio(one: Mapping[str, Any], fair: float) -> float | None:
    """The weight as a multiple of the fair share; None where the rule gives none."""
    weight = one.get("weight")
    return weight / fair if isinstance(weight, int | float) else None


def _after(before: Standing, number: int, one: Mapping[str, Any], fair: float, ratio: float | None) -> Standing:
    reason, weight = str(one.get("reason") or ""), one.get("weight")
    told = replace(before, reason=reason, weight=weight, fair=None if weight is None else fair)
    if reason or (ratio is not None and ratio < LITTLE):
        running = before.running + 1
        is_little = before.is_little or running >= RUNNING or (before.counted and not reason)
        since = (number - running + 1 if before.since is None else before.since) if is_little else None
        return replace(told, is_little=is_little, since=since, running=running)
    if ratio is None or ratio >= AGAIN:
        return replace(told, is_little=False, since=None, counted=True, running=0)
    return replace(told, running=0)
