"""The next rounds of a node: rounds that a person requested, a series with a goal, a round that a peer started.

`Opening` is a round about to open, `Inbox` keeps messages that came too early for it, and `Series` decides what opens
next. Nothing here touches the round that is open: what peers wait for, they get.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from flnet.errors import JobBusy
from flnet.params.params import PeerId
from flnet.protocol.effects import CancelTimer, Effect, SetTimer
from flnet.protocol.events import (
    DeclineReceived,
    PartReceived,
    Planned,
    RoundTriggered,
    TrainingAsked,
    UpdateOffered,
    UpdateReceived,
    WillingnessChanged,
)
from flnet.protocol.messages import LAST_ROUND, MAX_PEERS, ChoiceMessage, HyperParams, SeriesMessage
from flnet.protocol.updates import RoundKey
from flnet.rounds.goals import Goal
from flnet.rounds.model import Start
from flnet.rounds.peers import Peers
from flnet.rounds.preemption import Preemption
from flnet.rounds.settings import JobSettings, Tell, rule_in
from flnet.rounds.stopping import ALONE, Stopping
from flnet.text import text

Word = UpdateReceived | UpdateOffered | DeclineReceived  # what a peer says in a round
Sign = UpdateReceived | UpdateOffered | PartReceived  # that its sender takes part in a round


def key_of(word: Word | Sign) -> RoundKey:
    """The round that a peer's message is about."""
    return word.key if isinstance(word, DeclineReceived | PartReceived) else word.update.key


def rule_of(word: Word | Sign) -> str:
    """The aggregation rule that a peer's message states; empty if it states none."""
    match word:
        case PartReceived():
            return rule_in(word.agreement)
        case DeclineReceived():
            return ""
    return word.update.rule


def next_key(number: int, me: PeerId, spoken: Collection[RoundKey]) -> RoundKey:
    """The round that a node starts next; skips rounds that peers have answered, which it started and lost.

    Args:
        number: of the newest round that it entered, below LAST_ROUND.
        spoken: rounds that are not open here yet, but for which peers sent messages.
    """
    following = number + 1
    while following < LAST_ROUND and RoundKey(following, me) in spoken:
        following += 1
    return RoundKey(following, me)


@dataclass(frozen=True)
class Opening:
    """A round about to open.

    Attributes:
        hyper: its hyper-parameters; None if its start has not arrived.
        start: the initiator's model; None if its start has not arrived, or this node is the initiator.
        sits_out: why this node does not train in it; empty if it does.
        heard_start: whether the start has arrived; it may still be on its way if only another sign of the round has.
        series: with a goal, that the start says the round belongs to.
        choice: of who trains, as the start, or an update, says it.
        run: of the initiator's node, in which it started the round, as the start says it.
        why: why a schedule starts it here; empty if none does.
        is_again: whether its start was sent to this node before.
        is_told: whether a node that takes part in it tells of it, which may not be its initiator.
        rule: the aggregation rule that is stated for it; empty if none is.
    """

    key: RoundKey
    hyper: HyperParams | None = None
    start: Start | None = None
    sits_out: str = ""
    heard_start: bool = True
    series: SeriesMessage | None = None
    choice: ChoiceMessage | None = None
    run: str | None = None
    why: str = ""
    is_again: bool = False
    is_told: bool = False
    rule: str = ""

    @classmethod
    def told_by(cls, sign: Sign) -> Opening:
        """An opening of which only the message of a node that takes part in it tells."""
        if isinstance(sign, PartReceived):
            return cls(sign.key, heard_start=False, choice=sign.choice, is_told=True, rule=rule_of(sign))
        key, run = sign.update.key, sign.run
        return cls(key, heard_start=False, choice=sign.choice, run=run, is_told=True, rule=rule_of(sign))

    @property
    def may_name_it(self) -> bool:
        """Whether others told this node who takes part, and its initiator may still say that this node does."""
        return not self.heard_start and self.choice is not None

    def joined(self, other: Opening) -> Opening:
        """What two openings of the same round say together."""
        first, second = (self, other) if self.heard_start and not other.heard_start else (other, self)
        return replace(first, choice=first.choice or second.choice, is_told=self.is_told or other.is_told)

    def started_by(self, me: PeerId) -> bool:
        """Whether this node is the initiator."""
        return self.key.initiator == me


V = TypeVar("V")
MOST_PARTS = 16  # of the conversation about a secure sum that a peer may have before the others


class Inbox:
    """Messages that arrived too early: for rounds that are not open here yet, or before the trainer was loaded.

    Attributes:
        early: the newest one of each peer.
        asked_while_loading: the start of a round that comes first in the total order.
    """

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self.early: dict[PeerId, Word] = {}
        self._parts: dict[PeerId, list[PartReceived]] = {}
        self.asked_while_loading: TrainingAsked | None = None

    @property
    def keys(self) -> set[RoundKey]:
        """The rounds that the newest early messages of the peers are about."""
        return {key_of(word) for word in self._newest.values()}

    @property
    def signs(self) -> list[Sign]:
        """Which rounds the peers take part in, as their newest early messages show."""
        return [word for word in self._newest.values() if not isinstance(word, DeclineReceived)]

    def leading(self, number: int, peers: Collection[PeerId]) -> list[Sign]:
        """The signs of rounds with a larger number that two peers have reached, or one where there are no more.

        A single one could lead everybody out of their rounds, into one that nobody but itself trains in.

        Args:
            peers: all that are reachable.
        """
        numbers = sorted((key_of(word).number for word in self._newest.values()), reverse=True)
        least = 2 if len(peers) > 1 else 1
        reached = numbers[least - 1] if len(numbers) >= least else -1
        return [word for word in self.signs if number < key_of(word).number <= reached]

    def numbers(self, peers: Collection[PeerId]) -> list[int]:
        """The rounds that the newest early messages of these peers are about."""
        return [key_of(word).number for peer, word in self._newest.items() if peer in peers]

    def is_newest(self, peer: PeerId, sign: Sign) -> bool:
        """Whether a peer has said nothing of a newer round since."""
        return peer in self._newest and key_of(self._newest[peer]) == key_of(sign)

    @property
    def _newest(self) -> dict[PeerId, Word | PartReceived]:
        """By peer, a message of the newest round; an update or a refusal rather than a part of a conversation."""
        newest: dict[PeerId, Word | PartReceived] = dict(self.early)
        for peer, parts in self._parts.items():
            for part in parts:
                if peer not in newest or part.key.beats(key_of(newest[peer])):
                    newest[peer] = part
        return newest

    def put(self, peer: PeerId, word: Word) -> None:
        """Keep one message of a peer: the one of the newer round; within a round, an update rather than a refusal."""
        old = self.early.get(peer)
        if old is None:
            keep = self._makes_room(self.early, peer)
        elif key_of(old) == key_of(word):
            keep = isinstance(old, DeclineReceived) and not isinstance(word, DeclineReceived)
        else:
            keep = key_of(word).beats(key_of(old))
        if keep:
            self.early[peer] = word

    def _makes_room(self, kept: dict[PeerId, V], peer: PeerId) -> bool:
        """Whether there is room for what a peer says: who is not here, or was never seen to be, gives its place to who is.

        Else names that are invented would keep all places, with words of rounds that never open.
        """
        if peer in kept or len(kept) < MAX_PEERS:
            return True
        here, proven = self._peers.here, self._peers.proven
        worst = min(kept, key=lambda other: (other in here, other in proven, other))
        if (worst in here, worst in proven) >= (peer in here, peer in proven):
            return False
        del kept[worst]
        return True

    def put_again(self, peer: PeerId, word: Word) -> None:
        """Keep, after a restart, the update that a peer had offered in the open round, until the peer is reachable."""
        self.early[peer] = word

    def take(self, peer: PeerId, key: RoundKey) -> Word | None:
        """A peer's message about this round, which is open now."""
        word = self.early.get(peer)
        if word is None or key_of(word) != key:
            return None
        return self.early.pop(peer)

    def take_all(self, key: RoundKey) -> list[Word]:
        """The messages about the round that opens now, updates before refusals so that no update is too late.

        Messages of later rounds are kept, those of older ones are dropped.
        """
        ripe = [word for word in self.early.values() if key_of(word) == key]
        self.early = {peer: word for peer, word in self.early.items() if key_of(word).beats(key)}
        return sorted(ripe, key=lambda word: isinstance(word, DeclineReceived))

    def put_part(self, event: PartReceived) -> None:
        """Keep a part of the conversation about a secure sum, or segments, of a round that is not open here yet.

        A segment that came with its result is not kept: who opens the round later downloads it.
        """
        event = replace(event, params=None)
        kept = [part for part in self._parts.get(event.peer, []) if not event.key.beats(part.key)]
        if len(kept) < MOST_PARTS and self._makes_room(self._parts, event.peer):
            self._parts[event.peer] = [*kept, event]

    def take_parts(self, key: RoundKey) -> list[PartReceived]:
        """The parts of the round that opens now; those of older ones are dropped."""
        ripe = [event for events in self._parts.values() for event in events if event.key == key]
        self._parts = {
            peer: later
            for peer, events in self._parts.items()
            if (later := [event for event in events if event.key.beats(key)])
        }
        return ripe

    def drop_unlike(self, key: RoundKey, rule: str) -> None:
        """Drop the messages about a round that opens now by this aggregation rule, and that state another one."""

        def fits(word: Word | PartReceived) -> bool:
            return key_of(word) != key or rule_of(word) in ("", rule)

        self.early = {peer: word for peer, word in self.early.items() if fits(word)}
        self._parts = {peer: kept for peer, parts in self._parts.items() if (kept := [*filter(fits, parts)])}

    def clear(self) -> None:
        """Drop all messages, because the job begins with another model."""
        self.early = {}

    def ask_later(self, event: TrainingAsked) -> None:
        """Keep the start of a round until the trainer is loaded."""
        if self.asked_while_loading is None or event.key.beats(self.asked_while_loading.key):
            self.asked_while_loading = event

    def take_asked(self) -> TrainingAsked | None:
        """Take the start that was kept."""
        asked, self.asked_while_loading = self.asked_while_loading, None
        return asked


REGROUP = "regroup"  # timer
PAUSED = text("paused by a person here")  # what peers read
ENDED = text("a person ended the training that was under way")


@dataclass(frozen=True)
class OwnSchedule:
    """The schedule that a person set for a job, and the time from which it counts.

    Attributes:
        when: as `flnet.rounds.schedule` reads it; None while nobody set one: the node's own counts.
        since: seconds of the node's own clock, when the newest round was noticed; None if it never was needed.
    """

    when: str | None = None
    since: float | None = None


class Series:
    """The rounds that this node has to start, and whether it takes part in those of others.

    Attributes:
        left: number of requested rounds that are not started yet.
        asked: rounds that a person requested while the data were being loaded; they begin when the data are there.
        pending: a round that opens as soon as the step in progress allows it.
        paused: whether a person paused the job on this node.
        unwilling: why this node takes no part in rounds of others now, by its schedule; empty if it does.
        plan: the schedule.
        waits_for: peers that a series waits for after a restart. What a node would train alone before it has met
            its mesh again would outrun the mesh, or be refused by it.
        stopping: rounds that go on until a goal is reached.
        preemption: decides whether the pending round opens before the open one is over.
    """

    def __init__(self, settings: JobSettings, peers: Peers, tell: Tell) -> None:
        self._settings, self._peers, self._tell = settings, peers, tell
        self.left = 0
        self.asked: RoundTriggered | None = None
        self.pending: Opening | None = None
        self._newest: Opening | None = None  # of a larger number than the pending one
        self.paused = False
        self.unwilling = ""
        self.plan = OwnSchedule()
        self.waits_for: set[PeerId] = set()
        self.stopping = Stopping(settings, peers, tell)
        self.preemption = Preemption(settings.my_id)

    @property
    def is_held_up(self) -> bool:
        """Whether a series waits: a person paused this node, or peers are not back after a restart."""
        return self.paused or bool(self.waits_for)

    @property
    def is_under_way(self) -> bool:
        """Whether requested rounds are still to be started."""
        return self.left > 0 or self.asked is not None or self.stopping.series is not None

    @property
    def is_next(self) -> bool:
        """Whether this node starts the next requested round."""
        return self.left > 0 and not self.is_held_up

    @property
    def is_due(self) -> bool:
        """Whether it is this node's turn to start the next round of a series with a goal."""
        return self.stopping.due and not (self.is_held_up or self.unwilling or self.stopping.asks_too_much)

    @property
    def can_begin(self) -> bool:
        """Whether the rounds that were requested while the data were being loaded begin now."""
        return self.asked is not None and not self.is_held_up

    # --- what opens next

    def openable(self, current: RoundKey | None) -> Opening | None:
        """The pending round that may open now.

        Args:
            current: the round that this node is in; None before the first.
        """
        waiting = (self.pending, self._newest)
        return next((one for one in waiting if one and self._may_open(one, current)), None)

    def propose(self, opening: Opening) -> None:
        """Keep a round to open: that with the smallest number, which others may be in, and that with the largest one.

        Of two with the same number, the one that comes first in the total order. None waits behind the start of a peer
        that this node does not follow now. A paused node starts no rounds itself.
        """
        if self.paused and opening.started_by(self._settings.my_id):
            return
        waiting: dict[RoundKey, Opening] = {}
        for one in (self.pending, self._newest, opening):
            if one is not None:
                waiting[one.key] = waiting[one.key].joined(one) if one.key in waiting else one
        kept: dict[int, Opening] = {}
        for one in [one for one in waiting.values() if self._leads(one)] or waiting.values():
            other = kept.get(one.key.number)
            if other is None or one.key.beats(other.key):
                kept[one.key.number] = one
        self.pending = kept[min(kept)]
        self._newest = kept[max(kept)] if len(kept) > 1 else None

    def _may_open(self, opening: Opening, current: RoundKey | None) -> bool:
        """Whether a round may open now; always if a node tells of it that is in it, and it has the current number."""
        is_of_this = current is not None and opening.key.number == current.number
        return (opening.is_told and is_of_this) or self.preemption.allows(opening.key, current)

    def _leads(self, opening: Opening) -> bool:
        """Whether this node follows a start; an update says that its sender is in the round."""
        return opening.is_told or not self.preemption.leads_astray(opening.key.initiator)

    def drop(self, opening: Opening) -> None:
        """A round opens, or is over: it waits no longer, nor does one with a smaller number."""
        self.pending = self._newest if opening is self.pending else None
        self._newest = None

    def lost(self, peer: PeerId) -> None:
        """A peer is gone: the round that it started and that waits here is one of others only if these tell of it."""
        for opening in (self._newest, self.pending):
            is_its = opening is not None and opening.start is not None and opening.start.peer == peer
            if opening is not None and is_its and not opening.is_told:
                self._drop_one(opening)

    def _drop_one(self, opening: Opening) -> None:
        if opening is self.pending:
            self.pending, self._newest = self._newest, None
        else:
            self._newest = None

    def drop_all(self) -> None:
        """Keep no round to open, because this node starts one."""
        self.pending = self._newest = None

    def ask(self, rounds: int) -> None:
        """Note requested rounds, besides the one that opens now."""
        self.left = rounds

    def put_off(self, event: RoundTriggered, words: str = "") -> list[Effect]:
        """Keep requested rounds until the data are loaded, or until what these words say.

        Raises:
            InvalidMessage, JobBusy: the goal is none, or other rounds wait already.
        """
        trainer = self._settings.trainer
        if event.until is not None:
            Goal.parse(event.until)
        if self.asked is not None:
            raise JobBusy(
                text(
                    "rounds of {trainer} were requested already; they begin when this node is ready for them",
                    trainer,
                )
            )
        self.asked = event
        loaded = text("the requested rounds of {trainer} begin when its data are loaded", trainer)
        return [self._tell("put_off", words or loaded)]

    def take_asked(self) -> RoundTriggered | None:
        """Take the rounds that were requested while the data were being loaded."""
        asked, self.asked = self.asked, None
        return asked

    def drop_asked(self, reason: str) -> list[Effect]:
        """Drop the rounds that were requested while the data were being loaded; people read why."""
        if self.take_asked() is None:
            return []
        words = text("the rounds requested while the data were being loaded do not begin: {reason}", reason)
        return [self._tell("series_stopped", words)]

    def count_down(self) -> None:
        """Count one requested round as started."""
        self.left = max(0, self.left - 1)

    # --- what a person says

    def stop(self) -> list[Effect]:
        """Cancel the requested rounds, and a series that a waiting round belongs to; an open one is the last."""
        asked = self.take_asked()
        left = self.left + self._withdraw() + (asked.rounds if asked else 0)
        self.left = 0
        waiting = (self.pending, self._newest)
        self.pending, self._newest = (one and replace(one, series=None) for one in waiting)
        if not left:
            return []
        words = (
            text("the series is stopped: {count} round of it is left out", left)
            if left == 1
            else text("the series is stopped: {count} rounds of it are left out", left)
        )
        return [self._tell("series_stopped", words, left_out=left)]

    def pause(self) -> list[Effect]:
        """Pause: take no part in the rounds of peers and start none; requested rounds are kept until `resume`.

        The job ends the training that is under way.
        """
        if self.paused:
            return []
        self.paused = True
        self.left += self._withdraw()
        dropped = self.drop_asked(PAUSED)
        words = text("{trainer} takes no part in rounds here until a person resumes it", self._settings.trainer)
        return [*dropped, self._tell("paused", words)]

    def resume(self) -> list[Effect]:
        """Resume; a series that was paused continues."""
        if not self.paused:
            return []
        self.paused = False
        return [self._tell("resumed", text("{trainer} takes part in rounds again", self._settings.trainer))]

    def schedule(self, event: Planned) -> list[Effect]:
        """Set the schedule, or the time of the newest round from which the next one is counted."""
        before, self.plan = self.plan, OwnSchedule(event.when, event.since)
        if event.when == before.when:
            return []
        words = (
            text("the schedule of this node counts again")
            if event.when is None
            else text("the schedule is {schedule}", event.when)
        )
        return [self._tell("scheduled", words)]

    def change_willingness(self, event: WillingnessChanged) -> list[Effect]:
        """Handle a condition of the schedule that no longer holds, or holds again."""
        if event.reason == self.unwilling:
            return []
        self.unwilling = event.reason
        if event.reason:
            return [
                self._tell("unwilling", text("takes no part in rounds that others start: {reason}", event.reason))
            ]
        return [self._tell("willing", text("takes part in rounds of others again"))]

    # --- restarts

    def regroup(self, peers: Collection[str], key: RoundKey | None, is_idle: bool) -> list[Effect]:
        """Wait for the peers that were reachable before a restart, if a series is under way."""
        if not self.is_under_way:
            return []
        self.waits_for = set(map(PeerId, peers)) - self._peers.here
        deadline = self.stopping.restart_deadline()
        if self.waits_for:
            return [*deadline, SetTimer(REGROUP, ALONE * self._settings.waits.start)]
        return [*deadline, *self._go_on(key, is_idle)]

    def met(self, peer: PeerId, key: RoundKey | None, is_idle: bool) -> list[Effect]:
        """Handle a reachable peer: the series continues if it was the last missing one."""
        if peer not in self.waits_for:
            return []
        self.waits_for.discard(peer)
        return [] if self.waits_for else [CancelTimer(REGROUP), *self._go_on(key, is_idle)]

    def waited(self, key: RoundKey | None, is_idle: bool) -> list[Effect]:
        """Continue the series without the peers that did not come back in time."""
        if not self.waits_for:
            return []
        self.waits_for.clear()
        return self._go_on(key, is_idle)

    def view(self, number: int) -> Mapping[str, Any]:
        """Its figures in the view of the job.

        Args:
            number: of the round that the job is in.
        """
        left = self.left + (self.asked.rounds if self.asked else 0)
        return {"rounds_left": left, "goal": self.stopping.view(number), "paused": self.paused}

    def kept(self) -> Mapping[str, Any]:
        """The state that is saved for a restart, as plain JSON data."""
        # The round that waits for an average counts, too.
        waits = self._has_withdrawable and self.stopping.series is None
        left = self.left + waits
        return {
            "rounds_left": left,
            "peers": sorted(self._peers.here | self.waits_for) if left or self.is_under_way else [],
            "pursuit": self.stopping.kept(),
            "paused": self.paused,
            "plan": [self.plan.when, self.plan.since],
            **({} if self.asked is None else {"asked": _kept_request(self.asked)}),
        }

    def restore(
        self, left: int, stopping: Stopping, paused: bool, plan: OwnSchedule, asked: RoundTriggered | None
    ) -> None:
        """Restore the state that an earlier run saved."""
        self.left, self.stopping, self.paused, self.plan, self.asked = left, stopping, paused, plan, asked

    def restart_round(self) -> None:
        """Count a requested round again, because it has to be restarted later."""
        self.left += 1

    def give_up(self) -> None:
        """Cancel the series, because the job begins with another model."""
        self.left, self.stopping = 0, self.stopping.none()

    def _go_on(self, key: RoundKey | None, is_idle: bool) -> list[Effect]:
        """Continue: a series with a goal checks whose turn it is; other rounds start if nothing holds them up."""
        return self.stopping.take_turn(key) if self.stopping.series is not None and is_idle else []

    @property
    def _has_withdrawable(self) -> bool:
        return self.pending is not None and self.pending.started_by(self._settings.my_id)

    def _withdraw(self) -> int:
        """Withdraw this node's round that only waits for the current average; return the number of withdrawn rounds."""
        if not self._has_withdrawable:
            return 0
        self.pending, self._newest = self._newest, None
        return 1


def _kept_request(asked: RoundTriggered) -> Mapping[str, Any]:
    hyper = asked.hyper.fields() if asked.hyper else None
    return {"rounds": asked.rounds, "hyper": hyper, "until": asked.until, "new_numbering": asked.new_numbering}


def read_request(kept: Mapping[str, Any] | None) -> RoundTriggered | None:
    """The requested rounds that an earlier run kept, until the data were loaded; None if there are none.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: it is none.
    """
    if not kept:
        return None
    hyper = HyperParams.model_validate(kept["hyper"]) if kept["hyper"] else None
    return RoundTriggered(int(kept["rounds"]), hyper, kept["until"], new_numbering=bool(kept["new_numbering"]))
