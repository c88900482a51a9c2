"""What the scalars that all nodes broadcast say of a goal after a round.

Everything here is exact: the same reports give the same decision on every node, in whatever order they came.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from flnet.params import Over, PeerId, Report
from flnet.policies.goal import Condition, Falling, Goal, NoGain, Reach, Within, strength

KEPT = 3  # means of the newest rounds that are kept: two changes
CUMULATIVE_FROM = 11  # rounds that a cumulative mean needs before it says anything: the author counts from 0


@dataclass(frozen=True)
class Score:
    """Means over the nodes that reported, of one round or of all so far; loss is None where no node tells one."""

    accuracy: float
    loss: float | None = None


@dataclass(frozen=True)
class Progress:
    """What the rounds of a series have shown, as far as a goal needs it.

    Attributes:
        counted: rounds of which there were reports.
        best: the mean accuracy that later ones must beat.
        stale: counted rounds since then.
        means: of the newest rounds, oldest first; for a cumulative rule over all rounds up to each.
        total: sums over all counted rounds.
    """

    counted: int = 0
    best: float | None = None
    stale: int = 0
    means: tuple[Score, ...] = ()
    total: Score = field(default_factory=lambda: Score(0.0, 0.0))

    def after(self, score: Score, goal: Goal) -> Progress:
        """What they have shown when one more round ended with these means."""
        no_gain, falling = goal.find(NoGain), goal.find(Falling)
        gained = self.best is None or score.accuracy - self.best > (no_gain.delta if no_gain else 0.0)
        counted = self.counted + 1
        total = Score(self.total.accuracy + score.accuracy, _plus(self.total.loss, score.loss))
        mean = score
        if falling is not None and falling.cumulative:
            mean = Score(total.accuracy / counted, None if total.loss is None else total.loss / counted)
        return Progress(
            counted,
            score.accuracy if gained else self.best,
            0 if gained else self.stale + 1,
            (*self.means, mean)[-KEPT:],
            total,
        )


@dataclass(frozen=True)
class Decision:
    """What a node makes of a round: whether the series is over, the sentence why, and the progress from here.

    Attributes:
        score: the means of this round; None where nobody reported.
        nodes: that reported.
    """

    over: Literal["reached", "given_up"] | None
    words: str
    progress: Progress
    score: Score | None = None
    nodes: int = 0

    def view(self) -> Mapping[str, Any]:
        """What is kept of it with its round, as plain JSON data."""
        accuracy, loss = (self.score.accuracy, self.score.loss) if self.score else (None, None)
        figures = {"accuracy": accuracy, "loss": loss, "nodes": self.nodes}
        return {"over": self.over, "words": self.words, **figures, "best": self.progress.best}


def decide(
    goal: Goal, progress: Progress, reports: Mapping[PeerId, Report], *, number: int, by: PeerId, is_last: bool
) -> Decision:
    """Whether a series is over after a round.

    Args:
        progress: of the rounds before.
        reports: of the nodes that reported in this round.
        number: of this round.
        by: the node that was asked for the series, whose accuracy is the `own` one.
        is_last: whether no further round may come.
    """
    score = score_of(reports)
    if score is not None:
        progress = progress.after(score, goal)
    for condition in sorted(goal.conditions, key=strength, reverse=True):
        words = _holds(condition, progress, score, reports, by) if score else ""
        if words:
            over: Literal["reached", "given_up"] = "reached" if goal.is_aim(condition) else "given_up"
            return Decision(over, f"{words} in round {number}", progress, score, len(reports))
    return _by_word(
        goal, reports, is_last, Decision(None, f"{goal} does not hold yet", progress, score, len(reports))
    )


def score_of(reports: Mapping[PeerId, Report]) -> Score | None:
    """The means of what nodes report, whatever the order; None if nobody does."""
    losses = [report.loss for report in reports.values() if report.loss is not None]
    if not reports:
        return None
    return Score(_mean([report.accuracy for report in reports.values()]), _mean(losses) if losses else None)


def _by_word(goal: Goal, reports: Mapping[PeerId, Report], is_last: bool, otherwise: Decision) -> Decision:
    """What nodes say, where the figures do not say it: that they ended the series, or that time is over."""
    said: dict[Over, PeerId] = {}
    for peer in sorted(reports, reverse=True):
        if (over := reports[peer].over) is not None:
            said[over] = peer
    within = goal.find(Within)
    if "reached" in said:
        return replace(otherwise, over="reached", words=f"{said['reached']} found the goal reached before")
    if "given_up" in said:
        words = f"{said['given_up']} found before that the goal is to be given up"
    elif "stopped" in said:
        words = f"a person stopped the series at {said['stopped']}"
    elif "deadline" in said and within is not None:
        words = f"{within.seconds:g} s are over at {said['deadline']}"
        return replace(otherwise, over="reached" if goal.is_aim(within) else "given_up", words=words)
    elif is_last:
        words = "it was the last round that was asked for"
    else:
        return otherwise
    return replace(otherwise, over="given_up", words=words)


def _holds(
    condition: Condition, progress: Progress, score: Score, reports: Mapping[PeerId, Report], by: PeerId
) -> str:
    """In words, that a condition holds; nothing if it does not."""
    match condition:
        case Reach():
            return _reached(condition, score, reports, by)
        case NoGain(rounds, delta) if progress.stale >= rounds:
            beyond = f" by more than {delta:g}" if delta else ""
            return (
                f"mean accuracy {score.accuracy:.4f} of {_nodes(reports)}: "
                f"no gain over {progress.best:.4f}{beyond} for {progress.stale} rounds"
            )
        case Falling() if _falls(condition, progress):
            return (
                "mean accuracy fell and mean loss rose for the second time running, to "
                f"{progress.means[-1].accuracy:.4f} and {progress.means[-1].loss:.4f},"
            )
    return ""


def _reached(condition: Reach, score: Score, reports: Mapping[PeerId, Report], by: PeerId) -> str:
    if condition.whose == "mean":
        value, words = score.accuracy, f"mean accuracy {score.accuracy:.4f} of {_nodes(reports)}"
    elif condition.whose == "every":
        value = min(report.accuracy for report in reports.values())
        words = f"lowest accuracy {value:.4f} of {_nodes(reports)}"
    elif by in reports:
        value = reports[by].accuracy
        words = f"accuracy {value:.4f} of {by}"
    else:
        return ""
    return f"{words} reached {condition.least:g}" if value >= condition.least else ""


def _falls(rule: Falling, progress: Progress) -> bool:
    if len(progress.means) < KEPT or (rule.cumulative and progress.counted < CUMULATIVE_FROM):
        return False
    pairs = list(zip(progress.means, progress.means[1:], strict=False))
    return all(
        a.loss is not None
        and b.loss is not None
        and a.accuracy - b.accuracy > rule.delta
        and b.loss - a.loss > rule.delta
        for a, b in pairs
    )


def _mean(values: list[float]) -> float:
    """Correctly rounded, so that the order of the values does not matter; never above the largest of them."""
    return min(max(math.fsum(values) / len(values), min(values)), max(values))


def _plus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _nodes(reports: Mapping[PeerId, Report]) -> str:
    return f"{len(reports)} node{'s' * (len(reports) != 1)}"
