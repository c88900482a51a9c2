"""What a job knows of the series that is under way: its goal, how far it is, and what nodes report in a round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flnet.messages import ReportMessage, SeriesMessage
from flnet.params import Over, PeerId, Report
from flnet.policies import Decision, Goal, Progress, Score


@dataclass(frozen=True)
class Series:
    """Rounds with a goal, asked for at one node; every node starts the next one if nobody else does.

    Attributes:
        by: the node that was asked; with `first`, the name of the series.
        first: its first round.
        rounds: how many there are at most.
    """

    by: PeerId
    first: int
    goal: Goal
    rounds: int

    @property
    def name(self) -> tuple[PeerId, int]:
        """What tells it from all others."""
        return (self.by, self.first)

    def number_of(self, round: int) -> int:
        """How many rounds it has when this one ends."""
        return round - self.first + 1


@dataclass
class Pursuit:
    """The series as one node follows it."""

    series: Series | None = None  # under way
    progress: Progress = field(default_factory=Progress)
    reports: dict[PeerId, Report] = field(default_factory=dict)  # of the round that is open, or just over
    company: bool = False  # other nodes have taken part
    tells: bool = False  # this node's average was measured while a series was under way here
    over: Over | None = None  # why the series is over for this node, as its next report says
    due: bool = False  # this node starts the next round, as soon as it may
    waits: bool = False  # another node is to start it
    ended: tuple[tuple[PeerId, int], Over] | None = None  # the last series that ended here, and why
    decision: Decision | None = None  # the newest one here
    decided: tuple[Series, int, str] | None = None  # the series that it is about, the round, and how that ended

    def said(self) -> SeriesMessage | None:
        """The series as it stands beside a start."""
        return None if self.series is None else _message(self.series, self.progress)

    def kept(self) -> Mapping[str, Any] | None:
        """What outlives a restart, as plain JSON data; None if there was no series."""
        if self.series is None and self.decided is None:
            return None
        decided, decision = self.decided, self.decision
        return {
            "series": None
            if self.series is None
            else _message(self.series, self.progress).model_dump(mode="json"),
            "company": self.company,
            "over": self.over,
            "ended": None if self.ended is None else [*self.ended[0], self.ended[1]],
            "decided": None
            if decided is None
            else {
                "series": _message(decided[0], self.progress).model_dump(mode="json"),
                "round": decided[1],
                "state": decided[2],
            },
            "decision": None
            if decision is None
            else {
                "over": decision.over,
                "words": decision.words,
                "score": None if decision.score is None else [decision.score.accuracy, decision.score.loss],
                "nodes": decision.nodes,
            },
        }

    @classmethod
    def read(cls, kept: Mapping[str, Any] | None) -> Pursuit:
        """What `kept` said before a restart; the reports of the round that was open are not in it.

        Raises:
            InvalidMessage: this node does not know such goals.
            KeyError, TypeError, ValueError: it is damaged.
        """
        if kept is None:
            return cls()
        found = cls(company=bool(kept["company"]), over=kept["over"])
        if (said := kept["decided"]) is not None:
            series, found.progress = series_of(SeriesMessage.read(said["series"]))
            found.decided = (series, int(said["round"]), said["state"])
        if kept["series"] is not None:
            found.series, found.progress = series_of(SeriesMessage.read(kept["series"]))
        if kept["ended"] is not None:
            by, first, over = kept["ended"]
            found.ended = ((PeerId(by), int(first)), over)
        if (told := kept["decision"]) is not None:
            score = None if told["score"] is None else Score(*told["score"])
            found.decision = Decision(told["over"], told["words"], found.progress, score, told["nodes"])
        return found

    def report_said(self, me: PeerId, asked: bool = False) -> ReportMessage | None:
        """This node's report as it stands beside its accuracy, the same for all; none outside a series.

        Args:
            asked: a node that reported itself wants to know.
        """
        mine = self.reports.get(me)
        if mine is None or not (self.tells or asked):
            return None
        return ReportMessage(accuracy=mine.accuracy, loss=mine.loss, over=mine.over)

    def view(self, number: int) -> Mapping[str, Any] | None:
        """The series under way, or else the last one, as JSON-ready data; None if there was none.

        Args:
            number: of the round that the job is in.
        """
        if self.series is None and self.decided is None:
            return None
        series, round, state = (self.series, number, "open") if self.series else self.decided or (None, 0, "")
        assert series is not None
        decision = self.decision
        return {
            "until": str(series.goal),
            "by": series.by,
            "first_round": series.first,
            "rounds": series.rounds,
            "round": round,
            "done": min(max(self.progress.counted, 0), series.rounds),
            "state": state,
            "accuracy": decision.score.accuracy if decision and decision.score else None,
            "nodes": decision.nodes if decision else 0,
            "best": self.progress.best,
            "stale": self.progress.stale,
            "words": decision.words if decision else "",
        }


def _message(series: Series, progress: Progress) -> SeriesMessage:
    return SeriesMessage(
        by=series.by,
        first=series.first,
        until=str(series.goal),
        rounds=series.rounds,
        counted=progress.counted,
        best=progress.best,
        stale=progress.stale,
        means=tuple((mean.accuracy, mean.loss) for mean in progress.means),
        total_accuracy=progress.total.accuracy,
        total_loss=progress.total.loss,
    )


def series_of(said: SeriesMessage) -> tuple[Series, Progress]:
    """What a start says of its series.

    Raises:
        InvalidMessage: this node does not know such goals.
    """
    goal = Goal.parse(said.until)
    progress = Progress(
        said.counted,
        said.best,
        said.stale,
        tuple(Score(accuracy, loss) for accuracy, loss in said.means),
        Score(said.total_accuracy, said.total_loss),
    )
    return Series(PeerId(said.by), said.first, goal, said.rounds), progress
