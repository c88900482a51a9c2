"""The card of a job on the page: what has to be put into words, tables and charts.

All other figures of a job are shown by the template, `card.html`, from the job's own view (`flnet.rounds.view`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flnet.aggregation.naming import rule_words, sum_cautions
from flnet.algorithms.topology import Topology
from flnet.errors import InvalidMessage
from flnet.node.interface import PeerInfo, Points, View
from flnet.rounds.goals import Condition, Falling, Goal, NoGain, Reach, Within
from flnet.rounds.steps import Phase
from flnet.rounds.view import (
    DataView,
    DiffersView,
    Figures,
    GoalView,
    JobView,
    MeshFiguresView,
    MetricsView,
    PeerVersionView,
    RuleProposalView,
)
from flnet.text import text
from flnet.web.charts import (
    AFTER,
    BEFORE,
    MAX_LINES,
    Chart,
    ChartSeries,
    accuracy_chart,
    figure_chart,
    points_of,
    spark_path,
)
from flnet.web.formatting import NONE, accuracy, count, one_line, seconds_words, size_words
from flnet.web.page.vertical_card import SHOWN_ABOVE, VerticalCard, vertical_card
from flnet.web.page.weights import LeaveOneOutTable, WeightsView, weights_view
from flnet.web.translation import Translate

ROWS_SHOWN = 12  # rounds in the table below the chart
RULES_SHOWN = 5  # peers that are named because they merge by another rule
PROPOSALS_SHOWN = 10  # of rules
CLASSES_SHOWN = 12
FIGURES_SHOWN = 24
NAMES_SHOWN = 20  # of peers whose updates are missing
PHASES = {
    Phase.LOADING: text("Loading data"),
    Phase.NO_DATA: text("No data"),
    Phase.IDLE: text("Idle"),
    Phase.ALIGNING: text("Aligning rows"),
    Phase.FETCHING: text("Fetching the model"),
    Phase.TRAINING: text("Training"),
    Phase.GATHERING: text("Waiting for updates"),
    Phase.AVERAGING: text("Averaging"),
    Phase.MEASURING: text("Measuring"),
    Phase.EXCHANGING: text("Exchanging models"),
}
_SECONDS = {
    "align": text("Asking and aligning rows"),
    "fetch": text("Fetching the model"),
    "train": text("Local training"),
    "wait": text("Waiting for updates"),
    "average": text("Averaging"),
    "measure": text("Measuring"),
    "exchange": text("Exchanging models"),
}
_SPLITS = (text("train"), text("validation"), text("test"))


@dataclass(frozen=True)
class PeerJob:
    """A job of another node, as that node tells it."""

    node: str
    job: JobView


@dataclass(frozen=True)
class RoundRow:
    """One round in the table."""

    number: str
    pre: str
    post: str
    exchanged_with: str
    contributors: str
    examples: str
    seconds: str


@dataclass(frozen=True)
class VersionRow:
    """One peer's versions, in words."""

    peer: str
    version: str
    merged: str
    when: str
    note: str


@dataclass(frozen=True)
class ProposalCard:
    """An aggregation rule that a node proposes, as people of this node read it.

    Attributes:
        waits_for: names of the nodes that have not taken it; empty if all have.
        declined_by: names of those whose people declined it.
    """

    mark: str
    words: str
    waits_for: str
    declined_by: str
    may_take: bool
    may_withdraw: bool
    is_declined: bool


@dataclass(frozen=True)
class Card:
    """A job's card on the page, besides the fields of the job's view.

    Attributes:
        waiting_for: names of the peers whose updates are missing.
        goal: of the series and how far it is, in a sentence; empty without one.
        next_at: local time at which a scheduled round starts; empty where it cannot be told, or is now.
        exchange: why the model was exchanged or not; empty where nobody can tell.
        seconds: what the last round's parts took, name and seconds.
        moved: how many bytes of parameters it sent and received, in words; empty where that is not known.
        further: charts of what the rounds took and moved, with their names.
        weights: how much each update counted; None where that is not known.
        rule: the aggregation rule in words.
        topology: how updates travel, in words; empty in a full mesh.
        cautions: what to know of its secure sums; empty where updates are not masked.
        rules: a sentence for each peer that merges by another rule.
        common_tests: a sentence for each peer that has another common test.
        proposals: rules that are proposed to the mesh.
        next_rule: the rule from the next round on in words; empty if it is that of the newest round.
        alone: peers that took no part in the last round, or do not have its average, and why, where this node was alone.
        leave_one_out: how much each peer contributes; None where not measured, or the reader is not the operator.
        data: where the data is from and how much it is.
        classes: for each split its name and the rows of each class.
        mesh: by what the mesh's accuracy counts, and where it is lowest; empty where no other node told its own.
        mesh_figures: further figures of all nodes together, name and value.
        figures: further figures of the trainer, name and value; after averaging, or before it as long as that is all.
        vertical: what only a job of nodes with different columns has; None for others.
    """

    job: JobView
    others: tuple[PeerJob, ...]
    waiting_for: str
    goal: str
    next_at: str
    versions: tuple[VersionRow, ...]
    exchange: str
    outcome: str
    seconds: tuple[tuple[str, str], ...]
    moved: str
    chart: Chart | None
    further: tuple[tuple[str, Chart], ...]
    spark: str
    rows: tuple[RoundRow, ...]
    weights: WeightsView | None
    rule: str
    topology: str
    cautions: tuple[str, ...]
    rules: tuple[str, ...]
    common_tests: tuple[str, ...]
    proposals: tuple[ProposalCard, ...]
    next_rule: str
    alone: tuple[tuple[str, str], ...]
    leave_one_out: LeaveOneOutTable | None
    data: str
    classes: tuple[tuple[str, str], ...]
    mesh: str
    mesh_figures: tuple[tuple[str, str], ...]
    figures: tuple[tuple[str, str], ...]
    figures_after: bool
    vertical: VerticalCard | None


def jobs_of_peers(infos: Sequence[PeerInfo]) -> list[PeerJob]:
    """All jobs of the peers."""
    return [PeerJob(one_line(info.id), job) for info in infos for job in info.jobs]


def same_job(one: JobView, other: JobView) -> bool:
    """Whether two nodes mean the same trainer; an old node tells no id, only the label."""
    if one.trainer_id and other.trainer_id:
        return one.trainer_id == other.trainer_id
    return one.label == other.label


def card_of(
    node: str,
    job: JobView,
    elsewhere: Sequence[PeerJob],
    history: Sequence[View],
    peer_rounds: Mapping[str, Points],
    t: Translate,
    leave_one_out: LeaveOneOutTable | None = None,
    mode: str = "open",
) -> Card:
    """The card of one of this node's jobs.

    Args:
        node: name of this node.
        elsewhere: all jobs of the peers.
        history: records of the job's rounds, oldest first.
        peer_rounds: accuracies of the same job on the peers, by peer.
        mode: of the mesh.
    """
    others = tuple(other for other in elsewhere if same_job(job, other.job))
    after = points_of(history, AFTER)
    vertical = vertical_card(node, job, {other.node: other.job for other in others}, history, t)
    last: View = history[-1] if history else {}
    figures, figures_after = _further_figures(job.metrics)
    figures = tuple(row for row in figures if row[0] not in SHOWN_ABOVE) if vertical else figures
    return Card(
        job=job,
        others=others,
        waiting_for=_names(job.waiting_for, t),
        goal=goal_words(job.goal, t) if job.goal else "",
        next_at=next_start(job.schedule.next_seconds) if job.schedule else "",
        versions=tuple(version_row(row, t) for row in job.versions.peers) if job.versions else (),
        exchange=exchange_words(job, others, t),
        outcome=job.outcome or _earlier_outcome(last, job.current_round),
        seconds=tuple(_seconds(last, t)),
        moved=_moved(last, t),
        chart=vertical.chart if vertical else accuracy_chart(_lines(node, history, peer_rounds, t)),
        further=tuple(_further(history, t)),
        spark=spark_path(after),
        rows=tuple(_row(record, t) for record in reversed(history[-ROWS_SHOWN:])),
        weights=weights_view(node, job.label, history, job.counts_little, t),
        rule=rule_words(job.merging_rule, t),
        topology=Topology.read(job.topology or "mesh").meaning,
        cautions=tuple(sum_cautions(mode, job.secure.members, job.secure.threshold)) if job.secure else (),
        rules=tuple(other_rules(job, others, t)),
        common_tests=tuple(other_common_tests(job, others, t)),
        proposals=tuple(proposal_card(node, proposal, t) for proposal in job.rule_proposals[:PROPOSALS_SHOWN]),
        next_rule=rule_words(job.next_rule, t) if job.next_rule else "",
        alone=alone_in(last, job.differs),
        leave_one_out=leave_one_out,
        data=data_words(job.data, t),
        classes=classes_words(job.data.classes, job.counts, t),
        mesh=mesh_words(job.mesh, t) if job.mesh else "",
        mesh_figures=mesh_figures(job.mesh, t) if job.mesh else (),
        figures=figures,
        figures_after=figures_after,
        vertical=vertical,
    )


def _lines(
    node: str, history: Sequence[View], peer_rounds: Mapping[str, Points], t: Translate
) -> list[ChartSeries]:
    """The accuracies of this node by round, those on the test rows of all nodes, and those of peers."""
    own = [ChartSeries(t("{node}, after", node=node), points_of(history, AFTER))]
    own += [ChartSeries(t("{node}, before", node=node), points_of(history, BEFORE))]
    if together := points_of(history, "mesh", "accuracy"):
        own.append(ChartSeries(t("all nodes together"), together))
    theirs = [ChartSeries(peer, tuple(points)) for peer, points in peer_rounds.items()][: MAX_LINES - len(own)]
    return [*own, *theirs]


def _earlier_outcome(record: View, current: int) -> str:
    """The outcome of the last round that is over, with its number where a newer round is open."""
    outcome, number = one_line(record.get("outcome"), 500), record.get("round", current)
    return text("Round {number}: {reason}", number, outcome) if outcome and number < current else outcome


def other_rules(job: JobView, others: Sequence[PeerJob], t: Translate) -> Iterator[str]:
    """Which peers merge by another rule than this node; of those that say by which, at most RULES_SHOWN."""
    here, told = job.merging_rule, {differing.peer for differing in job.differs}
    unlike = [other for other in others if here and other.job.merging_rule not in ("", here)]
    differing = [other for other in unlike if other.node not in told]
    for other in differing[:RULES_SHOWN]:
        rule = other.job.merging_rule
        yield t(
            "{peer} uses the aggregation rule {there}, this node uses {here}",
            peer=other.node,
            there=rule_words(rule, t),
            here=rule_words(here, t),
        )


def other_common_tests(job: JobView, others: Sequence[PeerJob], t: Translate) -> Iterator[str]:
    """Which peers have other rows in their common test than this node; at most RULES_SHOWN of them."""
    here = job.data.common_test
    unlike = [other for other in others if here and other.job.data.common_test not in ("", here)]
    for other in unlike[:RULES_SHOWN]:
        there = one_line(other.job.data.common_test, 12)
        yield t(
            "{peer} has another common test ({there}) than this node ({here})",
            peer=other.node,
            there=there,
            here=here,
        )


def proposal_card(node: str, proposal: RuleProposalView, t: Translate) -> ProposalCard:
    """An aggregation rule that a node proposes, in words.

    Args:
        node: name of this node.
    """
    rule, by = rule_words(proposal.rule, t), one_line(proposal.by, 64)
    is_own, is_open = proposal.by == node, proposal.state == "open"
    if is_own:
        words = t("This node proposes {rule}.", rule=rule)
    elif is_open:
        words = t("{peer} proposes {rule}.", peer=by, rule=rule)
    else:
        words = t("{peer} proposes {rule}, and it was taken here.", peer=by, rule=rule)
    return ProposalCard(
        proposal.mark,
        words,
        _names(proposal.not_taken, t),
        _names(proposal.declined_by, t),
        may_take=is_open and not is_own,
        may_withdraw=is_own and proposal.state == "taken",
        is_declined=node in proposal.declined_by,
    )


def alone_in(record: View, differs: Sequence[DiffersView]) -> tuple[tuple[str, str], ...]:
    """The peers of a round in which this node was alone, each with the reason.

    What differs is told from this node's side, if it is known; else in the words of the peer.
    """
    known = {differing.peer: differing.words for differing in differs}
    reasons: Mapping[str, str] = record.get("alone") or {}
    return tuple((one_line(peer, 64), known.get(peer) or one_line(why, 500)) for peer, why in reasons.items())[
        :NAMES_SHOWN
    ]


def exchange_words(job: JobView, others: Sequence[PeerJob], t: Translate) -> str:
    """Why a job's model was exchanged in its last round, or was not; empty where nobody can tell."""
    if job.exchanged_with:
        return t("taken from {peer}, whose model was better here", peer=job.exchanged_with)
    same_round = [other.job for other in others if other.job.current_round == job.current_round]
    digests = {other.digest for other in same_round if other.fed_learn_done == "Yes" and other.digest}
    if job.versions is not None or job.is_busy or job.fed_learn_done != "Yes" or not digests:
        return ""
    if job.spread is not None:
        return t("each node goes on from its own model")
    if digests == {job.digest}:
        return t("all nodes hold the same model")
    return t("no other model was better here by the threshold")


def goal_words(goal: GoalView, t: Translate) -> str:
    """A series and how far it is, in a sentence."""
    parts = []
    if goal.state == "reached":
        parts.append(t("Goal reached in round {round}", round=goal.round))
    elif goal.state == "given_up":
        parts.append(t("Goal given up in round {round}", round=goal.round))
    parts.append(t("until {goal}", goal=until_words(goal.until, t)))
    parts.append(t("{done} of at most {rounds} rounds", done=goal.done, rounds=goal.rounds))
    if goal.accuracy is not None:
        mean = accuracy(goal.accuracy)
        if goal.nodes == 1:
            parts.append(t("accuracy {accuracy} of 1 node", accuracy=mean))
        elif goal.basis == "counts":
            parts.append(t("accuracy {accuracy} on all rows of {nodes} nodes", accuracy=mean, nodes=goal.nodes))
        elif goal.basis == "examples":
            parts.append(
                t("mean accuracy {accuracy} of {nodes} nodes, weighted by rows", accuracy=mean, nodes=goal.nodes)
            )
        else:
            parts.append(t("mean accuracy {accuracy} of {nodes} nodes", accuracy=mean, nodes=goal.nodes))
    if goal.rows == "validation":
        parts.append(t("decided on validation rows"))
    elif goal.rows == "mixed":
        parts.append(t("decided on validation rows, and on test rows where a node has no others"))
    elif goal.rows == "test":
        parts.append(t("decided on test rows"))
    if goal.best is not None:
        parts.append(t("the best so far {accuracy}", accuracy=accuracy(goal.best)))
    parts.append(t("asked for at {node}", node=goal.by))
    sentence = "; ".join(parts)
    return sentence[:1].upper() + sentence[1:]


def mesh_words(mesh: MeshFiguresView, t: Translate) -> str:
    """By what the accuracy of all nodes together counts, and where it is lowest."""
    if mesh.basis == "counts":
        words = t("counted on {rows} test rows of {nodes} nodes", rows=count(mesh.examples), nodes=mesh.nodes)
    elif mesh.basis == "examples":
        words = t(
            "mean of {nodes} nodes, weighted by {rows} test rows", rows=count(mesh.examples), nodes=mesh.nodes
        )
    else:
        words = t("plain mean of {nodes} nodes; not all say how many test rows they have", nodes=mesh.nodes)
    if mesh.worst is None:
        return words
    worst = one_line(mesh.worst.node, 64)
    lowest = t("lowest {accuracy} on {node}", accuracy=accuracy(mesh.worst.accuracy), node=worst)
    return f"{words}; {lowest}"


def mesh_figures(mesh: MeshFiguresView, t: Translate) -> tuple[tuple[str, str], ...]:
    """The further figures of all nodes together, name and value: on all rows, how far nodes are apart, and of groups."""
    rows = list(_numbers(mesh.figures))
    if mesh.spread is not None:
        rows.append((t("standard deviation over the nodes"), accuracy(mesh.spread)))
    if mesh.jain is not None:
        rows.append((t("Jain's index"), f"{mesh.jain:.4f}"))
    for name, group in list(mesh.groups.items())[:NAMES_SHOWN]:
        words = t("{accuracy} ({rows} rows)", accuracy=accuracy(group.accuracy), rows=count(group.examples))
        rows.append((t("group {name}", name=one_line(name, 64)), words))
    return tuple(rows)


def until_words(until: str, t: Translate) -> str:
    """A goal in the reader's language; as it is written where it is none."""
    try:
        return t(" or ").join(_condition(condition, t) for condition in Goal.parse(until).conditions)
    except InvalidMessage:
        return until


def _condition(condition: Condition, t: Translate) -> str:
    match condition:
        case Reach(least, "mean"):
            return t("the mean accuracy of all nodes is {least}", least=f"{least:g}")
        case Reach(least, "every"):
            return t("the accuracy on every node is {least}", least=f"{least:g}")
        case Reach(least, _):
            return t("the accuracy on the node asked is {least}", least=f"{least:g}")
        case NoGain(rounds, delta):
            return t("{rounds} rounds bring no more than {delta}", rounds=rounds, delta=f"{delta:g}")
        case Falling(cumulative=True):
            return t("the means of accuracy and loss over all rounds get worse twice running")
        case Falling():
            return t("accuracy falls and loss rises twice running")
        case Within(seconds):
            return t("{minutes} minutes are over", minutes=f"{seconds / 60:g}")


def next_start(seconds: int | None, now: float | None = None) -> str:
    """The local time after these seconds; empty if there is nothing to wait for.

    Args:
        now: seconds since the epoch; the time of this machine if absent.
    """
    if not seconds or seconds < 0:
        return ""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime((time.time() if now is None else now) + seconds))


def version_row(
    row: PeerVersionView, t: Translate, local: Callable[[float], time.struct_time] = time.localtime
) -> VersionRow:
    """A peer's versions in words.

    Args:
        local: a time by this node's clock.
    """
    notes = [t("still to be merged")] if row.newer else []
    notes += [] if row.reachable else [t("does not answer")]
    when = NONE
    if row.into is not None and row.at is not None:
        at = time.strftime("%Y-%m-%d %H:%M:%S", local(row.at))
        when = t("in version {number}, {time}", number=f"v{row.into}", time=at)
    elif row.into is not None:
        when = t("in version {number}", number=f"v{row.into}")
    return VersionRow(row.peer, _version(row.version), _version(row.merged), when, ", ".join(notes))


def _version(number: int | None) -> str:
    return NONE if number is None else f"v{number}"


def data_words(data: DataView, t: Translate) -> str:
    """The size of the data: rows by split, and the number of classes."""
    splits = [f"{count(number)} {_split(name, t)}" for name, number in data.rows.items()]
    rows = t("{count} rows", count=", ".join(splits)) if splits else ""
    classes = t("{count} classes", count=count(len(data.classes))) if data.classes else ""
    return "; ".join(part for part in (rows, classes) if part)


def classes_words(
    classes: Sequence[str], counts: Mapping[str, Sequence[int]], t: Translate
) -> tuple[tuple[str, str], ...]:
    """The rows of each class for each split, for at most CLASSES_SHOWN classes."""
    hidden = len(classes) - CLASSES_SHOWN
    more = t("and 1 more class") if hidden == 1 else t("and {count} more classes", count=hidden)
    more = f" {more}" if hidden > 0 else ""
    lines = []
    for split, numbers in counts.items():
        pairs = list(zip(classes, numbers, strict=False))[:CLASSES_SHOWN]
        rows = [f"{one_line(name, 40)}: {count(number) or 0}" for name, number in pairs]
        lines += [(_split(split, t), ", ".join(rows) + more)] if rows else []
    return tuple(lines)


def _split(name: str, t: Translate) -> str:
    return t(name) if name in _SPLITS else one_line(name, 20)


def _further_figures(metrics: MetricsView) -> tuple[tuple[tuple[str, str], ...], bool]:
    """The trainer's further figures after averaging, or else before it, and whether it is after."""
    after = _numbers(metrics.after)
    return (after, True) if after else (_numbers(metrics.before), False)


def _numbers(figures: Figures) -> tuple[tuple[str, str], ...]:
    """Names and values with four digits that count; the figure named accuracy is shown in large elsewhere."""
    named = [(one_line(name, 40), f"{value:.4g}") for name, value in figures.items() if _is_shown(name, value)]
    return tuple(named[:FIGURES_SHOWN])


def _is_shown(name: str, value: float) -> bool:
    return name != "accuracy" and math.isfinite(value)


def _names(names: Sequence[str], t: Translate) -> str:
    shown, hidden = ", ".join(names[:NAMES_SHOWN]), len(names) - NAMES_SHOWN
    return t("{names} and {count} more", names=shown, count=hidden) if hidden > 0 else shown


def _further(history: Sequence[View], t: Translate) -> Iterator[tuple[str, Chart]]:
    """Seconds of each part of a round, and bytes that went out and came in, by round."""
    parts = [ChartSeries(t(words), points_of(history, "seconds", name)) for name, words in _SECONDS.items()]
    directions = (("sent", t("sent")), ("received", t("received")))
    moved = [ChartSeries(words, points_of(history, "bytes", name)) for name, words in directions]
    if chart := figure_chart(parts, seconds_words):
        yield t("Seconds by round"), chart
    if chart := figure_chart(moved, lambda nbytes: size_words(int(nbytes))):
        yield t("Bytes by round"), chart


def _row(record: View, t: Translate) -> RoundRow:
    return RoundRow(
        one_line(record.get("round")),
        accuracy(record.get(BEFORE)),
        accuracy(record.get(AFTER)),
        one_line(record.get("exchanged_with"), 64) or NONE,
        ", ".join(one_line(name, 64) for name in (record.get("contributors") or ())[:20]) or NONE,
        one_line(record.get("examples")) or NONE,
        ", ".join(f"{name} {words}" for name, words in _seconds(record, t)) or NONE,
    )


def _seconds(record: Mapping[str, Any], t: Translate) -> list[tuple[str, str]]:
    seconds = record.get("seconds") or {}
    named = [(t(_SECONDS.get(name, one_line(name, 20))), took) for name, took in seconds.items()]
    return [(name, f"{took:.2f} s") for name, took in named if isinstance(took, int | float)]


def _moved(record: Mapping[str, Any], t: Translate) -> str:
    moved = record.get("bytes") or {}
    if not any(moved.values()):
        return ""
    sent, received = (size_words(moved.get(name, 0)) for name in ("sent", "received"))
    if not (messages := record.get("messages")):
        return t("{sent} sent, {received} received", sent=sent, received=received)
    return t("{sent} sent, {received} received, {count} messages", sent=sent, received=received, count=messages)
