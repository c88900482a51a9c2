"""The steps of a series with a goal: how it begins and ends, what nodes report, and who starts the next round.

Every node decides by itself, from reports that all nodes broadcast with their accuracies. The progress that a
start brings counts more than the own one, so that nodes which heard different reports agree again one round
later; the total order of rounds decides between two starts. A node for which the series is over says so in its
report of any further round of it, and that round is the last one.
"""

from __future__ import annotations

from collections.abc import Mapping

from flnet.effects import CancelTimer, Effect, SetTimer
from flnet.errors import InvalidMessage, JobBusy
from flnet.events import PeerLost, TimerFired
from flnet.jobs.opening import Opening
from flnet.jobs.pursuit import Pursuit, Series, series_of
from flnet.jobs.state import JobState
from flnet.jobs.steps import Phase
from flnet.messages import LAST_ROUND, SeriesMessage
from flnet.params import Claim, Over, Report
from flnet.policies import Decision, Goal, Progress, decide
from flnet.policies.goal import Falling, Within

NEXT, DEADLINE = "goal:next", "goal:deadline"  # timers
TIMERS = (NEXT, DEADLINE)
ALONE = 12  # times the wait for a start, until a node that lost all others gives a series up
VALIDATION = "validation_accuracy"  # of the own model before averaging, as the thesis' rule has it
FALLING = frozenset({Falling, Within})  # goals that name no accuracy which people would look for
LOSSES = (("after", "validation_loss"), ("after", "loss"), ("before", "validation_loss"))  # where one may stand


def begun(s: JobState, until: str, first: int, rounds: int) -> list[Effect]:
    """A person asks for rounds until a goal is reached.

    Raises:
        InvalidMessage: it is no goal.
        JobBusy: another series is under way.
    """
    goal = Goal.parse(until)
    if (old := s.pursuit.series) is not None:
        raise JobBusy(f"rounds until {old.goal} are under way, asked for at {old.by}; stop them first")
    return _follow(s, Series(s.my_id, first, goal, rounds), Progress())


def entered(s: JobState, said: SeriesMessage | None) -> list[Effect]:
    """A round is entered, with what its start says of a series; what is known here of that gives way to it."""
    p = s.pursuit
    followed = p.series is not None
    p.reports, p.tells, p.due, p.waits = {}, False, False, False
    effects: list[Effect] = [CancelTimer(NEXT)] if followed else []
    if said is None:
        return effects
    try:
        series, progress = series_of(said)
    except InvalidMessage as exc:
        return [*effects, s.tell("goal_unknown", f"this round belongs to a series that is not known here: {exc}")]
    if p.series is not None and p.series.name == series.name:
        p.progress = progress
        return effects
    if p.series is not None:
        effects += _end(s, p.series, "given_up", f"it gave way to that of {series.by}")
    return [*effects, *_follow(s, series, progress)]


def reported(s: JobState, accuracy: float, metrics: Mapping[str, float]) -> None:
    """The own average is measured: note what all others are told."""
    p = s.pursuit
    p.tells = p.series is not None
    before = s.record.metrics.get("before", {}) if s.record else {}
    figures = {"after": metrics, "before": before}
    losses = [figures[when][name] for when, name in LOSSES if name in figures[when]]
    loss = next((loss for loss in losses if -1e300 < loss < 1e300), None)
    if p.series is not None and not {type(condition) for condition in p.series.goal.conditions} - FALLING:
        accuracy = _validated(before, accuracy)
    p.reports[s.my_id] = Report(accuracy, loss, p.over) if p.tells else Report(accuracy)


def _validated(before: Mapping[str, float], accuracy: float) -> float:
    """The accuracy on validation rows, where the trainer tells it: test rows are to decide nothing."""
    told = before.get(VALIDATION, accuracy)
    return told if 0 <= told <= 1 else accuracy


def heard(s: JobState, claim: Claim) -> None:
    """A peer told its accuracy; the first word counts, and of nodes that report nothing the accuracy does."""
    if claim.round == s.number:
        s.pursuit.reports.setdefault(claim.peer, claim.report or Report(claim.accuracy))


def judged(s: JobState) -> list[Effect]:
    """A round is over here: decide whether the series is, too, and who starts the next round."""
    p = s.pursuit
    if (series := p.series) is None or s.number < series.first:
        return []
    # Without an own average there was no exchange: who knows nothing of the round decides nothing.
    reports = p.reports if s.my_id in p.reports else {}
    is_last = series.number_of(s.number) >= series.rounds or s.number >= LAST_ROUND
    found = decide(series.goal, p.progress, reports, number=s.number, by=series.by, is_last=is_last)
    p.progress, p.decision, p.company = found.progress, found, p.company or len(p.reports) > 1
    if found.over is not None:
        return _end(s, series, found.over, found.words, found)
    return next_turn(s)


def peer_lost(s: JobState, event: PeerLost) -> list[Effect]:
    """Who was to start the next round may be gone: the next in turn does."""
    return next_turn(s) if s.pursuit.waits and s.phase is Phase.IDLE else []


def timer_fired(s: JobState, event: TimerFired) -> list[Effect]:
    """Nobody started the next round in time, or the time of the series is over."""
    p = s.pursuit
    if p.series is None:
        return []
    if event.name == NEXT and _is_alone(s) and p.waits:
        ends = _end(s, p.series, "given_up", f"no other node has been reachable for {ALONE * s.waits.start:g} s")
        p.ended = None  # the others may still be at it: who comes back to them does not end it for them
        return [*ends, s.save()]
    if event.name == NEXT:
        p.due, p.waits = p.waits and s.phase is Phase.IDLE, False
        return []
    p.over = p.over or "deadline"
    words = f"the time for {p.series.goal} is over; all nodes hear it with the next accuracy"
    return [s.tell("goal_deadline", words)]


def stopped(s: JobState) -> list[Effect]:
    """A person ends the series: all hear of it with the accuracy of the open round, or else of the next one."""
    p = s.pursuit
    if (series := p.series) is None:
        return []
    if s.phase is not Phase.IDLE and s.number >= series.first and s.my_id not in p.reports:
        p.over = "stopped"
        return [s.tell("series_stopped", f"the series until {series.goal} ends on all nodes with the open round")]
    return _end(s, series, "stopped", f"a person stopped the series at {s.my_id}")


def next_opening(s: JobState) -> Opening:
    """The next round of the series, started here."""
    s.pursuit.due = False
    return Opening(s.next_key, s.hyper)


def _follow(s: JobState, series: Series, progress: Progress) -> list[Effect]:
    p = s.pursuit
    ended = p.ended[1] if p.ended and p.ended[0] == series.name else None
    company = series.by != s.my_id
    s.pursuit = Pursuit(series, progress, p.reports, company, p.tells, ended, ended=p.ended)
    words = f"rounds go on until {series.goal}, {series.rounds} at most (asked for at {series.by})"
    seconds = series.goal.seconds
    timer: list[Effect] = [SetTimer(DEADLINE, seconds)] if seconds is not None else []
    return [*timer, s.tell("goal_set", words, until=str(series.goal), by=series.by)]


def next_turn(s: JobState) -> list[Effect]:
    """Start the next round at once if it is this node's turn, or else if nobody has after a while.

    The turns: who started the round that is over, then all reachable nodes by id. Who could not measure the round
    comes last, because the others may still be comparing.
    """
    p = s.pursuit
    if s.rules.asynchronous:  # nobody else makes this node's versions
        p.due, p.waits = True, False
        return []
    if _is_alone(s):
        p.due, p.waits = False, True
        return [SetTimer(NEXT, ALONE * s.waits.start)]
    nodes = sorted({s.my_id, *s.peers})
    first = s.key.initiator if s.key and s.key.initiator in nodes else nodes[0]
    turn = [first, *(node for node in nodes if node != first)].index(s.my_id)
    if s.my_id not in p.reports:
        turn = len(nodes)
    p.due, p.waits = turn == 0, turn > 0
    return [SetTimer(NEXT, turn * s.waits.start)] if turn else [CancelTimer(NEXT)]


def _is_alone(s: JobState) -> bool:
    """Whether all others are gone: what one node would train alone meanwhile must not outrun the mesh."""
    return s.pursuit.company and not s.peers


def _end(s: JobState, series: Series, over: Over, words: str, found: Decision | None = None) -> list[Effect]:
    p = s.pursuit
    p.series, p.over, p.due, p.waits, p.ended = None, None, False, False, (series.name, over)
    reached = over == "reached"
    nodes, score = (found.nodes, found.score) if found else (0, None)
    p.decision = Decision("reached" if reached else "given_up", words, p.progress, score, nodes)
    p.decided = (series, s.number, "reached" if reached else "given_up")
    kind = "goal_reached" if reached else "goal_given_up"
    ending = "reached" if reached else "given up"
    how = f"{ending} after {series.number_of(s.number)} of at most {series.rounds} rounds"
    said = f"{series.goal}: {how}: {words}"
    data = {"until": str(series.goal), "accuracy": score.accuracy if score else None, "nodes": nodes}
    return [CancelTimer(NEXT), CancelTimer(DEADLINE), s.tell(kind, said, **data)]
