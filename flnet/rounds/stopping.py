"""Early stopping: a series of rounds with a goal, and when it is over (`flnet.rounds.goals` decides).

Every node follows the series, and decides by itself, from reports that all nodes broadcast with their accuracies. The
progress that a start states counts more than the node's own, so nodes that heard different reports agree again one round
later; the total order of rounds decides between two starts. A node for which the series is over says so in its report of
any further round of it, and that round is the last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flnet.errors import InvalidMessage, JobBusy
from flnet.params.params import PeerId
from flnet.protocol.counts import Measured, Scored
from flnet.protocol.effects import CancelTimer, Effect, SetTimer
from flnet.protocol.messages import LAST_ROUND, MOST_LOSS, HyperParams, ReportMessage, SeriesMessage
from flnet.protocol.updates import TEST, VALIDATED, Claim, Over, Report, RoundKey
from flnet.rounds.evaluation import MeshEvaluation
from flnet.rounds.goals import Decision, Falling, Goal, GoalProgress, MeanScore, Within, decide, how_counted
from flnet.rounds.peers import Peers
from flnet.rounds.settings import JobSettings, Tell
from flnet.text import text

NEXT, DEADLINE = "goal:next", "goal:deadline"  # timers
TIMERS = (NEXT, DEADLINE)
ALONE = 12  # times the wait for a start, until a node that lost all others gives a series up
VALIDATION = "validation_accuracy"  # of the own model before averaging, as the thesis' rule has it
FALLING = frozenset({Falling, Within})  # goals that name no accuracy of the average
LOSSES = (("after", "validation_loss"), ("after", "loss"), ("before", "validation_loss"))  # where one may stand


@dataclass(frozen=True)
class GoalSeries:
    """Rounds with a goal, asked for at one node; every node starts the next one if nobody else does.

    Attributes:
        by: the node that was asked; with `first`, the name of the series.
        first: its first round.
        rounds: how many there are at most.
        hyper: hyper-parameters of its rounds, as the newest start of a peer stated them; None if no start of it came.
    """

    by: PeerId
    first: int
    goal: Goal
    rounds: int
    hyper: HyperParams | None = None

    @property
    def name(self) -> tuple[PeerId, int]:
        """The identity of the series."""
        return (self.by, self.first)

    def number_of(self, round: int) -> int:
        """How many rounds it has when this one ends."""
        return round - self.first + 1

    def message(self, progress: GoalProgress) -> SeriesMessage:
        """The series as a start states it."""
        return SeriesMessage(
            by=self.by,
            first=self.first,
            until=str(self.goal),
            rounds=self.rounds,
            counted=progress.counted,
            best=progress.best,
            stale=progress.stale,
            means=tuple((mean.accuracy, mean.loss) for mean in progress.means),
            total_accuracy=progress.total.accuracy,
            total_loss=progress.total.loss,
            hyper=self.hyper,
        )

    @classmethod
    def read(cls, message: SeriesMessage) -> tuple[GoalSeries, GoalProgress]:
        """Read the series from a start.

        Raises:
            InvalidMessage: this node does not know such goals.
        """
        goal = Goal.parse(message.until)
        progress = GoalProgress(
            message.counted,
            message.best,
            message.stale,
            tuple(MeanScore(accuracy, loss) for accuracy, loss in message.means),
            MeanScore(message.total_accuracy, message.total_loss),
        )
        return cls(PeerId(message.by), message.first, goal, message.rounds, message.hyper), progress


@dataclass
class Stopping:
    """The series with a goal that is under way, or that was the last one.

    Attributes:
        series: under way.
        reports: of the round that is open, or just over.
        evaluation: of the same round, on the test rows of all nodes.
        company: other nodes have taken part.
        tells: this node's average was measured while a series was under way here.
        over: why the series is over for this node, as its next report says.
        due: this node starts the next round, as soon as it may.
        waits: another node is to start it.
        ended: the last series that ended here, and why.
        decision: the newest one here.
        decided: the series that it is about, the round, and how that ended.
    """

    settings: JobSettings
    peers: Peers
    tell: Tell
    series: GoalSeries | None = None
    progress: GoalProgress = field(default_factory=GoalProgress)
    reports: dict[PeerId, Report] = field(default_factory=dict)
    evaluation: MeshEvaluation = field(default_factory=MeshEvaluation)
    company: bool = False
    tells: bool = False
    over: Over | None = None
    due: bool = False
    waits: bool = False
    ended: tuple[tuple[PeerId, int], Over] | None = None
    decision: Decision | None = None
    decided: tuple[GoalSeries, int, str] | None = None

    # --- what a round brings

    def begin(self, until: str, first: int, rounds: int) -> list[Effect]:
        """A person asks for rounds until a goal is reached.

        Raises:
            InvalidMessage: it is no goal.
            JobBusy: another series is under way.
        """
        goal = Goal.parse(until)
        if (old := self.series) is not None:
            raise JobBusy(
                text("rounds until {goal} are under way, asked for at {peer}; stop them first", old.goal, old.by)
            )
        return self._follow(GoalSeries(self.settings.my_id, first, goal, rounds), GoalProgress())

    def begin_later(self, first: int) -> None:
        """The others are past the first round that this node has started of its series: it begins with a later one."""
        if self.series is not None and self.series.by == self.settings.my_id and not self.progress.counted:
            self.series = replace(self.series, first=first)

    def enter_round(
        self, key: RoundKey, message: SeriesMessage | None, hyper: HyperParams | None = None
    ) -> list[Effect]:
        """Handle the entry into a round; the series in its start takes precedence over the one known here.

        Args:
            hyper: hyper-parameters of the round. They are those of the series, unless the start states others.
        """
        followed = self.series is not None
        self.clear_round()
        effects: list[Effect] = [CancelTimer(NEXT)] if followed else []
        if message is None:
            return effects
        try:
            if message.first > key.number:
                raise InvalidMessage(text("it begins later, with round {number}", message.first))
            series, progress = GoalSeries.read(message)
        except InvalidMessage as exc:
            told = self.tell(
                "goal_unknown", text("this round belongs to a series that is not known here: {reason}", exc)
            )
            return [*effects, told]
        series = replace(series, hyper=series.hyper or hyper)
        if self.series is not None and self.series.name == series.name:
            self.series, self.progress = replace(self.series, hyper=series.hyper), progress
            return effects
        if self.series is not None:
            effects += self._end(
                self.series, key.number, "given_up", text("it gave way to that of {peer}", series.by)
            )
        return [*effects, *self._follow(series, progress)]

    def clear_round(self) -> None:
        """Nothing was reported in the round that opens, and nobody is to start another one."""
        self.reports, self.tells, self.due, self.waits = {}, False, False, False
        self.evaluation = MeshEvaluation()

    def measured(
        self,
        accuracy: float,
        after: Mapping[str, float],
        before: Mapping[str, float],
        measured: Measured | None = None,
        validation: Scored | None = None,
    ) -> None:
        """The own average is measured: note what this node reports to all others.

        Args:
            accuracy: of the average, on the test rows.
            after: further figures of the trainer, of the average.
            before: likewise, of the own model before averaging.
            measured: the accuracy with the rows behind it, if they are known.
            validation: of the average on validation rows, if there are some.
        """
        self.evaluation.own = measured
        self.evaluation.heard(self.settings.my_id, accuracy, measured)
        self.tells = self.series is not None
        figures = {"after": after, "before": before}
        losses = [figures[when][name] for when, name in LOSSES if name in figures[when]]
        loss = next((loss for loss in losses if -MOST_LOSS < loss < MOST_LOSS), None)
        if self._is_falling and 0 <= before.get(VALIDATION, -1) <= 1:
            validation = Scored(before[VALIDATION])
        on_test = measured.scored if measured else Scored(accuracy)
        if not self.tells:
            self.reports[self.settings.my_id] = Report(*on_test[:1], None, None, *on_test[1:])
            return
        score, split = (on_test, TEST) if validation is None else (validation, VALIDATED)
        self.reports[self.settings.my_id] = Report(score[0], loss, self.over, *score[1:], split)

    @property
    def validates(self) -> bool:
        """Whether a goal is decided by the average on validation rows: test rows are to decide nothing."""
        return self.series is not None and not self._is_falling

    @property
    def _is_falling(self) -> bool:
        """Whether the goal names no accuracy of the average, but looks at own models before averaging."""
        goal = self.series.goal if self.series else None
        return goal is not None and not {type(condition) for condition in goal.conditions} - FALLING

    def heard(self, claim: Claim, number: int) -> None:
        """A peer told its accuracy; its first report counts, and of nodes that report nothing the accuracy does."""
        if claim.round == number:
            self.reports.setdefault(claim.peer, claim.report or _of_claim(claim))
            self.evaluation.heard(claim.peer, claim.accuracy, claim.measured)

    def judge(self, key: RoundKey) -> list[Effect]:
        """A round is over here: decide whether the series is, too, and who starts the next round."""
        series, number = self.series, key.number
        if series is None or number < series.first:
            return []
        # Without an own average there was no exchange: a node that knows nothing of the round decides nothing.
        reports = self.reports if self.settings.my_id in self.reports else {}
        is_last = series.number_of(number) >= series.rounds or number >= LAST_ROUND
        decision = decide(series.goal, self.progress, reports, number=number, by=series.by, is_last=is_last)
        self.progress, self.decision = decision.progress, decision
        self.company = self.company or len(self.reports) > 1
        if decision.over is not None:
            return self._end(series, number, decision.over, decision.words, decision)
        return self.take_turn(key)

    # --- who starts the next round

    def take_turn(self, key: RoundKey | None) -> list[Effect]:
        """Start the next round at once if it is this node's turn, or else if nobody has after a while.

        The turns: the node that started the round that is over, then all reachable nodes by id. A node that could
        not measure the round comes last, because the others may still be comparing.
        """
        me = self.settings.my_id
        if self.settings.rules.asynchronous:  # nobody else makes this node's versions
            self.due, self.waits = True, False
            return []
        if self._is_alone:
            self.due, self.waits = False, True
            return [SetTimer(NEXT, ALONE * self.settings.waits.start)]
        nodes = sorted({me, *self.peers.here})
        first = key.initiator if key and key.initiator in nodes else nodes[0]
        turn = [first, *(node for node in nodes if node != first)].index(me)
        if me not in self.reports:
            turn = len(nodes)
        self.due, self.waits = turn == 0, turn > 0
        return [SetTimer(NEXT, turn * self.settings.waits.start)] if turn else [CancelTimer(NEXT)]

    def timer_fired(self, name: str, number: int, is_idle: bool) -> tuple[list[Effect], bool]:
        """Nobody started the next round in time, or the time of the series is over.

        Returns:
            What follows, and whether the series ended by it.
        """
        if self.series is None:
            return [], False
        if name == NEXT and self._is_alone and self.waits:
            why = text(
                "no other node has been reachable for {seconds} s", f"{ALONE * self.settings.waits.start:g}"
            )
            ends = self._end(self.series, number, "given_up", why)
            self.ended = (
                None  # the others may still be at it: a node that meets them again does not end it for them
            )
            return ends, True
        if name == NEXT:
            self.due, self.waits = self.waits and is_idle, False
            return [], False
        self.over = self.over or "deadline"
        words = text("the time for {goal} is over; all nodes hear it with the next accuracy", self.series.goal)
        return [self.tell("goal_deadline", words)], False

    def stop(self, number: int, is_idle: bool) -> list[Effect]:
        """A person ends the series: all hear of it with the accuracy of the open round, or else of the next one."""
        if (series := self.series) is None:
            return []
        if not is_idle and number >= series.first and self.settings.my_id not in self.reports:
            self.over = "stopped"
            words = text("the series until {goal} ends on all nodes with the open round", series.goal)
            return [self.tell("series_stopped", words)]
        return self._end(
            series, number, "stopped", text("a person stopped the series at {peer}", self.settings.my_id)
        )

    def set_turn(self, is_mine: bool) -> None:
        """Whether this node is to start the next round; not where it is about to, or has begun to."""
        self.due = is_mine

    def restart_deadline(self) -> list[Effect]:
        """After a restart, set the time limit of the goal again in full, because jobs have no clock. The first
        node whose limit is reached tells all others.
        """
        seconds = self.series.goal.seconds if self.series else None
        return [] if seconds is None else [SetTimer(DEADLINE, seconds)]

    # --- what is said and shown of it

    @property
    def hyper(self) -> HyperParams | None:
        """The hyper-parameters of the next round of the series; where it was asked for, those of this node."""
        series = self.series
        is_of_peer = series is not None and series.by != self.settings.my_id
        return (series.hyper if series and is_of_peer else None) or self.settings.hyper

    @property
    def asks_too_much(self) -> bool:
        """Whether this node would not train in the next round of the series, which it leaves to others to start."""
        if self.series is None or self.series.by == self.settings.my_id:
            return False
        return self.hyper is not None and bool(self.settings.too_much(self.hyper))

    def message(self) -> SeriesMessage | None:
        """The series as a start states it."""
        if self.series is None:
            return None
        is_usual = self.hyper == self.settings.round_hyper
        return replace(self.series, hyper=None if is_usual else self.hyper).message(self.progress)

    def report(self, asked: bool = False) -> ReportMessage | None:
        """This node's report as it travels with its accuracy, the same for all; none outside a series.

        Args:
            asked: a node that reported itself wants to know.
        """
        mine = self.reports.get(self.settings.my_id)
        if mine is None or not (self.tells or asked):
            return None
        return ReportMessage(
            accuracy=mine.accuracy,
            loss=mine.loss,
            over=mine.over,
            examples=mine.examples,
            right=mine.right,
            split=None if mine.split == TEST else mine.split,
        )

    def view(self, number: int) -> Mapping[str, Any] | None:
        """The series under way, or else the last one, as JSON-ready data; None if there was none.

        Args:
            number: of the round that the job is in.
        """
        decided = (self.series, number, "open") if self.series else self.decided
        if decided is None:
            return None
        (series, round, state), decision = decided, self.decision
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
            **how_counted(decision),
            "best": self.progress.best,
            "stale": self.progress.stale,
            "words": decision.words if decision else "",
        }

    # --- restarts

    def kept(self) -> Mapping[str, Any] | None:
        """The state that is saved for a restart, as plain JSON data; None if there was no series."""
        if self.series is None and self.decided is None:
            return None
        decided, decision = self.decided, self.decision
        return {
            "series": None if self.series is None else self._written(self.series),
            "company": self.company,
            "over": self.over,
            "ended": None if self.ended is None else [*self.ended[0], self.ended[1]],
            "decided": None
            if decided is None
            else {"series": self._written(decided[0]), "round": decided[1], "state": decided[2]},
            "decision": None
            if decision is None
            else {
                "over": decision.over,
                "words": decision.words,
                "score": None if decision.score is None else list(vars(decision.score).values()),
                "nodes": decision.nodes,
            },
        }

    def read(self, kept: Mapping[str, Any] | None) -> Stopping:
        """Read the result of `kept` after a restart; it does not contain the reports of the open round.

        Raises:
            InvalidMessage: this node does not know such goals.
            KeyError, TypeError, ValueError: it is damaged.
        """
        before = self.none()
        if kept is None:
            return before
        before.company, before.over = bool(kept["company"]), kept["over"]
        if (decided := kept["decided"]) is not None:
            series, before.progress = GoalSeries.read(SeriesMessage.read(decided["series"]))
            before.decided = (series, int(decided["round"]), decided["state"])
        if kept["series"] is not None:
            before.series, before.progress = GoalSeries.read(SeriesMessage.read(kept["series"]))
        if kept["ended"] is not None:
            by, first, over = kept["ended"]
            before.ended = ((PeerId(by), int(first)), over)
        if (decision := kept["decision"]) is not None:
            score = None if decision["score"] is None else MeanScore(*decision["score"])
            words, nodes = decision["words"], decision["nodes"]
            before.decision = Decision(decision["over"], words, before.progress, score, nodes)
        return before

    def none(self) -> Stopping:
        """The same of a job that never had a series."""
        return Stopping(self.settings, self.peers, self.tell)

    def _written(self, series: GoalSeries) -> Mapping[str, Any]:
        return series.message(self.progress).model_dump(mode="json")

    # --- how it begins and ends

    @property
    def _is_alone(self) -> bool:
        """Whether all others are gone: what one node would train alone meanwhile must not outrun the mesh."""
        return self.company and not self.peers.here

    def _follow(self, series: GoalSeries, progress: GoalProgress) -> list[Effect]:
        self.over = self.ended[1] if self.ended and self.ended[0] == series.name else None
        self.series, self.progress, self.company = series, progress, series.by != self.settings.my_id
        self.due, self.waits, self.decision, self.decided = False, False, None, None
        words = text(
            "rounds go on until {goal}, {count} at most (asked for at {peer})",
            series.goal,
            series.rounds,
            series.by,
        )
        told = self.tell("goal_set", words, until=str(series.goal), by=series.by)
        return [*self.restart_deadline(), told]

    def _end(
        self, series: GoalSeries, number: int, over: Over, words: str, decision: Decision | None = None
    ) -> list[Effect]:
        self.series, self.over, self.due, self.waits, self.ended = None, None, False, False, (series.name, over)
        reached = over == "reached"
        nodes, score = (decision.nodes, decision.score) if decision else (0, None)
        self.decision = Decision("reached" if reached else "given_up", words, self.progress, score, nodes)
        self.decided = (series, number, "reached" if reached else "given_up")
        kind = "goal_reached" if reached else "goal_given_up"
        numbers = (series.goal, series.number_of(number), series.rounds, words)
        told = (
            text("{goal}: reached after {count} of at most {number} rounds: {words}", *numbers)
            if reached
            else text("{goal}: given up after {count} of at most {number} rounds: {words}", *numbers)
        )
        data = {"until": str(series.goal), "accuracy": score.accuracy if score else None, "nodes": nodes}
        return [CancelTimer(NEXT), CancelTimer(DEADLINE), self.tell(kind, told, **data)]


def _of_claim(claim: Claim) -> Report:
    """The report of a node that is in no series, or of an earlier version."""
    score = claim.measured.scored if claim.measured else Scored(claim.accuracy)
    return Report(score[0], None, None, *score[1:])
