"""Round history: a record of each round, and how much the updates of each peer have counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flnet.aggregation.base import Secure
from flnet.algorithms.secure_sum import threshold
from flnet.params.params import Digest, PeerId
from flnet.protocol.effects import Publish
from flnet.protocol.events import Averaged, Trained
from flnet.protocol.updates import RoundKey, Update
from flnet.rounds.evaluation import in_job
from flnet.rounds.gathering import Closing, Gathering
from flnet.rounds.settings import Tell
from flnet.text import joined, text

HELD_ROUNDS = 120  # newest records that a job holds (charts show 100); the store has the older ones
LITTLE = 0.1  # of a fair share: below it an update counts little
AGAIN = 0.5  # of a fair share: from here on it counts again; in between nothing is decided
RUNNING = 3  # rounds in a row in which an update was left out or counted little
RECENT = 3  # averages whose contributors a node counts as the other nodes of a job
FORGOTTEN = 120  # rounds after which a peer that took no part is forgotten


@dataclass(frozen=True)
class SumRecord:
    """By whom the secure sum of a round was opened.

    Attributes:
        members: nodes that hold shares of each other's secrets, sorted. Those whose updates are in the sum are the
            contributors of the round.
        threshold: how many of them had to reveal their shares.
    """

    members: tuple[PeerId, ...]
    threshold: int

    @classmethod
    def read(cls, view: Mapping[str, Any]) -> SumRecord:
        """What `view` showed.

        Raises:
            KeyError, TypeError, ValueError: it is none.
        """
        return cls(tuple(view["members"]), int(view["threshold"]))

    def view(self, contributors: int) -> Mapping[str, Any]:
        """As JSON-ready data.

        Args:
            contributors: how many updates are in the sum.
        """
        return {"members": list(self.members), "threshold": self.threshold, "words": self.words(contributors)}

    def words(self, contributors: int) -> str:
        """A sentence for people."""
        return text(
            "only the sum of {count} updates was opened; {threshold} of {members} nodes are needed to open one",
            contributors,
            self.threshold,
            len(self.members),
        )


@dataclass
class RoundRecord:
    """One round as this node saw it; accuracies are on its own test split, in [0, 1].

    Attributes:
        why: why a schedule started it here; empty if none did.
        decision: after it, whether a series with a goal is over, and on which figures; None outside of one.
        metrics: further figures of the trainer, by name, under "before" and "after" averaging.
        chosen: who was to train, where not all were.
        contributions: what those whose updates are in the average stated of them; of a node that stated nothing,
            the name alone.
        weighed: how each update counted, by peer.
        left_out: nodes that were to train and whose updates are not in the average, each with the reason; None where
            the round was cut short, where this node took the average of others, and where there are no common rounds.
        alone: why this node was alone, by peer that was expected: its update is the only one in the average, or nobody
            else has the average; empty if it was not.
        taken_from: the peer from which the average was downloaded, because this node has no part in it; None if this
            node averaged.
        privacy: what this node had promised of its update, and spent with it; None where it promised nothing.
        secure: by whom the secure sum was opened here; None where updates are not masked, or no sum was opened here.
        spread: how far the updates of neighbours were from that of this node, where nodes average with their neighbours
            alone (`flnet.algorithms.gossip`); None where there is one average for all, and without a neighbour's update.
        mesh: figures of all nodes' test rows together, and those of each node (`flnet.rounds.evaluation`); None where no
            other node told its own.
        disputed: by peer, why it is not to be trusted, where updates are averaged in segments, and what it signed.
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
    alone: Mapping[PeerId, str] = field(default_factory=dict)
    taken_from: PeerId | None = None
    left_out: Mapping[PeerId, str] | None = None
    privacy: Mapping[str, Any] | None = None
    secure: SumRecord | None = None
    spread: float | None = None
    disputed: dict[PeerId, Mapping[str, Any]] = field(default_factory=dict)
    mesh: Mapping[str, Any] | None = None

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
            {peer: dict(weighed) for peer, weighed in (view.get("weighed") or {}).items()},
            dict(view.get("alone") or {}),
            view.get("taken_from"),
            None if view.get("left_out") is None else dict(view["left_out"]),
            None if view.get("privacy") is None else dict(view["privacy"]),
            None if view.get("secure") is None else SumRecord.read(view["secure"]),
            None if view.get("spread") is None else float(view["spread"]),
            dict(view.get("disputed") or {}),
            view.get("mesh"),
        )

    def add_words(self, words: str) -> None:
        """Say something more about the outcome."""
        self.outcome = words if self.outcome == "open" else joined([self.outcome, words])

    def note_training(self, event: Trained, privacy: Mapping[str, Any] | None) -> None:
        """Note the figures of this node's training, and what it promised of its update."""
        self.pre_accuracy, self.examples, self.privacy = event.accuracy, event.examples, privacy
        self.seconds["train"], self.metrics["before"] = event.seconds, event.metrics

    def note_left_out(self, gathering: Gathering, screened: Mapping[PeerId, str], *, by_turns: bool) -> None:
        """Note whose updates are not in the average, and whether this node was alone.

        Args:
            screened: whose updates came and do not count, each with the reason.
            by_turns: see `Gathering.alone`.
        """
        left_out = {**(self.left_out or {}), **gathering.left_out(), **screened}
        self.left_out = dict(sorted(left_out.items()))
        self.alone = gathering.alone(left_out, by_turns=by_turns)

    def words(self, accuracy: float | None) -> str:
        """The result of the round, for people.

        Args:
            accuracy: of the model that this node holds now, in [0, 1].
        """
        result = text("round {number} closed: {outcome}", self.key.number, self.outcome)
        if self.pre_accuracy is None or accuracy is None:
            return result
        before, after = f"{self.pre_accuracy:.4f}", f"{accuracy:.4f}"
        return joined([result, text("accuracy here {accuracy} before, {later} after", before, after)])

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
            "contributions": [dict(stated) for stated in self.contributions],
            "weighed": {peer: dict(weighed) for peer, weighed in self.weighed.items()},
            **({} if self.left_out is None else {"left_out": dict(self.left_out)}),
            **({"alone": dict(self.alone)} if self.alone else {}),
            **({"taken_from": self.taken_from} if self.taken_from else {}),
            **({"privacy": dict(self.privacy)} if self.privacy else {}),
            **({"secure": self.secure.view(len(self.contributors))} if self.secure else {}),
            **({} if self.spread is None else {"spread": self.spread}),
            **({"disputed": {peer: dict(why) for peer, why in self.disputed.items()}} if self.disputed else {}),
            **({} if self.mesh is None else {"mesh": dict(self.mesh)}),
        }


class History:
    """The newest rounds of a job that are over.

    Attributes:
        records: of the newest HELD_ROUNDS rounds, oldest first.
        weights: how much the updates of each peer have counted.
    """

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self.records: deque[RoundRecord] = deque(maxlen=HELD_ROUNDS)
        self.weights = Weights()
        self._unsaved: list[RoundRecord] = []

    @property
    def last(self) -> RoundRecord | None:
        """The record of the last round that is over."""
        return self.records[-1] if self.records else None

    @property
    def last_result(self) -> RoundRecord | None:
        """The record of the last round that is over and had a result."""
        return next((record for record in reversed(self.records) if record.contributors), None)

    def held(self, digest: Digest) -> bool:
        """Whether this node has made this average in one of these rounds."""
        return any(record.digest == digest for record in self.records)

    def contributors(self) -> set[PeerId]:
        """Whose updates were in the newest averages, of RECENT rounds."""
        averaged = [record.contributors for record in self.records if record.contributors]
        return {peer for contributors in averaged[-RECENT:] for peer in contributors}

    def add(self, record: RoundRecord) -> None:
        """A round is over: its record is held, and is in the next Save; in place of the one that it already had."""
        if self.records and self.records[-1].key == record.key:
            self.records.pop()
        self.records.append(record)
        self._unsaved.append(record)

    def note_average(self, record: RoundRecord, event: Averaged, gathering: Gathering) -> list[Publish]:
        """Note which updates did not count in an average, and how much the others did.

        Returns:
            What people read of it.
        """
        record.weighed = {peer: weighed.view() for peer, weighed in sorted(event.weighed.items())}
        if gathering.again is not None and gathering.again.lost:
            record.add_words(text("not fetched again: {names}", names(sorted(gathering.again.lost))))
        if event.note:
            record.add_words(event.note)
        if event.refused:
            record.add_words(text("left out: {names}", names(sorted(event.refused))))
        refused = [
            self._tell(
                "update_refused", text("the update of {peer} does not count: {reason}", peer, why), peer=peer
            )
            for peer, why in sorted(event.refused.items())
        ]
        return refused + [self._turned(peer, now) for peer, now in self.weights.take(record)]

    def _turned(self, peer: str, now: PeerWeight) -> Publish:
        kind = "weight_collapsed" if now.is_little else "weight_recovered"
        figures = {"peer": peer, "since": now.since, "weight": now.weight, "fair": now.fair}
        return self._tell(kind, words_of(peer, now), **figures)

    def view(self, current: RoundRecord | None) -> Mapping[str, Any]:
        """Its figures in the view of the job: those of the last round that trained here.

        Args:
            current: the record of the open round.
        """
        last = current if current and current.pre_accuracy is not None else self.last or current
        return {**figures_of(last), "counts_little": self.weights.view()}

    def take_unsaved(self) -> tuple[Mapping[str, Any], ...]:
        """The records of the rounds that ended since this was asked last."""
        records, self._unsaved = self._unsaved, []
        return tuple(record.view() for record in records)

    def restore(self, records: Sequence[RoundRecord], current: RoundRecord | None) -> None:
        """Take up what an earlier run saved.

        Args:
            records: of the rounds that were over, oldest first.
            current: of the round that was open.
        """
        self.records.extend(records)
        for record in (*records, *([current] if current is not None else [])):
            if record.weighed:
                self.weights.take(record)


def view_of_sums(secure: Secure, records: Sequence[RoundRecord], here: int) -> Mapping[str, Any]:
    """How updates are masked and the newest sum, in the view of a job.

    Args:
        records: of the rounds that are over, oldest first.
        here: how many nodes there are, this one among them.
    """
    masked = {"part_away": secure.part_away, "bits": secure.bits}
    for record in reversed(records):
        if record.secure is not None:
            members, count = len(record.secure.members), len(record.contributors)
            told = text("{words} (round {number})", record.secure.words(count), record.key.number)
            newest = {"round": record.key.number, "members": members, "contributors": count, "words": told}
            return {**masked, **newest, "threshold": record.secure.threshold}
    least = threshold(here, secure.part_away)
    words = text("no sum was opened yet, and it takes two nodes")
    if here > 1:
        words = text(
            "no sum was opened yet; {threshold} of the {nodes} nodes here are needed for that", least, here
        )
    return {**masked, "round": None, "members": here, "threshold": least, "contributors": None, "words": words}


def figures_of(record: RoundRecord | None) -> Mapping[str, Any]:
    """The figures of a round in the view of its job."""
    exchanged_with = record.exchanged_with if record else None
    return {
        "used_hyper": record.used_hyper if record else None,
        "figures_round": record.key.number if record else None,
        "pre_fedavg_accuracy": record.pre_accuracy if record else None,
        "post_fedavg_accuracy": record.post_accuracy if record else None,
        "metrics": record.metrics if record else {},
        "spread": record.spread if record else None,
        "mesh": in_job(record.mesh) if record else None,
        "model_was_exchanged": "Yes" if exchanged_with else "No",
        "exchanged_with": exchanged_with,
    }


@dataclass(frozen=True)
class PeerWeight:
    """How much one peer's updates have counted in the rounds so far.

    Attributes:
        is_little: whether they count little now.
        since: the first round of those in which they do; None if they do not.
        weight: in the newest average that gave it one, in [0, 1].
        fair: the share that it would have had there by its examples, but at most an equal one.
        reason: why its newest update was left out; empty if it counted.
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

    of: dict[str, PeerWeight] = field(default_factory=dict)
    averages: int = 0

    def take(self, record: RoundRecord) -> list[tuple[str, PeerWeight]]:
        """Learn how much the updates of an average counted.

        A weight says something of one peer only where most updates have one: Krum, which chooses a single
        update, says nothing of all others.

        Returns:
            The peers whose updates count little from now on, or do so no longer.
        """
        self.averages += 1
        fair = fair_shares(record.weighed, record.contributions)
        ratios = {peer: _ratio(weighed, fair[peer]) for peer, weighed in record.weighed.items()}
        is_spread = 2 * sum(ratio is not None and ratio >= LITTLE for ratio in ratios.values()) >= len(ratios)
        turned = []
        for peer, weighed in record.weighed.items():
            before = self.of.get(peer, PeerWeight())
            now = _after(before, record.key.number, weighed, fair[peer], ratios[peer] if is_spread else None)
            self.of[peer] = replace(now, seen=self.averages)
            if now.is_little != before.is_little:
                turned.append((peer, now))
        self.of = {peer: known for peer, known in self.of.items() if known.seen > self.averages - FORGOTTEN}
        return turned

    def view(self) -> list[Mapping[str, Any]]:
        """The peers whose updates count little, as JSON-ready data."""
        return [
            {"peer": peer, "since": now.since, "weight": now.weight, "fair": now.fair, "reason": now.reason}
            for peer, now in sorted(self.of.items())
            if now.is_little
        ]


def fair_shares(weighed: Mapping[str, object], contributions: Sequence[Mapping[str, Any]]) -> Mapping[str, float]:
    """The share of an average that each update would have had by its examples, but at most an equal one.

    So neither a node with few examples nor one of many equal ones seems to be slighted.

    Args:
        weighed: the updates, by peer.
        contributions: what was stated of them, as in a record.
    """
    equal = 1 / max(1, len(weighed))
    stated = {str(contribution.get("peer")): contribution.get("examples") for contribution in contributions}
    examples = {peer: count for peer, count in stated.items() if isinstance(count, int) and count > 0}
    total = sum(examples.values())
    return {peer: min(equal, examples[peer] / total) if peer in examples else equal for peer in weighed}


def words_of(peer: str, now: PeerWeight) -> str:
    """A sentence on a peer whose updates count little from now on, or do so no longer."""
    if not now.is_little:
        return text("the updates of {peer} count again", peer)
    if now.reason:
        return text(
            "the updates of {peer} have been left out since round {number}: {reason}", peer, now.since, now.reason
        )
    return text(
        "the updates of {peer} count little since round {number}: {weight} of the average, {fair} was fair",
        peer,
        now.since,
        f"{100 * (now.weight or 0):.2g} %",
        f"{100 * (now.fair or 0):.2g} %",
    )


def closing_words(gathering: Gathering, members: int = 0) -> str:
    """Why a round of averaging ended, in one sentence.

    Args:
        gathering: that is closed.
        members: how many nodes there were to choose from, where not all trained.
    """
    words = _ending(gathering)
    if gathering.chosen is None or len(gathering.chosen) == members:
        return words
    chosen = text("{count} of {number} nodes were chosen", len(gathering.chosen), members)
    return joined([words, chosen])


def contributions_of(updates: Iterable[Update]) -> tuple[Mapping[str, Any], ...]:
    """The nodes' statements about these updates, as a record contains them."""
    return tuple(map(_contribution_of, updates))


def names(peers: Sequence[str]) -> str:
    """Peers in a sentence, at most five by name."""
    shown = ", ".join(peers[:5])
    return text("{names} and {count} more", shown, len(peers) - 5) if len(peers) > 5 else shown


def _ending(gathering: Gathering) -> str:
    have, missing = len(gathering.updates), gathering.missing
    got = text("{count} update", have) if have == 1 else text("{count} updates", have)
    if not have:
        return text("no update came{because}; the model stays as it was", _because(gathering))
    alone = (
        text(" (this node averaged alone)")
        if set(gathering.updates) == {gathering.me} and gathering.expected
        else ""
    )
    match gathering.closed:
        case Closing.TIMER:
            expected, who = have + len(missing), names(missing)
            return text(
                "timed out waiting for {count} of {number} nodes ({names}); averaged {updates}{alone}",
                *(len(missing), expected, who, got, alone),
            )
        case Closing.NEXT_ROUND:
            return text(
                "the next round began before the updates of {names} arrived; averaged {updates}{alone}",
                *(names(missing), got, alone),
            )
    if have == 1:
        return text("no other update came{because}; averaged {updates}{alone}", _because(gathering), got, alone)
    return text("averaged {updates}: all expected updates arrived{because}", got, _because(gathering))


def _contribution_of(update: Update) -> Mapping[str, Any]:
    stated = update.contribution
    if stated is None:
        return {"peer": update.peer, "examples": update.examples}
    if RoundKey(stated.round, PeerId(stated.initiator)) == update.key:
        return stated.view()
    return {**stated.view(), "round": stated.round, "initiator": stated.initiator}  # a version of its node alone


def _because(gathering: Gathering) -> str:
    if not gathering.declined:
        return ""
    declined = sorted(gathering.declined.items())[:3]
    reasons = joined(text("{peer}: {reason}", peer, reason) for peer, reason in declined)
    return text(" (not taking part: {reasons})", reasons)


def _ratio(weighed: Mapping[str, Any], fair: float) -> float | None:
    """The weight as a multiple of the fair share; None where the rule gives none."""
    weight = weighed.get("weight")
    return weight / fair if isinstance(weight, int | float) else None


def _after(
    before: PeerWeight, number: int, weighed: Mapping[str, Any], fair: float, ratio: float | None
) -> PeerWeight:
    reason, weight = str(weighed.get("reason") or ""), weighed.get("weight")
    now = replace(before, reason=reason, weight=weight, fair=None if weight is None else fair)
    if reason or (ratio is not None and ratio < LITTLE):
        running = before.running + 1
        is_little = before.is_little or running >= RUNNING or (before.counted and not reason)
        since = (number - running + 1 if before.since is None else before.since) if is_little else None
        return replace(now, is_little=is_little, since=since, running=running)
    if ratio is None or ratio >= AGAIN:
        return replace(now, is_little=False, since=None, counted=True, running=0)
    return replace(now, running=0)
