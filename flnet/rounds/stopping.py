"""Early stopping: a series of rounds with a goal, and when it is over.

The first half reads goals such as "accuracy>=0.98, within 600" and decides from the nodes' reports whether they hold. It
is exact: the same reports give the same decision on every node, in whatever order they came.

The second half follows one series on one node. Every node decides by itself, from reports that all nodes broadcast with
their accuracies. The progress that a start states counts more than the node's own, so nodes that heard different reports
agree again one round later; the total order of rounds decides between two starts. A node for which the series is over
says so in its report of any further round of it, and that round is the last one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from flnet.errors import InvalidMessage, JobBusy
from flnet.params.params import PeerId
from flnet.protocol.counts import Basis, DecidingRows, Measured, Scored, mean_accuracy, weighted_mean
from flnet.protocol.effects import CancelTimer, Effect, SetTimer
from flnet.protocol.messages import LAST_ROUND, HyperParams, ReportMessage, SeriesMessage
from flnet.protocol.updates import TEST, VALIDATED, Claim, Over, Report, RoundKey
from flnet.rounds.evaluation import MeshEvaluation
from flnet.rounds.peers import Peers
from flnet.rounds.settings import JobSettings, Tell
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
        """The progress after one more round with these means."""
        no_gain, falling = goal.find(NoGain), goal.find(Falling)
        gained = self.best is None or score.accuracy - self.best > (no_gain.delta if no_gain else 0.0)
        counted = self.counted + 1
        total = MeanScore(self.total.accuracy + score.accuracy, _plus(self.total.loss, score.loss))
        mean = score
        if falling is not None and falling.cumulative:
            mean = MeanScore(total.accuracy / counted, None if total.loss is None else total.loss / counted)
        return GoalProgress(
            counted,
            score.accuracy if gained else self.best,
            0 if gained else self.stale + 1,
            (*self.means, mean)[-KEPT:],
            total,
        )


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
        figures = {"accuracy": accuracy, "loss": loss, "nodes": self.nodes, **_how_counted(self)}
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


def _how_counted(decision: Decision | None) -> Mapping[str, str | None]:
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
        loss = next((loss for loss in losses if -1e300 < loss < 1e300), None)
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
            **_how_counted(decision),
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
