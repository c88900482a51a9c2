"""What a node remembers of one round, and the sentences that say how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flnet.params import Digest, PeerId, RoundKey, Update
from flnet.rounds import Averaging, Closing


@dataclass
class RoundRecord:
    """One round as this node saw it; accuracies are on its own test split, in [0, 1].

    Attributes:
        why: a schedule started it here, in words; empty otherwise.
        decision: after it, whether a series with a goal is over, and on which figures; None outside of one.
        metrics: further figures of the trainer, by name, under "before" and "after" averaging.
        chosen: who was to train, where not all were.
        contributions: what those whose updates are in the average stated of them; of who did not, the name alone.
        weighed: how each update counted, by peer, as `flnet.weighing.Weighed.view` has it.
    """

    key: RoundKey
    outcome: str = "open"
    error: str | None = None
    contributors: tuple[PeerId, ...] = ()
    missing: tuple[PeerId, ...] = ()
    digest: Digest | None = None  # of the average
    pre_accuracy: float | None = None
    post_accuracy: float | None = None
    exchanged_with: PeerId | None = None
    examples: int | None = None
    used_hyper: Mapping[str, Any] | None = None  # what this node trained with
    why: str = ""
    decision: Mapping[str, Any] | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, Mapping[str, float]] = field(default_factory=dict)
    chosen: tuple[PeerId, ...] | None = None
    contributions: tuple[Mapping[str, Any], ...] = ()
    weighed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, view: Mapping[str, Any]) -> RoundRecord:
        """A record from what `view` made of it.

        Raises:
            KeyError, TypeError, ValueError: it is none.
        """
        return cls(
            RoundKey(int(view["round"]), PeerId(view["initiator"])),
            str(view["outcome"]),
            view["error"],
            tuple(view["contributors"]),
            tuple(view["missing"]),
            view["digest"],
            view["pre_fedavg_accuracy"],
            view["post_fedavg_accuracy"],
            view["exchanged_with"],
            view["examples"],
            view["used_hyper"],
            str(view.get("why") or ""),
            view.get("decision"),
            dict(view["seconds"]),
            dict(view["metrics"]),
            None if view.get("chosen") is None else tuple(view["chosen"]),
            tuple(view.get("contributions") or ()),
            {peer: dict(one) for peer, one in (view.get("weighed") or {}).items()},
        )

    def view(self) -> Mapping[str, Any]:
        """The record as JSON-ready data."""
        return {
            "round": self.key.number,
            "initiator": self.key.initiator,
            "outcome": self.outcome,
            "error": self.error,
            "contributors": list(self.contributors),
            "missing": list(self.missing),
            "digest": self.digest,
            "pre_fedavg_accuracy": self.pre_accuracy,
            "post_fedavg_accuracy": self.post_accuracy,
            "exchanged_with": self.exchanged_with,
            "examples": self.examples,
            "used_hyper": self.used_hyper,
            "why": self.why,
            "decision": self.decision,
            "seconds": dict(self.seconds),
            "chosen": None if self.chosen is None else list(self.chosen),
            "metrics": {when: dict(figures) for when, figures in self.metrics.items()},
            "contributions": [dict(one) for one in self.contributions],
            "weighed": {peer: dict(one) for peer, one in self.weighed.items()},
        }


def closing_words(averaging: Averaging, members: int = 0) -> str:
    """Why a round of averaging ended, in one sentence.

    Args:
        averaging: that is closed.
        members: of which those that train were chosen.
    """
    words = _ending(averaging)
    if averaging.chosen is None:
        return words
    return f"{words}; {len(averaging.chosen)} of {members} nodes were chosen"


def _ending(averaging: Averaging) -> str:
    have, missing = len(averaging.updates), averaging.missing
    got = f"{have} update{'s' * (have != 1)}"
    if not have:
        return f"no update came{_because(averaging)}; the model stays as it was"
    without = f", without {names(missing)}" if missing else ""
    alone = (
        " (this node averaged alone)" if set(averaging.updates) == {averaging.me} and averaging.expected else ""
    )
    match averaging.closed:
        case Closing.TIMER:
            return f"averaging was forced by the timer with {got}{without}{alone}"
        case Closing.NEXT_ROUND:
            return f"averaging was forced by the next round with {got}{without}{alone}"
    return f"averaged {got}: everyone expected has spoken{_because(averaging)}{alone}"


def contributions_of(averaging: Averaging, peers: Sequence[PeerId]) -> tuple[Mapping[str, Any], ...]:
    """What these peers stated of their updates, as it stands in a record."""
    return tuple(_contribution_of(averaging.updates[peer]) for peer in peers)


def _contribution_of(update: Update) -> Mapping[str, Any]:
    stated = update.contribution
    if stated is None:
        return {"peer": update.peer, "examples": update.examples}
    if RoundKey(stated.round, PeerId(stated.initiator)) == update.key:
        return stated.view()
    return {**stated.view(), "round": stated.round, "initiator": stated.initiator}  # a version of its node alone


def names(peers: Sequence[str]) -> str:
    """Peers in a sentence, at most five by name."""
    shown = ", ".join(peers[:5])
    return f"{shown} and {len(peers) - 5} more" if len(peers) > 5 else shown


def _because(averaging: Averaging) -> str:
    if not averaging.declined:
        return ""
    reasons = "; ".join(f"{peer}: {reason}" for peer, reason in sorted(averaging.declined.items())[:3])
    return f" (not taking part: {reasons})"
