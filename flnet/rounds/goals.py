"""Goals of a series of rounds, such as "accuracy>=0.98, within 600", and whether the nodes' reports say that one holds.

It is exact: the same reports give the same decision on every node, in whatever order they came.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from flnet.errors import InvalidMessage
from flnet.params.params import PeerId
from flnet.protocol.counts import Basis, DecidingRows, mean_accuracy, weighted_mean
from flnet.protocol.messages import MAX_ROUNDS, MOST_LOSS
from flnet.protocol.updates import Over, Report
from flnet.text import text

MAX_WORDS = 200  # characters of a goal
_NUMBER = r"[0-9]{0,9}\.?[0-9]{1,17}(?:e-?[0-9]{1,2})?"
_REACH = re.compile(rf"(?:(mean|every|own) )?accuracy ?>= ?({_NUMBER})")
_NO_GAIN = re.compile(rf"no-gain ([0-9]{{1,7}})(?: ({_NUMBER}))?")
_FALLING = re.compile(rf"mlfedavg(?: ({_NUMBER}))?( cumulative)?")
_WITHIN = re.compile(rf"within ({_NUMBER})")
FORMS = '"accuracy>=0.98", "every accuracy>=0.9", "own accuracy>=0.9", "no-gain 5 0.001", "mlfedavg", "within 600"'
C = TypeVar("C")

Whose = Literal["mean", "every", "own"]


@dataclass(frozen=True)
class Reach:
    """An accuracy in (0, 1] is reached: by the mean of the nodes, by every node, or by the one that was asked."""

    least: float
    whose: Whose = "mean"

    def __str__(self) -> str:
        return f"{'' if self.whose == 'mean' else self.whose + ' '}accuracy>={self.least!r}"


@dataclass(frozen=True)
class NoGain:
    """The mean accuracy has not grown by more than `delta` over its best for so many rounds."""

    rounds: int
    delta: float = 0.0

    def __str__(self) -> str:
        return f"no-gain {self.rounds} {self.delta!r}"


@dataclass(frozen=True)
class Falling:
    """The mean accuracy falls two rounds running and the mean loss rises two rounds running.

    D. Delgado Bejarano, "Aprendizaje multi-etiqueta en entornos federados" (2024), the rule that stops training.
    The printed one looks at each round, the `cumulative` one at the means over all rounds, from the eleventh on.

    Attributes:
        delta: a change counts only beyond it.
    """

    delta: float = 0.0
    cumulative: bool = False

    def __str__(self) -> str:
        return f"mlfedavg {self.delta!r}{' cumulative' if self.cumulative else ''}"


@dataclass(frozen=True)
class Within:
    """So many seconds have passed, which timers tell; the nodes tell each other."""

    seconds: float

    def __str__(self) -> str:
        return f"within {self.seconds!r}"


Condition = Reach | NoGain | Falling | Within


@dataclass(frozen=True)
class Goal:
    """One or several conditions, of which any ends a series.

    The goal is reached if one of the strongest kind among them holds: an accuracy, or else that there is no more
    gain, or else that the time is over. A weaker one that holds means that the goal is given up.
    """

    conditions: tuple[Condition, ...]

    @classmethod
    def parse(cls, words: str) -> Goal:
        """Read a goal as a person writes it: conditions, apart by commas.

        Raises:
            InvalidMessage: a part is none of the known forms, or a number is out of its range.
        """
        if len(words) > MAX_WORDS:
            raise InvalidMessage(
                text("until: at most {most} characters are read, {value} came", MAX_WORDS, len(words))
            )
        conditions = tuple(_condition(part) for part in words.split(","))
        kinds = [type(condition) for condition in conditions]
        if len(set(kinds)) < len(kinds):
            raise InvalidMessage(
                text("until: each kind of condition may stand there once, but {value} came", repr(words))
            )
        return cls(conditions)

    def __str__(self) -> str:
        return ", ".join(map(str, self.conditions))

    @property
    def seconds(self) -> float | None:
        """Seconds after which the series ends; None for never."""
        return within.seconds if (within := self.find(Within)) else None

    def find(self, kind: type[C]) -> C | None:
        """The condition of this kind."""
        return next((condition for condition in self.conditions if isinstance(condition, kind)), None)

    def is_aim(self, condition: Condition) -> bool:
        """Whether the goal is reached when this condition holds, rather than given up."""
        return strength(condition) == max(map(strength, self.conditions))


def _condition(words: str) -> Condition:
    written = " ".join(words.lower().split())
    if match := _REACH.fullmatch(written):
        whose: Whose = "every" if match[1] == "every" else "own" if match[1] == "own" else "mean"
        return Reach(_within(float(match[2]), 0, 1, written, above=True), whose)
    if match := _NO_GAIN.fullmatch(written):
        return NoGain(
            int(_within(int(match[1]), 1, 1_000_000, written)), _within(float(match[2] or 0), 0, 1, written)
        )
    if match := _FALLING.fullmatch(written):
        return Falling(_within(float(match[1] or 0), 0, 1, written), bool(match[2]))
    if match := _WITHIN.fullmatch(written):
        return Within(_within(float(match[1]), 0, 1e8, written, above=True))
    raise InvalidMessage(
        text(
            "until: expected conditions such as {expected}, apart by commas, but {value} came",
            FORMS,
            repr(written),
        )
    )


def _within(value: float, low: float, high: float, written: str, above: bool = False) -> float:
    if not low <= value <= high or (above and value == low):
        raise InvalidMessage(
            text("until: in {value} a number is not above {low} to {high}", repr(written), f"{low:g}", f"{high:g}")
            if above
            else text(
                "until: in {value} a number is not from {low} to {high}", repr(written), f"{low:g}", f"{high:g}"
            )
        )
    return value


def strength(condition: Condition) -> int:
    """How strong a kind of condition is; reaching the strongest that was asked for reaches the goal."""
    return {Reach: 2, NoGain: 1, Falling: 1, Within: 0}[type(condition)]


# What the scalars that all nodes broadcast say of a goal after a round.
#
# Everything here is exact: the same reports give the same decision on every node, in whatever order they came.


KEPT = 3  # means of the newest rounds that are kept: two changes
CUMULATIVE_FROM = 11  # rounds that a cumulative mean needs before it says anything: the author counts from 0


@dataclass(frozen=True)
class MeanScore:
    """Figures of the nodes that reported together, of one round or the mean of all so far.

    Attributes:
        accuracy: as `flnet.protocol.counts.mean_accuracy` has it.
        loss: mean, weighted by examples where all that tell one say how many; None where no node tells one.
        basis: by what the nodes count in the accuracy.
        rows: "validation" or "test" where all nodes that reported measured these; "mixed" where some have no
            validation rows.
    """

    accuracy: float
    loss: float | None = None
    basis: Basis = "nodes"
    rows: DecidingRows = "test"


@dataclass(frozen=True)
class GoalProgress:
    """The results of the rounds of a series that a goal needs.

    Attributes:
        counted: rounds of which there were reports.
        best: the mean accuracy that later ones must beat.
        stale: number of counted rounds since the best one.
        means: of the newest rounds, oldest first; for a cumulative rule over all rounds up to each.
        total: sums over all counted rounds.
    """

    counted: int = 0
    best: float | None = None
    stale: int = 0
    means: tuple[MeanScore, ...] = ()
    total: MeanScore = field(default_factory=lambda: MeanScore(0.0, 0.0))

    def after(self, score: MeanScore, goal: Goal) -> GoalProgress:
        """The progress after one more round with these means; no figure of it leaves what a start may state.

        The progress before may be what a peer stated.
        """
        no_gain, falling = goal.find(NoGain), goal.find(Falling)
        gained = self.best is None or score.accuracy - self.best > (no_gain.delta if no_gain else 0.0)
        counted = min(self.counted + 1, MAX_ROUNDS)
        loss = _plus(self.total.loss, score.loss)
        total = MeanScore(
            min(self.total.accuracy + score.accuracy, counted),
            None if loss is None else _bounded(loss, counted * MOST_LOSS),
        )
        mean = score
        if falling is not None and falling.cumulative:
            mean_loss = None if total.loss is None else _bounded(total.loss / counted, MOST_LOSS)
            mean = MeanScore(total.accuracy / counted, mean_loss)
        return GoalProgress(
            counted,
            score.accuracy if gained else self.best,
            0 if gained else min(self.stale + 1, MAX_ROUNDS),
            (*self.means, mean)[-KEPT:],
            total,
        )


def _bounded(value: float, most: float) -> float:
    return min(max(value, -most), most)


@dataclass(frozen=True)
class Decision:
    """The decision of a node after a round: whether the series is over, the reason, and the progress.

    Attributes:
        score: the means of this round; None where nobody reported.
        nodes: that reported.
    """

    over: Literal["reached", "given_up"] | None
    words: str
    progress: GoalProgress
    score: MeanScore | None = None
    nodes: int = 0

    def view(self) -> Mapping[str, Any]:
        """The decision as it is saved with its round, as plain JSON data."""
        accuracy, loss = (self.score.accuracy, self.score.loss) if self.score else (None, None)
        figures = {"accuracy": accuracy, "loss": loss, "nodes": self.nodes, **how_counted(self)}
        return {"over": self.over, "words": self.words, **figures, "best": self.progress.best}


def decide(
    goal: Goal, progress: GoalProgress, reports: Mapping[PeerId, Report], *, number: int, by: PeerId, is_last: bool
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
            return Decision(over, text("{words} in round {number}", words, number), progress, score, len(reports))
    return _by_word(
        goal,
        reports,
        is_last,
        Decision(None, text("{goal} does not hold yet", goal), progress, score, len(reports)),
    )


def score_of(reports: Mapping[PeerId, Report]) -> MeanScore | None:
    """The means of what nodes report, whatever the order; None if nobody does."""
    if not reports:
        return None
    accuracy, basis = mean_accuracy([report.scored for report in reports.values()])
    splits = {report.split for report in reports.values()}
    rows: DecidingRows = "mixed" if len(splits) > 1 else splits.pop()
    return MeanScore(accuracy, _mean_loss(reports), basis, rows)


def _mean_loss(reports: Mapping[PeerId, Report]) -> float | None:
    told = [(report.loss, report.examples) for report in reports.values() if report.loss is not None]
    weights = [examples or 0 for _, examples in told]
    if any(examples is None for _, examples in told) or not sum(weights):
        weights = [1] * len(told)
    return weighted_mean([loss for loss, _ in told], weights) if told else None


def how_counted(decision: Decision | None) -> Mapping[str, str | None]:
    """By what the nodes count in the figures of a decision, and on which rows."""
    score = decision.score if decision else None
    return {"basis": score.basis if score else None, "rows": score.rows if score else None}


def _by_word(goal: Goal, reports: Mapping[PeerId, Report], is_last: bool, otherwise: Decision) -> Decision:
    """The end of a series that nodes state without a figure: it was ended, or its time is over."""
    peers: dict[Over, PeerId] = {}
    for peer in sorted(reports, reverse=True):
        if (over := reports[peer].over) is not None:
            peers[over] = peer
    within = goal.find(Within)
    if "reached" in peers:
        return replace(
            otherwise, over="reached", words=text("{peer} found the goal reached before", peers["reached"])
        )
    if "given_up" in peers:
        words = text("{peer} found before that the goal is to be given up", peers["given_up"])
    elif "stopped" in peers:
        words = text("a person stopped the series at {peer}", peers["stopped"])
    elif "deadline" in peers and within is not None:
        words = text("{seconds} s are over at {peer}", f"{within.seconds:g}", peers["deadline"])
        return replace(otherwise, over="reached" if goal.is_aim(within) else "given_up", words=words)
    elif is_last:
        words = text("it was the last round that was asked for")
    else:
        return otherwise
    return replace(otherwise, over="given_up", words=words)


def _holds(
    condition: Condition, progress: GoalProgress, score: MeanScore, reports: Mapping[PeerId, Report], by: PeerId
) -> str:
    """The reason in words if a condition holds; empty if it does not."""
    match condition:
        case Reach():
            return _reached(condition, score, reports, by)
        case NoGain(rounds, delta) if progress.stale >= rounds:
            beyond = text(" by more than {limit}", f"{delta:g}") if delta else ""
            return text(
                "mean accuracy {accuracy} of {who}: no gain over {best}{margin} for {count} rounds",
                f"{score.accuracy:.4f}",
                _nodes(reports),
                f"{progress.best:.4f}",
                beyond,
                progress.stale,
            )
        case Falling() if _falls(condition, progress):
            return text(
                "mean accuracy fell and mean loss rose for the second time running, to {one} and {other},",
                f"{progress.means[-1].accuracy:.4f}",
                f"{progress.means[-1].loss:.4f}",
            )
    return ""


def _reached(condition: Reach, score: MeanScore, reports: Mapping[PeerId, Report], by: PeerId) -> str:
    limit = f"{condition.least:g}"
    if condition.whose == "mean":
        value, nodes = score.accuracy, _nodes(reports)
        words = text("mean accuracy {accuracy} of {who} reached {limit}", f"{value:.4f}", nodes, limit)
    elif condition.whose == "every":
        value, nodes = min(report.accuracy for report in reports.values()), _nodes(reports)
        words = text("lowest accuracy {accuracy} of {who} reached {limit}", f"{value:.4f}", nodes, limit)
    elif by in reports:
        value = reports[by].accuracy
        words = text("accuracy {accuracy} of {peer} reached {limit}", f"{value:.4f}", by, limit)
    else:
        return ""
    return words if value >= condition.least else ""


def _falls(rule: Falling, progress: GoalProgress) -> bool:
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


def _plus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _nodes(reports: Mapping[PeerId, Report]) -> str:
    return f"{len(reports)} node{'s' * (len(reports) != 1)}"
